//! The reset of a GPU, for which the driver's interface has no call: NVIDIA's own program does it.
//!
//! Nobody may have the GPU open meanwhile, this process neither.

use std::path::Path;
use std::time::Duration;

use gpulet_inventory::pci::PciAddress;

use crate::program::{Program, ProgramError};
use crate::root::Root;

/// NVIDIA's program.
const PROGRAM: &str = "nvidia-smi";

/// Where a driver container shows its file system.
pub(crate) const DRIVER_CONTAINER: &str = "run/nvidia/driver";

/// Why a GPU was not reset.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// There is no program for it.
    #[error("{gpu} cannot be reset without NVIDIA's {PROGRAM}; install it, or reboot the node")]
    NoProgram {
        /// Which GPU.
        gpu: PciAddress,
        /// Where it was looked for.
        #[source]
        source: ProgramError,
    },
    /// Somebody has it open.
    #[error("{gpu} cannot be reset while it is in use; stop what uses it, or reboot the node")]
    InUse {
        /// Which GPU.
        gpu: PciAddress,
        /// What the program said.
        #[source]
        source: ProgramError,
    },
    /// The GPU, or the machine that it was passed into, does not do that.
    #[error("{gpu} does not support a reset; reboot the node")]
    NotSupported {
        /// Which GPU.
        gpu: PciAddress,
        /// What the program said.
        #[source]
        source: ProgramError,
    },
    /// It failed in another way, or did not end.
    #[error(
        "the reset of {gpu} failed; look into the kernel log, and reboot the node if the GPU does not answer"
    )]
    Failed {
        /// Which GPU.
        gpu: PciAddress,
        /// What the program said.
        #[source]
        source: ProgramError,
    },
}

impl ResetError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoProgram { .. } => "ResetProgramMissing",
            Self::InUse { .. } => "ResetInUse",
            Self::NotSupported { .. } => "ResetNotSupported",
            Self::Failed { .. } => "ResetFailed",
        }
    }
}

/// Resets the GPU at `gpu`, and no other.
///
/// # Errors
/// If there is no program for it, or it did not end well within the deadline.
pub fn gpu(root: &Root, gpu: PciAddress, deadline: Duration) -> Result<(), ResetError> {
    let program = program(root).map_err(|source| ResetError::NoProgram { gpu, source })?;
    let ran = program.run(&["--gpu-reset", "-i", &gpu.to_string()], deadline);
    ran.map(drop).map_err(|source| told(gpu, source))
}

/// That of a driver container comes before the host's: where there is one, the driver is of its version.
fn program(root: &Root) -> Result<Program, ProgramError> {
    let container = root.real(Path::new(DRIVER_CONTAINER)).map(Root::new);
    let of_container = container.ok().and_then(|root| Program::find(&root, PROGRAM).ok());
    of_container.map_or_else(|| Program::find(root, PROGRAM), Ok)
}

/// The program tells by words only what went wrong.
fn told(gpu: PciAddress, source: ProgramError) -> ResetError {
    let ProgramError::Failed { said, .. } = &source else { return ResetError::Failed { gpu, source } };
    let said = said.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| said.contains(words));
    if says(&["in use", "being used"]) {
        ResetError::InUse { gpu, source }
    } else if says(&["not supported", "not permitted"]) {
        ResetError::NotSupported { gpu, source }
    } else {
        ResetError::Failed { gpu, source }
    }
}
