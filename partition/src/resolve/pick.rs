//! Which entry is for which GPU.

use crate::file::{AskedDivision, DeviceFilter, Devices, Entry, Place, Target};
use crate::overrides::Overrides;

use super::problem::Cause;
use super::warning::Warning;
use super::{Findings, GpuFacts};

/// By position of GPU: the entry that is for it.
pub(super) fn pick<'e>(
    entries: &'e [Entry],
    gpus: &[GpuFacts<'_>],
    overrides: &'e Overrides,
    found: &mut Findings,
) -> Vec<Option<&'e Entry>> {
    let own = chosen(&overrides.entries, gpus, found);
    let of_layout = chosen(entries, gpus, found);
    let is_for_any = gpus.iter().any(|gpu| entries.iter().any(|entry| is_for(entry, gpu)));
    let is_meaningless = !entries.is_empty() && !is_for_any && own.iter().all(Option::is_none);
    if is_meaningless && found.problems.is_empty() && !found.others {
        found.wrong(&Place::default(), None, Cause::NotForThisNode { here: models(gpus) });
    }
    own.into_iter().zip(of_layout).map(|(own, of_layout)| own.or(of_layout)).collect()
}

fn chosen<'e>(entries: &'e [Entry], gpus: &[GpuFacts<'_>], found: &mut Findings) -> Vec<Option<&'e Entry>> {
    let mut chosen: Vec<Option<&Entry>> = vec![None; gpus.len()];
    for entry in entries {
        note_unknown(entry, gpus, found);
        for (gpu, chosen) in gpus.iter().zip(&mut chosen).filter(|(gpu, _)| is_for(entry, gpu)) {
            if passes_over(entry, gpu) {
                found.warn(Warning::PassedOver { gpus: vec![gpu.name()] });
                continue;
            }
            match chosen {
                Some(other) => {
                    let other = other.place.clone();
                    found.wrong(&entry.place, Some(gpu), Cause::Overlap { other });
                }
                None => *chosen = Some(entry),
            }
        }
    }
    chosen
}

/// GPUs that are named and not there. What an entry for other models names is for other nodes.
fn note_unknown(entry: &Entry, gpus: &[GpuFacts<'_>], found: &mut Findings) {
    let Devices::These(targets) = &entry.devices else { return };
    if !gpus.iter().any(|gpu| is_of(&entry.filter, gpu)) {
        return;
    }
    for target in targets.iter().filter(|target| !gpus.iter().any(|gpu| is(target, gpu))) {
        if found.others {
            found.warn(Warning::NoAnswer { target: target.clone() });
            continue;
        }
        let known = gpus.iter().map(|gpu| match target {
            Target::Index(_) => gpu.index.to_string(),
            Target::Uuid(_) => gpu.uuid().to_string(),
            Target::Pci(_) => gpu.pci.to_string(),
        });
        let known = known.collect::<Vec<_>>().join(", ");
        found.wrong(&entry.place, None, Cause::UnknownGpu { target: target.clone(), known });
    }
}

fn passes_over(entry: &Entry, gpu: &GpuFacts<'_>) -> bool {
    let is_on = matches!(entry.division, AskedDivision::On(_));
    is_on && gpu.division.mode.is_none() && entry.devices == Devices::All
}

fn is_for(entry: &Entry, gpu: &GpuFacts<'_>) -> bool {
    let is_named = match &entry.devices {
        Devices::All => true,
        Devices::These(targets) => targets.iter().any(|target| is(target, gpu)),
    };
    is_named && is_of(&entry.filter, gpu)
}

fn is(target: &Target, gpu: &GpuFacts<'_>) -> bool {
    match target {
        Target::Index(index) => *index == gpu.index,
        Target::Uuid(uuid) => uuid.as_str().eq_ignore_ascii_case(gpu.uuid().as_str()),
        Target::Pci(pci) => *pci == gpu.pci,
    }
}

fn is_of(filter: &[DeviceFilter], gpu: &GpuFacts<'_>) -> bool {
    let is_model = |model: &DeviceFilter| {
        let is_board = model.subsystem.is_none_or(|board| gpu.subsystem == Some(board));
        gpu.device == Some(model.device) && is_board
    };
    filter.is_empty() || filter.iter().any(is_model)
}

/// The models of these GPUs, as a filter names them.
fn models(gpus: &[GpuFacts<'_>]) -> String {
    let tell = |gpu: &GpuFacts<'_>| match gpu.device {
        Some(device) => DeviceFilter { device, subsystem: gpu.subsystem }.to_string(),
        None => "of a model that cannot be told".to_owned(),
    };
    let mut models: Vec<String> = gpus.iter().map(tell).collect();
    models.sort();
    models.dedup();
    models.join(", ")
}
