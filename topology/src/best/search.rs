//! The search over all sets.

use gpulet_inventory::topology::Topology;

use super::score::{INSIDE, Scorer};
use super::{Best, BestError, Request, reason};
use crate::label;

/// More sets than 20 GPUs can make would take more than a moment.
const MOST_SETS: u128 = 200_000;

pub(super) fn best(topology: &Topology, request: &Request) -> Result<Best, BestError> {
    let candidates = Candidates::of(topology, request)?;
    let scorer = Scorer::new(topology);
    let mut search = Search::new(&scorer, &candidates);
    let (own, degrees) = search.start(&candidates.must);
    search.extend(own, degrees, 0);
    let gpus = search.best;
    let score = scorer.score(&gpus, &candidates.free);
    let reason = reason::of(topology, &gpus, &candidates.free, &scorer);
    Ok(Best { gpus, score, reason, passed_over: candidates.passed_over })
}

/// The GPUs to choose from, checked.
struct Candidates {
    /// Free and answering, ascending.
    free: Vec<usize>,
    /// Free, answering and in every set, ascending.
    must: Vec<usize>,
    /// The rest of `free`.
    open: Vec<usize>,
    /// How many of `open` to take.
    missing: usize,
    passed_over: Vec<usize>,
}

impl Candidates {
    fn of(topology: &Topology, request: &Request) -> Result<Self, BestError> {
        let wanted = request.count;
        if wanted == 0 {
            return Err(BestError::NoneWanted);
        }
        let named = sorted(request.free.clone().unwrap_or_else(|| (0..topology.gpus.len()).collect()));
        let (free, lost): (Vec<usize>, Vec<usize>) =
            named.into_iter().partition(|gpu| answers(topology, *gpu));
        let must = sorted(request.must.clone());
        if let Some(gpu) = must.iter().find(|gpu| !free.contains(gpu)) {
            return Err(must_not_free(topology, *gpu));
        }
        if must.len() > wanted {
            return Err(BestError::TooManyMust { must: must.len(), wanted });
        }
        if free.len() < wanted {
            let names = if free.is_empty() { "none".to_owned() } else { label::gpus(topology, &free) };
            return Err(BestError::NotEnoughFree { wanted, free: free.len(), names });
        }
        let open: Vec<usize> = free.iter().copied().filter(|gpu| !must.contains(gpu)).collect();
        let missing = wanted - must.len();
        let sets = combinations(open.len(), missing);
        if sets > MOST_SETS {
            return Err(BestError::TooManySets { wanted, free: free.len(), sets, limit: MOST_SETS });
        }
        let passed_over = if request.free.is_some() { lost } else { Vec::new() };
        Ok(Self { free, must, open, missing, passed_over })
    }
}

fn sorted(mut gpus: Vec<usize>) -> Vec<usize> {
    gpus.sort_unstable();
    gpus.dedup();
    gpus
}

fn answers(topology: &Topology, gpu: usize) -> bool {
    topology.gpus.get(gpu).is_some_and(|gpu| gpu.down.is_none() && gpu.index.is_some())
}

fn must_not_free(topology: &Topology, gpu: usize) -> BestError {
    let placed = topology.gpus.get(gpu);
    let why = match placed {
        None => "does not exist".to_owned(),
        Some(gpu) => match gpu.down {
            Some(reason) => format!("does not answer: {reason}"),
            None if gpu.index.is_none() => "is not in the driver's list".to_owned(),
            None => "is not free".to_owned(),
        },
    };
    BestError::MustNotFree { gpu: placed.map_or_else(|| gpu.to_string(), |gpu| gpu.label.clone()), why }
}

/// How many ways there are to take `take` of `from`.
fn combinations(from: usize, take: usize) -> u128 {
    let take = take.min(from.saturating_sub(take));
    (0..take).fold(1, |ways: u128, step| {
        let (left, taken) = (from - step, step + 1);
        ways.saturating_mul(u128::try_from(left).unwrap_or(u128::MAX)) / u128::try_from(taken).unwrap_or(1)
    })
}

/// A walk over all sets in ascending order, so that among equals the first stays.
///
/// Points of the pairs that stay free follow from the set: all points, less those of every pair with an end in the
/// set. So each step costs one look at the pairs of the GPU that is added.
struct Search<'a> {
    scorer: &'a Scorer,
    open: &'a [usize],
    /// For each GPU of `open`: the points of its pairs with all free GPUs.
    degrees: Vec<u64>,
    free: &'a [usize],
    all: u64,
    most_nic: u64,
    size: usize,
    set: Vec<usize>,
    best: Vec<usize>,
    best_total: Option<u64>,
}

impl<'a> Search<'a> {
    fn new(scorer: &'a Scorer, candidates: &'a Candidates) -> Self {
        let free = candidates.free.as_slice();
        let degree = |gpu: usize| free.iter().map(|other| scorer.pair(gpu, *other).sum()).sum::<u64>();
        let size = candidates.must.len() + candidates.missing;
        Self {
            scorer,
            open: &candidates.open,
            degrees: candidates.open.iter().map(|gpu| degree(*gpu)).collect(),
            free,
            all: free.iter().map(|gpu| degree(*gpu)).sum::<u64>() / 2,
            most_nic: scorer.most_nic(size),
            size,
            set: Vec::new(),
            best: Vec::new(),
            best_total: None,
        }
    }

    /// Takes the GPUs that must be in the set; gives points inside it and the points of pairs with an end in it.
    fn start(&mut self, must: &[usize]) -> (u64, u64) {
        let mut own = 0;
        let mut degrees = 0;
        for gpu in must {
            own += self.inside(*gpu);
            degrees += self.free.iter().map(|other| self.scorer.pair(*gpu, *other).sum()).sum::<u64>();
            self.set.push(*gpu);
        }
        (own, degrees)
    }

    fn inside(&self, gpu: usize) -> u64 {
        self.set.iter().map(|other| self.scorer.pair(gpu, *other).sum()).sum()
    }

    fn extend(&mut self, own: u64, degrees: u64, from: usize) {
        if self.set.len() == self.size {
            self.compare(INSIDE * own + (self.all + own).saturating_sub(degrees));
            return;
        }
        let open = self.open;
        let last = (open.len() + self.set.len()).saturating_sub(self.size);
        for at in from..=last {
            let (Some(gpu), Some(degree)) = (open.get(at), self.degrees.get(at).copied()) else { continue };
            let inside = self.inside(*gpu);
            self.set.push(*gpu);
            self.extend(own + inside, degrees + degree, at + 1);
            self.set.pop();
        }
    }

    fn compare(&mut self, without_nic: u64) {
        if self.best_total.is_some_and(|best| without_nic + self.most_nic <= best) {
            return;
        }
        let total = without_nic + self.scorer.nic(&self.set);
        if self.best_total.is_none_or(|best| total > best) {
            self.best_total = Some(total);
            self.best = self.set.clone();
            self.best.sort_unstable();
        }
    }
}
