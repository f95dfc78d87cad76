//! Every node that comes with the simulator is served, and its driver answers for what is special about it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod common;

use common::TestNode;
use gpulet_simulator::node;
use nvml_wrapper::enum_wrappers::device::TopologyLevel;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::nvmlAffinityScope_t;

/// Words enough for 1,024 CPUs or NUMA nodes.
const WORDS: usize = 16;
/// `NVML_AFFINITY_SCOPE_NODE`
const NODE: nvmlAffinityScope_t = 0;

fn bits(words: &[u64]) -> Vec<u64> {
    let words = (0..).zip(words);
    words
        .flat_map(|(at, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit))
        .collect()
}

/// A field that is a whole number.
fn field(device: &Device<'_>, id: u32) -> Result<u32, NvmlError> {
    use nvml_wrapper::enums::device::SampleValue;
    let value = device.field_values_for(&[FieldId(id)]).unwrap().remove(0)?.value?;
    match value {
        SampleValue::U32(value) => Ok(value),
        other => panic!("field {id}: {other:?}"),
    }
}

#[test]
fn every_node_is_served_with_all_its_gpus() {
    for name in node::shipped() {
        let described = node::Node::load(name).unwrap();
        let test = TestNode::start(name);
        if described.gpus().is_empty() {
            assert!(test.try_nvml().is_err(), "{name} has no driver");
            continue;
        }
        let nvml = test.nvml();
        let truth = test.node.state();
        assert_eq!(nvml.device_count().unwrap() as usize, described.gpus().len(), "{name}");
        for (index, gpu) in (0..).zip(&truth.gpus) {
            let device = nvml.device_by_index(index).unwrap();
            assert_eq!(device.name().unwrap(), gpu.board.name, "{name}");
            assert_eq!(device.uuid().unwrap(), gpu.identity.uuid, "{name}");
            affinities(&device, &gpu.identity, name);
            for peer in (0..truth.gpus.len() as u32).filter(|peer| *peer != index) {
                levels(&nvml, (index, peer), gpu.identity.told_levels.get(&peer), name);
            }
        }
    }
}

fn affinities(device: &Device<'_>, identity: &gpulet_simulator::state::GpuIdentity, name: &str) {
    assert_eq!(bits(&device.cpu_affinity(WORDS).unwrap()), bits(&identity.cpu_affinity), "{name}");
    match device.memory_affinity(WORDS, NODE) {
        Ok(nodes) => assert_eq!(bits(&nodes), bits(&identity.memory_affinity), "{name}"),
        Err(error) => assert!(
            matches!(error, NvmlError::NotSupported) && identity.memory_affinity.is_empty(),
            "{name}: {error}"
        ),
    }
    assert_eq!(device.numa_node_id().ok(), identity.memory_numa_node, "{name}");
}

fn levels(nvml: &Nvml, (a, b): (u32, u32), told: Option<&u32>, name: &str) {
    let device = |index| nvml.device_by_index(index).unwrap();
    let level = device(a).topology_common_ancestor(device(b)).unwrap();
    assert_eq!(device(b).topology_common_ancestor(device(a)).unwrap(), level, "{name}: GPUs {a} and {b}");
    if told == Some(&50) {
        assert_eq!(level, TopologyLevel::System, "{name}: GPUs {a} and {b}");
    }
}

