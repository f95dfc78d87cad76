//! What a client reads on a healthy node, through nvml-wrapper.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod common;

use std::time::Duration;

use common::TestNode;
use gpulet_simulator::command::{Command, Load};
use nvml_wrapper::enum_wrappers::device::{TemperatureSensor, TopologyLevel};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::gpm_metrics_get;

#[test]
fn every_gpu_of_every_node_is_what_the_hardware_says() {
    let every_board = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/every-board.yaml");
    for name in ["dgx-h100", "l40s-4x", every_board] {
        let test = TestNode::start(name);
        test.node.step(Duration::from_secs(5)).unwrap();
        let truth = test.node.state();
        let nvml = test.nvml();
        assert_eq!(nvml.sys_driver_version().unwrap(), truth.driver.version);
        assert_eq!(nvml.device_count().unwrap() as usize, truth.gpus.len());
        for (index, gpu) in (0..).zip(&truth.gpus) {
            let device = nvml.device_by_index(index).unwrap();
            assert_eq!(device.uuid().unwrap(), gpu.identity.uuid);
            assert_eq!(device.name().unwrap(), gpu.board.name);
            assert_eq!(device.minor_number().unwrap(), gpu.identity.minor);
            let pci = device.pci_info().unwrap();
            assert_eq!(
                (pci.domain, pci.bus, pci.device),
                (gpu.identity.pci_domain, gpu.identity.pci_bus, gpu.identity.pci_device)
            );
            let memory = device.memory_info().unwrap();
            assert_eq!(memory.total, gpu.board.memory_bytes);
            assert_eq!(memory.total, memory.used + memory.free + memory.reserved);
            if gpu.mig.as_ref().is_none_or(|mig| !mig.mode.0) {
                let busy = device.utilization_rates().unwrap();
                assert_eq!([busy.gpu, busy.memory], gpu.now.utilization[..2]);
            }
            // GA100 and what is older than Ampere tell the instant, all others an average.
            let instant = gpu.board.compute_capability <= (8, 0);
            let power = if instant { gpu.now.power_instant_mw } else { gpu.now.power_average_mw };
            assert_eq!(device.power_usage().unwrap(), power);
            assert_eq!(device.temperature(TemperatureSensor::Gpu).unwrap(), gpu.now.temperature_c);
            assert_eq!(device.total_energy_consumption().unwrap(), gpu.count.energy_mj);
            assert_eq!(nvml.device_by_uuid(device.uuid().unwrap()).unwrap().index().unwrap(), index);
            assert_eq!(nvml.device_by_pci_bus_id(pci.bus_id).unwrap().index().unwrap(), index);
        }
    }
}

#[test]
fn gpm_tells_what_happened_between_two_samples() {
    let test = TestNode::start("dgx-h100");
    test.node.command(Command::Load { gpu: Some(0), load: Load::Steady { percent: 60 } }).unwrap();
    test.node.step(Duration::from_secs(5)).unwrap();
    let nvml = test.nvml();
    let device = nvml.device_by_index(0).unwrap();
    assert!(device.gpm_support().unwrap());
    let before = test.node.state().gpus[0].clone();
    let first = device.gpm_sample().unwrap();
    test.node.step(Duration::from_secs(2)).unwrap();
    let after = test.node.state().gpus[0].clone();
    let second = device.gpm_sample().unwrap();
    let wanted = [GpmMetricId::SmUtil, GpmMetricId::PcieTxPerSec, GpmMetricId::SmOccupancy];
    let metrics = gpm_metrics_get(&nvml, &first, &second, &wanted).unwrap();
    let busy = f64::from(before.now.utilization[0] + after.now.utilization[0]) / 2.0;
    assert_eq!(metrics[0].as_ref().unwrap().value, busy);
    let sent = (after.count.pcie_bytes.0 - before.count.pcie_bytes.0) as f64 / 2.0 / 1_048_576.0;
    assert!((metrics[1].as_ref().unwrap().value - sent).abs() < 1e-6);
    assert!(metrics[2].is_err(), "the simulated hardware knows no occupancy");
    assert!(gpm_metrics_get(&nvml, &second, &first, &wanted).is_err(), "time does not run backwards");

    let l40s = TestNode::start("l40s-4x");
    let nvml = l40s.nvml();
    let device = nvml.device_by_index(0).unwrap();
    assert!(!device.gpm_support().unwrap());
    assert!(device.gpm_sample().is_err());
}

#[test]
fn nearness_follows_the_pci_tree() {
    let test = TestNode::start("dgx-h100");
    let nvml = test.nvml();
    let level = |a: u32, b: u32| {
        nvml.device_by_index(a).unwrap().topology_common_ancestor(nvml.device_by_index(b).unwrap()).unwrap()
    };
    assert_eq!(level(0, 0), TopologyLevel::Internal);
    assert_eq!(level(0, 1), TopologyLevel::Multiple);
    assert_eq!(level(0, 2), TopologyLevel::Node);
    assert_eq!(level(0, 4), TopologyLevel::System);
    let device = nvml.device_by_index(0).unwrap();
    let near = device.topology_nearest_gpus(TopologyLevel::System).unwrap();
    assert_eq!(near.iter().map(|gpu| gpu.index().unwrap()).collect::<Vec<_>>(), [4, 5, 6, 7]);
}
