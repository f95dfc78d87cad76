//! Why a GPU could not be read or changed.

use std::time::Duration;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::Placement;
use gpulet_inventory::reading::{Answer, Cause};
use gpulet_inventory::snapshot::DriverDown;
use gpulet_partition::apply::Failure;
use gpulet_partition::observed::Holder;

use super::Doing;
use crate::code;

/// Why a GPU could not be read or changed. Each says what was to be done, to which GPU, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The driver is not open: it is not there, or it has been let go of. Nothing was done.
    #[error("{gpu}: cannot {doing}: {}; {}", down.message, down.remedy)]
    DriverDown {
        /// Which GPU.
        gpu: GpuUuid,
        /// What was to be done.
        doing: Doing,
        /// Why it is not open.
        down: DriverDown,
    },
    /// The driver has no such GPU. Nothing was done.
    #[error(
        "{gpu}: cannot {doing}: it is not on this node, or does not answer; name a GPU that `nvidia-smi -L` lists"
    )]
    NoSuchGpu {
        /// Which GPU.
        gpu: GpuUuid,
        /// What was to be done.
        doing: Doing,
    },
    /// An earlier call to the GPU has not returned. Nothing was done.
    #[error(
        "{gpu}: cannot {doing}: {call} has not returned for {:.1} s, and nothing else is asked of the GPU before; \
         look for NVRM messages in the kernel log; a driver that hangs is usually cured by a reset or a reboot only",
        since.as_secs_f64()
    )]
    Busy {
        /// Which GPU.
        gpu: GpuUuid,
        /// What was to be done.
        doing: Doing,
        /// The driver's symbol; `another change` where a change goes on that is still in time.
        call: &'static str,
        /// For how long it has been running.
        since: Duration,
    },
    /// A call did not return in time. It may yet: whether it was done is told by the GPU only.
    #[error(
        "{gpu}: {call} has not returned for {:.1} s, called to {doing}: whether that was done is not known; look for \
         NVRM messages in the kernel log; a driver that hangs is usually cured by a reset or a reboot only",
        since.as_secs_f64()
    )]
    TimedOut {
        /// Which GPU.
        gpu: GpuUuid,
        /// What was to be done.
        doing: Doing,
        /// The driver's symbol.
        call: &'static str,
        /// For how long it has been running.
        since: Duration,
    },
    /// The thread of the GPU has ended; that is a fault of this program.
    #[error(
        "{gpu}: cannot {doing}: the thread that talks to it has panicked; restart gpulet and report this"
    )]
    Died {
        /// Which GPU.
        gpu: GpuUuid,
        /// What was to be done.
        doing: Doing,
    },
    /// The driver is older than what would be needed.
    #[error("{gpu}: cannot {doing}: this driver is too old for it, it has no {call}; upgrade the driver")]
    TooOld {
        /// Which GPU.
        gpu: GpuUuid,
        /// What was to be done.
        doing: Doing,
        /// The driver's symbol.
        call: &'static str,
    },
    /// The GPU does not offer this profile.
    #[error(
        "{gpu}: cannot {doing}: it offers no such profile; look at `nvidia-smi mig -lgip` and `-lcip`, and plan anew"
    )]
    UnknownProfile {
        /// Which GPU.
        gpu: GpuUuid,
        /// What was to be done.
        doing: Doing,
    },
    /// What was to be changed is not there (any more).
    #[error(
        "{gpu}: cannot {doing}: there is no such instance (any more); look at `nvidia-smi mig -lgi`, and plan anew"
    )]
    NoSuchInstance {
        /// Which GPU.
        gpu: GpuUuid,
        /// What was to be done.
        doing: Doing,
    },
    /// The driver is too old to be told a place, and chose another one. What it made was removed again.
    #[error(
        "{gpu}: cannot {doing}: this driver is too old to be told the place, and chose {}:{}; upgrade the driver, or \
         recreate what is in the GPU instance from the first place on",
        got.start, got.size
    )]
    Elsewhere {
        /// Which GPU.
        gpu: GpuUuid,
        /// What was to be done.
        doing: Doing,
        /// The place that the driver chose.
        got: Placement,
    },
    /// Someone uses it.
    #[error("{gpu}: cannot {doing}: {answer}: {}", users(holders))]
    InUse {
        /// Which GPU.
        gpu: GpuUuid,
        /// What was to be done.
        doing: Doing,
        /// What the driver said.
        answer: Answer,
        /// The processes that the driver lists there.
        holders: Vec<Holder>,
    },
    /// The driver refused.
    #[error("{gpu}: cannot {doing}: {answer}; {}", remedy(answer.cause))]
    Refused {
        /// Which GPU.
        gpu: GpuUuid,
        /// What was to be done.
        doing: Doing,
        /// What the driver said.
        answer: Answer,
    },
}

