//! Keeps the driver's sentinels and impossible values from leaving as numbers.
//!
//! Sources: `NVML_VALUE_NOT_AVAILABLE` is -1, so all ones in any width; the blank values of NVIDIA's management
//! interfaces are the 16 numbers up to the largest signed integer, in 32 and 64 bits.

use gpulet_inventory::reading::Cause;

const BLANK_32: std::ops::RangeInclusive<u32> = 0x7FFF_FFF0..=0x7FFF_FFFF;
const BLANK_64: std::ops::RangeInclusive<u64> = 0x7FFF_FFFF_FFFF_FFF0..=0x7FFF_FFFF_FFFF_FFFF;
/// No GPU lives above this, °C.
const HOTTEST: u32 = 200;

/// A 32-bit number, unless it says that there is none.
pub(crate) fn number(value: u32) -> Result<u32, Cause> {
    if value == u32::MAX || BLANK_32.contains(&value) { Err(Cause::Blank) } else { Ok(value) }
}

/// A 64-bit number, unless it says that there is none.
pub(crate) fn wide(value: u64) -> Result<u64, Cause> {
    if value == u64::MAX || BLANK_64.contains(&value) { Err(Cause::Blank) } else { Ok(value) }
}

/// A 32-bit number that came in 64 bits.
pub(crate) fn narrow(value: u64) -> Result<u32, Cause> {
    u32::try_from(wide(value)?).map_err(|_| Cause::Implausible).and_then(number)
}

/// A percentage.
pub(crate) fn percent(value: u32) -> Result<u32, Cause> {
    number(value).and_then(|value| if value <= 100 { Ok(value) } else { Err(Cause::Implausible) })
}

/// A temperature, °C.
pub(crate) fn celsius(value: u32) -> Result<u32, Cause> {
    number(value).and_then(|value| if value <= HOTTEST { Ok(value) } else { Err(Cause::Implausible) })
}

/// A number that identifies something, where all ones mean that there is nothing.
pub(crate) fn id(value: u32) -> Option<u32> {
    (value != u32::MAX).then_some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sentinels_are_blank() {
        assert_eq!(number(u32::MAX), Err(Cause::Blank));
        assert_eq!(number(0x7FFF_FFF0), Err(Cause::Blank));
        assert_eq!(wide(u64::MAX), Err(Cause::Blank));
        assert_eq!(wide(0x7FFF_FFFF_FFFF_FFF1), Err(Cause::Blank));
        assert_eq!(percent(u32::MAX), Err(Cause::Blank));
        assert_eq!(id(u32::MAX), None);
    }

    #[test]
    fn nonsense_is_implausible() {
        assert_eq!(celsius(201), Err(Cause::Implausible));
        assert_eq!(percent(101), Err(Cause::Implausible));
        assert_eq!(narrow(1 << 40), Err(Cause::Implausible));
    }

    proptest! {
        #[test]
        fn no_sentinel_leaves_as_a_number(value: u32) {
            if let Ok(number) = number(value) {
                prop_assert!(number < 0x7FFF_FFF0 || (0x8000_0000..u32::MAX).contains(&number));
            }
            prop_assert!(percent(value).is_ok() == (value <= 100));
            prop_assert!(celsius(value).is_ok() == (value <= 200));
        }

        #[test]
        fn ordinary_values_pass(value in 0u64..0x7FFF_FFF0) {
            prop_assert_eq!(wide(value), Ok(value));
            prop_assert_eq!(narrow(value), Ok(u32::try_from(value).unwrap()));
        }
    }
}
