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

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::partition::made_up::MadeUp;

    const LONG: Duration = Duration::from_secs(60);

    fn reset(tree: &MadeUp, deadline: Duration) -> Result<(), ResetError> {
        gpu(&tree.root(), "0000:41:00.0".parse().unwrap(), deadline)
    }

    #[test]
    fn only_the_one_gpu_is_reset() {
        let tree = MadeUp::new();
        tree.program("usr/bin/nvidia-smi", &format!("echo \"$@\" >> {}", tree.at("calls").display()));
        reset(&tree, LONG).unwrap();
        assert_eq!(tree.text("calls"), "--gpu-reset -i 0000:41:00.0\n");
    }

    #[test]
    fn the_drivers_own_container_comes_first() {
        let tree = MadeUp::new();
        tree.program("usr/bin/nvidia-smi", "exit 1")
            .program("run/nvidia/driver/usr/bin/nvidia-smi", "exit 0");
        reset(&tree, LONG).unwrap();
    }

    #[test]
    fn a_refusal_is_told_by_what_it_is() {
        for (says, reason) in [
            (
                "The following GPUs could not be reset:\n  GPU 00000000:41:00.0: In use by another client",
                "ResetInUse",
            ),
            ("1 device is currently being used by one or more other processes", "ResetInUse"),
            (
                "GPU Reset couldn't run because GPU 00000000:41:00.0 does not: Not Supported",
                "ResetNotSupported",
            ),
            ("Unable to reset: Unknown Error", "ResetFailed"),
        ] {
            let tree = MadeUp::new();
            tree.program("usr/bin/nvidia-smi", &format!("echo \"{says}\"; exit 255"));
            let error = reset(&tree, LONG).unwrap_err();
            assert_eq!(error.reason(), reason, "{says}");
            assert!(error.to_string().contains("0000:41:00.0"), "{error}");
            let source = error.source().unwrap().to_string();
            assert!(source.contains("exit code 255") && source.contains(&says[..20]), "{source}");
        }
    }

    #[test]
    fn one_that_hangs_costs_the_deadline() {
        let tree = MadeUp::new();
        tree.program("usr/bin/nvidia-smi", "exec sleep 1000");
        let error = reset(&tree, Duration::from_millis(300)).unwrap_err();
        assert_eq!(error.reason(), "ResetFailed");
        assert!(error.source().unwrap().to_string().contains("did not end within"), "{error:?}");
    }

    #[test]
    fn without_the_program_there_is_no_reset() {
        let error = reset(&MadeUp::new(), LONG).unwrap_err();
        assert_eq!(error.reason(), "ResetProgramMissing");
        assert!(error.to_string().contains("reboot the node"), "{error}");
    }
}