impl ChangeError {
    /// What the driver answered to a call.
    pub(crate) fn answered(gpu: &GpuUuid, doing: Doing, answer: Answer) -> Self {
        let gpu = gpu.clone();
        match answer.cause {
            Cause::NoSymbol | Cause::Code(code::FUNCTION_NOT_FOUND | code::ARGUMENT_VERSION_MISMATCH) => {
                Self::TooOld { gpu, doing, call: answer.call }
            }
            Cause::Code(code::IN_USE) => Self::InUse { gpu, doing, answer, holders: Vec::new() },
            _ => Self::Refused { gpu, doing, answer },
        }
    }

    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::DriverDown { down, .. } => down.reason,
            Self::NoSuchGpu { .. } => "NoSuchGpu",
            Self::Busy { .. } => "Unresponsive",
            Self::TimedOut { .. } => "TimedOut",
            Self::Died { .. } => "ThreadDied",
            Self::TooOld { .. } => "DriverTooOld",
            Self::UnknownProfile { .. } => "UnknownProfile",
            Self::NoSuchInstance { .. } => "NoSuchInstance",
            Self::Elsewhere { .. } => "OtherPlace",
            Self::InUse { .. } => "InUse",
            Self::Refused { answer, .. } => refusal(answer.cause),
        }
    }

    /// Whether the GPU is as it was for certain: the driver was not asked to change it, or has refused.
    pub fn is_unchanged(&self) -> bool {
        !matches!(self, Self::TimedOut { .. } | Self::Died { .. } | Self::Elsewhere { .. })
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        Self { reason: error.reason().to_owned(), message: error.to_string() }
    }
}

/// The stable word for a refusal.
fn refusal(cause: Cause) -> &'static str {
    match cause {
        Cause::Code(code::INSUFFICIENT_RESOURCES) => "InsufficientResources",
        Cause::Code(code::GPU_IS_LOST) => "GpuLost",
        Cause::Code(code::RESET_REQUIRED) => "ResetRequired",
        Cause::Code(code::NO_PERMISSION) => "NoPermission",
        Cause::Code(code::INVALID_STATE) => "InvalidState",
        Cause::Code(code::NOT_SUPPORTED) => "NotSupported",
        Cause::Code(code::NOT_FOUND) => "NotFound",
        Cause::Code(code::INVALID_ARGUMENT) => "InvalidArgument",
        Cause::Code(code::TIMEOUT) => "DriverTimeout",
        Cause::Code(code::UNINITIALIZED | code::DRIVER_NOT_LOADED) => "DriverNotLoaded",
        _ => "DriverError",
    }
}

/// What a person does about a refusal.
fn remedy(cause: Cause) -> &'static str {
    match cause {
        Cause::Code(code::INSUFFICIENT_RESOURCES) => {
            "its place on the GPU is taken: someone else may have created an instance since; look at \
             `nvidia-smi mig -lgi`, and plan anew"
        }
        Cause::Code(code::GPU_IS_LOST) => {
            "the GPU has fallen off the bus: look for Xid 79 in the kernel log, and reboot the node"
        }
        Cause::Code(code::RESET_REQUIRED) => {
            "stop what uses the GPU and reset it (`nvidia-smi --gpu-reset -i` with its PCI address), or reboot the node"
        }
        Cause::Code(code::NO_PERMISSION) => {
            "run gpulet as root, and in a container as a privileged one; in a guest, the host decides"
        }
        Cause::Code(code::INVALID_STATE) => {
            "the GPU is in another state than that needs, such as MIG mode that is off or put off; plan anew"
        }
        Cause::Code(code::NOT_SUPPORTED) => {
            "the GPU cannot do this now: MIG mode may have been turned off by someone else, or the GPU is a virtual \
             one or in graphics display mode; look at `nvidia-smi -q`"
        }
        Cause::Code(code::NOT_FOUND) => "someone else has removed it meanwhile; plan anew",
        Cause::Code(code::INVALID_ARGUMENT) => {
            "the driver does not know the profile or the place; look at `nvidia-smi mig -lgipp`, and plan anew"
        }
        Cause::Code(code::UNINITIALIZED | code::DRIVER_NOT_LOADED) => {
            "the driver has been unloaded meanwhile; load it (modprobe nvidia), and plan anew"
        }
        _ => "look for NVRM and Xid messages in the kernel log, and try again",
    }
}

/// Who uses it, and the remedy.
fn users(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return "the driver lists no process there; stop clients that it does not list, such as an MPS server, DCGM, \
                a process that only holds the device open, or another tool that manages MIG"
            .to_owned();
    }
    let holders: Vec<String> = holders.iter().map(ToString::to_string).collect();
    format!("used by {}; stop that, or let the change wait for it", holders.join(", "))
}
