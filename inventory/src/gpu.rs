//! What one GPU is: everything about it that stays while the driver is loaded.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::pci::PciAddress;
use crate::reading::Reading;

/// A GPU's identity for its whole life: `GPU-` and a UUID, as the driver writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct GpuUuid(Box<str>);

impl GpuUuid {
    /// The text, prefix included.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GpuUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not a GPU's UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a GPU UUID; expected GPU- and a UUID, such as GPU-8f6d2c3a-0000-1111-2222-333344445555"
)]
pub struct ParseGpuUuidError {
    text: String,
}

impl ParseGpuUuidError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "InvalidGpuUuid"
    }
}

impl FromStr for GpuUuid {
    type Err = ParseGpuUuidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseGpuUuidError { text: text.chars().take(64).collect() };
        let uuid = text.strip_prefix("GPU-").ok_or_else(error)?;
        let groups: Vec<&str> = uuid.split('-').collect();
        let shaped = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]);
        let hexadecimal = groups.iter().all(|group| group.bytes().all(|b| b.is_ascii_hexdigit()));
        (shaped && hexadecimal).then(|| Self(text.into())).ok_or_else(error)
    }
}

impl<'de> Deserialize<'de> for GpuUuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The driver's architecture number in words (source: `NVML_DEVICE_ARCH_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// Kepler to Pascal, 2 to 4.
    BeforeVolta,
    /// 5
    Volta,
    /// 6
    Turing,
    /// 7
    Ampere,
    /// 8
    Ada,
    /// 9
    Hopper,
    /// 10
    Blackwell,
    /// Newer than this program.
    Newer(u32),
}

impl Architecture {
    /// From the driver's number.
    pub fn from_number(number: u32) -> Self {
        match number {
            0..=4 => Self::BeforeVolta,
            5 => Self::Volta,
            6 => Self::Turing,
            7 => Self::Ampere,
            8 => Self::Ada,
            9 => Self::Hopper,
            10 => Self::Blackwell,
            newer => Self::Newer(newer),
        }
    }

    /// The word for labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeVolta => "before-volta",
            Self::Volta => "volta",
            Self::Turing => "turing",
            Self::Ampere => "ampere",
            Self::Ada => "ada",
            Self::Hopper => "hopper",
            Self::Blackwell => "blackwell",
            Self::Newer(_) => "newer",
        }
    }
}

/// One GPU, as it is while the driver is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// The driver's number, in PCI order; may change with a reload.
    pub index: u32,
    /// The identity that stays.
    pub uuid: GpuUuid,
    /// Where it sits.
    pub pci: PciAddress,
    /// N of `/dev/nvidiaN`; need not be the index.
    pub minor: Reading<u32>,
    /// Product name, such as `NVIDIA H100 80GB HBM3`.
    pub name: Reading<String>,
    /// Board serial number.
    pub serial: Reading<String>,
    /// Video BIOS version.
    pub vbios: Reading<String>,
    /// Architecture.
    pub architecture: Reading<Architecture>,
    /// CUDA compute capability, major and minor.
    pub compute_capability: Reading<(u32, u32)>,
    /// Fixed limits of the PCIe link.
    pub pcie_max: PcieMax,
    /// Highest clocks, MHz.
    pub max_clock: MaxClocks,
}

/// The most that a GPU's PCIe link can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieMax {
    /// PCIe generation that both ends can do.
    pub generation: Reading<u32>,
    /// Lanes that both ends have.
    pub width: Reading<u32>,
}

/// The highest clock of each domain, MHz.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaxClocks {
    /// Graphics clock, MHz.
    pub graphics: Reading<u32>,
    /// Streaming multiprocessor clock, MHz.
    pub sm: Reading<u32>,
    /// Memory clock, MHz.
    pub memory: Reading<u32>,
    /// Video clock, MHz.
    pub video: Reading<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_checked() {
        let text = "GPU-8f6d2c3a-0000-1111-2222-333344445555";
        assert_eq!(text.parse::<GpuUuid>().unwrap().as_str(), text);
        for wrong in
            ["", "GPU-", "8f6d2c3a-0000-1111-2222-333344445555", "MIG-8f6d2c3a-0000-1111-2222-333344445555"]
        {
            assert!(wrong.parse::<GpuUuid>().is_err(), "{wrong}");
        }
    }
}
