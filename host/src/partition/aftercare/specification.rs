//! A CDI specification: what it says, and how that differs from what there is.
//!
//! NVIDIA's tools name devices by number (`0:1`), by UUID, or by both. Where there are UUIDs they are what counts. Where there
//! are none, a device is known by the device files that it brings.

mod differences;
mod options;

use std::collections::BTreeSet;

use serde::Deserialize;

/// How many differences are told one by one.
const MAX_TOLD: usize = 6;

/// A specification, as far as it matters here.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Specification {
    kind: String,
    #[serde(default)]
    devices: Option<Vec<Device>>,
    #[serde(default, rename = "containerEdits")]
    edits: Edits,
}

#[derive(Debug, Clone, Deserialize)]
struct Device {
    name: String,
    #[serde(default, rename = "containerEdits")]
    edits: Edits,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Edits {
    device_nodes: Option<Vec<Node>>,
    mounts: Option<Vec<Mount>>,
    hooks: Option<Vec<Hook>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    path: String,
    host_path: Option<String>,
    major: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: String,
    container_path: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Hook {
    path: String,
}

/// Who writes it, and so how much has to be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// NVIDIA's toolkit: every device, by any container.
    Toolkit,
    /// NVIDIA's toolkit: some of the devices, in a file beside that of all.
    ToolkitInPart,
    /// NVIDIA's toolkit: all device files, for programs that manage GPUs.
    ToolkitForManagers,
    /// NVIDIA's device plugin, when it starts: every device.
    DevicePlugin,
    /// NVIDIA's DRA driver, or something that is not known: what it was asked for.
    Other,
}

impl Specification {
    /// What the text says. JSON is YAML too.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text)
            .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
    }

    /// Whether it is about NVIDIA's devices.
    pub(super) fn is_nvidias(&self) -> bool {
        let (vendor, _) = self.vendor_and_class();
        vendor == "nvidia.com" || vendor.ends_with(".nvidia.com")
    }

    /// The two parts of its kind.
    pub(super) fn vendor_and_class(&self) -> (&str, &str) {
        self.kind.split_once('/').unwrap_or((&self.kind, ""))
    }

    pub(super) fn writer(&self) -> Writer {
        match self.vendor_and_class() {
            ("nvidia.com", "gpu" | "mig") => Writer::Toolkit,
            ("nvidia.com", class) if class.starts_with("gpu.") => Writer::ToolkitInPart,
            ("management.nvidia.com", "gpu") => Writer::ToolkitForManagers,
            ("k8s.device-plugin.nvidia.com", "gpu" | "mig") => Writer::DevicePlugin,
            _ => Writer::Other,
        }
    }

    fn devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().flatten()
    }

    /// What brings a single device, and not all at once.
    fn single(&self) -> impl Iterator<Item = &Device> {
        self.devices().filter(|device| device.name != "all")
    }

    fn edits(&self) -> impl Iterator<Item = &Edits> {
        self.devices().map(|device| &device.edits).chain([&self.edits])
    }

    fn has_uuids(&self) -> bool {
        self.writer() == Writer::DevicePlugin || self.devices().any(|device| is_uuid(&device.name))
    }
}

impl Edits {
    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.device_nodes.iter().flatten()
    }

    /// Numbers of the capabilities that it brings.
    fn capabilities(&self) -> BTreeSet<u32> {
        self.nodes().filter_map(Node::capability).collect()
    }
}

impl Node {
    fn host(&self) -> &str {
        self.host_path.as_deref().unwrap_or(&self.path)
    }

    /// The number of the capability that it is the file of.
    fn capability(&self) -> Option<u32> {
        let (_, name) = self.host().rsplit_once("/nvidia-caps/")?;
        name.strip_prefix("nvidia-cap")?.parse().ok()
    }
}

fn is_uuid(name: &str) -> bool {
    name.starts_with("MIG-") || name.starts_with("GPU-")
}

/// The first differences, and how many more there are.
pub(super) fn listed(differences: &[String]) -> String {
    let first = differences.iter().take(MAX_TOLD).map(String::as_str).collect::<Vec<_>>().join("; ");
    match differences.len().saturating_sub(MAX_TOLD) {
        0 => first,
        more => format!("{first}; and {more} more"),
    }
}
