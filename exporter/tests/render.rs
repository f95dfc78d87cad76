//! What is rendered, read by a strict reader and by others' parsers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod checker;
mod held;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use checker::Series;
use gpulet_exporter::{BuildInfo, Format, Own, explain, render};
use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::mig::{
    ComputeInstance, ComputeInstanceId, GpuInstance, GpuInstanceId, MigMode, Placement,
};
use gpulet_inventory::reading::{Answer, Cause, Reading};
use gpulet_inventory::sample::Sample;
use gpulet_inventory::snapshot::{
    Condition, DownReason, Driver, DriverDown, GpuState, NodeGpus, Snapshot, UnlistedGpu,
};
use gpulet_inventory::topology::SeenBy;
use proptest::prelude::*;

const FORMATS: [Format; 2] = [Format::Text004, Format::OpenMetrics100];

fn own() -> Own {
    let build = BuildInfo { version: "0.1.0".into(), revision: "abcdef".into(), rustc: "1.90.0".into() };
    Own::new(build, &["sample", "serve"]).unwrap()
}

fn document(snapshot: &Snapshot, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    render(snapshot, &own(), format, &mut out);
    out
}

fn read(snapshot: &Snapshot) -> Vec<Series> {
    let series = FORMATS.map(|format| {
        let document = document(snapshot, format);
        checker::read(&document, format).unwrap_or_else(|error| panic!("{format:?}: {error}"))
    });
    let [text, open_metrics] = series;
    assert_eq!(text, open_metrics, "both formats say the same");
    text
}

fn node(snapshot: &mut Snapshot) -> &mut NodeGpus {
    Arc::make_mut(&mut snapshot.gpus.value)
}

fn state(snapshot: &mut Snapshot, index: usize) -> &mut GpuState {
    &mut node(snapshot).gpus[index]
}

fn gpu(snapshot: &mut Snapshot, index: usize) -> &mut Gpu {
    Arc::make_mut(&mut state(snapshot, index).gpu)
}

fn sample(snapshot: &mut Snapshot, index: usize) -> &mut Sample {
    Arc::make_mut(state(snapshot, index).sample.as_mut().unwrap())
}

/// The series with this name and these labels, each `name=value`.
fn find<'a>(series: &'a [Series], name: &str, labels: &[(&str, &str)]) -> Vec<&'a Series> {
    let wanted =
        |one: &&Series| one.name == name && labels.iter().all(|(label, value)| one.label(label) == *value);
    series.iter().filter(wanted).collect()
}

fn value(series: &[Series], name: &str, labels: &[(&str, &str)]) -> f64 {
    let found = find(series, name, labels);
    assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
    found[0].value
}

fn refused<T>() -> Reading<T> {
    Reading::Unsupported(Answer { call: "nvmlDeviceGetSomething", cause: Cause::Code(3) })
}

#[test]
fn a_whole_node_reads_in_both_formats() {
    let series = read(&gpulet_benches::snapshot(8, 18));
    let names: BTreeSet<&str> = series.iter().map(|one| one.name.as_str()).collect();
    for name in ["gpulet_build_info", "gpulet_nvml_up", "gpulet_gpu_info", "process_cpu_seconds_total"] {
        assert!(names.contains(name), "{name}");
    }
    assert_eq!(find(&series, "gpulet_gpu_nvlink_up", &[]).len(), 8 * 18);
}

#[test]
fn a_large_node_has_more_than_5000_series() {
    assert!(read(&gpulet_benches::snapshot(32, 18)).len() >= 5000);
}

