//! Zones that no scheduler places Pods in.

use gpulet_topology::nrt::NoteReason;
use gpulet_topology::nrt::object::Zone;

use super::node::{Node, attribute, node_zones, reasons, zone};
use crate::support::machine::Machine;
use crate::support::machines;

fn of_type<'a>(zones: &'a [Zone], kind: &str) -> Vec<&'a Zone> {
    zones.iter().filter(|zone| zone.kind == kind).collect()
}

fn cost(zone: &Zone, to: &str) -> Option<i64> {
    zone.costs.iter().find(|cost| cost.name == to).map(|cost| cost.value)
}

#[test]
fn a_dgx_h100_has_its_switches_gpus_and_nvlink() {
    let machine = machines::dgx_h100();
    let built = Node::bare(&machine).built();
    let zones = &built.body.zones;
    let switches = of_type(zones, "PCIeSwitch");
    assert_eq!(switches.len(), 14);
    let gpus = of_type(zones, "GPU");
    assert_eq!(gpus.len(), 8);
    // Each GPU below a switch of its own, that one below another with its neighbour's.
    let parent = |zone: &Zone| zone.parent.clone().unwrap();
    let below = zone(&built, &parent(gpus[0]));
    assert_eq!(attribute(&below.attributes, "gpulet.dev/gpus"), Some("0"));
    assert_eq!(attribute(&below.attributes, "gpulet.dev/nics"), Some("mlx5_0"));
    let top = zone(&built, &parent(below));
    assert_eq!(top.name, parent(zone(&built, &parent(gpus[1]))));
    assert_eq!(parent(top), "node-0");
    assert_eq!(parent(zone(&built, &parent(zone(&built, &parent(gpus[7]))))), "node-1");
    assert!(top.costs.is_empty());
    assert_eq!(below.costs.len(), 9);
    assert_eq!(cost(below, &below.name), Some(0));
    assert_eq!(cost(below, &parent(gpus[1])), Some(20));
    assert_eq!(cost(below, &parent(gpus[2])), Some(40));
    assert_eq!(cost(below, &parent(gpus[7])), Some(50));
    assert_eq!(
        (cost(gpus[0], &gpus[0].name), cost(gpus[0], &gpus[1].name), cost(gpus[0], &gpus[4].name)),
        (Some(0), Some(20), Some(50))
    );
    let nvlink = of_type(zones, "NVLinkDomain");
    assert_eq!(nvlink.len(), 1);
    assert_eq!(attribute(&nvlink[0].attributes, "gpulet.dev/gpus"), Some("0,1,2,3,4,5,6,7"));
    assert_eq!(attribute(&nvlink[0].attributes, "gpulet.dev/links-per-pair"), Some("18"));
    assert_eq!(attribute(&nvlink[0].attributes, "gpulet.dev/through-switch"), Some("true"));
}

#[test]
fn a_gpu_says_what_it_is() {
    let machine = machines::dgx_h100();
    let gpu = &machine.gpus[3];
    let built = Node::bare(&machine).built();
    let attributes = &zone(&built, &format!("gpu-{}", gpu.pci)).attributes;
    assert!(attributes.is_sorted());
    for (name, value) in [
        ("gpulet.dev/index", "3".to_owned()),
        ("gpulet.dev/uuid", gpu.uuid.to_string()),
        ("gpulet.dev/pci-address", gpu.pci.to_string()),
        ("gpulet.dev/product", "NVIDIA H100 80GB HBM3".to_owned()),
        ("gpulet.dev/numa-id", "0".to_owned()),
        ("gpulet.dev/numa-source", "sysfs".to_owned()),
        ("gpulet.dev/pcie-width", "16".to_owned()),
        ("gpulet.dev/pcie-generation", "5".to_owned()),
    ] {
        assert_eq!(attribute(attributes, name), Some(value.as_str()), "{name}");
    }
    assert_eq!(attribute(attributes, "gpulet.dev/clique"), None);
}

#[test]
fn what_changes_with_load_is_not_in_the_object() {
    let mut machine = machines::dgx_h100();
    let busy = Node::bare(&machine).built();
    for device in &mut machine.host.pci {
        device.link.as_mut().unwrap().speed_mts = Some(2_500);
    }
    assert_eq!(Node::bare(&machine).built(), busy);
}

#[test]
fn links_that_are_not_the_same_everywhere_are_told_as_a_range() {
    let built = Node::bare(&machines::dgx_1v()).built();
    let domains = of_type(&built.body.zones, "NVLinkDomain");
    assert_eq!(attribute(&domains[0].attributes, "gpulet.dev/links-per-pair"), Some("0-2"));
    let built = Node::bare(&machines::a100_pcie_nvlink_pairs()).built();
    let domains = of_type(&built.body.zones, "NVLinkDomain");
    assert_eq!(domains.len(), 4);
    assert_eq!(attribute(&domains[1].attributes, "gpulet.dev/gpus"), Some("1,3"));
    assert_eq!(attribute(&domains[1].attributes, "gpulet.dev/through-switch"), Some("false"));
}

#[test]
fn all_published_machines_have_sound_objects_of_a_sane_size() {
    for (name, machine) in machines::all() {
        let built = Node::bare(&machine).built();
        let bytes = serde_json::to_string(&built.body).unwrap().len();
        assert!(bytes < 32 << 10, "{name}: {bytes} bytes");
        assert!(node_zones(&built.body).count() > 0);
    }
    Node::bare(&machines::trouble()).built();
}

#[test]
fn two_hundred_and_fifty_six_devices_fit_into_an_object() {
    let mut machine = Machine::new("NVIDIA L40S");
    machine.node(0, "0-3", 64);
    machine.node(1, "4-7", 64);
    for socket in 0..2 {
        let slot = machine.slot(Some(socket));
        let switch = machine.switch(&slot);
        for _ in 0..100 {
            let port = switch.clone();
            machine.gpu(&port);
        }
    }
    let mut node = Node::with_kubelet(&machine);
    for device in 0..256 {
        node.device("nvidia.com/gpu", &format!("GPU-{device}"), Some(&[device % 2]));
    }
    let built = node.built();
    assert_eq!(reasons(&built), [NoteReason::CostsLeftOut]);
    assert_eq!(of_type(&built.body.zones, "GPU").len(), 200);
    let bytes = serde_json::to_string(&built.body).unwrap().len();
    assert!(bytes < 160 << 10, "{bytes} bytes");
}
