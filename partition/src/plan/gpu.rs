//! The plan for one GPU: its mode first, then its instances.

use gpulet_inventory::mig::MigMode;

use crate::desired::{Wanted, WantedInstance};
use crate::grid::{Grid, Place, Taken};
use crate::observed::GpuDivision;
use crate::refusal::{InTheWay, Refusal};
use crate::step::{InstanceAt, Step};

use super::Plan;
use super::arrange::Task;
use super::order;

/// The plan for one GPU.
///
/// A change of mode takes all instances with it, so it needs a GPU that no one uses. Where the mode is right and would not be
/// after the next reset, it is set once more; the instances stay.
///
/// # Errors
/// When what is wanted cannot be had on this GPU, or not while something is in use.
pub fn plan_gpu(division: &GpuDivision, wanted: &Wanted) -> Result<Plan, Refusal> {
    let gpu = || division.gpu.clone();
    match (division.mode, wanted) {
        (None, Wanted::Off) => Ok(Plan::default()),
        (None, Wanted::On(_)) => Err(Refusal::NotMigCapable { gpu: gpu() }),
        (Some(mode), Wanted::Off) => without_mig(division, mode),
        // With nothing on it, it can be had without them; and then the driver tells them.
        (Some(_), Wanted::On(instances)) if division.profiles.is_empty() && !instances.is_empty() => {
            Err(Refusal::NoProfiles { gpu: gpu() })
        }
        (Some(mode), Wanted::On(instances)) => with_mig(division, mode, instances),
    }
}

fn without_mig(division: &GpuDivision, mode: MigMode) -> Result<Plan, Refusal> {
    if mode == (MigMode { current: false, pending: false }) {
        return Ok(Plan::default());
    }
    if mode.current {
        no_one_uses(division)?;
    }
    let steps = order::clear(division).chain([Step::SetMode(false)]).collect();
    Ok(Plan { kept: Vec::new(), steps, largest_placeable: None })
}

fn with_mig(division: &GpuDivision, mode: MigMode, wanted: &[WantedInstance]) -> Result<Plan, Refusal> {
    if mode.current {
        let task = Task::new(division, wanted)?;
        let mut plan = order::steps(&task, &task.arrange()?);
        if !mode.pending {
            plan.steps.insert(0, Step::SetMode(true));
        }
        return Ok(plan);
    }
    // Nothing survives the change of mode.
    let empty = GpuDivision { instances: Vec::new(), ..division.clone() };
    let task = Task::new(&empty, wanted)?;
    let mut plan = order::steps(&task, &task.arrange()?);
    no_one_uses(division)?;
    let first = order::clear(division).chain([Step::SetMode(true)]);
    plan.steps = first.chain(plan.steps).collect();
    Ok(plan)
}

fn no_one_uses(division: &GpuDivision) -> Result<(), Refusal> {
    let busy = division.instances.iter().enumerate().filter(|(_, instance)| instance.is_busy());
    let instances = in_the_way(division, busy.map(|(at, _)| at));
    if instances.is_empty() && division.holders.is_empty() {
        return Ok(());
    }
    Err(Refusal::Blocked { gpu: division.gpu.clone(), instances, holders: division.holders.clone() })
}

/// The instances at these positions.
pub(super) fn in_the_way(division: &GpuDivision, positions: impl Iterator<Item = usize>) -> Vec<InTheWay> {
    let instances = positions.filter_map(|at| division.instances.get(at));
    let tell = |instance: &crate::observed::Instance| InTheWay {
        id: instance.id,
        at: InstanceAt { profile: instance.profile, placement: instance.placement },
        name: division.profile_name(instance.profile),
        holders: instance.all_holders().cloned().collect(),
    };
    instances.map(tell).collect()
}

/// Id of the largest profile of which another instance fits beside what is there now; absent outside MIG mode.
pub(super) fn largest_placeable_now(division: &GpuDivision) -> Option<u32> {
    division.mode.filter(|mode| mode.current)?;
    let grid = Grid::of_gpu(division);
    let mut taken = Taken::none(&grid);
    for instance in &division.instances {
        let Some(place) = Place::new(instance.placement) else { continue };
        let shape = grid.position(instance.profile);
        if !shape.is_some_and(|shape| taken.take(&grid, shape, place)) {
            taken.cover(place.mask);
        }
    }
    let (shape, _) = taken.largest_placeable(&grid)?;
    grid.shapes.get(shape).map(|shape| shape.id)
}
