//! NVLink.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::pci::PciAddress;
use crate::reading::Reading;

/// What is at the other end of an NVLink (source: `nvmlIntNvLinkDeviceType_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemoteKind {
    /// Another GPU.
    Gpu,
    /// An IBM POWER NPU.
    Npu,
    /// An NVSwitch.
    Switch,
    /// The driver does not know.
    Unknown,
}

impl RemoteKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Gpu, Self::Npu, Self::Switch, Self::Unknown];

    /// The word for labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Npu => "npu",
            Self::Switch => "switch",
            Self::Unknown => "unknown",
        }
    }
}

/// The driver's number of an NVLink version (source: `nvmlNvlinkVersion_t`), shown as people know it: 6 is `4.0`.
/// A number that is newer than this program is shown as such: `raw-8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NvLinkVersion(pub u32);

impl fmt::Display for NvLinkVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            1 => "1.0",
            2 => "2.0",
            3 => "2.2",
            4 => "3.0",
            5 => "3.1",
            6 => "4.0",
            7 => "5.0",
            other => return write!(f, "raw-{other}"),
        })
    }
}

/// One NVLink of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvLink {
    /// The link's number on its GPU, from 0.
    pub link: u32,
    /// Whether it is up.
    pub active: bool,
    /// The driver's number of the NVLink version ([`NvLinkVersion`]); the driver does not answer it for every link that is down.
    pub version: Reading<u32>,
    /// What is at the other end.
    pub remote_kind: Reading<RemoteKind>,
    /// Where the other end sits.
    pub remote_pci: Reading<PciAddress>,
    /// Bytes sent since the driver was loaded.
    pub transmitted_bytes: Reading<u64>,
    /// Bytes received since the driver was loaded.
    pub received_bytes: Reading<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_shown_as_people_know_them() {
        let shown: Vec<String> = (0..=8).map(|number| NvLinkVersion(number).to_string()).collect();
        assert_eq!(shown, ["raw-0", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "raw-8"]);
    }
}
