//! Where everything that is wanted on a GPU comes to lie, GPU instances and compute instances within them.

use crate::desired::WantedInstance;
use crate::grid::Grid;
use crate::observed::{GpuDivision, Instance, Profile};
use crate::refusal::{Refusal, listed};
use crate::search::{self, Arrangement, Inside, Piece, There};

use super::gpu::in_the_way;

/// A GPU and what is wanted on it, alike put together.
pub(super) struct Task<'a> {
    pub(super) division: &'a GpuDivision,
    pub(super) grid: Grid,
    pub(super) kinds: Vec<Kind<'a>>,
}

/// GPU instances that are wanted and are alike.
pub(super) struct Kind<'a> {
    /// Their profile.
    pub(super) profile: &'a Profile,
    /// Ids of the profiles of the compute instances of each, ascending.
    computes: Vec<u32>,
    /// The position of the profile in the grid, and how many.
    piece: Piece,
    /// How the compute instances lie in a new one.
    pub(super) anew: Arrangement,
    /// By position of what is there: how the compute instances lie in it; absent where the profile is another.
    pub(super) within: Vec<Option<Arrangement>>,
}

impl<'a> Task<'a> {
    pub(super) fn new(division: &'a GpuDivision, wanted: &[WantedInstance]) -> Result<Self, Refusal> {
        let grid = Grid::of_gpu(division);
        let mut kinds: Vec<Kind<'a>> = Vec::new();
        let mut sorted: Vec<WantedInstance> = wanted.to_vec();
        sorted.iter_mut().for_each(|instance| instance.computes.sort_unstable());
        sorted.sort_unstable();
        for WantedInstance { profile, computes } in sorted {
            match kinds.last_mut() {
                Some(kind) if kind.profile.id == profile && kind.computes == computes => {
                    kind.piece.count += 1
                }
                _ => kinds.push(Kind::new(division, &grid, profile, computes)?),
            }
        }
        // The fewer places a shape has, the sooner it is placed, so that what cannot be is found out soon.
        kinds.sort_by_key(|kind| grid.shapes.get(kind.piece.shape).map_or(0, |shape| shape.places.len()));
        let task = Self { division, grid, kinds };
        task.counts_fit()?;
        Ok(task)
    }

    /// The best arrangement, as long as it disturbs nothing that is in use.
    pub(super) fn arrange(&self) -> Result<Arrangement, Refusal> {
        let gpu = || self.division.gpu.clone();
        let there: Vec<There> = self.division.instances.iter().map(|instance| self.there(instance)).collect();
        let pieces: Vec<Piece> = self.kinds.iter().map(|kind| kind.piece).collect();
        let inside: Vec<Vec<Inside>> = self.kinds.iter().map(Kind::inside).collect();
        let inside = |kind: usize, at: usize| {
            inside.get(kind).and_then(|kind| kind.get(at)).copied().unwrap_or_default()
        };
        match search::best(&self.grid, &there, &pieces, inside) {
            None => Err(Refusal::Infeasible { gpu: gpu(), wanted: self.told() }),
            Some(arrangement) if arrangement.disturbed.is_empty() => Ok(arrangement),
            Some(arrangement) => {
                let instances = in_the_way(self.division, arrangement.disturbed.into_iter());
                Err(Refusal::Blocked { gpu: gpu(), instances, holders: Vec::new() })
            }
        }
    }

    fn there(&self, instance: &Instance) -> There {
        There {
            shape: self.grid.position(instance.profile),
            placement: instance.placement,
            busy: instance.is_busy(),
        }
    }

    /// No profile is wanted more often than it can be had: told apart, since people can see at once what to change.
    fn counts_fit(&self) -> Result<(), Refusal> {
        for (position, shape) in self.grid.shapes.iter().enumerate() {
            let alike = self.kinds.iter().filter(|kind| kind.piece.shape == position);
            let wanted = alike.map(|kind| kind.piece.count).fold(0, u32::saturating_add);
            if wanted > shape.most {
                let (gpu, name) = (self.division.gpu.clone(), self.division.profile_name(shape.id));
                return Err(Refusal::TooMany { gpu, name, wanted, most: shape.most });
            }
        }
        Ok(())
    }

