//! Quantities as Kubernetes writes them: `500m`, `1Gi`, `1.5`, `1e3`.
//!
//! Kept as a whole number of billionths, as Kubernetes does: what is finer is rounded up, so that who asks for something
//! gets something (source: the kubelet's own `resource.Quantity`).

use std::ops::Add;
use std::str::FromStr;

const NANO: i128 = 1_000_000_000;
/// The largest quantity that the kubelet can count.
const MAX: i128 = i64::MAX as i128 * NANO;

/// An amount of something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity {
    billionths: i128,
}

/// Why a text is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuantityError {
    #[error("it is no quantity, such as 2, 500m, 1.5Gi or 1e3")]
    Malformed,
    #[error("it is larger than 2^63")]
    TooLarge,
}

impl Quantity {
    /// So many whole units.
    pub(crate) fn units(number: u64) -> Self {
        Self { billionths: i128::from(number) * NANO }
    }

    /// Whole units, what is left over rounded up; `None` if it is negative.
    pub(crate) fn whole(self) -> Option<u64> {
        self.parts_of(NANO)
    }

    /// Thousandths, what is left over rounded up; `None` if it is negative.
    pub(crate) fn thousandths(self) -> Option<u64> {
        self.parts_of(NANO / 1000)
    }

    fn parts_of(self, part: i128) -> Option<u64> {
        u64::try_from(divided_up(self.billionths, part)).ok().filter(|_| self.billionths >= 0)
    }
}

impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        // Each is below 2^93.
        Self { billionths: self.billionths.saturating_add(other.billionths) }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at_checked(end).ok_or(QuantityError::Malformed)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let plain = number.contains(|c: char| c.is_ascii_digit()) && !fraction.contains('.');
        let unit = Unit::of(suffix).filter(|_| plain).ok_or(QuantityError::Malformed)?;
        let billionths = unit.billionths(whole, fraction)?;
        Ok(Self { billionths: if negative { -billionths } else { billionths } })
    }
}

/// What stands behind the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// A power of ten.
    Ten(i32),
    /// A power of two.
    Two(u32),
}

impl Unit {
    fn of(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "n" => Self::Ten(-9),
            "u" => Self::Ten(-6),
            "m" => Self::Ten(-3),
            "" => Self::Ten(0),
            "k" => Self::Ten(3),
            "M" => Self::Ten(6),
            "G" => Self::Ten(9),
            "T" => Self::Ten(12),
            "P" => Self::Ten(15),
            "E" => Self::Ten(18),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            exponent => Self::Ten(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
        })
    }

    fn billionths(self, whole: &str, fraction: &str) -> Result<i128, QuantityError> {
        let fraction = fraction.trim_end_matches('0');
        let digits = [whole, fraction].concat();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(0);
        }
        let value = digits.parse::<i128>().map_err(|_| QuantityError::TooLarge)?;
        let places = i64::try_from(fraction.len()).map_err(|_| QuantityError::Malformed)?;
        let (value, tens) = match self {
            Self::Ten(power) => (Some(value), 9 + i64::from(power) - places),
            Self::Two(power) => (value.checked_mul(1 << power), 9 - places),
        };
        let value = value.and_then(|value| scaled(value, tens)).filter(|value| *value <= MAX);
        match (value, self) {
            (Some(value), _) => Ok(value),
            (None, Self::Two(_)) => Ok(MAX),
            (None, Self::Ten(_)) => Err(QuantityError::TooLarge),
        }
    }
}

/// `value` times a power of ten, rounded up; `None` if that is too much.
fn scaled(value: i128, tens: i64) -> Option<i128> {
    let power = u32::try_from(tens.unsigned_abs()).ok().and_then(|tens| 10_i128.checked_pow(tens));
    match power {
        Some(power) if tens >= 0 => value.checked_mul(power),
        Some(power) => Some(divided_up(value, power)),
        // Divided by more than it can be: the least that there is.
        None => (tens < 0).then_some(1),
    }
}

fn divided_up(value: i128, by: i128) -> i128 {
    value.div_euclid(by) + i128::from(value.rem_euclid(by) != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn billionths(text: &str) -> Result<i128, QuantityError> {
        text.parse::<Quantity>().map(|quantity| quantity.billionths)
    }

    #[test]
    fn quantities_are_what_kubernetes_takes_them_for() {
        let units = [
            ("0", 0),
            ("2", 2),
            ("+2", 2),
            ("1e3", 1000),
            ("1E3", 1000),
            ("1E+3", 1000),
            ("5000e-3", 5),
            ("1E", 1_000_000_000_000_000_000),
            ("1k", 1000),
            ("1Ki", 1024),
            ("1.5Gi", 1_610_612_736),
            ("1.", 1),
            (".5Ki", 512),
            ("007", 7),
            ("0.000M", 0),
            ("7Ei", 8_070_450_532_247_928_832),
        ];
        for (text, units) in units {
            assert_eq!(billionths(text), Ok(units * NANO), "{text}");
        }
        for (text, expected) in
            [("500m", NANO / 2), ("1.5", NANO * 3 / 2), ("-1", -NANO), ("1u", 1000), ("3n", 3)]
        {
            assert_eq!(billionths(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_finer_than_a_billionth_is_rounded_up() {
        for text in
            ["0.1n", "1e-12", "0.00000000000000000000000000000000000000000000000000001", "1e-2000000000"]
        {
            assert_eq!(billionths(text), Ok(1), "{text}");
        }
        assert_eq!(billionths("1.0000000001"), Ok(NANO + 1));
        let quantity: Quantity = "1.0005".parse().unwrap();
        assert_eq!((quantity.whole(), quantity.thousandths()), (Some(2), Some(1001)));
    }

    #[test]
    fn what_is_too_much_is_refused_or_capped_as_kubernetes_does() {
        for text in [
            "1e30",
            "9223372036854775808",
            "10E",
            "1e2000000000",
            "99999999999999999999999999999999999999999",
        ] {
            assert_eq!(billionths(text), Err(QuantityError::TooLarge), "{text}");
        }
        assert_eq!(billionths("9223372036854775807"), Ok(MAX));
        assert_eq!(billionths("16Ei"), Ok(MAX));
        assert_eq!(billionths("99999999999999999999Ei"), Ok(MAX));
        assert_eq!(billionths("0e2000000000"), Ok(0));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "", "-", ".", "+.", "1 Gi", " 1", "1ki", "1K", "1e", "1e3.5", "1.2.3", "--1", "Gi", "1GiB", "1ü",
            "1e+-3",
        ] {
            assert_eq!(billionths(text), Err(QuantityError::Malformed), "{text}");
        }
    }

    #[test]
    fn what_is_negative_is_no_amount() {
        let quantity: Quantity = "-0.5".parse().unwrap();
        assert_eq!((quantity.whole(), quantity.thousandths()), (None, None));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+]?[0-9.]{0,45}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,11}|.{0,20}") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let _ = (quantity.whole(), quantity.thousandths(), quantity + quantity);
            }
        }

        #[test]
        fn written_quantities_are_read(thousandths in 0..=1_000_000_000_000_u64) {
            let quantity: Quantity = format!("{thousandths}m").parse().unwrap();
            let decimal: Quantity = format!("{}.{:03}", thousandths / 1000, thousandths % 1000).parse().unwrap();
            prop_assert_eq!(quantity, decimal);
            prop_assert_eq!(quantity.thousandths(), Some(thousandths));
            prop_assert_eq!(quantity.whole(), Some(thousandths.div_ceil(1000)));
        }
    }
}