#[test]
fn values_are_in_base_units() {
    let series = read(&gpulet_benches::snapshot(2, 4));
    let first = |name: &str, labels: &[(&str, &str)]| {
        let labels: Vec<_> = [("gpu", "0")].iter().chain(labels).copied().collect();
        value(&series, name, &labels)
    };
    for (name, labels, expected) in [
        ("gpulet_gpu_utilization_ratio", &[("engine", "gpu")][..], 0.93),
        ("gpulet_gpu_memory_total_bytes", &[], 85_899_345_920.0),
        ("gpulet_gpu_power_watts", &[], 612.345),
        ("gpulet_gpu_energy_joules_total", &[], 987_654_321.001),
        ("gpulet_gpu_temperature_celsius", &[("sensor", "memory")], 52.0),
        ("gpulet_gpu_clock_hertz", &[("domain", "sm")], 1_755_000_000.0),
        ("gpulet_gpu_clock_event_seconds_total", &[("reason", "power_cap")], 123.456_789_012),
        ("gpulet_gpu_clock_event_active", &[("reason", "power_cap")], 1.0),
        ("gpulet_gpu_clock_event_active", &[("reason", "gpu_idle")], 0.0),
        ("gpulet_gpu_processes", &[("kind", "compute")], 1.0),
        ("gpulet_gpu_ecc_errors_total", &[("type", "corrected"), ("scope", "aggregate")], 3.0),
        ("gpulet_gpu_xid_errors_total", &[("xid", "79")], 1.0),
        ("gpulet_gpu_xid_errors_total", &[("xid", "48")], 0.0),
        ("gpulet_gpu_xid_errors_total", &[("xid", "13")], 2.0),
        ("gpulet_gpu_recovery_action", &[("action", "none")], 1.0),
        ("gpulet_gpu_fabric_state", &[("state", "completed")], 1.0),
        ("gpulet_gpu_up", &[("reason", "")], 1.0),
    ] {
        assert!((first(name, labels) - expected).abs() < 1e-9, "{name} {labels:?}");
    }
    let info = find(&series, "gpulet_gpu_info", &[("gpu", "1")])[0];
    assert_eq!(info.label("model"), "NVIDIA H100 80GB HBM3");
    assert_eq!((info.label("compute_capability"), info.label("numa_node")), ("9.0", "1"));
    assert_eq!(info.label("pci_bus_id"), "0000:19:00.0");
}

#[test]
fn the_topology_is_counted() {
    let mut snapshot = gpulet_benches::snapshot(8, 0);
    let series = read(&snapshot);
    let findings =
        |series: &[Series], reason| value(series, "gpulet_topology_findings", &[("reason", reason)]);
    assert!((findings(&series, "NvlinkDegraded") - 1.0).abs() < 1e-9);
    assert!(findings(&series, "GpuMissing").abs() < 1e-9, "what is not found is 0, not absent");
    let free = |within| value(&series, "gpulet_topology_largest_free_set", &[("within", within)]);
    assert!((free("numa_node") - 4.0).abs() < 1e-9);
    assert!(free("pcie_switch").abs() < 1e-9 && free("nvlink_island").abs() < 1e-9);
    let on_the_bus = find(&series, "gpulet_pci_gpu_info", &[]);
    assert_eq!(on_the_bus.len(), 8);
    assert_eq!((on_the_bus[7].label("driver"), on_the_bus[7].label("numa_node")), ("nvidia", "1"));

    Arc::make_mut(&mut snapshot.topology.value).model.gpus[0].seen_by = SeenBy::Driver;
    assert_eq!(find(&read(&snapshot), "gpulet_pci_gpu_info", &[]).len(), 7);
}

#[test]
fn the_same_snapshot_is_the_same_document() {
    let snapshot = gpulet_benches::snapshot(4, 6);
    for format in FORMATS {
        assert_eq!(document(&snapshot, format), document(&snapshot.clone(), format));
    }
}

#[test]
fn others_read_it_too() {
    let mut snapshot = gpulet_benches::snapshot(2, 3);
    gpu(&mut snapshot, 0).name = Reading::Supported("a \"quoted\" \\ name".into());
    let count = read(&snapshot).len();

    let text = String::from_utf8(document(&snapshot, Format::Text004)).unwrap();
    let scrape = prometheus_parse::Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap();
    assert_eq!(scrape.samples.len(), count);
    let strict = openmetrics_parser::prometheus::parse_prometheus(&text).unwrap();
    assert_eq!(strict.families.values().flat_map(|family| family.iter_samples()).count(), count);

    let text = String::from_utf8(document(&snapshot, Format::OpenMetrics100)).unwrap();
    let strict = openmetrics_parser::openmetrics::parse_openmetrics(&text).unwrap();
    assert_eq!(strict.families.values().flat_map(|family| family.iter_samples()).count(), count);
}

