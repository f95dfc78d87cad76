//! NVLink.

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

/// One NVLink of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvLink {
    /// The link's number on its GPU, from 0.
    pub link: u32,
    /// Whether it is up.
    pub active: bool,
    /// NVLink generation; the driver does not answer it for every link that is down.
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
