//! Reading the hardware of a node with 8 GPUs, 13 NICs and 256 CPUs from its files.
//!
//! The files lie in a temporary directory. In a kernel's sysfs a file costs about as much, but for those that ask the
//! device (the speed and width of a link now, access control services).

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unused_crate_dependencies)]

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use gpulet_host::{Bundle, Root, hardware};
use gpulet_inventory::host::PciKind;
use gpulet_simulator::engine::Engine;
use gpulet_simulator::host_tree;
use gpulet_simulator::node::Node;

/// A DGX H100 whose processors have 64 cores each.
fn node() -> Node {
    let text = include_str!("../../simulator/nodes/dgx-h100.yaml")
        .replace("cores-per-package: 56", "cores-per-package: 64")
        .replace("0-55,112-167", "0-63,128-191")
        .replace("56-111,168-223", "64-127,192-255");
    Node::parse("large", "large.yaml", &text, Path::new(".")).unwrap()
}

fn discovery(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::new(&node(), 1, 0).unwrap();
    host_tree::write(engine.node(), engine.state(), directory.path()).unwrap();
    let root = Root::new(directory.path());

    let host = hardware::read(&root);
    let gpus = host.pci.iter().filter(|device| device.kind == PciKind::Gpu).count();
    assert_eq!((gpus, host.nics.len(), host.cpus.places.len()), (8, 13, 256));
    assert!(host.oddities.is_empty());

    let recorded = root.recorded();
    hardware::read(&recorded);
    let replayed = Root::replay(Bundle { host: recorded.recording(), ..Bundle::default() });

    let mut group = criterion.benchmark_group("discovery");
    group.bench_function("from files", |bencher| bencher.iter(|| black_box(hardware::read(&root))));
    group.bench_function("from files, recording", |bencher| {
        bencher.iter(|| black_box(hardware::read(&root.recorded())));
    });
    group.bench_function("from a bundle in memory", |bencher| {
        bencher.iter(|| black_box(hardware::read(&replayed)));
    });
    group.finish();
}

criterion_group!(benches, discovery);
criterion_main!(benches);
