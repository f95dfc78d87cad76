//! The reasons, as people read them.

use gpulet_topology::nrt::why;

use super::node::{GIB, GPU, Node, block, device, pages, two_sockets};
use crate::support::machine::Machine;

#[test]
fn each_figure_is_explained_pod_by_pod() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.settings().reserved_cpus = Some("0,8".parse().unwrap());
    node.allocatable().cpus = "1-7,9-15".parse().unwrap();
    node.huge_pages = vec![pages(0, 1 << 30, 4), pages(1, 1 << 30, 0)];
    node.allocatable().memory = vec![
        block("memory", 59 * GIB, &[0]),
        block("memory", 63 * GIB, &[1]),
        block("hugepages-1Gi", 4 * GIB, &[0]),
    ];
    for gpu in 0..4 {
        node.device(GPU, &format!("GPU-{gpu}"), Some(&[gpu / 2]));
    }
    node.device("example.com/fpga", "f0", None);
    let train = node.pod("ml", "train-0");
    train.cpus = "4-5,12-13".parse().unwrap();
    train.memory = vec![block("memory", (12 * GIB) + (512 << 20), &[1])];
    train.devices = vec![device(GPU, "GPU-2", Some(&[1]))];
    node.pod("ml", "train-1").devices =
        vec![device(GPU, "GPU-3", Some(&[1])), device("example.com/fpga", "f0", None)];
    let expected = include_str!("why.txt");
    let text = why(&node.built());
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn a_machine_without_zones_is_explained_too() {
    let text = why(&Node::bare(&Machine::new("none")).built());
    assert!(text.starts_with("No zone of type Node"), "{text}");
    assert!(text.contains("NoCpuNodes"), "{text}");
    assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
}

#[test]
fn names_cannot_write_to_the_terminal() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.device(GPU, "GPU-\u{1b}[2J", Some(&[0]));
    node.pod("ml\u{7}", "a\nb").devices = vec![device(GPU, "GPU-\u{1b}[2J", Some(&[0]))];
    let text = why(&node.built());
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}
