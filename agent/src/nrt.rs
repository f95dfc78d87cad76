//! This node's NodeResourceTopology object: from what is known of the node to the document.

use std::cell::RefCell;
use std::collections::BTreeSet;

use gpulet_inventory::dra::PublishedDevice;
use gpulet_inventory::holders::{DeviceId, Instance, Resolved, Resolver};
use gpulet_inventory::host::HugePages;
use gpulet_inventory::kubelet::{ClaimedDevice, KubeletSettings, NodeAllocation};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::pod::Pod;
use gpulet_inventory::snapshot::{GpuState, NodeGpus};
use gpulet_inventory::topology::Topology;
use gpulet_topology::nrt::object::{API_VERSION, Attribute, Body, KIND, Zone};
use gpulet_topology::nrt::observed::Observed;
use gpulet_topology::nrt::ownership::{FIELD_MANAGER, MANAGED_BY, Ownership};
use gpulet_topology::nrt::{Built, DeviceName, Hardware, Inputs};
use serde::{Deserialize, Serialize};

/// What is known of the node. What is absent is left out of the object.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    /// Where everything sits.
    pub(crate) topology: &'a Topology,
    /// The driver's GPUs.
    pub(crate) gpus: &'a NodeGpus,
    /// Huge pages.
    pub(crate) huge_pages: &'a [HugePages],
    /// What the kubelet has given to whom.
    pub(crate) allocation: Option<&'a NodeAllocation>,
    /// How the kubelet decides.
    pub(crate) settings: Option<&'a KubeletSettings>,
    /// The node's Pods by the API.
    pub(crate) pods: Option<&'a [Pod]>,
    /// Devices that claims may give.
    pub(crate) devices: &'a [PublishedDevice],
}

impl Known<'_> {
    /// The object, with its reasons.
    pub(crate) fn build(&self) -> Built {
        let resolver = RefCell::new(self.resolver());
        gpulet_topology::nrt::build(&Inputs {
            topology: self.topology,
            huge_pages: self.huge_pages,
            allocation: self.allocation,
            settings: self.settings,
            pods: self.pods,
            gpus_in_use: &in_use(self.gpus),
            hardware_of: &|name| self.hardware_of(name, &mut resolver.borrow_mut()),
        })
    }

    fn resolver(&self) -> Resolver {
        let mut resolver = Resolver::default();
        resolver.observe(self.gpus);
        resolver
    }

    fn hardware_of(&self, name: DeviceName<'_>, resolver: &mut Resolver) -> Option<Hardware> {
        match name {
            // What is a number alone is a GPU's only where NVIDIA's plugin says so.
            DeviceName::Plugin { resource, id }
                if id.parse::<u64>().is_err() || resource.starts_with("nvidia.com/") =>
            {
                self.named(id, resolver)
            }
            DeviceName::Plugin { .. } => None,
            DeviceName::Claim(claim) => self.claimed(claim, resolver),
        }
    }

    fn claimed(&self, claim: &ClaimedDevice, resolver: &mut Resolver) -> Option<Hardware> {
        let is_it = |device: &&PublishedDevice| {
            device.driver == claim.driver && device.pool == claim.pool && device.device == claim.device
        };
        let device = self.devices.iter().find(is_it)?;
        let by_uuid = device.uuid.as_deref().and_then(|uuid| self.named(uuid, resolver));
        by_uuid.or_else(|| {
            let pci = device.pci_bus_id.as_ref()?.parse().ok()?;
            self.topology.gpus.iter().any(|gpu| gpu.place.pci == pci).then_some(Hardware { pci, part: None })
        })
    }

    fn named(&self, name: &str, resolver: &mut Resolver) -> Option<Hardware> {
        let Resolved::Known(DeviceId { gpu, instance }, _) = resolver.resolve(name) else { return None };
        let state = self.gpus.gpus.iter().find(|state| state.gpu.uuid == gpu)?;
        let part = instance.map(|Instance { gpu, compute }| match compute {
            Some(compute) => format!("{}/{}", gpu.0, compute.0),
            None => gpu.0.to_string(),
        });
        Some(Hardware { pci: state.gpu.pci, part })
    }
}

/// GPUs that a process holds, as the driver says.
fn in_use(gpus: &NodeGpus) -> BTreeSet<PciAddress> {
    let is_held = |state: &&GpuState| {
        let processes = state.sample.as_ref().and_then(|sample| sample.processes.value());
        processes.is_some_and(|processes| !processes.is_empty())
    };
    gpus.gpus.iter().filter(is_held).map(|state| state.gpu.pci).collect()
}