#[test]
fn a_lost_gpu_keeps_its_name_and_what_the_agent_knows() {
    let mut snapshot = gpulet_benches::snapshot(4, 2);
    let whole = read(&snapshot);
    let answer = Answer { call: "nvmlDeviceGetPowerUsage", cause: Cause::Code(15) };
    state(&mut snapshot, 3).condition = Condition::Down(DownReason::Lost(answer));
    let series = read(&snapshot);

    let left: BTreeSet<&str> =
        series.iter().filter(|one| one.label("gpu") == "3").map(|one| one.name.as_str()).collect();
    let kept =
        ["gpulet_gpu_info", "gpulet_gpu_sample_age_seconds", "gpulet_gpu_up", "gpulet_gpu_xid_errors_total"];
    assert_eq!(left, BTreeSet::from(kept));
    assert!(value(&series, "gpulet_gpu_up", &[("gpu", "3"), ("reason", "Lost")]).abs() < 1e-9);
    for gpu in ["0", "1", "2"] {
        let of = |series: &[Series]| -> Vec<Series> {
            series.iter().filter(|one| one.label("gpu") == gpu).cloned().collect()
        };
        assert_eq!(of(&series), of(&whole), "GPU {gpu} is untouched");
    }
    let missing = explain(&snapshot);
    let power =
        missing.iter().find(|one| one.series.starts_with("gpulet_gpu_power_watts{gpu=\"3\"")).unwrap();
    assert_eq!((power.call.as_str(), power.gpu), ("nvmlDeviceGetPowerUsage", Some(3)));
    assert!(power.answer.contains("Lost") && power.answer.contains("GPU_IS_LOST"), "{}", power.answer);
}

#[test]
fn a_gpu_that_never_said_which_it_is_is_down_and_hides_no_other() {
    let mut snapshot = gpulet_benches::snapshot(3, 2);
    let whole = read(&snapshot);
    let since = Duration::from_secs(7);
    let reason = DownReason::Unresponsive { call: "nvmlDeviceGetHandleByIndex_v2", since };
    node(&mut snapshot).unlisted = vec![UnlistedGpu { index: 3, pci: None, reason }];
    let series = read(&snapshot);

    let of_it: Vec<&Series> = series.iter().filter(|one| one.label("gpu") == "3").collect();
    assert_eq!(of_it.len(), 1, "{of_it:?}");
    let labels = [("gpu", "3"), ("uuid", ""), ("reason", "Unresponsive")];
    assert!(value(&series, "gpulet_gpu_up", &labels).abs() < 1e-9);
    let others: Vec<Series> = series.iter().filter(|one| one.label("gpu") != "3").cloned().collect();
    assert_eq!(others, whole);

    let missing = explain(&snapshot);
    let power =
        missing.iter().find(|one| one.series == "gpulet_gpu_power_watts{gpu=\"3\",uuid=\"\"}").unwrap();
    assert_eq!((power.call.as_str(), power.gpu), ("nvmlDeviceGetHandleByIndex_v2", Some(3)));
    assert!(power.answer.contains("7.0 s"), "{}", power.answer);
}

#[test]
fn a_node_without_a_driver_says_so() {
    let mut snapshot = gpulet_benches::snapshot(0, 0);
    node(&mut snapshot).driver = Driver::Down(DriverDown {
        reason: "LibraryNotFound",
        message: "libnvidia-ml.so.1 is in none of the usual places".into(),
        remedy: "install the driver".into(),
    });
    let series = read(&snapshot);
    assert!(value(&series, "gpulet_nvml_up", &[("reason", "LibraryNotFound")]).abs() < 1e-9);
    assert!(find(&series, "gpulet_driver_info", &[]).is_empty());
    let missing = explain(&snapshot);
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(missing[0].to_string().starts_with("gpulet_driver_info: the driver is down: libnvidia-ml.so.1"));
}

