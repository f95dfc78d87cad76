//! A division with its places: what can be put back, and what is next on the way to it.

use gpulet_inventory::mig::{MigMode, Placement};
use serde::{Deserialize, Serialize};

use crate::observed::{Compute, GpuDivision, Instance};
use crate::step::{ComputeAt, InstanceAt, Step};

/// MIG mode and every instance of one GPU, each in its place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Layout {
    /// Whether MIG mode is on.
    pub mode: bool,
    /// GPU instances.
    pub instances: Vec<LaidInstance>,
}

/// A GPU instance in its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LaidInstance {
    /// What and where.
    pub at: InstanceAt,
    /// Its compute instances.
    pub computes: Vec<LaidCompute>,
}

/// A compute instance in its place within a GPU instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LaidCompute {
    /// Id of its profile.
    pub profile: u32,
    /// Where; absent: wherever the driver puts it.
    pub placement: Option<Placement>,
}

/// What is needed next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// This step.
    Step(Step),
    /// A reset, for the driver has put the change of mode off until then.
    Reset,
    /// Persistence mode off, for it keeps the GPU open and a reset from being made; or on again, as it was before.
    Persistence(bool),
}

impl Layout {
    /// What there is now. A change of mode that is put off is no part of it.
    pub fn of(division: &GpuDivision) -> Self {
        let instances = division.instances.iter().map(|instance| LaidInstance {
            at: instance.at(),
            computes: instance.computes.iter().map(LaidCompute::of).collect(),
        });
        Self { mode: division.mode.is_some_and(|mode| mode.current), instances: instances.collect() }
    }

    /// What there will be after these steps.
    pub fn after(mut self, steps: &[Step]) -> Self {
        for step in steps {
            match step {
                Step::SetMode(on) => self.mode = *on,
                Step::DestroyInstance(at) => self.instances.retain(|instance| instance.at != *at),
                Step::CreateInstance(at) => {
                    self.instances.push(LaidInstance { at: *at, computes: Vec::new() });
                }
                Step::DestroyCompute { within, compute } => {
                    let gone = LaidCompute { profile: compute.profile, placement: Some(compute.placement) };
                    self.within(within, |computes| computes.retain(|compute| *compute != gone));
                }
                Step::CreateCompute { within, profile, placement } => {
                    let new = LaidCompute { profile: *profile, placement: *placement };
                    self.within(within, |computes| computes.push(new));
                }
            }
        }
        self
    }

    fn within(&mut self, at: &InstanceAt, change: impl Fn(&mut Vec<LaidCompute>)) {
        let instances = self.instances.iter_mut().filter(|instance| instance.at == *at);
        instances.for_each(|instance| change(&mut instance.computes));
    }

    fn instance(&self, at: InstanceAt) -> Option<&LaidInstance> {
        self.instances.iter().find(|instance| instance.at == at)
    }

    /// What has to be done next so that there is this layout in the end; absent: there is.
    ///
    /// It depends on nothing but what there is now. So it does not matter how it came about, or what a crash has cut off.
    pub fn next(&self, division: &GpuDivision) -> Option<Need> {
        // A GPU that has no such mode is one that is not in it.
        let mode = division.mode.unwrap_or(MigMode { current: false, pending: false });
        if mode.current == self.mode && mode.pending != self.mode {
            return Some(Need::Step(Step::SetMode(self.mode)));
        }
        if let Some(step) = self.destroyed(division).first() {
            return Some(Need::Step(*step));
        }
        if mode.current != self.mode {
            let put_off = mode.pending == self.mode;
            return Some(if put_off { Need::Reset } else { Need::Step(Step::SetMode(self.mode)) });
        }
        self.next_created(division).map(Need::Step)
    }

    /// Everything that has to be destroyed on the way, in this order.
    pub(crate) fn destroyed(&self, division: &GpuDivision) -> Vec<Step> {
        // Nothing survives a change of mode.
        let stays = division.mode.is_some_and(|mode| mode.current) == self.mode;
        division.instances.iter().flat_map(|there| self.destroyed_in(there, stays)).collect()
    }

