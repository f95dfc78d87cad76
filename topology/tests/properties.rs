//! What holds for any input, however odd.

use std::collections::BTreeSet;

use gpulet_inventory::host::{GpuMemoryNode, Host, Nic, PciDevice, PciKind, PciPath, PcieLink, Rdma};
use gpulet_inventory::link::RemoteKind;
use gpulet_inventory::locality::{DriverLocality, GpuLocality, Level};
use gpulet_inventory::numa::{CpuSet, NumaNode, NumaNodeId};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::Fabric;
use gpulet_inventory::topology::Device;
use gpulet_topology::best::Request;
use gpulet_topology::expected::Profile;
use gpulet_topology::{best, cells, dot, findings, largest_free_sets, svg, table};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::drawings::assert_well_formed;
use crate::support::machine::{Gpu, LOST, Machine, UNSUPPORTED, nvlink};

/// Few addresses, so that devices, bridges and links often mean each other.
fn address() -> impl Strategy<Value = PciAddress> {
    (0..2u32, 0..6u8, 0..2u8).prop_map(|(domain, bus, function)| PciAddress {
        domain: domain * 0x10000,
        bus,
        device: 0,
        function,
    })
}

fn cpus() -> impl Strategy<Value = CpuSet> {
    vec(0..16u32, 0..6).prop_map(|cpus| cpus.into_iter().collect())
}

fn node_id() -> impl Strategy<Value = NumaNodeId> {
    (0..5u32).prop_map(NumaNodeId)
}

fn reading<T: std::fmt::Debug + Clone + 'static>(
    value: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Reading<T>> {
    prop_oneof![
        3 => value.prop_map(Reading::Supported),
        1 => Just(Reading::Unsupported(UNSUPPORTED)),
        1 => Just(Reading::Failed(LOST)),
    ]
}

fn pcie_link() -> impl Strategy<Value = PcieLink> {
    let speed = || of(prop_oneof![Just(2_500), Just(32_000), Just(7)]);
    let width = || of(0..17u32);
    (speed(), width(), speed(), width()).prop_map(|(speed_mts, width, max_speed_mts, max_width)| PcieLink {
        speed_mts,
        width,
        max_speed_mts,
        max_width,
    })
}

fn pci_device() -> impl Strategy<Value = PciDevice> {
    let kind = prop_oneof![
        3 => Just(PciKind::Gpu),
        2 => Just(PciKind::Nic),
        1 => Just(PciKind::NvSwitch),
        3 => Just(PciKind::Bridge),
    ];
    let path = ("pci000[01]:0[0-1]", vec(address(), 0..6));
    (address(), kind, path, of(node_id()), of(cpus()), of(pcie_link()), of(address()), of(any::<bool>()))
        .prop_map(
            |(
                address,
                kind,
                (root, bridges),
                numa_node,
                local_cpus,
                link,
                physical_function,
                acs_redirects,
            )| PciDevice {
                address,
                kind,
                vendor: 0x10de,
                device: 0,
                path: PciPath { root, bridges },
                numa_node,
                local_cpus,
                link,
                driver: None,
                physical_function,
                acs_redirects,
            },
        )
}

fn numa_node() -> impl Strategy<Value = NumaNode> {
    (node_id(), cpus(), of(0..1u64 << 40), vec(0..255u32, 0..6))
        .prop_map(|(id, cpus, memory_bytes, distances)| NumaNode { id, cpus, memory_bytes, distances })
}

fn nic() -> impl Strategy<Value = Nic> {
    let rdma =
        of(".{0,8}").prop_map(|name| name.map(|name| Rdma { name, node_guid: None, ports: Vec::new() }));
    (address(), vec(".{0,8}", 0..3), rdma).prop_map(|(pci, interfaces, rdma)| Nic { pci, interfaces, rdma })
}

fn host() -> impl Strategy<Value = Host> {
    let memory = (address(), node_id()).prop_map(|(pci, numa_node)| GpuMemoryNode { pci, numa_node });
    (vec(numa_node(), 0..4), vec(pci_device(), 0..14), vec(nic(), 0..5), vec(memory, 0..3)).prop_map(
        |(numa_nodes, pci, nics, gpu_memory)| Host { numa_nodes, pci, nics, gpu_memory, ..Host::default() },
    )
}

type Links = Vec<(RemoteKind, Option<PciAddress>, bool)>;
type GpuParts = (PciAddress, String, bool, Reading<Links>, Reading<Fabric>);

fn gpu() -> impl Strategy<Value = GpuParts> {
    let kind = prop_oneof![
        Just(RemoteKind::Gpu),
        Just(RemoteKind::Npu),
        Just(RemoteKind::Switch),
        Just(RemoteKind::Unknown)
    ];
    let links = reading(vec((kind, of(address()), any::<bool>()), 0..8));
    let fabric = (0..5u32, 0..3u32, of(0..3u32), of("[0a-]{0,4}"));
    let fabric = fabric.prop_map(|(state, status, clique_id, cluster_uuid)| Fabric {
        state,
        status,
        clique_id,
        cluster_uuid,
    });
    (address(), ".{0,12}", any::<bool>(), links, reading(fabric))
}

fn level() -> impl Strategy<Value = Level> {
    (0..6u32).prop_map(|level| Level::from_number(level * 10).unwrap())
}

