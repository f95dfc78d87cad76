//! A CDI specification: what it says, and how that differs from what there is.
//!
//! NVIDIA's tools name devices by number (`0:1`), by UUID, or by both. Where there are UUIDs they are what counts. Where there
//! are none, a device is known by the device files that it brings.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::super::capabilities::{Capabilities, CapabilityOf};
use super::{ExpectedGpu, ExpectedMig};

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

    /// How it differs from what there is; nothing if it does not.
    pub(super) fn differences(&self, expected: &[ExpectedGpu], capabilities: &Capabilities) -> Vec<String> {
        let mut told = self.gone_files(capabilities);
        match self.writer() {
            Writer::Toolkit | Writer::DevicePlugin => {
                told.extend(self.gone_names(expected));
                told.extend(expected.iter().flat_map(|gpu| self.missing(gpu, capabilities)));
            }
            Writer::ToolkitInPart => told.extend(self.gone_names(expected)),
            Writer::ToolkitForManagers => told.extend(self.missing_files(capabilities)),
            Writer::Other => {}
        }
        told
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

    /// Device files of instances that are gone, or of a number that the kernel gives others by now. A container that asks
    /// for such a device does not start.
    fn gone_files(&self, capabilities: &Capabilities) -> Vec<String> {
        let nodes = || self.edits().flat_map(Edits::nodes);
        let gone: BTreeSet<u32> =
            nodes().filter_map(Node::capability).filter(|minor| capabilities.is_gone(*minor)).collect();
        let gone = gone.into_iter().map(|minor| format!("has nvidia-cap{minor}, which is gone"));
        let moved = |node: &Node| {
            let (told, major) = (node.major?, i64::from(capabilities.major?));
            node.capability().filter(|_| told != 0 && told != major)?;
            Some(format!("says that nvidia-caps has the number {told}, which is {major} now"))
        };
        let moved: BTreeSet<String> = nodes().filter_map(moved).collect();
        gone.chain(moved).collect()
    }

    /// MIG devices and GPUs that are named and not there.
    fn gone_names(&self, expected: &[ExpectedGpu]) -> Vec<String> {
        let devices = || expected.iter().flat_map(|gpu| gpu.mig.iter().flatten());
        // One that does not tell its UUID may be any.
        let all_told = devices().all(|mig| mig.uuid.is_some());
        let is_there = |name: &str| match name.starts_with("MIG-") {
            true => !all_told || devices().any(|mig| mig.uuid.as_deref() == Some(name)),
            false => expected.iter().any(|gpu| gpu.gpu.as_str() == name),
        };
        let names = self.single().map(|device| device.name.as_str()).filter(|name| is_uuid(name));
        names.filter(|name| !is_there(name)).map(|name| format!("names {name}, which is gone")).collect()
    }

    /// What of this GPU it should name and does not.
    fn missing(&self, gpu: &ExpectedGpu, capabilities: &Capabilities) -> Vec<String> {
        match &gpu.mig {
            None => self.missing_gpu(gpu).into_iter().collect(),
            Some(devices) => {
                devices.iter().filter_map(|mig| self.missing_mig(gpu, mig, capabilities)).collect()
            }
        }
    }

    fn missing_gpu(&self, gpu: &ExpectedGpu) -> Option<String> {
        let file = format!("/dev/nvidia{}", gpu.minor);
        let is_it = |device: &Device| match self.has_uuids() {
            true => device.name == gpu.gpu.as_str(),
            false => {
                device.edits.nodes().any(|node| node.path == file) && device.edits.capabilities().is_empty()
            }
        };
        (!self.single().any(is_it)).then(|| format!("does not name {}", gpu.gpu))
    }

    fn missing_mig(
        &self,
        gpu: &ExpectedGpu,
        mig: &ExpectedMig,
        capabilities: &Capabilities,
    ) -> Option<String> {
        let minors: BTreeSet<u32> =
            mig.capabilities(gpu.minor).iter().filter_map(|of| capabilities.minor(*of)).collect();
        let brings = |device: &Device| minors.is_subset(&device.edits.capabilities());
        let Some(uuid) = mig.uuid.as_deref().filter(|_| self.has_uuids()) else {
            let (instance, compute) = (mig.instance.0, mig.compute.0);
            let told = || {
                format!(
                    "has no device for compute instance {compute} of GPU instance {instance} of {}",
                    gpu.gpu
                )
            };
            return (!self.single().any(brings)).then(told);
        };
        match self.single().find(|device| device.name == uuid) {
            None => Some(format!("does not name {uuid}")),
            Some(device) if !brings(device) => {
                let lacks = minors
                    .difference(&device.edits.capabilities())
                    .map(|minor| format!("nvidia-cap{minor}"))
                    .collect::<Vec<_>>();
                Some(format!("names {uuid} without {}", lacks.join(" and ")))
            }
            Some(_) => None,
        }
    }

    /// Device files that whoever manages GPUs should get and does not.
    fn missing_files(&self, capabilities: &Capabilities) -> Vec<String> {
        let has: BTreeSet<u32> = self.edits().flat_map(Edits::capabilities).collect();
        let instances = capabilities.present.iter().filter(|capability| {
            matches!(capability.of, CapabilityOf::Instance { .. } | CapabilityOf::Compute { .. })
        });
        let missing = instances.map(|capability| capability.minor).filter(|minor| !has.contains(minor));
        missing.map(|minor| format!("lacks nvidia-cap{minor}")).collect()
    }

    /// What NVIDIA's toolkit is to be told, so that it makes one like this.
    pub(super) fn options(&self) -> Vec<String> {
        let (vendor, class) = self.vendor_and_class();
        let class = class.split('.').next().unwrap_or(class);
        let mut options = vec![format!("--vendor={vendor}"), format!("--class={class}")];
        match self.writer() {
            Writer::ToolkitForManagers => options.push("--mode=management".to_owned()),
            _ => {
                options.extend(self.strategies().map(|strategy| format!("--device-name-strategy={strategy}")))
            }
        }
        let driver_root = self.driver_root();
        if let Some(root) = &driver_root {
            options.push(format!("--driver-root={root}"));
            // Else the device files are taken from there too.
            if self.edits().flat_map(Edits::nodes).all(|node| !node.host().starts_with(root.as_str())) {
                options.push("--dev-root=/".to_owned());
            }
        }
        let hooks = self.edits().flat_map(|edits| edits.hooks.iter().flatten());
        // The older of the two names of that option, which the newer programs know too.
        options.extend(hooks.map(|hook| format!("--nvidia-ctk-path={}", hook.path)).next());
        options
    }

    fn strategies(&self) -> impl Iterator<Item = &'static str> {
        let is = |of: fn(&str) -> bool| self.single().any(|device| of(&device.name));
        let index = |name: &str| name.starts_with(|c: char| c.is_ascii_digit());
        let type_index = |name: &str| {
            ["gpu", "mig"].iter().any(|word| {
                name.strip_prefix(word).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            })
        };
        [("index", is(index)), ("type-index", is(type_index)), ("uuid", is(is_uuid))]
            .into_iter()
            .filter_map(|(strategy, is)| is.then_some(strategy))
    }

    /// Where the driver's files lie on the host, if not where containers find them.
    fn driver_root(&self) -> Option<String> {
        let mut mounts = self.edits().flat_map(|edits| edits.mounts.iter().flatten());
        mounts.find_map(|mount| {
            let root = mount.host_path.strip_suffix(mount.container_path.as_str())?;
            (root.len() > 1).then(|| root.to_owned())
        })
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
