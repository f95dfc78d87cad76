//! What there is now, as a partition file.

use std::fmt::Write;

use crate::desired::{Wanted, WantedInstance};
use crate::file::{self, Target};
use crate::names::{self, ProfileName};
use crate::observed::{GpuDivision, Instance};
use crate::overrides::Overrides;
use crate::resolve::{GpuFacts, resolve};

/// The name of the layout in it.
pub const NAME: &str = "current";

/// What one GPU is divided into, as a partition file says it: MIG mode, and how many of which.
type Told = (bool, Vec<(String, u32)>);

/// A partition file with one layout, [`NAME`], that is what there is now on these GPUs. What the format cannot say stands in
/// it as a comment.
pub fn file(gpus: &[GpuFacts<'_>]) -> String {
    let mut groups: Vec<(Told, Vec<&GpuFacts<'_>>)> = Vec::new();
    for gpu in gpus {
        let told = told(gpu.division);
        match groups.iter_mut().find(|(known, _)| *known == told) {
            Some((_, alike)) => alike.push(gpu),
            None => groups.push((told, vec![gpu])),
        }
    }
    let mut text = String::from("version: v1\nmig-configs:\n");
    let is_only = groups.len() == 1;
    let _ = writeln!(text, "  {NAME}:{}", if groups.is_empty() { " []" } else { "" });
    for (told, alike) in &groups {
        write_entry(&mut text, told, if is_only { None } else { Some(alike) });
    }
    let notes: String = gpus.iter().flat_map(|gpu| notes(gpu, &text, gpus)).collect();
    format!("{notes}{text}")
}

fn told(division: &GpuDivision) -> Told {
    let is_on = division.mode.is_some_and(|mode| mode.current);
    let mut counted: Vec<(String, u32)> = Vec::new();
    for name in division.instances.iter().flat_map(|instance| devices(division, instance)) {
        match counted.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counted.push((name, 1)),
        }
    }
    counted.sort();
    (is_on, counted)
}

/// The names of the MIG devices of a GPU instance. Those that are no names are left out.
fn devices(division: &GpuDivision, instance: &Instance) -> Vec<String> {
    let Some(profile) = division.profile(instance.profile) else { return Vec::new() };
    let whole = names::compute_profile(profile, None).map(|whole| whole.slices);
    let tell = |compute: &crate::observed::Compute| {
        let own = profile.compute_profiles.iter().find(|own| own.id == compute.profile)?;
        let name = names::compute(own.slices, &profile.name, whole?);
        name.parse::<ProfileName>().is_ok().then_some(name)
    };
    instance.computes.iter().filter_map(tell).collect()
}

/// An entry for these GPUs; absent: for all.
fn write_entry(text: &mut String, (is_on, counted): &Told, gpus: Option<&Vec<&GpuFacts<'_>>>) {
    let devices = gpus.map_or_else(
        || "all".to_owned(),
        |gpus| {
            let targets: Vec<String> = gpus.iter().map(|gpu| Target::Index(gpu.index).to_string()).collect();
            format!("[{}]", targets.join(", "))
        },
    );
    let _ = writeln!(text, "  - devices: {devices}\n    mig-enabled: {is_on}");
    let _ = match (is_on, counted.as_slice()) {
        (_, []) => writeln!(text, "    mig-devices: {{}}"),
        _ => writeln!(text, "    mig-devices:"),
    };
    for (name, count) in counted {
        let _ = writeln!(text, "      \"{name}\": {count}");
    }
}

/// What the file does not say of this GPU, a comment each.
fn notes(gpu: &GpuFacts<'_>, text: &str, gpus: &[GpuFacts<'_>]) -> Vec<String> {
    let division = gpu.division;
    let mut notes = Vec::new();
    let mut note = |message: String| notes.push(format!("# GPU {}: {message}\n", gpu.index));
    if division.mode.is_some_and(|mode| mode.current != mode.pending) {
        note("its MIG mode is another after the next reset".to_owned());
    }
    for instance in division.instances.iter().filter(|instance| instance.computes.is_empty()) {
        let (start, size) = (instance.placement.start, instance.placement.size);
        let name = division.profile_name(instance.profile);
        note(format!("{name:?} at {start}:{size} is left out, for it has no compute instance"));
    }
    if !is_told(gpu, text, gpus) {
        note("not all that is on it can be said in this format: applied, this file changes it".to_owned());
    }
    notes
}

/// Whether this file says what is on this GPU, those that can be used.
fn is_told(gpu: &GpuFacts<'_>, text: &str, gpus: &[GpuFacts<'_>]) -> bool {
    let Ok(file) = file::parse(text) else { return false };
    let Ok(desired) = resolve(&file, NAME, gpus, &Overrides::default()) else { return false };
    let wanted = desired.wanted().remove(gpu.uuid());
    match (wanted, gpu.division.mode.filter(|mode| mode.current)) {
        (Some(Wanted::Off), None) => true,
        (Some(Wanted::On(wanted)), Some(_)) => sorted(wanted) == sorted(there(gpu.division)),
        _ => false,
    }
}

fn there(division: &GpuDivision) -> Vec<WantedInstance> {
    let usable = division.instances.iter().filter(|instance| !instance.computes.is_empty());
    let tell = |instance: &Instance| WantedInstance {
        profile: instance.profile,
        computes: instance.computes.iter().map(|compute| compute.profile).collect(),
    };
    usable.map(tell).collect()
}

fn sorted(mut instances: Vec<WantedInstance>) -> Vec<WantedInstance> {
    instances.iter_mut().for_each(|instance| instance.computes.sort_unstable());
    instances.sort_unstable();
    instances
}

#[cfg(test)]
mod tests;