/// The object as a document for `kubectl`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "<[Attribute]>::is_empty")]
    attributes: &'a [Attribute],
    zones: &'a [Zone],
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    labels: Labels,
}

#[derive(Serialize)]
struct Labels {
    #[serde(rename = "app.kubernetes.io/managed-by")]
    managed_by: &'static str,
}

/// The object of the node `name` as YAML.
///
/// # Errors
/// None in practice: it is plain data.
pub(crate) fn yaml(name: &str, body: &Body) -> Result<String, serde_saphyr::ser::Error> {
    let labels = Labels { managed_by: FIELD_MANAGER };
    serde_saphyr::to_string(&Document {
        api_version: API_VERSION,
        kind: KIND,
        metadata: Metadata { name, labels },
        attributes: &body.attributes,
        zones: &body.zones,
    })
}

/// What [`yaml`] wrote; absent where the text is something else.
pub(crate) fn from_yaml(text: &str) -> Option<Observed> {
    #[derive(Deserialize)]
    struct Read {
        kind: String,
        #[serde(default)]
        attributes: Vec<Attribute>,
        zones: Vec<Zone>,
    }
    let Read { kind, attributes, zones } = serde_saphyr::from_str(text).ok()?;
    let labels = [(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())].into_iter().collect();
    let ownership = Ownership::new(&[], &labels);
    let body = Body { attributes, zones };
    (kind == KIND).then(|| Observed { labels, ownership, body, ..Observed::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let snapshot = gpulet_benches::snapshot(4, 2);
        let known = Known {
            topology: &snapshot.topology.value.model,
            gpus: &snapshot.gpus.value,
            huge_pages: &[],
            allocation: None,
            settings: None,
            pods: None,
            devices: &[],
        };
        let body = known.build().body;
        assert!(!body.zones.is_empty());
        let text = yaml("gpu-1", &body).unwrap();
        assert!(
            text.starts_with("apiVersion: topology.node.k8s.io/v1alpha2\nkind: NodeResourceTopology\n"),
            "{text}"
        );
        let read = from_yaml(&text).unwrap();
        assert_eq!(read.body, body);
        assert_eq!(read.ownership.contender(), None);
        for other in ["", "a: 1", "kind: Pod\nzones: []\n", "[", "kind: NodeResourceTopology\n"] {
            assert_eq!(from_yaml(other), None, "{other}");
        }
    }

    #[test]
    fn devices_are_known_by_the_names_that_plugins_and_drivers_give_them() {
        let snapshot = gpulet_benches::snapshot(4, 2);
        let gpu = &snapshot.topology.value.model.gpus[1];
        let uuid = gpu.uuid.as_ref().unwrap().as_str();
        let device = |name: &str, uuid: Option<&str>, pci: Option<String>| PublishedDevice {
            driver: "gpu.nvidia.com".into(),
            pool: "node".into(),
            device: name.into(),
            uuid: uuid.map(str::to_owned),
            pci_bus_id: pci,
        };
        let devices =
            [device("gpu-1", Some(uuid), None), device("other", None, Some(gpu.place.pci.to_string()))];
        let known = Known {
            topology: &snapshot.topology.value.model,
            gpus: &snapshot.gpus.value,
            huge_pages: &[],
            allocation: None,
            settings: None,
            pods: None,
            devices: &devices,
        };
        let plugin = |resource: &str, id: &str| {
            known
                .hardware_of(DeviceName::Plugin { resource, id }, &mut known.resolver())
                .map(|hardware| hardware.pci)
        };
        let here = Some(gpu.place.pci);
        assert_eq!(plugin("nvidia.com/gpu", uuid), here);
        assert_eq!(plugin("nvidia.com/gpu.shared", &format!("{uuid}::3")), here);
        assert_eq!(plugin("nvidia.com/gpu", "1"), here);
        assert_eq!(plugin("example.com/fpga", "1"), None);
        assert_eq!(plugin("nvidia.com/gpu", "GPU-of-another-machine"), None);
        let claim = |device: &str| {
            let claim = ClaimedDevice {
                claim_namespace: "ml".into(),
                claim: "a".into(),
                driver: "gpu.nvidia.com".into(),
                pool: "node".into(),
                device: device.into(),
                share_id: None,
                cdi_devices: Vec::new(),
            };
            known.hardware_of(DeviceName::Claim(&claim), &mut known.resolver()).map(|hardware| hardware.pci)
        };
        assert_eq!((claim("gpu-1"), claim("other"), claim("gpu-9")), (here, here, None));
    }
}
