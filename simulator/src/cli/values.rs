//! Values as people write them: return codes, sizes, durations, instances, symbols.

use std::time::Duration;

use gpulet_simulator::command::RESET_SYMBOL;
use gpulet_simulator::{LEGACY_SYMBOLS, SYMBOLS};

/// `nvmlReturn_t` by its name without the prefix.
const RETURN_CODES: &[(&str, u32)] = &[
    ("UNINITIALIZED", 1),
    ("INVALID_ARGUMENT", 2),
    ("NOT_SUPPORTED", 3),
    ("NO_PERMISSION", 4),
    ("ALREADY_INITIALIZED", 5),
    ("NOT_FOUND", 6),
    ("INSUFFICIENT_SIZE", 7),
    ("INSUFFICIENT_POWER", 8),
    ("DRIVER_NOT_LOADED", 9),
    ("TIMEOUT", 10),
    ("IRQ_ISSUE", 11),
    ("LIBRARY_NOT_FOUND", 12),
    ("FUNCTION_NOT_FOUND", 13),
    ("CORRUPTED_INFOROM", 14),
    ("GPU_IS_LOST", 15),
    ("RESET_REQUIRED", 16),
    ("OPERATING_SYSTEM", 17),
    ("LIB_RM_VERSION_MISMATCH", 18),
    ("IN_USE", 19),
    ("MEMORY", 20),
    ("NO_DATA", 21),
    ("VGPU_ECC_NOT_SUPPORTED", 22),
    ("INSUFFICIENT_RESOURCES", 23),
    ("FREQ_NOT_SUPPORTED", 24),
    ("ARGUMENT_VERSION_MISMATCH", 25),
    ("DEPRECATED", 26),
    ("NOT_READY", 27),
    ("GPU_NOT_FOUND", 28),
    ("INVALID_STATE", 29),
    ("RESET_TYPE_NOT_SUPPORTED", 30),
    ("UNKNOWN", 999),
];

/// A return code: `NOT_SUPPORTED`, `NVML_ERROR_NOT_SUPPORTED` or a number.
pub(super) fn return_code(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("NVML_ERROR_").unwrap_or(&upper);
    RETURN_CODES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code).ok_or_else(|| {
        let known: Vec<_> = RETURN_CODES.iter().map(|(name, _)| *name).collect();
        format!("expected a number or one of {}", known.join(", "))
    })
}

/// A symbol that the simulated driver has, so that a fault on a misspelt one does not wait for ever.
pub(super) fn symbol(text: &str) -> Result<String, String> {
    if SYMBOLS.contains(&text) || LEGACY_SYMBOLS.contains(&text) || text == RESET_SYMBOL {
        return Ok(text.to_owned());
    }
    if text == "nvmlErrorString" {
        return Err("it only puts codes into words and cannot fail".to_owned());
    }
    let alike: Vec<_> =
        SYMBOLS.iter().filter(|symbol| symbol.starts_with(text) || text.starts_with(**symbol)).collect();
    Err(match alike.as_slice() {
        [] => "the simulated driver has no such symbol".to_owned(),
        alike => format!("the simulated driver has no such symbol; did you mean {}?", join(alike)),
    })
}

fn join(symbols: &[&&str]) -> String {
    symbols.iter().map(|symbol| **symbol).collect::<Vec<_>>().join(" or ")
}

/// Bytes: `512MiB`, `10GiB`, `4096`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..).unwrap_or_default() {
        "" => 1,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1_u64 << 30,
        _ => return Err("expected a number and KiB, MiB or GiB, such as 10GiB".to_owned()),
    };
    let number: u64 =
        digits.parse().map_err(|_| "expected a whole number and a unit, such as 10GiB".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "this is more than 64 bits can hold".to_owned())
}

/// A span of time: `100ms`, `1.5s`, `10m`, `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds_a_unit = match text.get(digits.len()..).unwrap_or_default() {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("expected a number and ms, s, m or h, such as 1.5s".to_owned()),
    };
    let number: f64 = digits.parse().map_err(|_| "expected a number and a unit, such as 1.5s".to_owned())?;
    Duration::try_from_secs_f64(number * seconds_a_unit).map_err(|_| "this is no span of time".to_owned())
}

/// GPU instance and compute instance: `1/0`.
pub(super) fn instance(text: &str) -> Result<(u32, u32), String> {
    let pair = text.split_once('/').and_then(|(gi, ci)| Some((gi.parse().ok()?, ci.parse().ok()?)));
    pair.ok_or_else(|| "expected GPU instance and compute instance, such as 1/0".to_owned())
}

/// A GPU instance, or a compute instance in it: `1`, `1/0`.
pub(super) fn instance_or_part(text: &str) -> Result<(u32, Option<u32>), String> {
    if let Ok(gpu_instance) = text.parse() {
        return Ok((gpu_instance, None));
    }
    let pair =
        instance(text).map_err(|_| "expected a GPU instance, or a compute instance in it: 1 or 1/0")?;
    Ok((pair.0, Some(pair.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_codes_have_names_and_numbers() {
        for text in ["NOT_SUPPORTED", "not_supported", "NVML_ERROR_NOT_SUPPORTED", "3"] {
            assert_eq!(return_code(text), Ok(3), "{text}");
        }
        assert!(return_code("NO").is_err());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("10GiB"), Ok(10 << 30));
        for wrong in ["", "GiB", "-1MiB", "1GB", "1.5GiB", "99999999999GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        for wrong in ["", "5", "-1s", "s", "1d", "NaNs"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_misspelt_symbol_is_noticed() {
        assert_eq!(symbol("nvmlDeviceGetPowerUsage"), Ok("nvmlDeviceGetPowerUsage".to_owned()));
        let hint = symbol("nvmlDeviceGetPowerUsag").unwrap_err();
        assert!(hint.contains("nvmlDeviceGetPowerUsage"), "{hint}");
        assert!(symbol("nvmlNoSuchThing").is_err());
        assert!(symbol("nvmlDeviceGetCount").is_ok(), "older programs' names are calls, too");
        assert!(symbol("nvmlErrorString").unwrap_err().contains("cannot fail"));
    }
}
