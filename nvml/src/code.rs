//! What the driver's return codes mean to gpulet (source: `nvml.h`, enum `nvmlReturn_enum`).

use gpulet_inventory::reading::Answer;
use gpulet_inventory::reading::Cause;
use gpulet_inventory::snapshot::DownReason;

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const UNINITIALIZED: u32 = 1;
pub(crate) const INVALID_ARGUMENT: u32 = 2;
pub(crate) const NOT_SUPPORTED: u32 = 3;
pub(crate) const NO_PERMISSION: u32 = 4;
pub(crate) const NOT_FOUND: u32 = 6;
pub(crate) const INSUFFICIENT_SIZE: u32 = 7;
pub(crate) const DRIVER_NOT_LOADED: u32 = 9;
pub(crate) const TIMEOUT: u32 = 10;
pub(crate) const LIBRARY_NOT_FOUND: u32 = 12;
pub(crate) const FUNCTION_NOT_FOUND: u32 = 13;
pub(crate) const GPU_IS_LOST: u32 = 15;
pub(crate) const RESET_REQUIRED: u32 = 16;
pub(crate) const LIB_RM_VERSION_MISMATCH: u32 = 18;
pub(crate) const IN_USE: u32 = 19;
pub(crate) const INSUFFICIENT_RESOURCES: u32 = 23;
pub(crate) const ARGUMENT_VERSION_MISMATCH: u32 = 25;
pub(crate) const DEPRECATED: u32 = 26;
pub(crate) const INVALID_STATE: u32 = 29;

/// Whether the same question will get the same answer until something changes: the GPU, its mode or this driver
/// does not have the value.
///
/// `INVALID_ARGUMENT` counts: the arguments of this crate are right by construction, so what the driver does not
/// know is the enumerator, link or field.
pub(crate) fn is_unsupported(cause: Cause) -> bool {
    match cause {
        Cause::NoSymbol => true,
        Cause::Code(code) => matches!(
            code,
            INVALID_ARGUMENT | NOT_SUPPORTED | FUNCTION_NOT_FOUND | ARGUMENT_VERSION_MISMATCH | DEPRECATED
        ),
        Cause::Blank | Cause::Implausible | Cause::TimedOut | Cause::Busy | Cause::NotOpen => false,
    }
}

/// Whether every further call to this GPU is bound to get the same answer.
pub(crate) fn is_fatal(code: u32) -> bool {
    matches!(code, UNINITIALIZED | DRIVER_NOT_LOADED | GPU_IS_LOST | RESET_REQUIRED)
}

/// Whether there is no driver any more that could be called, until it is opened anew.
pub(crate) fn is_driver_gone(cause: Cause) -> bool {
    matches!(cause, Cause::Code(UNINITIALIZED | DRIVER_NOT_LOADED))
}

/// What a GPU is that gave this answer instead of data.
pub(crate) fn down_reason(answer: Answer) -> DownReason {
    match answer.cause {
        Cause::Code(GPU_IS_LOST) => DownReason::Lost(answer),
        Cause::Code(RESET_REQUIRED) => DownReason::ResetRequired(answer),
        _ => DownReason::Failed(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_asked_again() {
        for code in [NO_PERMISSION, TIMEOUT, 17, 19, 20, 27, 999] {
            assert!(!is_unsupported(Cause::Code(code)), "{code}");
        }
        assert!(!is_unsupported(Cause::Blank));
    }

    #[test]
    fn what_stays_is_not() {
        for cause in [Cause::NoSymbol, Cause::Code(NOT_SUPPORTED), Cause::Code(FUNCTION_NOT_FOUND)] {
            assert!(is_unsupported(cause), "{cause:?}");
        }
    }

    #[test]
    fn a_lost_gpu_is_not_a_failed_one() {
        let answer = |code| Answer { call: "nvmlDeviceGetUUID", cause: Cause::Code(code) };
        assert_eq!(down_reason(answer(GPU_IS_LOST)).reason(), "Lost");
        assert_eq!(down_reason(answer(RESET_REQUIRED)).reason(), "ResetRequired");
        assert_eq!(down_reason(answer(999)).reason(), "Failed");
    }
}