    /// What is wanted, for people.
    fn told(&self) -> String {
        listed(self.kinds.iter().map(|kind| format!("{} {}", kind.piece.count, kind.profile.name)))
    }
}

impl<'a> Kind<'a> {
    fn new(division: &'a GpuDivision, grid: &Grid, id: u32, computes: Vec<u32>) -> Result<Self, Refusal> {
        let gpu = || division.gpu.clone();
        let known = || listed(division.profiles.iter().map(|known| format!("{} ({})", known.name, known.id)));
        let unknown = || Refusal::UnknownProfile { gpu: gpu(), profile: id, known: known() };
        let profile = division.profile(id).ok_or_else(unknown)?;
        let shape = grid.position(id).ok_or_else(unknown)?;
        let name = || profile.name.clone();
        let offered = || profile.compute_profiles.iter();
        if let Some(unknown) = computes.iter().find(|id| !offered().any(|own| own.id == **id)) {
            let known = listed(offered().map(|known| format!("{} ({})", known.name, known.id)));
            return Err(Refusal::UnknownComputeProfile {
                gpu: gpu(),
                name: name(),
                profile: *unknown,
                known,
            });
        }
        let Some(anew) = within(profile, &computes, None) else {
            let names = computes.iter().filter_map(|id| offered().find(|own| own.id == *id));
            let wanted = listed(names.map(|own| &own.name));
            return Err(Refusal::ComputesInfeasible { gpu: gpu(), name: name(), wanted });
        };
        let alike = |there: &Instance| Some(there).filter(|there| there.profile == id).cloned();
        let there = division.instances.iter().map(alike);
        let within = there.map(|there| within(profile, &computes, Some(&there?))).collect();
        Ok(Self { profile, computes, piece: Piece { shape, count: 1 }, anew, within })
    }

    /// By position of what is there: what becomes of its compute instances.
    fn inside(&self) -> Vec<Inside> {
        let tell = |within: &Option<Arrangement>| {
            within.as_ref().map_or_else(Inside::default, |within| {
                let kept = within.placed.iter().filter(|placed| placed.keeps.is_some()).count();
                Inside {
                    kept: u32::try_from(kept).unwrap_or(u32::MAX),
                    disturbs: !within.disturbed.is_empty(),
                }
            })
        };
        self.within.iter().map(tell).collect()
    }
}

/// How compute instances lie within a GPU instance, which may be there. Absent where they cannot.
fn within(profile: &Profile, computes: &[u32], there: Option<&Instance>) -> Option<Arrangement> {
    let grid = Grid::of_instance(profile, there);
    let mut pieces: Vec<Piece> = Vec::new();
    for id in computes {
        let shape = grid.position(*id)?;
        match pieces.last_mut() {
            Some(piece) if piece.shape == shape => piece.count += 1,
            _ => pieces.push(Piece { shape, count: 1 }),
        }
    }
    pieces.sort_by_key(|piece| grid.shapes.get(piece.shape).map_or(0, |shape| shape.places.len()));
    let current: Vec<There> = there.map(|there| parts(&grid, there)).unwrap_or_default();
    search::best(&grid, &current, &pieces, |_, _| Inside::default())
}

/// The compute instances of a GPU instance. Where it is not known which is used, each may be.
fn parts(grid: &Grid, there: &Instance) -> Vec<There> {
    let tell = |compute: &crate::observed::Compute| There {
        shape: grid.position(compute.profile),
        placement: compute.placement,
        busy: !compute.holders.is_empty() || !there.holders.is_empty(),
    };
    there.computes.iter().map(tell).collect()
}
