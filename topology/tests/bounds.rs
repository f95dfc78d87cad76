//! Machines larger than any: they are cut, told, and done with at once.

use gpulet_inventory::locality::Level;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::Topology;
use gpulet_topology::{cells, dot, findings, svg, table};

use crate::support::machine::Machine;
use crate::support::machines;

const MOST: usize = 256;

/// Addresses beyond those that the builder gives, ascending.
fn addresses() -> impl Iterator<Item = PciAddress> {
    (0u32..).map(|at| PciAddress { domain: 1 + (at >> 8), bus: at as u8, device: 0, function: 0 })
}

fn with_more_nics(mut machine: Machine, more: usize) -> Machine {
    let device = machine.host.pci.iter().find(|device| device.address == machine.host.nics[0].pci).unwrap();
    let (device, nic) = (device.clone(), machine.host.nics[0].clone());
    for (number, address) in (0..more).zip(addresses()) {
        let (mut device, mut nic) = (device.clone(), nic.clone());
        (device.address, nic.pci) = (address, address);
        nic.rdma.as_mut().unwrap().name = format!("mlx5_{}", 1_000 + number);
        machine.host.pci.push(device);
        machine.host.nics.push(nic);
    }
    machine
}

fn everything_of(topology: &Topology) {
    let devices = topology.gpus.len() + topology.nics.len();
    assert_eq!(topology.pairs.len(), devices * (devices - 1) / 2);
    assert!(!table(topology).is_empty() && !dot(topology).is_empty() && !svg(topology).is_empty());
    assert!(!cells(topology).rows.is_empty());
    findings(None, topology, &Default::default());
}

#[test]
fn nics_without_end_are_cut_after_all_gpus_and_the_first_nics() {
    let topology = with_more_nics(machines::dgx_h100(), 60_000).topology();
    assert_eq!((topology.gpus.len(), topology.gpus.len() + topology.nics.len()), (8, MOST));
    let plain = machines::dgx_h100().topology();
    let names = |topology: &Topology| topology.nics.iter().map(|nic| nic.rdma.clone()).collect::<Vec<_>>();
    let rdma = plain.nics.iter().filter(|nic| nic.rdma.is_some()).count();
    assert_eq!(names(&topology)[..rdma], names(&plain)[..rdma]);
    let [oddity] = topology.oddities.as_slice() else { panic!("{:?}", topology.oddities) };
    assert!(oddity.problem.contains("more than 256"), "{oddity:?}");
    everything_of(&topology);
    assert_eq!(plain.oddities, []);
}

#[test]
fn gpus_that_a_driver_claims_without_end_are_cut_too() {
    let mut machine = Machine::new("NVIDIA L4");
    machine.node(0, "0-7", 8);
    let slot = machine.slot(Some(0));
    machine.gpu(&slot);
    machine.driver_says(|_, _| Level::Sys);
    let (gpu, said) = (machine.gpus[0].clone(), machine.locality.as_ref().unwrap().gpus[0].clone());
    for (number, address) in (1..30_000u32).zip(addresses()) {
        let mut gpu = gpu.clone();
        (gpu.index, gpu.pci) = (number, address);
        gpu.uuid = format!("GPU-00000000-0000-0000-0000-{number:012x}").parse().unwrap();
        let mut said = said.clone();
        said.uuid = gpu.uuid.clone();
        machine.gpus.push(gpu);
        machine.locality.as_mut().unwrap().gpus.push(said);
    }
    let topology = machine.topology();
    assert_eq!(topology.gpus.len(), MOST);
    assert_eq!(topology.gpus[255].index, Some(255));
    assert!(topology.oddities[0].problem.contains("the last 29744 are left out"), "{:?}", topology.oddities);
    everything_of(&topology);
}

#[test]
fn two_hundred_and_fifty_six_devices_are_not_cut() {
    let plain = machines::dgx_h100();
    let topology = plain.topology();
    let here = topology.gpus.len() + topology.nics.len() + topology.nvswitches.len();
    let full = with_more_nics(plain.clone(), MOST - here).topology();
    assert_eq!((full.oddities.len(), full.nvswitches.len()), (0, topology.nvswitches.len()));
    let over = with_more_nics(plain, MOST - here + 1).topology();
    assert_eq!((over.oddities.len(), over.nvswitches.len()), (1, topology.nvswitches.len() - 1));
}
