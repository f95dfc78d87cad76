//! Amounts as Kubernetes writes them: `2`, `500m`, `64Mi`, `1.5G`, `1e3`.

use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An amount in thousandths of its unit (CPUs, bytes, devices). Finer parts are rounded up, as Kubernetes does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    milli: u128,
}

impl Quantity {
    /// A whole amount.
    pub const fn of(value: u64) -> Self {
        Self { milli: value as u128 * 1000 }
    }

    /// An amount in thousandths.
    pub const fn of_milli(milli: u64) -> Self {
        Self { milli: milli as u128 }
    }

    /// In thousandths.
    pub fn milli(self) -> u64 {
        u64::try_from(self.milli).unwrap_or(u64::MAX)
    }

    /// In whole units, rounded up.
    pub fn value(self) -> u64 {
        u64::try_from(self.milli.div_ceil(1000)).unwrap_or(u64::MAX)
    }

    /// Whether it has no fraction.
    pub fn is_whole(self) -> bool {
        self.milli.is_multiple_of(1000)
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.milli == 0
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        self.milli = self.milli.saturating_add(other.milli);
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), |mut sum, amount| {
            sum += amount;
            sum
        })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_whole() { write!(f, "{}", self.milli / 1000) } else { write!(f, "{}m", self.milli) }
    }
}

/// Why a text is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no amount; expected a number with at most one suffix, such as 2, 500m, 64Mi or 10G")]
pub struct ParseQuantityError {
    text: String,
}

impl ParseQuantityError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "InvalidQuantity"
    }
}

/// Suffixes with the factor to thousandths, as numerator and denominator.
const SUFFIXES: [(&str, u128, u128); 16] = [
    ("", 1000, 1),
    ("n", 1, 1_000_000),
    ("u", 1, 1000),
    ("m", 1, 1),
    ("k", 1_000_000, 1),
    ("M", 1_000_000_000, 1),
    ("G", 1_000_000_000_000, 1),
    ("T", 1_000_000_000_000_000, 1),
    ("P", 1_000_000_000_000_000_000, 1),
    ("E", 1_000_000_000_000_000_000_000, 1),
    ("Ki", 1000 << 10, 1),
    ("Mi", 1000 << 20, 1),
    ("Gi", 1000 << 30, 1),
    ("Ti", 1000 << 40, 1),
    ("Pi", 1000 << 50, 1),
    ("Ei", 1000 << 60, 1),
];

/// The digits of a number without its point, and how many of them stand after it.
fn decimal(text: &str) -> Option<(u128, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = [whole, fraction].concat();
    let plain = (1..=24).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let number = plain.then(|| digits.parse::<u128>().ok()).flatten()?;
    Some((number, u32::try_from(fraction.len()).ok()?))
}

fn parse(text: &str) -> Option<Quantity> {
    if let Some((number, power)) = text.split_once(['e', 'E']).filter(|(_, power)| !power.is_empty()) {
        let (number, places) = decimal(number)?;
        let power = power.strip_prefix('+').unwrap_or(power).parse::<u32>().ok().filter(|p| *p <= 18)?;
        let milli = number.checked_mul(10_u128.checked_pow(power + 3)?)?.div_ceil(10_u128.pow(places));
        return Some(Quantity { milli });
    }
    let end = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, suffix) = text.split_at_checked(end)?;
    let (number, places) = decimal(number)?;
    let (_, up, down) = SUFFIXES.iter().find(|(name, ..)| *name == suffix)?;
    let milli = number.checked_mul(*up)?.div_ceil(10_u128.pow(places).checked_mul(*down)?);
    Some(Quantity { milli })
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text.trim()).ok_or_else(|| ParseQuantityError { text: text.chars().take(64).collect() })
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount such as 2, 500m or 64Mi")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Quantity, E> {
                Ok(Quantity::of(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Quantity, E> {
                u64::try_from(value).map(Quantity::of).map_err(|_| E::custom("an amount is not negative"))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Quantity, E> {
                value.to_string().parse().map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_kubernetes_reads_them() {
        let of = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(of("2").milli(), 2000);
        assert_eq!(of("500m").milli(), 500);
        assert_eq!(of("1.5").milli(), 1500);
        assert_eq!(of("64Mi").value(), 64 << 20);
        assert_eq!(of("1.5Gi").value(), 3 << 29);
        assert_eq!(of("2G").value(), 2_000_000_000);
        assert_eq!(of("1e3").value(), 1000);
        assert_eq!(of("1.5E2").value(), 150);
        assert_eq!(of("3E").value(), 3_000_000_000_000_000_000);
        assert_eq!(of("1u").milli(), 1);
        assert_eq!(of("0.1").value(), 1);
        assert!(of("2.0").is_whole() && !of("2500m").is_whole());
        for text in ["", "-1", "1Q", "Mi", "1..2", "1e99", "1 Gi", "99999999999999999999999999"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }
}
