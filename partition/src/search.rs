//! The exact search for the best arrangement of what is wanted around what is there.
//!
//! Every arrangement counts, but for those that cannot be better than one already found: a GPU has a few thousand. So what
//! comes back is the best there is, and none is missed because of the order in which pieces were tried.

use std::cmp::Reverse;

use gpulet_inventory::mig::Placement;

use crate::grid::{Grid, Place, Taken};

/// Something that is there now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct There {
    /// The position of its shape in the grid; absent where the driver offers no such profile.
    pub(crate) shape: Option<usize>,
    /// Where it lies.
    pub(crate) placement: Placement,
    /// It is in use.
    pub(crate) busy: bool,
}

/// Something that is wanted, some times over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The position of its shape in the grid.
    pub(crate) shape: usize,
    /// How many.
    pub(crate) count: u32,
}

/// What becomes of the parts of something that stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Inside {
    /// Parts that stay too.
    pub(crate) kept: u32,
    /// A part that is in use would have to go.
    pub(crate) disturbs: bool,
}

/// One piece in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Placed {
    /// Which of the wanted.
    pub(crate) piece: usize,
    /// The position of its shape in the grid.
    pub(crate) shape: usize,
    /// Where it lies.
    pub(crate) placement: Placement,
    /// The position of what is there already and becomes this; absent: it is to be created.
    pub(crate) keeps: Option<usize>,
}

/// Everything wanted in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrangement {
    /// Where all lies.
    pub(crate) placed: Vec<Placed>,
    /// Positions of what is in use and would have to go, or a part of it. Empty where it can be done now; else there is no
    /// arrangement with fewer of them.
    pub(crate) disturbed: Vec<usize>,
    /// The position of the largest shape that fits beside it.
    pub(crate) largest_placeable: Option<usize>,
}

/// Finds the best arrangement: it disturbs nothing that is in use, or as few as possible; it keeps as many things as
/// possible, and as many of their parts; it leaves room for the largest shape; among equals it is the first by place.
///
/// `inside(piece, there)` tells what becomes of the parts when what is there becomes that piece. Absent where nothing could
/// be arranged even on an empty grid.
pub(crate) fn best(
    grid: &Grid,
    there: &[There],
    pieces: &[Piece],
    inside: impl Fn(usize, usize) -> Inside,
) -> Option<Arrangement> {
    let total = pieces.iter().map(|piece| piece.count).fold(0, u32::saturating_add);
    let mut search = Search { grid, there, pieces, inside, placed: Vec::new(), best: None };
    search.next(Partial { left: total, ..Partial::default() }, &mut Taken::none(grid));
    let (_, placed) = search.best.take()?;
    Some(search.arrangement(placed))
}

/// What an arrangement costs, the dearest first. Less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    disturbed: u32,
    kept: Reverse<u32>,
    parts: Reverse<u32>,
    room: Reverse<Option<(u32, u64)>>,
}

/// How far an arrangement has come.
#[derive(Debug, Clone, Copy, Default)]
struct Partial {
    /// The piece that is being placed.
    piece: usize,
    /// How many of it are placed.
    done: u32,
    /// Places before this one have been tried for it.
    from: usize,
    /// How many of all pieces are still to be placed.
    left: u32,
    /// What is there and stays, a bit each.
    kept: u64,
    /// What stays though a part of it that is in use would have to go, a bit each.
    disturbed: u64,
    /// Parts that stay.
    parts: u32,
}

struct Search<'a, I> {
    grid: &'a Grid,
    there: &'a [There],
    pieces: &'a [Piece],
    inside: I,
    placed: Vec<Placed>,
    best: Option<(Cost, Vec<Placed>)>,
}

