//! Puts everyone who uses or may use a GPU where he stands in the way: on each instance that he might use.
//!
//! | who | where |
//! |---|---|
//! | a process on an instance, by the driver | that instance |
//! | a process on a GPU in MIG mode, and the driver does not say on which instance | the GPU and all of its instances |
//! | whoever has the device file of an instance's capability open | that instance |
//! | whoever has only the GPU's device file open (a monitor) | the GPU: he is in the way of a change of mode alone |
//! | a Pod that was given an instance by the kubelet | that instance |
//! | a Pod that was given the whole GPU | the GPU and all of its instances |
//! | a Pod that was given an instance which is not found | the instances whose UUID is not known; it can be none of the others |
//! | a Pod that was given something whose name says nothing | all GPUs and instances |
//! | anyone, where the kubelet does not answer | all GPUs and instances |

use std::collections::{BTreeMap, BTreeSet};

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::holders::{Allocated, DeviceForm, DeviceName, Holders, Instance as Part};
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use gpulet_partition::observed::{GpuDivision, Holder, PodName};

use super::names::Name;

/// Where on one GPU someone is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// On this compute instance.
    Compute(GpuInstanceId, ComputeInstanceId),
    /// On this GPU instance, in whichever compute instance.
    Instance(GpuInstanceId),
    /// On the GPU and on whichever of its instances.
    Anywhere,
    /// On the GPU, and on none of its instances.
    Gpu,
}

/// Adds `holder` where it is. One that is there already is not added again; one on an instance that is not there any more
/// is nowhere.
pub(super) fn add(division: &mut GpuDivision, place: Place, holder: &Holder) {
    let push = |holders: &mut Vec<Holder>| {
        if !holders.iter().any(|there| tells(there, holder)) {
            holders.push(holder.clone());
        }
    };
    match place {
        Place::Gpu => push(&mut division.holders),
        Place::Anywhere => {
            division.instances.iter_mut().for_each(|instance| push(&mut instance.holders));
            push(&mut division.holders);
        }
        Place::Instance(id) => {
            let found = division.instances.iter_mut().filter(|instance| instance.id == id);
            found.for_each(|instance| push(&mut instance.holders));
        }
        Place::Compute(id, compute) => {
            let Some(instance) = division.instances.iter_mut().find(|instance| instance.id == id) else {
                return;
            };
            match instance.computes.iter_mut().find(|there| there.id == compute) {
                Some(there) => push(&mut there.holders),
                None => push(&mut instance.holders),
            }
        }
    }
}

/// Whether what is told already tells this one too: a Pod is told by its process.
fn tells(there: &Holder, holder: &Holder) -> bool {
    match (there, holder) {
        (Holder::Process { pid: there, .. }, Holder::Process { pid, .. }) => there == pid,
        (there, Holder::Pod(pod)) => there.pod() == Some(pod),
        _ => there == holder,
    }
}

/// A process on a GPU in MIG mode of which the driver does not say on which instance it is may be on any.
pub(super) fn spread(division: &mut GpuDivision) {
    if division.mode.is_some_and(|mode| mode.current) {
        for holder in division.holders.clone() {
            add(division, Place::Anywhere, &holder);
        }
    }
}

/// Gives processes the names of their programs and Pods. Comes before Pods are added, which are not told twice.
pub(super) fn name(division: &mut GpuDivision, names: &BTreeMap<u32, Name>) {
    let instances = division.instances.iter_mut().flat_map(|instance| {
        let own = std::iter::once(&mut instance.holders);
        own.chain(instance.computes.iter_mut().map(|compute| &mut compute.holders))
    });
    let lists = instances.chain(std::iter::once(&mut division.holders));
    for holder in lists.flatten() {
        let Holder::Process { pid, program, pod } = holder else { continue };
        if let Some(name) = names.get(pid) {
            *program = program.take().or_else(|| name.program.clone());
            *pod = pod.take().or_else(|| name.pod.clone());
        }
    }
}

/// Ids of all processes that hold something.
pub(super) fn pids(division: &GpuDivision) -> BTreeSet<u32> {
    let parts = division.instances.iter().flat_map(|instance| instance.all_holders());
    let all = parts.chain(&division.holders);
    all.filter_map(|holder| match holder {
        Holder::Process { pid, .. } => Some(*pid),
        _ => None,
    })
    .collect()
}

/// Adds the Pods that were given this GPU or a part of it. `unnamed` are compute instances of which the UUID is not known.
pub(super) fn add_given(division: &mut GpuDivision, joined: &Holders, unnamed: &[Part]) {
    let given = joined.devices.iter().filter(|device| device.id.gpu == division.gpu);
    let given: Vec<(Place, PodName)> = given
        .flat_map(|device| {
            device.allocated.iter().map(|allocated| (place(device.id.instance), pod(allocated)))
        })
        .collect();
    for (place, pod) in given {
        add(division, place, &Holder::Pod(pod));
    }
    for unknown in &joined.unknown {
        for place in places_of_unknown(&unknown.allocated.name, &division.gpu, unnamed) {
            add(division, place, &Holder::Pod(pod(&unknown.allocated)));
        }
    }
}

fn place(part: Option<Part>) -> Place {
    match part {
        None => Place::Anywhere,
        Some(Part { gpu, compute: None }) => Place::Instance(gpu),
        Some(Part { gpu, compute: Some(compute) }) => Place::Compute(gpu, compute),
    }
}

fn pod(allocated: &Allocated) -> PodName {
    PodName { namespace: allocated.namespace.clone(), name: allocated.pod.clone() }
}

/// Where a device may be whose name names nothing that is known to be there.
fn places_of_unknown(name: &str, gpu: &GpuUuid, unnamed: &[Part]) -> Vec<Place> {
    match name.parse::<DeviceName>() {
        Err(_) => vec![Place::Anywhere],
        // Instances are destroyed, and the name of one that was lives on in its Pod; an instance of which the UUID could not
        // be read may still be the one.
        Ok(DeviceName { form: DeviceForm::Mig(_), .. }) => {
            unnamed.iter().map(|part| place(Some(*part))).collect()
        }
        Ok(DeviceName { form: DeviceForm::MigPlace { gpu: other, instance, .. }, .. }) if other == *gpu => {
            vec![Place::Instance(instance)]
        }
        Ok(_) => Vec::new(),
    }
}