#[test]
fn a_grace_tray_tells_of_its_memory_and_its_links_to_the_cpu() {
    let test = TestNode::start("gb200-tray");
    let nvml = test.nvml();
    for (index, (own, near)) in (0..).zip([(2, 0), (10, 0), (18, 1), (26, 1)]) {
        let device = nvml.device_by_index(index).unwrap();
        assert_eq!(device.numa_node_id().unwrap(), own);
        let nodes = bits(&device.memory_affinity(WORDS, NODE).unwrap());
        assert!(nodes.contains(&near) && !nodes.contains(&u64::from(own)), "{nodes:?}");
        assert_eq!(nodes.len(), 15);
        assert_eq!([170, 171, 172].map(|id| field(&device, id).unwrap()), [5, 1, 44_712]);
        let fabric = test.node.state().gpus[0].fabric.clone().unwrap();
        assert_eq!((fabric.state, fabric.clique_id), (3, 32_766));
        assert_ne!(fabric.cluster_uuid, [0; 16]);
    }
    let other = TestNode::start("a30-2x");
    let nvml = other.nvml();
    let device = nvml.device_by_index(0).unwrap();
    assert_eq!(field(&device, 170).unwrap(), 0);
    assert!(field(&device, 171).is_err());
}

#[test]
fn boards_lack_what_they_lack() {
    let volta = TestNode::start("dgx-1v");
    let nvml = volta.nvml();
    let device = nvml.device_by_index(0).unwrap();
    assert!(matches!(device.mig_mode(), Err(NvmlError::NotSupported)));
    assert!(!device.gpm_support().unwrap_or(false));
    assert!(device.is_ecc_enabled().unwrap().currently_enabled);
    assert!(matches!(field(&device, 142), Err(NvmlError::NotSupported)), "Volta remaps no rows");
    assert_eq!(device.link_wrapper_for(0).version().unwrap(), 2);

    let desktop = TestNode::start("consumer-numa-unknown");
    let nvml = desktop.nvml();
    let device = nvml.device_by_index(1).unwrap();
    assert!(device.serial().is_err() && device.board_part_number().is_err());
    assert!(!device.is_ecc_enabled().unwrap().currently_enabled, "it has ECC, but off");
    assert!(device.memory_affinity(WORDS, NODE).is_err());
    assert_eq!(bits(&device.cpu_affinity(WORDS).unwrap()).len(), 12);
    assert_eq!(device.max_pcie_link_width().unwrap(), 8);
    assert_eq!(device.num_fans().unwrap(), 2);
}

#[test]
fn grids_of_other_sizes_than_eight_are_served() {
    let test = TestNode::start("rtx-pro-6000");
    let nvml = test.nvml();
    let device = nvml.device_by_index(1).unwrap();
    assert!(device.mig_mode().unwrap().current == 1);
    assert_eq!(device.mig_device_count().unwrap(), 4, "two whole instances and two halves of a third");
    let mig = test.node.state().gpus[1].mig.clone().unwrap();
    let places: Vec<(u32, u32)> = mig.instances.iter().map(|instance| instance.placement).collect();
    assert_eq!(places, [(0, 3), (3, 3), (6, 6)]);

    let test = TestNode::start("a30-2x");
    let mig = test.node.state().gpus[0].mig.clone().unwrap();
    let names: Vec<&str> = mig.profiles.values().map(|profile| profile.name.as_str()).collect();
    assert_eq!(names, ["1g.6gb", "2g.12gb", "4g.24gb", "1g.6gb+me", "2g.12gb+me"]);
    assert_eq!(mig.profiles[&0].placements, [(0, 1), (1, 1), (2, 1), (3, 1)]);
    assert_eq!(test.node.state().gpus[0].nvlinks.iter().filter(|link| link.up).count(), 4);
}

#[test]
fn a_gpu_without_nvlink_among_others_that_have_it() {
    let test = TestNode::start("b200-gpu2-nvlink-down");
    let up: Vec<usize> =
        test.node.state().gpus.iter().map(|gpu| gpu.nvlinks.iter().filter(|link| link.up).count()).collect();
    assert_eq!(up, [18, 18, 0, 18, 18, 18, 18, 18]);
    let nvml = test.nvml();
    assert!(!nvml.device_by_index(2).unwrap().link_wrapper_for(17).is_active().unwrap());
    assert!(nvml.device_by_index(3).unwrap().link_wrapper_for(17).is_active().unwrap());
}
