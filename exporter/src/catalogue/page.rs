//! `docs/metrics.md`, written from the catalogue.

use std::fmt::Write;
use std::path::Path;

use super::error::DANGEROUS;
use super::{Family, GPU_LABELS, Kind, families};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");

const INTRODUCTION: &str = "# Metrics

Every metric that gpulet serves at `/metrics`, in the order of a scrape. This page is written from the catalogue in
`exporter/src/catalogue/`; after a change there, write it anew with

    GPULET_BLESS=1 cargo test -p gpulet-exporter --lib the_page_is_up_to_date

- Names are those of the text format 0.0.4. In OpenMetrics the family's name has no `_total` and no `_info`.
- A value that the driver does not give makes no series. `gpulet metrics --explain` says which call answered what.
- The series of a GPU carry `gpu` (the driver's index) and `uuid` and no more; for the model or the PCI address join them
  with `* on (uuid) group_left (model) gpulet_gpu_info`.
- A GPU that does not answer keeps `gpulet_gpu_info`, `gpulet_gpu_up` (0, with the reason), `gpulet_gpu_sample_age_seconds`,
  `gpulet_gpu_allocated_info` and `gpulet_gpu_xid_errors_total`. Its other series end. One that has never said which it is
  has `gpulet_gpu_up` only, with an empty `uuid`.
- The label `reason` of `gpulet_nvml_up` and `gpulet_gpu_up` is empty while the value is 1 and one of a few fixed words while
  it is 0. The GPUs of a driver that is down have the driver's reason. So `gpulet_gpu_up{reason!=\"Quiesced\"} == 0` is an
  alert that brings its reason and spares planned maintenance (`gpulet quiesce`).
- `increase(gpulet_driver_call_failures_total[5m]) > 0` means that calls fail that worked; what a driver or a GPU does not
  have counts in `gpulet_driver_calls_unsupported_total` instead.
- In MIG mode the driver reports no utilisation for the whole GPU. Series per MIG instance do not exist yet.
- Counters of the driver start at 0 when the driver is loaded. `rate()` and `increase()` take that for what it is.

Not yet verified on real hardware.

| metric | type | unit | labels | what it is | source |
|---|---|---|---|---|---|
";

const VALUES: &str = "
## Values of labels

Where a label has one of a few fixed words. `reason` of calls is NVML's return code without `NVML_ERROR_`; codes that say
that there is no such thing are counted in `gpulet_driver_calls_unsupported_total` instead.

| metric | label | values |
|---|---|---|
";

const XIDS: &str = "
`gpulet_gpu_xid_errors_total` starts at 0 for these Xid codes, so that `increase()` sees their first; any other code has a series
from its first event on: ";

fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    for family in families() {
        let Family { name, kind, unit, help, source, .. } = family;
        let suffix = kind.suffix();
        let word = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Info => "info",
        };
        let gpu = family.sampler.is_of_gpus().then_some(GPU_LABELS);
        let names = family.labels.iter().map(|label| label.name);
        let labels: Vec<String> =
            gpu.into_iter().flatten().chain(names).map(|label| format!("`{label}`")).collect();
        let (unit, labels) =
            (unit.unwrap_or("-"), if labels.is_empty() { "-".into() } else { labels.join(", ") });
        writeln!(page, "| `{name}{suffix}` | {word} | {unit} | {labels} | {help} | {source} |").unwrap();
    }
    page.push_str(VALUES);
    for family in families() {
        for label in family.labels {
            let Some(values) = label.fixed() else { continue };
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            let (suffix, name) = (family.kind.suffix(), label.name);
            writeln!(page, "| `{}{suffix}` | `{name}` | {} |", family.name, values.join(", ")).unwrap();
        }
    }
    let codes: Vec<String> = DANGEROUS.iter().map(u32::to_string).collect();
    writeln!(page, "{XIDS}{}.", codes.join(", ")).unwrap();
    page
}

#[test]
fn the_page_is_up_to_date() {
    let written = page();
    if std::env::var_os("GPULET_BLESS").is_some() {
        std::fs::create_dir_all(Path::new(PAGE).parent().unwrap()).unwrap();
        std::fs::write(PAGE, &written).unwrap();
    }
    let kept = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(kept == written, "docs/metrics.md is out of date; the page says how to write it anew");
}
