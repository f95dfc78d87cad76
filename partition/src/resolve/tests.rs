//! What layouts mean on nodes, and what is said where they mean nothing.

mod fits;
mod fleet;
mod sampled;
mod semantics;

use crate::desired::Wanted;
use crate::file::parse;
use crate::observed::GpuDivision;
use crate::overrides::Overrides;
use crate::tests::nodes::{Gpu, facts, gpu, node};

use super::{Desired, Problems, resolve};

/// Resolves the layout `x` with these entries.
fn asked(gpus: &[Gpu], entries: &str) -> Result<Desired, Problems> {
    with_overrides(gpus, entries, "")
}

fn with_overrides(gpus: &[Gpu], entries: &str, overrides: &str) -> Result<Desired, Problems> {
    let file = parse(&format!("version: v1\nmig-configs:\n  x:\n{entries}")).unwrap();
    resolve(&file, "x", &facts(&node(gpus)), &Overrides::parse(overrides).unwrap())
}

/// Resolves one entry for all GPUs with these devices.
fn on(gpus: &[Gpu], devices: &str) -> Result<Desired, Problems> {
    asked(gpus, &format!("  - {{devices: all, mig-enabled: true, mig-devices: {devices}}}\n"))
}

/// The names of what is wanted on the GPU with this index, sorted: GPU instances, those that are shared with their parts.
fn wanted_on(desired: &Desired, node: &[Gpu], index: u32) -> Vec<String> {
    let wanted = desired.wanted().remove(&gpu(index)).unwrap();
    let Wanted::On(instances) = wanted else { panic!("{wanted:?}") };
    let division: &GpuDivision = &node[index as usize].division;
    let mut names: Vec<String> = instances
        .iter()
        .map(|instance| {
            let profile = division.profile(instance.profile).unwrap();
            let own = |id: &u32| profile.compute_profiles.iter().find(|own| own.id == *id).unwrap();
            let computes: Vec<&str> = instance.computes.iter().map(|id| own(id).name.as_str()).collect();
            if computes == [profile.name.as_str()] {
                profile.name.clone()
            } else {
                format!("{} of {}", profile.name, computes.join(" "))
            }
        })
        .collect();
    names.sort();
    names
}

/// The words for what is in the way.
fn reasons(result: Result<Desired, Problems>) -> Vec<&'static str> {
    result.unwrap_err().0.iter().map(|problem| problem.cause.reason()).collect()
}