#[test]
fn what_is_not_supported_is_absent_and_explained() {
    let mut snapshot = gpulet_benches::snapshot(1, 2);
    let values = sample(&mut snapshot, 0);
    values.temperature.memory = Reading::Unsupported(Answer {
        call: "nvmlDeviceGetFieldValues[NVML_FI_DEV_MEMORY_TEMP]",
        cause: Cause::Blank,
    });
    values.nvlinks = refused();
    if let Reading::Supported(memory) = &mut values.memory {
        memory.reserved = None;
    }
    let series = read(&snapshot);
    assert!(find(&series, "gpulet_gpu_temperature_celsius", &[("sensor", "memory")]).is_empty());
    assert_eq!(find(&series, "gpulet_gpu_temperature_celsius", &[]).len(), 1);
    assert!(!series.iter().any(|one| one.name.contains("nvlink")));

    let missing: Vec<String> = explain(&snapshot).iter().map(ToString::to_string).collect();
    let uuid = "GPU-8f6d2c3a-0000-1111-2222-000000000000";
    let line = format!(
        "gpulet_gpu_temperature_celsius{{gpu=\"0\",uuid=\"{uuid}\",sensor=\"memory\"}}: \
         nvmlDeviceGetFieldValues[NVML_FI_DEV_MEMORY_TEMP]: BLANK"
    );
    assert!(missing.contains(&line), "{missing:#?}");
    assert_eq!(missing.iter().filter(|line| line.contains("nvlink")).count(), 4, "one for each family");
    assert!(missing.iter().any(|line| line.starts_with("gpulet_gpu_memory_reserved_bytes")), "{missing:#?}");
    assert_eq!(missing.len(), 6, "{missing:#?}");
}

#[test]
fn xids_that_are_not_told_of_are_absent_and_explained() {
    let mut snapshot = gpulet_benches::snapshot(2, 0);
    let refused = Answer { call: "nvmlDeviceRegisterEvents", cause: Cause::Code(3) };
    state(&mut snapshot, 1).xids = Reading::Unsupported(refused);
    let series = read(&snapshot);
    let of = |gpu| find(&series, "gpulet_gpu_xid_errors_total", &[("gpu", gpu)]).len();
    assert!(of("0") > 1);
    assert_eq!(of("1"), 0);
    let missing: Vec<String> = explain(&snapshot).iter().map(ToString::to_string).collect();
    let line = missing.iter().find(|line| line.starts_with("gpulet_gpu_xid_errors_total{gpu=\"1\"")).unwrap();
    assert!(line.ends_with("nvmlDeviceRegisterEvents: NVML_ERROR_NOT_SUPPORTED (3)"), "{line}");
}

#[test]
fn a_gpu_that_was_not_read_yet_is_explained() {
    let mut snapshot = gpulet_benches::snapshot(1, 0);
    state(&mut snapshot, 0).sample = None;
    assert!(find(&read(&snapshot), "gpulet_gpu_power_watts", &[]).is_empty());
    let missing = explain(&snapshot);
    assert!(missing.iter().all(|one| one.answer.contains("not been read yet")), "{missing:#?}");
    assert!(missing.iter().any(|one| one.source == "nvmlDeviceGetPowerUsage"), "{missing:#?}");
}

#[test]
fn the_age_is_that_of_the_sample() {
    let mut snapshot = gpulet_benches::snapshot(2, 0);
    snapshot.taken += Duration::from_millis(2500);
    state(&mut snapshot, 1).sampled += Duration::from_secs(3);
    let series = read(&snapshot);
    assert!((value(&series, "gpulet_gpu_sample_age_seconds", &[("gpu", "0")]) - 2.5).abs() < 1e-9);
    assert!(value(&series, "gpulet_gpu_sample_age_seconds", &[("gpu", "1")]).abs() < 1e-9, "never below 0");
}

#[test]
fn a_link_that_is_down_keeps_its_series_but_for_what_nobody_tells() {
    let mut snapshot = gpulet_benches::snapshot(1, 3);
    let info = |snapshot: &Snapshot, link| {
        let series = read(snapshot);
        find(&series, "gpulet_gpu_nvlink_info", &[("link", link)]).first().map(|one| (*one).clone())
    };
    let before = info(&snapshot, "1").unwrap();
    assert_eq!(before.label("version"), "4.0");
    let Reading::Supported(links) = &mut sample(&mut snapshot, 0).nvlinks else { panic!() };
    links[1].active = false;
    links[2].remote_pci = refused();
    assert_eq!(info(&snapshot, "1").unwrap(), before, "what is known stays");
    assert_eq!(info(&snapshot, "2").unwrap().label("remote_pci_bus_id"), "", "up, and not supported");

    let Reading::Supported(links) = &mut sample(&mut snapshot, 0).nvlinks else { panic!() };
    links[1].version = refused();
    assert_eq!(info(&snapshot, "1"), None);
    assert!(value(&read(&snapshot), "gpulet_gpu_nvlink_up", &[("link", "1")]).abs() < 1e-9);
    assert!(explain(&snapshot).iter().any(|one| one.series.starts_with("gpulet_gpu_nvlink_info{")));
}

