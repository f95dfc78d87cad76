//! From a device's name to the device that is there now.
//!
//! What could not be found is remembered, so that a name that means nothing costs one look in the GPUs and one line in the
//! log, not one of each at every tick. It is forgotten when GPUs or instances become others.

use std::collections::HashSet;

use super::device::{DeviceForm, DeviceName};
use super::{DeviceId, Instance};
use crate::gpu::GpuUuid;
use crate::mig::{ComputeInstanceId, GpuInstance, GpuInstanceId};
use crate::reading::Reading;
use crate::snapshot::{GpuState, NodeGpus};

/// The most names without a device that are remembered. Any further is looked up each time, and not told.
pub const MAX_UNKNOWN: usize = 1024;

/// What a name turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// A device, and which share of it.
    Known(DeviceId, Option<u32>),
    /// None that is there now.
    Unknown {
        /// It is the first time that this is said.
        is_news: bool,
    },
}

/// Knows the GPUs and instances that are there, and the names for which there are none.
#[derive(Debug, Clone, Default)]
pub struct Resolver {
    gpus: Vec<Entry>,
    unknown: HashSet<Box<str>>,
}

/// One GPU, as far as names need it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    gpu: GpuUuid,
    index: u32,
    minor: Option<u32>,
    parts: Vec<Part>,
}

/// One compute instance, or a GPU instance without any.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    instance: Instance,
    profile_id: u32,
    start: u32,
    uuid: Option<Box<str>>,
}

impl Resolver {
    /// Takes over what GPUs and instances there are now.
    pub fn observe(&mut self, gpus: &NodeGpus) {
        let is_same = self.gpus.len() == gpus.gpus.len()
            && self.gpus.iter().zip(&gpus.gpus).all(|(known, state)| known.is_of(state));
        if !is_same {
            self.gpus = gpus.gpus.iter().map(|state| self.entry(state)).collect();
            self.unknown.clear();
        }
    }

    /// What `name` is.
    pub fn resolve(&mut self, name: &str) -> Resolved {
        if self.unknown.contains(name) {
            return Resolved::Unknown { is_news: false };
        }
        if let Some((device, replica)) = self.find(name) {
            return Resolved::Known(device, replica);
        }
        let is_news = self.unknown.len() < MAX_UNKNOWN;
        if is_news {
            self.unknown.insert(name.into());
        }
        Resolved::Unknown { is_news }
    }

    fn find(&self, name: &str) -> Option<(DeviceId, Option<u32>)> {
        let DeviceName { form, replica } = name.parse().ok()?;
        Some((self.device(&form)?, replica))
    }

    fn device(&self, form: &DeviceForm) -> Option<DeviceId> {
        let by_minor = |minor: u32| self.gpus.iter().find(|gpu| gpu.minor == Some(minor));
        let by_index = |index: u32| self.gpus.iter().find(|gpu| gpu.index == index);
        let by_uuid = |uuid: &GpuUuid| self.gpus.iter().find(|gpu| gpu.gpu == *uuid);
        match form {
            DeviceForm::Gpu(uuid) => by_uuid(uuid).map(Entry::whole),
            DeviceForm::Index(index) => by_index(*index).map(Entry::whole),
            DeviceForm::Minor(minor) => by_minor(*minor).map(Entry::whole),
            DeviceForm::Mig(uuid) => self.gpus.iter().find_map(|gpu| {
                let part = gpu.parts.iter().find(|part| part.uuid.as_ref() == Some(uuid))?;
                Some(gpu.part(part.instance))
            }),
            DeviceForm::MigPlace { gpu, instance, compute } => {
                let wanted = Instance { gpu: *instance, compute: Some(*compute) };
                let gpu = by_uuid(gpu)?;
                gpu.parts.iter().find(|part| part.instance == wanted).map(|part| gpu.part(part.instance))
            }
            DeviceForm::MigIndex { gpu, mig } => {
                let gpu = by_index(*gpu)?;
                let mut devices = gpu.parts.iter().filter(|part| part.instance.compute.is_some());
                let part = devices.nth(usize::try_from(*mig).ok()?)?;
                Some(gpu.part(part.instance))
            }
            DeviceForm::MinorInstance { minor, instance } => {
                by_minor(*minor)?.only_part(|part| part.instance.gpu == *instance)
            }
            DeviceForm::Placed { minor, profile_id, start } => {
                by_minor(*minor)?.only_part(|part| part.profile_id == *profile_id && part.start == *start)
            }
        }
    }

    /// What is known of a GPU. While it does not tell its instances (it hangs, or was let go of), those that it had count.
    fn entry(&self, state: &GpuState) -> Entry {
        let gpu = &state.gpu;
        let before = self.gpus.iter().find(|known| known.gpu == gpu.uuid);
        let parts = match instances(state) {
            Some(instances) => parts(instances),
            None => before.map(|known| known.parts.clone()).unwrap_or_default(),
        };
        Entry { gpu: gpu.uuid.clone(), index: gpu.index, minor: gpu.minor.value().copied(), parts }
    }
}

impl Entry {
    fn is_of(&self, state: &GpuState) -> bool {
        let gpu = &state.gpu;
        (&self.gpu, self.index, self.minor.as_ref()) == (&gpu.uuid, gpu.index, gpu.minor.value())
            && instances(state).is_none_or(|instances| self.parts == parts(instances))
    }

    fn whole(&self) -> DeviceId {
        DeviceId { gpu: self.gpu.clone(), instance: None }
    }

    fn part(&self, instance: Instance) -> DeviceId {
        DeviceId { gpu: self.gpu.clone(), instance: Some(instance) }
    }

    /// The compute instance of a GPU instance; the GPU instance itself where there are several.
    fn only_part(&self, is_in: impl Fn(&Part) -> bool) -> Option<DeviceId> {
        let mut found = self.parts.iter().filter(|part| is_in(part)).map(|part| part.instance);
        let first = found.next()?;
        let compute = first.compute.filter(|_| found.next().is_none());
        Some(self.part(Instance { gpu: first.gpu, compute }))
    }
}

/// The instances that a GPU has; none for one that has no MIG; absent where it did not tell.
fn instances(state: &GpuState) -> Option<&[GpuInstance]> {
    match &state.sample.as_ref()?.mig {
        Reading::Unsupported(_) => Some(&[]),
        Reading::Failed(_) => None,
        Reading::Supported(mig) if !mig.mode.current => Some(&[]),
        Reading::Supported(mig) => mig.instances.value().map(Vec::as_slice),
    }
}

/// In the order in which the driver numbers MIG devices.
fn parts(instances: &[GpuInstance]) -> Vec<Part> {
    let part = |instance: &GpuInstance, compute: Option<ComputeInstanceId>, uuid: Option<&String>| Part {
        instance: Instance { gpu: instance.id, compute },
        profile_id: instance.profile_id,
        start: instance.placement.start,
        uuid: uuid.map(|uuid| uuid.as_str().into()),
    };
    let mut parts: Vec<Part> = Vec::new();
    for instance in instances {
        if instance.compute_instances.is_empty() {
            parts.push(part(instance, None, None));
        }
        let devices = instance.compute_instances.iter();
        parts.extend(devices.map(|device| part(instance, Some(device.id), device.uuid.as_ref())));
    }
    let place = |part: &Part| -> (GpuInstanceId, Option<ComputeInstanceId>) {
        (part.instance.gpu, part.instance.compute)
    };
    parts.sort_by_key(place);
    parts
}
