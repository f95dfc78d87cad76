//! What fits on a GPU, or into a GPU instance: shapes on a row of units.
//!
//! A GPU's memory is a row of units (8, 4, 12, …), and the driver names for each profile the places that it may have. The
//! same holds for the compute slices of a GPU instance. Nothing here knows a model: units, places and counts are the
//! driver's own.
//!
//! Some profiles exclude each other without sharing a unit: only one instance can have the media extensions (`+me`), and
//! beside one with all of them (`+me.all`) there are only such with none. The engines that each profile has tell it: no
//! more can be given away than the GPU has.

use gpulet_inventory::mig::Placement;

use crate::observed::{ComputeProfile, Engines, GpuDivision, Instance, Profile};

/// Units that are taken, a bit each. Places past the 64th unit are not used; GPUs have up to 12.
pub(crate) type Mask = u64;

/// What one profile takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The driver's id of the profile.
    pub(crate) id: u32,
    /// Where it may lie, ascending.
    pub(crate) places: Vec<Place>,
    /// How many of it there may be at most.
    pub(crate) most: u32,
    engines: [u64; 4],
    /// How large it is beside others: multiprocessors (or slices), then memory.
    weight: (u32, u64),
}

/// One place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) placement: Placement,
    pub(crate) mask: Mask,
}

/// All shapes of one GPU (or GPU instance).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grid {
    /// In the driver's order.
    pub(crate) shapes: Vec<Shape>,
    /// Engines of the whole.
    engines: [u64; 4],
}

impl Grid {
    /// What a GPU can be divided into.
    pub(crate) fn of_gpu(division: &GpuDivision) -> Self {
        let shapes = division.profiles.iter().map(Shape::of_profile).collect();
        let there: Vec<(u32, Placement)> =
            division.instances.iter().map(|instance| (instance.profile, instance.placement)).collect();
        Self::new(shapes, &there)
    }

    /// What a GPU instance of this profile, which may be there, can be divided into.
    pub(crate) fn of_instance(profile: &Profile, there: Option<&Instance>) -> Self {
        let slices = profile.slices;
        let shapes = profile.compute_profiles.iter().map(|own| Shape::of_compute(own, slices)).collect();
        let computes = there.map(|there| there.computes.as_slice()).unwrap_or_default();
        let there: Vec<(u32, Placement)> =
            computes.iter().map(|compute| (compute.profile, compute.placement)).collect();
        Self::new(shapes, &there)
    }

    /// The whole has as many engines as the profile that has most of them; and whatever is there is possible, though the
    /// driver may not say so (its counts are known to be wrong on some models).
    fn new(shapes: Vec<Shape>, there: &[(u32, Placement)]) -> Self {
        let mut grid = Self { shapes, engines: [0; 4] };
        for shape in &grid.shapes {
            for (all, own) in grid.engines.iter_mut().zip(shape.engines) {
                *all = own.max(*all);
            }
        }
        let mut engines = [0; 4];
        for shape in &mut grid.shapes {
            let placements =
                || there.iter().filter(|(id, _)| *id == shape.id).map(|(_, placement)| *placement);
            let count = u32::try_from(placements().count()).unwrap_or(u32::MAX);
            for (sum, own) in engines.iter_mut().zip(shape.engines) {
                *sum += own.saturating_mul(u64::from(count));
            }
            shape.most = shape.most.max(count);
            let mut all: Vec<Place> =
                shape.places.iter().copied().chain(placements().filter_map(Place::new)).collect();
            all.sort_by_key(|place| place.placement);
            all.dedup();
            shape.places = all;
        }
        for (all, sum) in grid.engines.iter_mut().zip(engines) {
            *all = sum.max(*all);
        }
        grid
    }

    /// The position of the shape of this profile.
    pub(crate) fn position(&self, id: u32) -> Option<usize> {
        self.shapes.iter().position(|shape| shape.id == id)
    }
}