impl<I: Fn(usize, usize) -> Inside> Search<'_, I> {
    fn next(&mut self, partial: Partial, taken: &mut Taken) {
        if !self.can_win(&partial) {
            return;
        }
        let Some(piece) = self.pieces.get(partial.piece).copied() else {
            return self.compare(&partial, taken);
        };
        if partial.done == piece.count {
            return self.next(Partial { piece: partial.piece + 1, done: 0, from: 0, ..partial }, taken);
        }
        let grid = self.grid;
        let Some(shape) = grid.shapes.get(piece.shape) else { return };
        for (at, place) in shape.places.iter().enumerate().skip(partial.from) {
            if !taken.take(grid, piece.shape, *place) {
                continue;
            }
            let keeps = self.found(piece.shape, place.placement);
            self.placed.push(Placed {
                piece: partial.piece,
                shape: piece.shape,
                placement: place.placement,
                keeps,
            });
            let mut next =
                Partial { done: partial.done + 1, from: at + 1, left: partial.left - 1, ..partial };
            self.account(&mut next, keeps);
            self.next(next, taken);
            self.placed.pop();
            taken.give_back(grid, piece.shape, *place);
        }
    }

    /// The position of what is there with this shape in this place.
    fn found(&self, shape: usize, placement: Placement) -> Option<usize> {
        self.there.iter().position(|there| there.shape == Some(shape) && there.placement == placement)
    }

    /// What it means for what is there that a place was taken.
    fn account(&self, partial: &mut Partial, keeps: Option<usize>) {
        let Some(at) = keeps else { return };
        let inside = (self.inside)(partial.piece, at);
        partial.kept |= bit(at);
        partial.parts += inside.kept;
        partial.disturbed |= if inside.disturbs { bit(at) } else { 0 };
    }

    /// Whether it may still become better than the best, or as good.
    fn can_win(&self, partial: &Partial) -> bool {
        let Some((best, _)) = &self.best else { return true };
        let kept = partial.kept.count_ones() + partial.left;
        (partial.disturbed.count_ones(), Reverse(kept)) <= (best.disturbed, best.kept)
    }

    fn compare(&mut self, partial: &Partial, taken: &Taken) {
        let disturbed = self.disturbed(partial).count_ones();
        let (kept, parts) = (Reverse(partial.kept.count_ones()), Reverse(partial.parts));
        let worse = |best: &Cost| (disturbed, kept, parts) > (best.disturbed, best.kept, best.parts);
        if self.best.as_ref().is_some_and(|(best, _)| worse(best)) {
            return;
        }
        let room = Reverse(taken.largest_placeable(self.grid).map(|(_, weight)| weight));
        let cost = Cost { disturbed, kept, parts, room };
        if self.best.as_ref().is_none_or(|(best, placed)| (cost, &self.placed) < (*best, placed)) {
            self.best = Some((cost, self.placed.clone()));
        }
    }

    /// What is in use and would have to go, or a part of it, a bit each.
    fn disturbed(&self, partial: &Partial) -> u64 {
        let goes = |(at, there): &(usize, &There)| there.busy && partial.kept & bit(*at) == 0;
        let gone = self.there.iter().enumerate().filter(goes);
        gone.fold(partial.disturbed, |all, (at, _)| all | bit(at))
    }

    fn arrangement(&self, placed: Vec<Placed>) -> Arrangement {
        let mut partial = Partial::default();
        let mut taken = Taken::none(self.grid);
        for placed in &placed {
            let Some(place) = Place::new(placed.placement) else { continue };
            taken.take(self.grid, placed.shape, place);
            partial.piece = placed.piece;
            self.account(&mut partial, placed.keeps);
        }
        let disturbed = self.disturbed(&partial);
        Arrangement {
            placed,
            disturbed: (0..self.there.len()).filter(|at| disturbed & bit(*at) != 0).collect(),
            largest_placeable: taken.largest_placeable(self.grid).map(|(at, _)| at),
        }
    }
}

/// The bit of what is there at this position. There are no more than units, for each covers one of its own.
fn bit(at: usize) -> u64 {
    u32::try_from(at).ok().and_then(|at| 1_u64.checked_shl(at)).unwrap_or(0)
}