#[test]
fn gpus_of_a_driver_that_is_down_have_its_reason() {
    let mut snapshot = gpulet_benches::snapshot(2, 0);
    let node = node(&mut snapshot);
    for state in &mut node.gpus {
        state.condition = Condition::Down(DownReason::DriverDown);
    }
    for reason in [DriverDown::QUIESCED, "DriverNotLoaded"] {
        let down = DriverDown { reason, message: String::new(), remedy: String::new() };
        Arc::make_mut(&mut snapshot.gpus.value).driver = Driver::Down(down);
        assert_eq!(find(&read(&snapshot), "gpulet_gpu_up", &[("reason", reason)]).len(), 2);
    }
}

#[test]
fn mig_instances_are_counted_by_profile() {
    let mut snapshot = gpulet_benches::snapshot(1, 0);
    let Reading::Supported(mig) = &mut sample(&mut snapshot, 0).mig else { panic!() };
    let instance = |id, profile_id, start| GpuInstance {
        id: GpuInstanceId(id),
        profile_id,
        placement: Placement { start, size: 1 },
        compute_instances: vec![ComputeInstance { id: ComputeInstanceId(0), profile_id: 0, uuid: None }],
    };
    mig.instances = Reading::Supported(vec![instance(7, 19, 0), instance(8, 19, 1), instance(9, 4711, 2)]);
    assert!(find(&read(&snapshot), "gpulet_gpu_mig_instances", &[]).is_empty(), "not in MIG mode");

    let Reading::Supported(mig) = &mut sample(&mut snapshot, 0).mig else { panic!() };
    mig.mode = MigMode { current: true, pending: true };
    if let Reading::Supported(profiles) = &mut mig.profiles {
        let twice = profiles[0].clone();
        profiles.push(twice);
    }
    let series = read(&snapshot);
    assert!((value(&series, "gpulet_gpu_mig_instances", &[("profile", "1g.10gb")]) - 2.0).abs() < 1e-9);
    assert!((value(&series, "gpulet_gpu_mig_instances", &[("profile_id", "4711")]) - 1.0).abs() < 1e-9);
    assert!((value(&series, "gpulet_gpu_mig_mode", &[("state", "current")]) - 1.0).abs() < 1e-9);
}

#[test]
fn numbers_newer_than_this_program_are_other() {
    let mut snapshot = gpulet_benches::snapshot(1, 0);
    sample(&mut snapshot, 0).recovery_action = Reading::Supported(4711);
    let series = read(&snapshot);
    let holds: Vec<&str> = find(&series, "gpulet_gpu_recovery_action", &[])
        .into_iter()
        .filter(|one| one.value > 0.0)
        .map(|one| one.label("action"))
        .collect();
    assert_eq!(holds, ["other"]);
}

#[test]
fn a_number_that_is_none_makes_no_series() {
    let mut snapshot = gpulet_benches::snapshot(1, 0);
    Arc::make_mut(&mut snapshot.process.value).cpu_seconds = f64::NAN;
    Arc::make_mut(&mut snapshot.process.value).start_time_seconds = f64::INFINITY;
    let series = read(&snapshot);
    assert!(find(&series, "process_cpu_seconds_total", &[]).is_empty());
    assert!(find(&series, "process_start_time_seconds", &[]).is_empty());
}

