//! `gpulet best`: which GPUs belong together.

use std::fmt::Write;

use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{PlacedGpu, Topology};
use gpulet_topology::best::{self, Best, Request, Score};
use serde::Serialize;

use super::{CommandError, look, print};
use crate::cli::{Form, Global};

/// Prints the best set of `count` GPUs out of those in `free`, those in `must` included.
pub(super) fn best(
    global: &Global,
    count: usize,
    free: Option<&str>,
    must: Option<&str>,
    form: Form,
) -> Result<(), CommandError> {
    let (_, seen) = look(global)?;
    let topology = seen.topology(None).model;
    let parse = |list: Option<&str>| list.map(|list| best::parse_gpus(&topology, list)).transpose();
    let request = Request { count, free: parse(free)?, must: parse(must)?.unwrap_or_default() };
    let best = best::best(&topology, &request)?;
    let text = match form {
        Form::Text => text(&topology, &best),
        Form::Json => {
            let json = serde_json::to_string_pretty(&View::new(&topology, &best));
            json.map_err(|error| CommandError::Output(error.into()))? + "\n"
        }
    };
    print(text.as_bytes())
}

/// The GPUs at these positions.
fn at<'a>(topology: &'a Topology, positions: &[usize]) -> Vec<&'a PlacedGpu> {
    positions.iter().filter_map(|position| topology.gpus.get(*position)).collect()
}

fn text(topology: &Topology, best: &Best) -> String {
    let mut text = String::new();
    let words = |gpus: &[usize], word: &dyn Fn(&PlacedGpu) -> String| {
        at(topology, gpus).into_iter().map(word).collect::<Vec<_>>().join(",")
    };
    let index =
        |gpu: &PlacedGpu| gpu.index.map_or_else(|| gpu.place.pci.to_string(), |index| index.to_string());
    let uuid = |gpu: &PlacedGpu| gpu.uuid.as_ref().map_or("?", |uuid| uuid.as_str()).to_owned();
    let Score { total, nvlink, numa, pcie, nic, left } = best.score;
    let _ = writeln!(text, "gpus:   {}", words(&best.gpus, &index));
    let _ = writeln!(text, "uuids:  {}", words(&best.gpus, &uuid));
    let _ = writeln!(
        text,
        "score:  {total} (NVLink {nvlink}, NUMA {numa}, PCIe {pcie}, NICs {nic}, what is left {left})"
    );
    let _ = writeln!(text, "reason: {}", best.reason);
    if !best.passed_over.is_empty() {
        let _ = writeln!(text, "passed over, for they do not answer: {}", words(&best.passed_over, &index));
    }
    text
}

#[derive(Serialize)]
struct View<'a> {
    gpus: Vec<GpuView<'a>>,
    score: Score,
    reason: &'a str,
    passed_over: Vec<GpuView<'a>>,
}

#[derive(Serialize)]
struct GpuView<'a> {
    label: &'a str,
    index: Option<u32>,
    uuid: Option<&'a str>,
    pci: PciAddress,
}

impl<'a> View<'a> {
    fn new(topology: &'a Topology, best: &'a Best) -> Self {
        let views = |positions: &[usize]| at(topology, positions).into_iter().map(GpuView::new).collect();
        Self {
            gpus: views(&best.gpus),
            score: best.score,
            reason: &best.reason,
            passed_over: views(&best.passed_over),
        }
    }
}

impl<'a> GpuView<'a> {
    fn new(gpu: &'a PlacedGpu) -> Self {
        let uuid = gpu.uuid.as_ref().map(|uuid| uuid.as_str());
        Self { label: &gpu.label, index: gpu.index, uuid, pci: gpu.place.pci }
    }
}
