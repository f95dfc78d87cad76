//! Every legal layout of a GPU, by the rules that people are told, not by those of the planner.
//!
//! No two instances share a unit; of a profile there are no more than its count; one instance has the media extensions; and
//! beside one with all of them there are only such with none (source: NVIDIA's MIG user guide).

use std::collections::BTreeMap;

use crate::observed::GpuDivision;

/// A profile (by position) and the unit where it begins.
pub(super) type Spot = (usize, u32);

/// What the largest instance weighs that can be added.
pub(super) type Room = Option<(u32, u64)>;

/// All spots of a GPU, and all sets of them that are legal: a bit for each spot.
pub(super) struct Layouts {
    pub(super) spots: Vec<Spot>,
    pub(super) all: Vec<u64>,
    /// By how many there are of each profile.
    pub(super) by_counts: BTreeMap<Vec<u32>, Vec<(u64, Room)>>,
    units: Vec<u64>,
    most: Vec<u32>,
    names: Vec<String>,
    weights: Vec<(u32, u64)>,
}

impl Layouts {
    pub(super) fn of(division: &GpuDivision) -> Self {
        let profiles = || division.profiles.iter().enumerate();
        let of = |(at, starts): (usize, Vec<u32>)| starts.into_iter().map(move |start| (at, start));
        let starts =
            profiles().map(|(at, profile)| (at, profile.placements.iter().map(|p| p.start).collect()));
        let spots: Vec<Spot> = starts.flat_map(of).collect();
        let units = |(at, start): &Spot| {
            let size = division.profiles[*at].placements[0].size;
            (*start..start + size).fold(0, |units, unit| units | 1 << unit)
        };
        let mut layouts = Self {
            units: spots.iter().map(units).collect(),
            spots,
            all: Vec::new(),
            by_counts: BTreeMap::new(),
            most: profiles().map(|(_, profile)| profile.max_instances).collect(),
            names: profiles().map(|(_, profile)| profile.name.clone()).collect(),
            weights: profiles().map(|(_, profile)| (profile.multiprocessors, profile.memory_bytes)).collect(),
        };
        layouts.grow(0, 0);
        for layout in &layouts.all {
            let room = layouts.room(*layout);
            layouts.by_counts.entry(layouts.counts(*layout)).or_default().push((*layout, room));
        }
        layouts
    }

    fn grow(&mut self, layout: u64, from: usize) {
        self.all.push(layout);
        for spot in from..self.spots.len() {
            if self.legal(layout | 1 << spot) {
                self.grow(layout | 1 << spot, spot + 1);
            }
        }
    }

    /// The positions of the spots in a layout.
    pub(super) fn members(&self, layout: u64) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.spots.len()).filter(move |spot| layout & 1 << spot != 0)
    }

    /// How many there are of each profile.
    pub(super) fn counts(&self, layout: u64) -> Vec<u32> {
        let mut counts = vec![0; self.most.len()];
        self.members(layout).for_each(|spot| counts[self.spots[spot].0] += 1);
        counts
    }

    pub(super) fn legal(&self, layout: u64) -> bool {
        let mut units = 0;
        for spot in self.members(layout) {
            if units & self.units[spot] != 0 {
                return false;
            }
            units |= self.units[spot];
        }
        let names = || self.members(layout).map(|spot| self.names[self.spots[spot].0].as_str());
        let extended = names().filter(|name| name.ends_with("+me") || name.ends_with("+me.all")).count();
        let all = names().any(|name| name.ends_with("+me.all"));
        let others = names().any(|name| !name.ends_with("+me.all") && !name.ends_with("-me"));
        let counts = self.counts(layout);
        counts.iter().zip(&self.most).all(|(count, most)| count <= most) && extended <= 1 && !(all && others)
    }

    fn room(&self, layout: u64) -> Room {
        let free = (0..self.spots.len()).filter(|spot| layout & 1 << spot == 0);
        let fitting = free.filter(|spot| self.legal(layout | 1 << spot));
        fitting.map(|spot| self.weights[self.spots[spot].0]).max()
    }
}
