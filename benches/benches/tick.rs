//! One sampling tick of a simulated DGX H100: eight GPUs, eighteen NVLinks each.
//!
//! The simulated driver answers from memory, so its share of a tick is measured beside it: as many plain calls as a
//! tick makes, through the same library.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unused_crate_dependencies)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use gpulet_nvml::{Classes, Driver, Options};
use gpulet_simulator::{ClockMode, SimulatedNode};

const FAST: Classes = Classes { fast: true, slow: false };
const ALL: Classes = Classes { fast: true, slow: true };

fn tick(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    let node = SimulatedNode::start("dgx-h100", directory.path(), ClockMode::Stepped).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let options = Options {
        library: Some(node.library()),
        host_root: node.host_root(),
        // The machine may be busy: a slow answer is not a missing one here.
        deadline: Duration::from_secs(30),
        ..Options::default()
    };
    let driver = Driver::new(options);
    let sample = |classes| runtime.block_on(driver.sample(classes, Instant::now()));
    let calls = |classes| {
        let before = sample(classes).calls.made;
        sample(classes).calls.made - before
    };
    assert_eq!(sample(ALL).gpus.len(), 8);
    let (fast, all) = (calls(FAST), calls(ALL));

    let mut group = criterion.benchmark_group("tick");
    group.bench_function(format!("fast values, {fast} calls"), |bencher| {
        bencher.iter(|| black_box(sample(FAST)))
    });
    group.bench_function(format!("all values, {all} calls"), |bencher| {
        bencher.iter(|| black_box(sample(ALL)))
    });

    let nvml = nvml_wrapper::Nvml::builder().lib_path(node.library().as_os_str()).init().unwrap();
    let gpu = nvml.device_by_index(0).unwrap();
    for (what, calls) in [("fast", fast), ("all", all)] {
        group.bench_function(format!("the simulator's share of {what}: {calls} plain calls"), |bencher| {
            bencher.iter(|| (0..calls).for_each(|_| drop(black_box(gpu.power_usage()))));
        });
    }
    group.finish();
}

criterion_group!(benches, tick);
criterion_main!(benches);
