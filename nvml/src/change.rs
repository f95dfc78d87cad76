//! Changing how a GPU is divided, and what the driver says to that.
//!
//! An instance is known by its profile and its place, and looked up anew for each change: the driver's numbers and
//! handles are those of another instance once it has been destroyed. Compute instance profiles are known by the number of
//! their kind (`NVML_COMPUTE_INSTANCE_PROFILE_*`), which is the same on all GPUs; the driver's ids are not.

mod doing;
mod error;
mod lookup;
mod mode;
mod perform;

use std::fmt;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::reading::Answer;
use gpulet_partition::step::Step;

pub use doing::Doing;
pub use error::ChangeError;
pub(crate) use lookup::Changing;
pub(crate) use mode::{is_resetless, persistence};
pub(crate) use perform::perform;

/// One thing that is changed about a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// How it is divided.
    Step(Step),
    /// Whether the driver keeps it initialised while no one uses it. On, it is in the way of a reset.
    Persistence(bool),
}

/// What came of a change that the driver did not refuse.
///
/// The driver's word is no proof: what there is now is told by [`crate::Driver::division`] only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// Why the new MIG mode is not in force yet, where the driver puts it off until the GPU is reset.
    pub put_off: Option<PutOff>,
}

/// A change of MIG mode that the driver has noted, and puts off until the GPU is reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutOff {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// What the driver says of it: the activation status of `nvmlDeviceSetMigMode`.
    pub answer: Answer,
}

impl fmt::Display for PutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gpu, answer } = self;
        write!(f, "MIG mode of {gpu} changes with its next reset ({answer})")
    }
}
