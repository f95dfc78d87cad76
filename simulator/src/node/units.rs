//! The notations of descriptions: sizes, short PCI addresses, driver versions.

use std::fmt;
use std::str::FromStr;

use gpulet_inventory::pci::PciAddress;
use serde::{Deserialize, Deserializer, de::Error};

/// An amount of memory, written with its unit: `80GiB`, `512KiB`, `4096B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// In KiB, rounded down.
    pub fn kib(self) -> u64 {
        self.0 >> 10
    }

    /// In MiB, rounded down.
    pub fn mib(self) -> u64 {
        self.0 >> 20
    }
}

fn bytes(text: &str) -> Option<Bytes> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let shift = match unit.trim() {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    Some(Bytes(bytes))
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        bytes(&text).ok_or_else(|| {
            D::Error::custom(format!(
                "`{text}` is no amount of memory; expected a number with B, KiB, MiB, GiB or TiB"
            ))
        })
    }
}

/// Reads a PCI address whose domain may be left out: `1b:00.0` is `0000:1b:00.0`.
///
/// # Errors
/// A text that is no PCI address.
pub(super) fn pci_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PciAddress, D::Error> {
    let text = String::deserialize(deserializer)?;
    let long = if text.matches(':').count() == 1 { format!("0000:{text}") } else { text };
    long.parse().map_err(D::Error::custom)
}

/// The bus at which a PCIe hierarchy starts: `0000:15`, the kernel's `pci0000:15`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootBus {
    /// Segment.
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
}

impl fmt::Display for RootBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pci{:04x}:{:02x}", self.domain, self.bus)
    }
}

impl<'de> Deserialize<'de> for RootBus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let address = format!("{text}:00.0").parse::<PciAddress>().map_err(|_| {
            D::Error::custom(format!(
                "`{text}` is no root bus; expected domain:bus in hexadecimal, such as 0000:15"
            ))
        })?;
        Ok(Self { domain: address.domain, bus: address.bus })
    }
}

/// A driver version, such as `580.105.08`. Versions compare by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverVersion {
    text: String,
    numbers: Vec<u32>,
}

/// Why a text is no driver version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no driver version; expected two or three numbers, such as 580.105.08")]
pub struct ParseDriverVersionError {
    text: String,
}

impl DriverVersion {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is `numbers` or later.
    pub fn at_least(&self, numbers: &[u32]) -> bool {
        self.numbers.as_slice() >= numbers
    }
}

impl FromStr for DriverVersion {
    type Err = ParseDriverVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || ParseDriverVersionError { text: text.chars().take(64).collect() };
        let number = |part: &str| {
            let plain = (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| part.parse::<u32>().ok()).flatten()
        };
        let numbers = text.split('.').map(number).collect::<Option<Vec<_>>>().ok_or_else(refuse)?;
        if !(2..=3).contains(&numbers.len()) {
            return Err(refuse());
        }
        Ok(Self { text: text.to_owned(), numbers })
    }
}

impl<'de> Deserialize<'de> for DriverVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("80GiB"), Some(Bytes(80 << 30)));
        assert_eq!(bytes("4 KiB"), Some(Bytes(4096)));
        assert_eq!(bytes("7B"), Some(Bytes(7)));
        for text in ["", "80", "GiB", "80GB", "-1B", "99999999999TiB"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn versions_compare_by_number() {
        let version = |text: &str| text.parse::<DriverVersion>().unwrap();
        assert!(version("580.105.08").at_least(&[580, 82]));
        assert!(!version("580.65.06").at_least(&[580, 82]));
        assert!(version("590.44").at_least(&[580, 82]));
        for text in ["", "580", "580.", "580.a", "1.2.3.4", "580.99999.1"] {
            assert!(text.parse::<DriverVersion>().is_err(), "{text}");
        }
    }
}