    fn destroyed_in(&self, there: &Instance, stays: bool) -> Vec<Step> {
        let laid = self.instance(there.at()).filter(|_| stays);
        let wanted = laid.map(|laid| laid.computes.as_slice()).unwrap_or_default();
        let (extra, _) = differ(&there.computes, wanted);
        let compute = |compute: &Compute| Step::DestroyCompute { within: there.at(), compute: compute.at() };
        let whole = laid.is_none().then(|| Step::DestroyInstance(there.at()));
        extra.into_iter().map(compute).chain(whole).collect()
    }

    fn next_created(&self, division: &GpuDivision) -> Option<Step> {
        self.instances.iter().filter_map(|laid| next_created_in(laid, division)).next()
    }

    /// Whether anything is there that neither of the two layouts has: someone else has put it there.
    pub(crate) fn is_foreign(division: &GpuDivision, one: &Self, other: &Self) -> bool {
        division.instances.iter().any(|there| {
            let known: Vec<&LaidInstance> =
                [one, other].into_iter().filter_map(|layout| layout.instance(there.at())).collect();
            let is_known = |compute: &Compute| {
                let mut all = known.iter().flat_map(|laid| &laid.computes);
                all.any(|laid| laid.is(compute))
            };
            known.is_empty() || !there.computes.iter().all(is_known)
        })
    }

    /// GPU instances of it that are not there, or not with all of their compute instances.
    pub(crate) fn missing(&self, division: &GpuDivision) -> Vec<InstanceAt> {
        let missing = self.instances.iter().filter(|laid| next_created_in(laid, division).is_some());
        missing.map(|laid| laid.at).collect()
    }

    /// Whether two layouts are the same, in whatever order.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.sorted() == other.sorted()
    }

    fn sorted(&self) -> Self {
        let mut sorted = self.clone();
        sorted.instances.sort();
        sorted.instances.iter_mut().for_each(|instance| instance.computes.sort());
        sorted
    }
}

fn next_created_in(laid: &LaidInstance, division: &GpuDivision) -> Option<Step> {
    let Some(there) = division.instances.iter().find(|there| there.at() == laid.at) else {
        return Some(Step::CreateInstance(laid.at));
    };
    let (_, missing) = differ(&there.computes, &laid.computes);
    let LaidCompute { profile, placement } = *missing.first()?;
    Some(Step::CreateCompute { within: laid.at, profile, placement })
}

/// Compute instances that are there and not wanted, and those that are wanted and not there.
fn differ<'a>(there: &'a [Compute], wanted: &[LaidCompute]) -> (Vec<&'a Compute>, Vec<LaidCompute>) {
    let mut extra: Vec<&Compute> = there.iter().collect();
    let mut missing: Vec<LaidCompute> = wanted.to_vec();
    // Those whose place is given choose first; the rest take what is left.
    for given in [true, false] {
        missing.retain(|laid| {
            let is_found = |compute: &&Compute| laid.placement.is_some() == given && laid.is(compute);
            let found = extra.iter().position(is_found);
            found.map(|at| extra.remove(at)).is_none()
        });
    }
    (extra, missing)
}

impl LaidCompute {
    fn of(compute: &Compute) -> Self {
        Self { profile: compute.profile, placement: Some(compute.placement) }
    }

    fn is(&self, compute: &Compute) -> bool {
        let in_place = self.placement.is_none_or(|placement| placement == compute.placement);
        self.profile == compute.profile && in_place
    }
}

impl Instance {
    /// What and where it is.
    pub fn at(&self) -> InstanceAt {
        InstanceAt { profile: self.profile, placement: self.placement }
    }
}

impl Compute {
    /// What and where it is.
    pub fn at(&self) -> ComputeAt {
        ComputeAt { profile: self.profile, placement: self.placement }
    }
}