fn machine() -> impl Strategy<Value = Machine> {
    let said = (reading(cpus()), reading(cpus()), reading(0..5u32), vec(reading(level()), 0..8));
    (host(), vec((gpu(), said), 0..7), any::<bool>()).prop_map(|(host, gpus, with_locality)| {
        let mut machine = Machine::default();
        machine.host = host;
        let mut locality = DriverLocality::default();
        for (index, ((pci, name, up, links, fabric), said)) in gpus.into_iter().enumerate() {
            let uuid: gpulet_inventory::gpu::GpuUuid =
                format!("GPU-00000000-0000-0000-0000-{index:012x}").parse().unwrap();
            let (cpu_affinity, memory_affinity, own_numa_node, levels) = said;
            locality.gpus.push(GpuLocality {
                uuid: uuid.clone(),
                cpu_affinity,
                memory_affinity,
                own_numa_node,
                c2c_links: Reading::Unsupported(UNSUPPORTED),
                levels,
            });
            let numbered = |links: Links| {
                let one = |(link, (kind, pci, active))| {
                    let mut link = nvlink(link, kind, pci);
                    link.active = active;
                    link
                };
                (0..).zip(links).map(one).collect()
            };
            machine.gpus.push(Gpu {
                index: index as u32,
                uuid,
                pci,
                name,
                down: (!up).then_some("Lost"),
                mig: Reading::Unsupported(UNSUPPORTED),
                nvlinks: links.map(numbered),
                fabric,
            });
        }
        machine.locality = with_locality.then_some(locality);
        machine
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_machine_has_a_symmetric_matrix_and_pictures(machine in machine()) {
        let topology = machine.topology();
        let devices: Vec<Device> = topology.devices().collect();
        prop_assert_eq!(topology.pairs.len(), devices.len() * devices.len().saturating_sub(1) / 2);
        for (at, a) in devices.iter().enumerate() {
            for b in &devices[at + 1..] {
                let pair = topology.pair(*b, *a).unwrap();
                prop_assert_eq!((pair.a, pair.b), (*a, *b));
            }
        }
        let cells = cells(&topology);
        for (at, row) in cells.rows.iter().enumerate() {
            for (other, cell) in row.iter().enumerate() {
                prop_assert_eq!(cell, &cells.rows[other][at]);
            }
        }
        assert_well_formed(&svg(&topology));
        let graph = dot(&topology);
        prop_assert_eq!(graph.lines().last(), Some("}"));
        prop_assert!(table(&topology).ends_with('\n'));
        serde_json::to_string(&topology).unwrap();
    }

    #[test]
    fn levels_do_not_depend_on_the_order_in_which_devices_are_listed(machine in machine()) {
        let mut distinct = machine;
        let mut seen = BTreeSet::new();
        distinct.host.pci.retain(|device| seen.insert(device.address));
        distinct.gpus.retain({
            let mut seen = BTreeSet::new();
            move |gpu| seen.insert(gpu.pci)
        });
        let mut turned = distinct.clone();
        turned.gpus.reverse();
        turned.host.pci.reverse();
        let (one, other) = (distinct.topology(), turned.topology());
        for pair in &one.pairs {
            let (Device::Gpu(a), Device::Gpu(b)) = (pair.a, pair.b) else { continue };
            let there = |gpu: usize| {
                let pci = one.gpus[gpu].place.pci;
                Device::Gpu(other.gpus.iter().position(|gpu| gpu.place.pci == pci).unwrap())
            };
            let same = other.pair(there(a), there(b)).unwrap();
            prop_assert_eq!((pair.level, pair.driver_level), (same.level, same.driver_level));
            prop_assert_eq!(pair.nvlink.map(|n| n.links), same.nvlink.map(|n| n.links));
        }
    }

    #[test]
    fn any_machine_equals_its_own_profile(machine in machine()) {
        let topology = machine.topology();
        let profile = Profile::of(&topology);
        let kept: Profile = serde_json::from_str(&serde_json::to_string(&profile).unwrap()).unwrap();
        prop_assert_eq!(&kept, &profile);
        let busy: BTreeSet<PciAddress> = topology.gpus.iter().map(|gpu| gpu.place.pci).collect();
        let found = findings(Some(&kept), &topology, &busy);
        let missing = found.iter().filter(|finding| finding.reason.as_str().ends_with("Missing")).count();
        prop_assert_eq!(missing, 0);
        findings(None, &topology, &busy);
    }

    #[test]
    fn best_of_any_machine_is_of_the_size_asked_for(machine in machine(), count in 0..9usize) {
        let topology = machine.topology();
        match best(&topology, &Request { count, ..Request::default() }) {
            Ok(answer) => {
                prop_assert_eq!(answer.gpus.len(), count);
                prop_assert!(answer.gpus.is_sorted());
                prop_assert!(answer.gpus.iter().all(|gpu| topology.gpus[*gpu].down.is_none()));
                let sets = largest_free_sets(&topology, &answer.gpus);
                prop_assert!(sets.numa_node.len() <= count && sets.nvlink_island.len() <= count);
            }
            Err(error) => prop_assert!(["NoneWanted", "NotEnoughFree"].contains(&error.reason())),
        }
    }
}
