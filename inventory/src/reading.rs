//! A value that the driver gave, or why it did not.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::word::Word;

/// The outcome of one read.
///
/// A value that is not there is never a number: sentinels of the driver become [`Reading::Unsupported`] or
/// [`Reading::Failed`] before they leave the crate that made the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading<T> {
    /// The driver answered.
    Supported(T),
    /// This GPU, in its present mode and with this driver, has no such value. Not worth asking again soon.
    Unsupported(Answer),
    /// The value exists but could not be had this time.
    Failed(Answer),
}

impl<T> Reading<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Supported(value) => Some(value),
            Self::Unsupported(_) | Self::Failed(_) => None,
        }
    }

    /// What the driver said instead of a value.
    pub fn refusal(&self) -> Option<Answer> {
        match self {
            Self::Supported(_) => None,
            Self::Unsupported(answer) | Self::Failed(answer) => Some(*answer),
        }
    }

    /// The same outcome with the value changed by `f`.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Supported(value) => Reading::Supported(f(value)),
            Self::Unsupported(answer) => Reading::Unsupported(answer),
            Self::Failed(answer) => Reading::Failed(answer),
        }
    }

    /// The same outcome, looking at the value in place.
    pub fn as_ref(&self) -> Reading<&T> {
        match self {
            Self::Supported(value) => Reading::Supported(value),
            Self::Unsupported(answer) => Reading::Unsupported(*answer),
            Self::Failed(answer) => Reading::Failed(*answer),
        }
    }
}

/// Which call was made and what came back instead of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The driver's symbol, with the field's name in brackets where one symbol answers for many values:
    /// `nvmlDeviceGetFieldValues[NVML_FI_DEV_MEMORY_TEMP]`.
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub call: Word,
    /// What came back.
    pub cause: Cause,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.cause)
    }
}

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The driver returned this `nvmlReturn_t`.
    Code(u32),
    /// The installed library has no such symbol: it is older than the call.
    NoSymbol,
    /// The call succeeded and left the value blank (`NVML_VALUE_NOT_AVAILABLE` and its kin).
    Blank,
    /// The call succeeded and the value cannot be true (a temperature of 300 °C, a utilisation of 4,000 %).
    Implausible,
    /// The call did not return before its deadline.
    TimedOut,
    /// An earlier call to this GPU has not returned yet, so this one was not made.
    Busy,
    /// The driver is not open: never found, let go of on request, or being re-opened.
    NotOpen,
}

impl Cause {
    /// The words of [`Cause::reason`] for codes that the driver returns.
    pub fn code_names() -> impl Iterator<Item = Word> {
        CODES.into_iter().map(|(_, name)| name).chain([OTHER_CODE])
    }

    /// The stable word for metric labels and events. Unknown codes share one word, so that a label's values
    /// stay bounded.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Code(code) => code_name(code),
            Self::NoSymbol => "NO_SYMBOL",
            Self::Blank => "BLANK",
            Self::Implausible => "IMPLAUSIBLE",
            Self::TimedOut => "TIMED_OUT",
            Self::Busy => "BUSY",
            Self::NotOpen => "NOT_OPEN",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "NVML_ERROR_{} ({code})", code_name(*code)),
            other => f.write_str(other.reason()),
        }
    }
}

/// The names of `nvmlReturn_t`, without their prefix (source: `nvml.h`, enum `nvmlReturn_enum`).
const CODES: [(u32, Word); 31] = [
    (1, "UNINITIALIZED"),
    (2, "INVALID_ARGUMENT"),
    (3, "NOT_SUPPORTED"),
    (4, "NO_PERMISSION"),
    (5, "ALREADY_INITIALIZED"),
    (6, "NOT_FOUND"),
    (7, "INSUFFICIENT_SIZE"),
    (8, "INSUFFICIENT_POWER"),
    (9, "DRIVER_NOT_LOADED"),
    (10, "TIMEOUT"),
    (11, "IRQ_ISSUE"),
    (12, "LIBRARY_NOT_FOUND"),
    (13, "FUNCTION_NOT_FOUND"),
    (14, "CORRUPTED_INFOROM"),
    (15, "GPU_IS_LOST"),
    (16, "RESET_REQUIRED"),
    (17, "OPERATING_SYSTEM"),
    (18, "LIB_RM_VERSION_MISMATCH"),
    (19, "IN_USE"),
    (20, "MEMORY"),
    (21, "NO_DATA"),
    (22, "VGPU_ECC_NOT_SUPPORTED"),
    (23, "INSUFFICIENT_RESOURCES"),
    (24, "FREQ_NOT_SUPPORTED"),
    (25, "ARGUMENT_VERSION_MISMATCH"),
    (26, "DEPRECATED"),
    (27, "NOT_READY"),
    (28, "GPU_NOT_FOUND"),
    (29, "INVALID_STATE"),
    (30, "RESET_TYPE_NOT_SUPPORTED"),
    (999, "UNKNOWN"),
];

/// For a code that is newer than this program.
const OTHER_CODE: Word = "OTHER";

fn code_name(code: u32) -> Word {
    CODES.iter().find(|(known, _)| *known == code).map_or(OTHER_CODE, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_call_and_code() {
        let reading: Reading<u32> =
            Reading::Unsupported(Answer { call: "nvmlDeviceGetPowerUsage", cause: Cause::Code(3) });
        assert_eq!(reading.value(), None);
        assert_eq!(
            reading.refusal().unwrap().to_string(),
            "nvmlDeviceGetPowerUsage: NVML_ERROR_NOT_SUPPORTED (3)"
        );
    }

    #[test]
    fn unknown_codes_share_one_word() {
        assert_eq!(Cause::Code(4711).reason(), "OTHER");
        assert_eq!(Cause::Code(15).reason(), "GPU_IS_LOST");
    }
}
