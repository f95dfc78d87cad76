//! How a specification differs from what there is.

use std::collections::BTreeSet;

use super::super::super::capabilities::{Capabilities, CapabilityOf};
use super::super::{ExpectedGpu, ExpectedMig};
use super::{Device, Edits, Node, Specification, Writer, is_uuid};

impl Specification {
    /// How it differs from what there is; nothing if it does not.
    pub(in super::super) fn differences(
        &self,
        expected: &[ExpectedGpu],
        capabilities: &Capabilities,
    ) -> Vec<String> {
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
}
