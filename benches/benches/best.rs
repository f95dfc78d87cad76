//! The best set of N of sixteen free GPUs, for each N: a DGX-2, whose GPUs all reach each other through NVSwitches and
//! sit on two NUMA nodes, is the hardest shipped node, since so much is equal.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unused_crate_dependencies)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use gpulet_host::{Root, hardware};
use gpulet_inventory::topology::Topology;
use gpulet_nvml::{Classes, Driver, Options};
use gpulet_simulator::{ClockMode, SimulatedNode};
use gpulet_topology::best::Request;
use gpulet_topology::{GpuView, best, build};

fn topology(node: &SimulatedNode) -> Topology {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let driver = Driver::new(Options {
        library: Some(node.library()),
        host_root: node.host_root(),
        // The machine may be busy: a slow answer is not a missing one here.
        deadline: Duration::from_secs(30),
        ..Options::default()
    });
    let gpus = runtime.block_on(driver.sample(Classes { fast: true, slow: true }, Instant::now()));
    let locality = runtime.block_on(driver.locality());
    let host = hardware::read(&Root::new(node.host_root()));
    build(&host, &GpuView::of(&gpus, &host), Some(&locality))
}

fn sixteen(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    let node = SimulatedNode::start("dgx-2", directory.path(), ClockMode::Stepped).unwrap();
    let topology = topology(&node);
    assert_eq!(topology.gpus.len(), 16);

    let mut group = criterion.benchmark_group("best of 16");
    for gpus in 1..=16 {
        let request = Request { count: gpus, free: None, must: Vec::new() };
        group.bench_function(format!("{gpus}"), |bencher| {
            bencher.iter(|| black_box(best(&topology, &request).unwrap()));
        });
    }
    group.finish();
}

criterion_group!(benches, sixteen);
criterion_main!(benches);