/// What a hostile text must come out as: control characters other than newlines have no escape.
fn as_shown(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

fn reading<T: std::fmt::Debug + Clone + 'static>(
    values: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Reading<T>> {
    let answer = (prop_oneof![any::<u32>().prop_map(Cause::Code), Just(Cause::Blank), Just(Cause::TimedOut)])
        .prop_map(|cause| Answer { call: "nvmlDeviceGetSomething", cause });
    prop_oneof![
        values.prop_map(Reading::Supported),
        answer.clone().prop_map(Reading::Unsupported),
        answer.prop_map(Reading::Failed),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_text_breaks_a_scrape(
        model in any::<String>(),
        serial in ".*[\"\\\\\n\0].*",
        driver in any::<String>(),
        library in any::<String>(),
    ) {
        let mut snapshot = gpulet_benches::snapshot(2, 1);
        gpu(&mut snapshot, 0).name = Reading::Supported(model.clone());
        gpu(&mut snapshot, 0).serial = Reading::Supported(serial.clone());
        if let Driver::Up(info) = &mut node(&mut snapshot).driver {
            info.driver_version = driver.clone();
            info.library = library;
        }
        let series = read(&snapshot);
        let info = find(&series, "gpulet_gpu_info", &[("gpu", "0")])[0];
        prop_assert_eq!(info.label("model"), as_shown(&model));
        prop_assert_eq!(info.label("serial"), as_shown(&serial));
        prop_assert_eq!(find(&series, "gpulet_driver_info", &[])[0].label("version"), as_shown(&driver));

        let text = String::from_utf8(document(&snapshot, Format::OpenMetrics100)).unwrap();
        let strict = openmetrics_parser::openmetrics::parse_openmetrics(&text);
        prop_assert!(strict.is_ok(), "{:?}", strict.err());
    }

    #[test]
    fn no_reading_breaks_a_scrape(
        percent in reading(any::<u32>()),
        milliwatts in reading(any::<u32>()),
        millijoules in reading(any::<u64>()),
        nanoseconds in reading(any::<u64>()),
        megahertz in reading(any::<u32>()),
        bytes in reading(any::<u64>()),
        action in reading(any::<u32>()),
        xids in reading(proptest::collection::btree_map(any::<u32>(), any::<u64>(), 0..5)),
    ) {
        let mut snapshot = gpulet_benches::snapshot(2, 2);
        state(&mut snapshot, 1).xids = xids;
        let values = sample(&mut snapshot, 1);
        values.utilization.gpu = percent;
        values.power.usage = milliwatts;
        values.power.energy = millijoules;
        values.clock.held.power_cap = nanoseconds;
        values.clock.sm = megahertz;
        values.pcie.transmitted_bytes = bytes;
        values.recovery_action = action;
        let series = read(&snapshot);
        for missing in explain(&snapshot) {
            let family = missing.series.split('{').next().unwrap();
            let labels = missing.series.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
            let there = series.iter().any(|one| {
                let own: Vec<String> = one.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
                one.name == family && own.join(",").starts_with(labels)
            });
            prop_assert!(!there, "{} is there", missing.series);
        }
    }
}

#[test]
fn holders_are_told_by_device_and_owner() {
    let mut snapshot = gpulet_benches::snapshot(2, 0);
    assert_eq!(value(&read(&snapshot), "gpulet_kubelet_unknown_devices", &[]), 0.0);
    snapshot.holders.value = Arc::new(held::holders(&snapshot.gpus.value));
    let series = read(&snapshot);
    let name = "gpulet_gpu_holder_info";
    assert_eq!(find(&series, name, &[]).len(), 8);
    let pod = [
        ("gpu", "1"),
        ("gpu_instance", "7"),
        ("compute_instance", "0"),
        ("owner", "pod"),
        ("namespace", "team \"a\""),
        ("pod", "trainer-0"),
        ("pod_uid", "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"),
        ("container", "main"),
    ];
    assert_eq!(value(&series, name, &pod), 1.0);
    for owner in ["host:nvidia-persistenced.service", "unknown"] {
        let labels = [("gpu", "0"), ("gpu_instance", ""), ("owner", owner), ("pod", "")];
        assert_eq!(value(&series, name, &labels), 1.0);
    }
    // Two shares of one container are one series.
    let given =
        [("gpu", "0"), ("gpu_instance", "7"), ("resource", "nvidia.com/gpu.shared"), ("pod", "trainer-0")];
    assert_eq!(value(&series, "gpulet_gpu_allocated_info", &given), 1.0);
    assert_eq!(find(&series, "gpulet_gpu_allocated_info", &[]).len(), 4);
    assert_eq!(value(&series, "gpulet_kubelet_unknown_devices", &[]), 1.0);
}
