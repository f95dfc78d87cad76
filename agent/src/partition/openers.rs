//! Whoever has a GPU or an instance open, by the open files of all processes.

use gpulet_host::partition::preflight::{Opened, Opener, Preflight};
use gpulet_inventory::gpu::Gpu;
use gpulet_partition::observed::Holder;

use super::holders::{self, Place};
use super::look::Subject;

/// The daemon that keeps GPUs initialised. While persistence mode is on it has them open, and lets go when that is turned off.
const PERSISTENCE_DAEMON: &str = "nvidia-persistenced";

/// Adds whoever has the GPU open. A module of the kernel is in the way of a reset, which no one needs whose mode changes without.
pub(super) fn add(subject: &mut Subject<'_>, gpu: &Gpu, preflight: &Preflight) {
    let Some(minor) = gpu.minor.value().copied() else { return };
    for opener in preflight.openers_of(minor, gpu.pci).filter(|opener| !opener.is_self) {
        if opener.program.as_deref() == Some(PERSISTENCE_DAEMON) && subject.persistence == Some(true) {
            continue;
        }
        // Its name comes later, with those of all others.
        let holder = Holder::Process { pid: opener.pid, program: None, pod: None };
        for place in places(opener, minor) {
            holders::add(subject.division, place, &holder);
        }
    }
    if !subject.resetless {
        for module in preflight.modules.iter().filter(|module| module.is_certain()) {
            let holder = Holder::Module { name: module.name.clone(), why: module.why() };
            holders::add(subject.division, Place::Gpu, &holder);
        }
    }
}

/// Where one is who has these files open. The rights to instances tell which; without any of them it is the GPU alone.
fn places(opener: &Opener, minor: u32) -> Vec<Place> {
    let of_instance = |opened: &Opened| match opened {
        Opened::Compute { gpu, instance, compute } if *gpu == minor => {
            Some(Place::Compute(*instance, *compute))
        }
        _ => None,
    };
    let computes: Vec<Place> = opener.opened.iter().filter_map(of_instance).collect();
    let whole = |opened: &Opened| match opened {
        // The right to one of its compute instances tells more.
        Opened::Instance { gpu, instance } if *gpu == minor => {
            let told =
                computes.iter().any(|place| matches!(place, Place::Compute(within, _) if within == instance));
            (!told).then_some(Place::Instance(*instance))
        }
        _ => None,
    };
    let instances: Vec<Place> = opener.opened.iter().filter_map(whole).collect();
    let places: Vec<Place> = computes.into_iter().chain(instances).collect();
    if places.is_empty() { vec![Place::Gpu] } else { places }
}
