//! Rendering allocates nothing once the buffer has grown.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod held;

use std::collections::BTreeMap;
use std::sync::Arc;

use gpulet_exporter::{BuildInfo, Format, Own, render};
use gpulet_inventory::reading::Reading;
use gpulet_inventory::snapshot::{Condition, DownReason};

#[test]
fn rendering_allocates_nothing() {
    let build = BuildInfo { version: "0.1.0".into(), revision: String::new(), rustc: "1.90.0".into() };
    let own = Own::new(build, &["sample", "serve"]).unwrap();
    let mut snapshot = gpulet_benches::snapshot(32, 18);
    // What is written on a bad day must not allocate either.
    let node = Arc::make_mut(&mut snapshot.gpus.value);
    node.gpus[1].condition = Condition::Down(DownReason::DriverDown);
    node.gpus[2].xids = Reading::Supported(BTreeMap::from([(4711, 3)]));
    Arc::make_mut(&mut node.gpus[2].gpu).name = Reading::Supported("a \"name\"\nof two lines".into());

    snapshot.holders.value = Arc::new(held::holders(&snapshot.gpus.value));

    for format in [Format::Text004, Format::OpenMetrics100] {
        let mut out = Vec::new();
        let first = allocation_counter::measure(|| render(&snapshot, &own, format, &mut out));
        assert!(first.count_total > 0, "the counter counts");
        let length = out.len();
        out.clear();
        let second = allocation_counter::measure(|| render(&snapshot, &own, format, &mut out));
        assert_eq!(second.count_total, 0, "{format:?}: {second:?}");
        assert_eq!(out.len(), length);
    }
}
