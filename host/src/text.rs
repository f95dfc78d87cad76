//! What the kernel's small files hold: numbers, lists, rates.

use gpulet_inventory::numa::CpuSet;

/// A text that is not what its file should hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {expected}")]
pub(crate) struct Unexpected {
    found: String,
    expected: &'static str,
}

impl Unexpected {
    pub(crate) fn new(found: &str, expected: &'static str) -> Self {
        Self { found: found.chars().take(32).collect(), expected }
    }
}

/// Digits alone: `parse` would take a sign.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// A decimal number.
pub(crate) fn number(text: &str) -> Result<u64, Unexpected> {
    digits(text).ok_or_else(|| Unexpected::new(text, "a decimal number"))
}

/// A number of a thing (CPU core, package, NUMA node), or `-1`, the kernel's word for "the firmware did not say".
pub(crate) fn index(text: &str) -> Result<Option<u32>, Unexpected> {
    if text == "-1" {
        return Ok(None);
    }
    // The kernel's numbers are `int`; ids of packages and cores may be large.
    let number = digits(text).and_then(|number| i32::try_from(number).ok());
    number.map(i32::unsigned_abs).map(Some).ok_or_else(|| Unexpected::new(text, "-1 or a number below 2^31"))
}

/// A hexadecimal number such as `0x10de`.
pub(crate) fn hexadecimal(text: &str) -> Result<u32, Unexpected> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| Unexpected::new(text, "a hexadecimal number such as 0x10de"))
}

/// A 16-bit hexadecimal number: vendors and devices.
pub(crate) fn id(text: &str) -> Result<u16, Unexpected> {
    let id = hexadecimal(text)?;
    u16::try_from(id).map_err(|_| Unexpected::new(text, "a hexadecimal number of four digits"))
}

/// A list of CPUs or NUMA nodes below `limit`, which bounds what a bad list can cost.
pub(crate) fn list(limit: u32) -> impl Fn(&str) -> Result<CpuSet, Unexpected> {
    move |text| {
        let list = text.parse::<CpuSet>().ok().filter(|list| list.last().is_none_or(|last| last < limit));
        list.ok_or_else(|| Unexpected::new(text, "a list such as 0-3,8 within what the kernel can have"))
    }
}

/// A name as it may be shown: what is no visible character of ASCII is replaced, and at most `longest` bytes are kept.
pub(crate) fn visible(name: &str, longest: usize) -> String {
    name.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).take(longest).collect()
}

/// Thousandths of `unit` in a text such as `2.5 GT/s PCIe` or `400 Gb/sec (4X NDR)`.
pub(crate) fn thousandths(text: &str, unit: &str) -> Option<u64> {
    let mut words = text.split_ascii_whitespace();
    let (value, found) = (words.next()?, words.next()?);
    if found != unit {
        return None;
    }
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let scale = u32::try_from(fraction.len()).ok().filter(|length| (1..=3).contains(length))?;
    let whole = digits(whole).filter(|_| !whole.is_empty())?;
    let fraction = digits(fraction)? * 10_u64.pow(3 - scale);
    whole.checked_mul(1000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number("0"), Ok(0));
        assert!(
            ["", "-1", "+1", "1 ", "0x1", "99999999999999999999"].iter().all(|text| number(text).is_err())
        );
        assert_eq!(index("-1"), Ok(None));
        assert_eq!(index("36"), Ok(Some(36)));
        assert!(["1099511627776", "4294967295", "-2", "", "east"].iter().all(|text| index(text).is_err()));
        assert_eq!(id("0x10de"), Ok(0x10de));
        assert!(["10de", "0x", "0x+1", "0x10000", "ten"].iter().all(|text| id(text).is_err()));
    }

    #[test]
    fn only_visible_characters_are_shown() {
        assert_eq!(visible("ens1f0np0", 15), "ens1f0np0");
        assert_eq!(visible("e\u{1b}[31m\nü ", 15), "e?[31m???");
        assert_eq!(visible("eth0", 3), "eth");
    }

    #[test]
    fn lists_have_a_limit() {
        assert_eq!(list(8)("0-3,7").unwrap().to_string(), "0-3,7");
        assert!(list(8)("").unwrap().is_empty());
        assert!(list(8)("0-8").is_err() && list(8)("0-x").is_err());
    }

    #[test]
    fn rates() {
        let speed = |text| thousandths(text, "GT/s");
        assert_eq!(speed("2.5 GT/s PCIe"), Some(2_500));
        assert_eq!(speed("16 GT/s"), Some(16_000));
        assert_eq!(speed("0.125 GT/s"), Some(125));
        for text in
            ["", "2.5", "2.5 Gb/sec", ". GT/s", ".5 GT/s", "5. GT/s", "1.2345 GT/s", "-1 GT/s", "1e3 GT/s"]
        {
            assert_eq!(speed(text), None, "{text}");
        }
        assert_eq!(thousandths("400 Gb/sec (4X NDR)", "Gb/sec"), Some(400_000));
        assert_eq!(speed("18446744073709551615 GT/s"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(0x)?[-+0-9a-fx., GT/s]{0,24}|.{0,24}") {
            let _ = (number(&text), index(&text), id(&text), list(64)(&text), thousandths(&text, "GT/s"));
        }

        #[test]
        fn written_numbers_are_read(value: u32, small in 0..=i32::MAX) {
            prop_assert_eq!(hexadecimal(&format!("{value:#06x}")), Ok(value));
            prop_assert_eq!(number(&value.to_string()), Ok(u64::from(value)));
            prop_assert_eq!(index(&small.to_string()), Ok(Some(small.unsigned_abs())));
            let (whole, fraction) = (value / 1000, value % 1000);
            prop_assert_eq!(thousandths(&format!("{whole}.{fraction:03} GT/s"), "GT/s"), Some(u64::from(value)));
        }
    }
}
