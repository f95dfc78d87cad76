//! What a layout of the partition file means on this node: each GPU, and the profiles that it has.
//!
//! Everything that can be told before a GPU is touched is told here, all of it at once: what is not on this node, what this
//! hardware does not have, what does not fit, what is said twice. What comes out can be planned; whether somebody is in
//! the way is the planner's to tell.
//!
//! - A GPU that no entry names is left as it is.
//! - An entry for `all` GPUs passes over those without MIG mode; one that names such a GPU is wrong.
//! - Two entries must not tell of one GPU. What the Node's annotation says of a GPU goes before what the layout says.

mod divide;
mod pick;
mod problem;
mod warning;

use std::collections::BTreeMap;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::pci::PciAddress;
use serde::Serialize;

use crate::desired::Wanted;
use crate::file::{DeviceId, Entry, PartitionFile, Place};
use crate::hash;
use crate::layouts;
use crate::observed::GpuDivision;
use crate::overrides::Overrides;

pub(crate) use divide::idle;
pub use problem::{Cause, GpuName, Problem, Problems};
pub use warning::Warning;

/// What is known of a GPU of this node.
#[derive(Debug, Clone, Copy)]
pub struct GpuFacts<'a> {
    /// The driver's number.
    pub index: u32,
    /// Where it sits.
    pub pci: PciAddress,
    /// The model: PCI device and vendor; absent where it cannot be told.
    pub device: Option<DeviceId>,
    /// The board: PCI subsystem device and vendor; absent where it cannot be told.
    pub subsystem: Option<DeviceId>,
    /// The driver's version, such as `535.104.05`.
    pub driver: &'a str,
    /// What it can be divided into and is, and its UUID.
    pub division: &'a GpuDivision,
}

impl GpuFacts<'_> {
    /// Its identity.
    pub fn uuid(&self) -> &GpuUuid {
        &self.division.gpu
    }

    /// What people call it.
    pub fn name(&self) -> GpuName {
        GpuName { index: self.index, uuid: self.uuid().clone() }
    }
}

/// What is wanted of the GPUs of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Desired {
    /// The name of the layout.
    pub name: String,
    /// Of what is wanted: it is another whenever anything else is wanted of any GPU, and the same else.
    pub hash: String,
    /// What is wanted of each GPU, in the order in which they were given; absent: it is left as it is.
    pub gpus: Vec<(GpuUuid, Option<Wanted>)>,
    /// What people should know though it can be done.
    pub warnings: Vec<Warning>,
}

impl Desired {
    /// What is wanted of those GPUs of which anything is.
    pub fn wanted(&self) -> BTreeMap<GpuUuid, Wanted> {
        self.gpus.iter().filter_map(|(gpu, wanted)| Some((gpu.clone(), wanted.clone()?))).collect()
    }
}

/// What the layout of this name means for these GPUs, which are all that the node has.
///
/// # Errors
/// Everything that is in its way on this node.
pub fn resolve(
    file: &PartitionFile,
    name: &str,
    gpus: &[GpuFacts<'_>],
    overrides: &Overrides,
) -> Result<Desired, Problems> {
    resolve_answering(file, name, gpus, false, overrides)
}

/// As [`resolve`], where these GPUs are those that answer. If there are `others`, a GPU that is named and not among these may be
/// one of them, and keeps nobody from being divided.
///
/// # Errors
/// Everything that is in its way on this node.
pub fn resolve_answering(
    file: &PartitionFile,
    name: &str,
    gpus: &[GpuFacts<'_>],
    others: bool,
    overrides: &Overrides,
) -> Result<Desired, Problems> {
    let mut found = Findings { others, ..Findings::default() };
    if gpus.is_empty() {
        found.wrong(&Place::default(), None, Cause::NoGpus);
    }
    let entries = match layouts::named(file, name) {
        Some((entries, taken)) => {
            if taken != name {
                found.warn(Warning::NearLayout { asked: name.to_owned(), taken: taken.to_owned() });
            }
            entries
        }
        None => {
            let known = file.layouts.keys().cloned().collect();
            found.wrong(&Place::default(), None, Cause::UnknownLayout { name: name.to_owned(), known });
            &[]
        }
    };
    let chosen = pick::pick(entries, gpus, overrides, &mut found);
    let one = |(gpu, entry): (&GpuFacts<'_>, &Option<&Entry>)| {
        let wanted = entry.and_then(|entry| divide::divide(gpu, entry, &mut found));
        (gpu.uuid().clone(), wanted)
    };
    let divided: Vec<_> = gpus.iter().zip(&chosen).map(one).collect();
    found.into_desired(name, divided)
}

/// What was found out on the way.
#[derive(Debug, Default)]
struct Findings {
    /// Whether there are GPUs that do not answer.
    others: bool,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Findings {
    /// Notes what is wrong. What is wrong with several GPUs alike is told once.
    fn wrong(&mut self, place: &Place, gpu: Option<&GpuFacts<'_>>, cause: Cause) {
        let gpu = gpu.map(GpuFacts::name);
        match self.problems.iter_mut().find(|known| known.place == *place && known.cause == cause) {
            Some(known) => known.gpus.extend(gpu),
            None => {
                self.problems.push(Problem { place: place.clone(), gpus: gpu.into_iter().collect(), cause });
            }
        }
    }

    /// Notes what people should know. What is so of several GPUs is told once.
    fn warn(&mut self, warning: Warning) {
        if !self.warnings.iter_mut().any(|known| known.takes(&warning)) {
            self.warnings.push(warning);
        }
    }

    fn into_desired(mut self, name: &str, gpus: Vec<(GpuUuid, Option<Wanted>)>) -> Result<Desired, Problems> {
        if self.problems.is_empty() {
            let hash = hash::content(&gpus);
            return Ok(Desired { name: name.to_owned(), hash, gpus, warnings: self.warnings });
        }
        self.problems.sort_by(|one, other| one.place.cmp(&other.place));
        Err(Problems(self.problems))
    }
}

#[cfg(test)]
mod tests;
