//! The search over all sets.

use gpulet_inventory::topology::Topology;

use super::score::Scorer;
use super::{Best, BestError, Request, reason};
use crate::label;

/// More sets than 20 GPUs can make would take more than a moment.
const MOST_SETS: u128 = 200_000;

pub(super) fn best(topology: &Topology, request: &Request) -> Result<Best, BestError> {
    let candidates = Candidates::of(topology, request)?;
    let scorer = Scorer::new(topology);
    let mut search = Search::new(&scorer, &candidates);
    let points = search.start(&candidates.must);
    search.extend(points, 0);
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
struct Search<'a> {
    scorer: &'a Scorer,
    open: &'a [usize],
    /// For each GPU of `open`: the points for staying free with each of the free GPUs.
    degrees: Vec<u64>,
    free: &'a [usize],
    /// The points if all stayed free.
    all_left: u64,
    most_nic: u64,
    size: usize,
    set: Vec<usize>,
    best: Vec<usize>,
    best_total: Option<u64>,
}

/// Points of the set so far, kept up with each GPU that is added.
#[derive(Clone, Copy, Default)]
struct Points {
    /// Of its pairs.
    inside: u64,
    /// What its pairs would have for staying free.
    kept: u64,
    /// The sum of its GPUs' degrees: their pairs with all free GPUs, and so their own pairs twice.
    degrees: u64,
}

impl<'a> Search<'a> {
    fn new(scorer: &'a Scorer, candidates: &'a Candidates) -> Self {
        let free = candidates.free.as_slice();
        let size = candidates.must.len() + candidates.missing;
        let mut search = Self {
            scorer,
            open: &candidates.open,
            degrees: Vec::new(),
            free,
            all_left: 0,
            most_nic: scorer.most_nic(size),
            size,
            set: Vec::with_capacity(size),
            best: Vec::new(),
            best_total: None,
        };
        search.degrees = search.open.iter().map(|gpu| search.degree(*gpu)).collect();
        search.all_left = free.iter().map(|gpu| search.degree(*gpu)).sum::<u64>() / 2;
        search
    }

    fn degree(&self, gpu: usize) -> u64 {
        let others = self.free.iter().filter(|other| **other != gpu);
        others.map(|other| self.scorer.pair(gpu, *other).left).sum()
    }

    /// Takes the GPUs that must be in the set.
    fn start(&mut self, must: &[usize]) -> Points {
        let mut points = Points::default();
        for gpu in must {
            points = self.with(points, *gpu, self.degree(*gpu));
            self.set.push(*gpu);
        }
        points
    }

    fn with(&self, mut points: Points, gpu: usize, degree: u64) -> Points {
        for other in &self.set {
            let pair = self.scorer.pair(gpu, *other);
            points.inside += pair.inside();
            points.kept += pair.left;
        }
        points.degrees += degree;
        points
    }

    fn extend(&mut self, points: Points, from: usize) {
        if self.set.len() == self.size {
            let left = (self.all_left + points.kept).saturating_sub(points.degrees);
            self.compare(points.inside + left);
            return;
        }
        let open = self.open;
        let last = (open.len() + self.set.len()).saturating_sub(self.size);
        for at in from..=last {
            let (Some(gpu), Some(degree)) = (open.get(at), self.degrees.get(at).copied()) else { continue };
            let points = self.with(points, *gpu, degree);
            self.set.push(*gpu);
            self.extend(points, at + 1);
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