impl Shape {
    fn of_profile(profile: &Profile) -> Self {
        let Engines { decoders, encoders, jpeg, optical_flow } = profile.engines;
        Self {
            id: profile.id,
            places: places(profile.placements.iter().copied()),
            most: profile.max_instances,
            engines: [decoders, encoders, jpeg, optical_flow].map(u64::from),
            weight: (profile.multiprocessors, profile.memory_bytes),
        }
    }

    /// Where the driver does not tell the places, any will do, as long as all fit.
    fn of_compute(profile: &ComputeProfile, slices: u32) -> Self {
        let size = profile.slices;
        let anywhere = || (0..=slices.saturating_sub(size)).map(|start| Placement { start, size });
        Self {
            id: profile.id,
            places: match &profile.placements {
                Some(told) => places(told.iter().copied()),
                None => places(anywhere().filter(|_| size <= slices)),
            },
            most: profile.max_instances,
            engines: [0; 4],
            weight: (size, 0),
        }
    }
}

fn places(placements: impl Iterator<Item = Placement>) -> Vec<Place> {
    let mut places: Vec<Place> = placements.filter_map(Place::new).collect();
    places.sort_by_key(|place| place.placement);
    places.dedup();
    places
}

impl Place {
    /// Absent past the 64th unit, and where no unit is covered.
    pub(crate) fn new(placement: Placement) -> Option<Self> {
        let end = placement.start.checked_add(placement.size)?;
        if placement.size == 0 || end > Mask::BITS {
            return None;
        }
        Some(Self { placement, mask: (Mask::MAX >> (Mask::BITS - placement.size)) << placement.start })
    }
}

/// What is taken of a grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    mask: Mask,
    engines: [u64; 4],
    counts: Vec<u32>,
}

impl Taken {
    /// Nothing.
    pub(crate) fn none(grid: &Grid) -> Self {
        Self { mask: 0, engines: [0; 4], counts: vec![0; grid.shapes.len()] }
    }

    /// Takes what the shape at this position needs at this place. False, and nothing is taken, where it is not to be had.
    pub(crate) fn take(&mut self, grid: &Grid, shape: usize, place: Place) -> bool {
        if !self.has_room(grid, shape, place) {
            return false;
        }
        self.change(grid, shape, |count, taken, own| {
            *count += 1;
            for (taken, own) in taken.iter_mut().zip(own) {
                *taken += own;
            }
        });
        self.mask |= place.mask;
        true
    }

    /// Gives back what [`Taken::take`] took.
    pub(crate) fn give_back(&mut self, grid: &Grid, shape: usize, place: Place) {
        self.change(grid, shape, |count, taken, own| {
            *count -= 1;
            for (taken, own) in taken.iter_mut().zip(own) {
                *taken -= own;
            }
        });
        self.mask &= !place.mask;
    }

    /// Takes units that something of no known shape covers.
    pub(crate) fn cover(&mut self, mask: Mask) {
        self.mask |= mask;
    }

    fn change(&mut self, grid: &Grid, shape: usize, how: impl Fn(&mut u32, &mut [u64; 4], [u64; 4])) {
        if let (Some(found), Some(count)) = (grid.shapes.get(shape), self.counts.get_mut(shape)) {
            how(count, &mut self.engines, found.engines);
        }
    }

    fn has_room(&self, grid: &Grid, shape: usize, place: Place) -> bool {
        let (Some(found), Some(count)) = (grid.shapes.get(shape), self.counts.get(shape)) else {
            return false;
        };
        let engines = self.engines.iter().zip(found.engines).zip(grid.engines);
        let enough = engines.into_iter().all(|((taken, own), all)| taken + own <= all);
        place.mask & self.mask == 0 && *count < found.most && enough
    }

    /// The position of the largest shape that still fits, and its weight; of equals the first.
    pub(crate) fn largest_placeable(&self, grid: &Grid) -> Option<(usize, (u32, u64))> {
        let fits =
            |(at, shape): &(usize, &Shape)| shape.places.iter().any(|place| self.has_room(grid, *at, *place));
        let fitting = grid.shapes.iter().enumerate().filter(fits).map(|(at, shape)| (at, shape.weight));
        fitting.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }
}
