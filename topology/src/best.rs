//! The best set of N of the free GPUs.

mod free_sets;
mod names;
mod reason;
mod score;
mod search;

use gpulet_inventory::topology::Topology;

pub use free_sets::largest_free_sets;
pub use names::parse_gpus;
pub use score::Score;

/// How many GPUs are wanted, and which may and must be among them: positions in [`Topology::gpus`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// How many.
    pub count: usize,
    /// Which are free; absent: all that answer.
    pub free: Option<Vec<usize>>,
    /// Which must be in the set.
    pub must: Vec<usize>,
}

/// The best set.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Best {
    /// The GPUs, ascending.
    pub gpus: Vec<usize>,
    /// Its score and the parts of it.
    pub score: Score,
    /// Why this one, for people.
    pub reason: String,
    /// GPUs that were named free and not considered, for they do not answer.
    pub passed_over: Vec<usize>,
}

/// Why there is no best set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BestError {
    /// None were asked for.
    #[error("0 GPUs were asked for; ask for 1 or more")]
    NoneWanted,
    /// Fewer are free than are wanted.
    #[error("{wanted} GPUs were asked for and {free} are free and answer ({names})")]
    NotEnoughFree {
        /// How many were asked for.
        wanted: usize,
        /// How many are free.
        free: usize,
        /// Which.
        names: String,
    },
    /// More must be in the set than are wanted.
    #[error("{must} GPUs must be in a set of {wanted}; ask for more or name fewer")]
    TooManyMust {
        /// How many must.
        must: usize,
        /// How many were asked for.
        wanted: usize,
    },
    /// One that must be in the set is not free, or does not answer.
    #[error("{gpu} must be in the set and {why}")]
    MustNotFree {
        /// Which.
        gpu: String,
        /// Why not.
        why: String,
    },
    /// There is no such GPU.
    #[error("there is no GPU {names}; this node has {known}")]
    UnknownGpu {
        /// The names that fit none, quoted.
        names: String,
        /// Those that there are.
        known: String,
    },
    /// There are more sets than can be compared in a moment.
    #[error(
        "{wanted} of {free} free GPUs make {sets} sets, more than {limit}; name fewer with --free, or more with --must"
    )]
    TooManySets {
        /// How many were asked for.
        wanted: usize,
        /// How many are free.
        free: usize,
        /// How many sets that makes.
        sets: u128,
        /// How many can be compared.
        limit: u128,
    },
}

impl BestError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoneWanted => "NoneWanted",
            Self::NotEnoughFree { .. } => "NotEnoughFree",
            Self::TooManyMust { .. } => "TooManyMust",
            Self::MustNotFree { .. } => "MustNotFree",
            Self::UnknownGpu { .. } => "UnknownGpu",
            Self::TooManySets { .. } => "TooManySets",
        }
    }
}

/// The best set of GPUs for a request: the highest [`Score`], and among equals the lowest positions.
///
/// Every set is compared, so the answer is exact.
///
/// # Errors
/// When the request cannot be met, and when there are too many sets to compare (never with 16 GPUs or fewer).
pub fn best(topology: &Topology, request: &Request) -> Result<Best, BestError> {
    search::best(topology, request)
}
