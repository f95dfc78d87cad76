//! PCI addresses, in the spellings of sysfs and of NVML.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A PCI function: `domain:bus:device.function`.
///
/// sysfs writes at least four digits of domain in lower case (`0000:3b:00.0`, and `10000:e1:00.0` behind Intel
/// VMD), NVML eight in upper case (`00000000:3B:00.0`). Both parse, and [`fmt::Display`] writes the former.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    /// Segment; 32 bits, since VMD and large machines exceed 16.
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device number, 0 to 31.
    pub device: u8,
    /// Function number, 0 to 7.
    pub function: u8,
}

/// Why a text is not a PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a PCI address; expected domain:bus:device.function in hexadecimal, such as 0000:3b:00.0"
)]
pub struct ParsePciAddressError {
    text: String,
}

impl ParsePciAddressError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "InvalidPciAddress"
    }
}

impl FromStr for PciAddress {
    type Err = ParsePciAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParsePciAddressError { text: text.chars().take(64).collect() })
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let (rest, function) = text.split_once('.')?;
    let mut parts = rest.split(':');
    let (domain, bus, device) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let address = PciAddress {
        domain: hex(domain, 8)?,
        bus: u8::try_from(hex(bus, 2)?).ok()?,
        device: u8::try_from(hex(device, 2)?).ok()?,
        function: u8::try_from(hex(function, 1)?).ok()?,
    };
    (address.device < 32 && address.function < 8).then_some(address)
}

/// `from_str_radix` alone would take a sign.
fn hex(digits: &str, at_most: usize) -> Option<u32> {
    let plain =
        !digits.is_empty() && digits.len() <= at_most && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_spellings_are_one_address() {
        let nvml: PciAddress = "00000000:3B:00.0".parse().unwrap();
        let sysfs: PciAddress = "0000:3b:00.0".parse().unwrap();
        assert_eq!(nvml, sysfs);
        assert_eq!(nvml.to_string(), "0000:3b:00.0");
    }

    #[test]
    fn long_domains_survive() {
        assert_eq!("10000:e1:00.0".parse::<PciAddress>().unwrap().to_string(), "10000:e1:00.0");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "3b:00.0", "0000:3b:00", "0000:3b:20.0", "0000:3b:00.8", "0000:+b:00.0", "a:b:c:d.e"]
        {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in ".{0,40}") {
            let _ = text.parse::<PciAddress>();
        }

        #[test]
        fn printing_and_parsing_agree(domain: u32, bus: u8, device in 0u8..32, function in 0u8..8) {
            let address = PciAddress { domain, bus, device, function };
            prop_assert_eq!(address.to_string().parse::<PciAddress>().unwrap(), address);
        }
    }
}
