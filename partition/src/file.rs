//! The partition file: layouts by name, in the `v1` format of NVIDIA's mig-parted.
//!
//! ```yaml
//! version: v1
//! mig-configs:
//!   some-name:
//!   - device-filter: ["0x233010DE"]     # optional: models
//!     devices: all                      # or [0, 1]; also GPU-… UUIDs and PCI addresses
//!     mig-enabled: true
//!     mig-devices: {"1g.10gb": 2, "3g.40gb": 1}
//! ```
//!
//! What a layout means on a node is told by [`crate::resolve`].

mod read;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::yaml;
use serde::{Serialize, Serializer};

use crate::names::ProfileName;

pub use read::parse;
pub(crate) use read::{division, target};

/// Layouts by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartitionFile {
    /// The layouts.
    pub layouts: BTreeMap<String, Vec<Entry>>,
    /// `mps-configs` as it is written.
    pub mps: Option<yaml::Node>,
    /// Made from what the GPUs report, for there is no file.
    pub generated: bool,
}

/// What one layout says of some GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands.
    pub place: Place,
    /// Only GPUs of these models; empty: of all.
    pub filter: Vec<DeviceFilter>,
    /// Which GPUs.
    pub devices: Devices,
    /// What is asked of them.
    pub division: AskedDivision,
}

/// Where something is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Place {
    /// Its line, from 1; 0 where it has none.
    pub line: u64,
    /// The keys that lead to it, such as `mig-configs.all-balanced[0].devices`.
    pub path: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.path),
            line => write!(f, "line {line}: {}", self.path),
        }
    }
}

/// The GPUs that an entry names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// Every GPU, or with a filter every one of these models. Those without MIG mode are passed over.
    All,
    /// These.
    These(Vec<Target>),
}

/// A GPU, as people name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// By the driver's number, as `nvidia-smi` prints it.
    Index(u32),
    /// By its UUID.
    Uuid(GpuUuid),
    /// By where it sits.
    Pci(PciAddress),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Uuid(uuid) => write!(f, "{uuid}"),
            Self::Pci(pci) => write!(f, "{pci}"),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A PCI device and its vendor as one number: `0x233010DE` is device 2330 of NVIDIA (10de).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

impl DeviceId {
    /// From the two numbers that the kernel tells.
    pub fn of(device: u16, vendor: u16) -> Self {
        Self(u32::from(device) << 16 | u32::from(vendor))
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08X}", self.0)
    }
}

/// A model of GPU, told by its PCI ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceFilter {
    /// The device.
    pub device: DeviceId,
    /// The board, where boards with this device differ.
    pub subsystem: Option<DeviceId>,
}

/// Why a text is no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` names no model; expected 0x, device and vendor in hexadecimal, such as 0x233010DE (NVIDIA's is 10DE), \
     or that and the same of the board: 0x233010DE:0x16C110DE"
)]
pub struct ParseDeviceFilterError {
    text: String,
}

impl FromStr for DeviceFilter {
    type Err = ParseDeviceFilterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseDeviceFilterError { text: text.chars().take(64).collect() };
        let (device, subsystem) = match text.split_once(':') {
            Some((device, subsystem)) => (device, Some(device_id(subsystem).ok_or_else(error)?)),
            None => (text, None),
        };
        Ok(Self { device: device_id(device).ok_or_else(error)?, subsystem })
    }
}

fn device_id(text: &str) -> Option<DeviceId> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let plain = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten().map(DeviceId)
}

impl fmt::Display for DeviceFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.device)?;
        self.subsystem.iter().try_for_each(|subsystem| write!(f, ":{subsystem}"))
    }
}

/// What is asked of a GPU, in the words of people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedDivision {
    /// Not in MIG mode.
    Off,
    /// In MIG mode with these; with none it is empty.
    On(Vec<Asked>),
}

/// Some MIG devices of one profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Where it stands.
    pub place: Place,
    /// The profile as named.
    pub name: ProfileName,
    /// How many; never 0.
    pub count: u32,
}

impl PartitionFile {
    /// The layout of this name. Where a label cannot say it, a `.` stands for a `+`.
    pub fn layout(&self, name: &str) -> Option<&[Entry]> {
        let dotted = |own: &&String| own.contains('+') && own.replace('+', ".") == name;
        let own =
            self.layouts.keys().find(|own| *own == name).or_else(|| self.layouts.keys().find(dotted))?;
        self.layouts.get(own).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests;
