//! Devices that DRA drivers publish for this node (source: ResourceSlices of `resource.k8s.io/v1`).

use serde::{Deserialize, Serialize};

/// One device that may be given to Pods by a ResourceClaim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedDevice {
    /// The DRA driver, such as `gpu.nvidia.com`.
    pub driver: String,
    /// The driver's pool, usually the node's name.
    pub pool: String,
    /// The driver's name for the device, such as `gpu-0`.
    pub device: String,
    /// The attribute `uuid` of whatever domain; a GPU's or MIG instance's, where the driver gives one.
    pub uuid: Option<String>,
    /// The attribute `pciBusID` of whatever domain, as written.
    pub pci_bus_id: Option<String>,
}
