//! What is done to a GPU, in words that messages are made of.

use std::fmt;

use gpulet_inventory::mig::Placement;
use gpulet_partition::step::{ComputeAt, InstanceAt, Step};

use super::Change;

/// What is done to a GPU, in words; `{gpu}: cannot {doing}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It is read.
    ReadDivision,
    /// Its persistence mode is read.
    ReadPersistence,
    /// It is asked whether MIG mode changes without a reset.
    ReadResetless,
    /// It is changed.
    Change(Change),
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadDivision => f.write_str("read the MIG division"),
            Self::ReadPersistence => f.write_str("read persistence mode"),
            Self::ReadResetless => f.write_str("ask whether MIG mode changes without a reset"),
            Self::Change(Change::Persistence(on)) => write!(f, "turn persistence mode {}", word(*on)),
            Self::Change(Change::Step(step)) => told(step, f),
        }
    }
}

fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Profiles by their numbers: their names may not be known where this is told.
fn told(step: &Step, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match step {
        Step::SetMode(on) => write!(f, "turn MIG mode {}", word(*on)),
        Step::DestroyInstance(at) => write!(f, "destroy {}", instance(at)),
        Step::CreateInstance(at) => write!(f, "create {}", instance(at)),
        Step::DestroyCompute { within, compute: ComputeAt { profile, placement } } => {
            write!(f, "destroy the compute instance of profile {profile} at {}", place(placement))?;
            write!(f, " in {}", instance(within))
        }
        Step::CreateCompute { within, profile, placement } => {
            write!(f, "create a compute instance of profile {profile}")?;
            placement.iter().try_for_each(|placement| write!(f, " at {}", place(placement)))?;
            write!(f, " in {}", instance(within))
        }
    }
}

fn instance(at: &InstanceAt) -> String {
    format!("the GPU instance of profile {} at {}", at.profile, place(&at.placement))
}

fn place(placement: &Placement) -> String {
    format!("{}:{}", placement.start, placement.size)
}
