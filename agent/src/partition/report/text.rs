//! A plan for people to approve.

use std::fmt::Write;

use super::{ComputeReport, GpuReport, HolderReport, InstanceReport, Report, Reset, Verdict};

/// All of it.
pub(crate) fn text(report: &Report, colour: bool) -> String {
    let mut text = String::new();
    let hash = report.hash.as_ref().map_or_else(String::new, |hash| format!(", hash {hash}"));
    let layout = report.layout.as_deref().unwrap_or("none");
    let source = report.source.as_deref().unwrap_or("none is declared");
    let _ = writeln!(text, "Layout {layout} ({source}{hash})");
    for problem in &report.problems {
        let line = problem.line.map_or_else(String::new, |line| format!("line {line}: "));
        let gpus: Vec<&str> = problem.gpus.iter().map(|gpu| gpu.as_str()).collect();
        let gpus = if gpus.is_empty() { String::new() } else { format!("{}: ", gpus.join(", ")) };
        let _ = writeln!(text, "  {line}{}: {gpus}{} ({})", problem.path, problem.message, problem.reason);
    }
    for gpu in &report.gpus {
        add_gpu(&mut text, gpu, colour);
    }
    if !report.warnings.is_empty() {
        text.push_str("\nWarnings:\n");
        report.warnings.iter().for_each(|warning| {
            let _ = writeln!(text, "  {warning}");
        });
    }
    let _ = writeln!(text, "\n{}", sum(report));
    text
}

fn add_gpu(text: &mut String, gpu: &GpuReport, colour: bool) {
    let index = gpu.index.map_or_else(|| "GPU ?".to_owned(), |index| format!("GPU {index}"));
    let pci = gpu.pci_bus_id.map(|pci| pci.to_string());
    let names = [Some(index), gpu.model.clone(), pci, gpu.uuid.as_ref().map(ToString::to_string)];
    let names: Vec<String> = names.into_iter().flatten().collect();
    let verdict = coloured(gpu.verdict, colour);
    let _ = writeln!(text, "\n{}: {verdict}", names.join("  "));
    if let Some(message) = &gpu.message {
        let reason = gpu.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        let _ = writeln!(text, "  {:<9} {message}{reason}", "why");
    }
    if let Some(mode) = told_mode(gpu) {
        let _ = writeln!(text, "  {:<9} {mode}", "MIG mode");
    }
    let instances = [("keep", &gpu.keep), ("destroy", &gpu.destroy), ("create", &gpu.create)];
    for (word, instances) in instances {
        for instance in instances {
            let _ = writeln!(text, "  {word:<9} {}", told_instance(gpu, instance));
        }
    }
    for disruption in &gpu.disruptions {
        let _ = writeln!(
            text,
            "  {:<9} {}{}",
            "ends",
            disruption.what,
            used_by(&disruption.holders, ", which no one uses")
        );
    }
    let is_on = gpu.mode.is_some_and(|mode| mode.wanted.unwrap_or(mode.current));
    match &gpu.largest_placeable {
        Some(profile) => {
            let _ = writeln!(text, "  {:<9} for another {profile}", "room");
        }
        None if is_on => {
            let _ = writeln!(text, "  {:<9} for no other instance", "room");
        }
        None => {}
    }
}

fn told_mode(gpu: &GpuReport) -> Option<String> {
    let mode = gpu.mode?;
    let word = |on: bool| if on { "on" } else { "off" };
    let pending = if mode.pending == mode.current {
        String::new()
    } else {
        format!(" (and {} after a reset)", word(mode.pending))
    };
    let change = match mode.wanted.filter(|wanted| *wanted != mode.current) {
        Some(wanted) => format!(", is turned {}", word(wanted)),
        None => String::new(),
    };
    let reset = match gpu.reset {
        Reset::None => "",
        Reset::IfNeeded => "; the GPU is reset if the driver asks for it",
        Reset::Needed => "; the GPU is reset",
    };
    Some(format!("{}{pending}{change}{reset}", word(mode.current)))
}

fn told_instance(gpu: &GpuReport, instance: &InstanceReport) -> String {
    let place = format!("{} at {}:{}", instance.profile, instance.start, instance.size);
    let computes: Vec<String> = instance.compute_instances.iter().map(told_compute).collect();
    let used = used_by(&instance.holders, "");
    match (instance.whole, instance.compute_instances.as_slice()) {
        (false, _) => format!("{} in {place}{used}", computes.join(", ")),
        (true, [only]) if only.profile == instance.profile => format!("{place}{used}"),
        (true, []) if is_divided_anew(gpu, instance) => format!("{place}{used}"),
        (true, []) => format!("{place} without compute instance{used}"),
        (true, _) => format!("{place} with {}{used}", computes.join(", ")),
    }
}

/// Whether it stays and gets other compute instances, which are told in lines of their own.
fn is_divided_anew(gpu: &GpuReport, instance: &InstanceReport) -> bool {
    let is_part = |part: &InstanceReport| {
        !part.whole && (part.profile_id, part.start) == (instance.profile_id, instance.start)
    };
    gpu.create.iter().chain(&gpu.destroy).any(is_part)
}

fn told_compute(compute: &ComputeReport) -> String {
    match (compute.start, compute.size) {
        (Some(start), Some(size)) => format!("{} at {start}:{size}", compute.profile),
        _ => compute.profile.clone(),
    }
}

fn used_by(holders: &[HolderReport], no_one: &str) -> String {
    if holders.is_empty() {
        return no_one.to_owned();
    }
    let holders: Vec<&str> = holders.iter().map(|holder| holder.message.as_str()).collect();
    format!(", used by {}", holders.join(", "))
}

/// How many GPUs come to what, and what can be done.
fn sum(report: &Report) -> String {
    if !report.problems.is_empty() {
        let count = report.problems.len();
        let problems = if count == 1 { "one problem".to_owned() } else { format!("{count} problems") };
        return format!("Nothing can be done: {problems}.");
    }
    let all = [
        Verdict::LeftAlone,
        Verdict::AsWanted,
        Verdict::Changes,
        Verdict::Unreadable,
        Verdict::Blocked,
        Verdict::Infeasible,
        Verdict::Invalid,
    ];
    let counted: Vec<String> = all
        .into_iter()
        .filter_map(|verdict| {
            let count = report.gpus.iter().filter(|gpu| gpu.verdict == verdict).count();
            (count > 0).then(|| format!("{count} {}", verdict.as_str()))
        })
        .collect();
    let counted = if counted.is_empty() { "no GPU".to_owned() } else { counted.join(", ") };
    match report.verdict {
        Verdict::AsWanted | Verdict::LeftAlone => format!("Nothing to do: {counted}."),
        Verdict::Changes => format!("To do: {counted}. `gpulet apply` does it."),
        _ => format!("In all: {counted}."),
    }
}

fn coloured(verdict: Verdict, colour: bool) -> String {
    let word = verdict.as_str();
    match verdict {
        _ if !colour => word.to_owned(),
        Verdict::LeftAlone | Verdict::AsWanted => word.to_owned(),
        Verdict::Changes => format!("\x1b[1m{word}\x1b[0m"),
        _ => format!("\x1b[1;31m{word}\x1b[0m"),
    }
}
