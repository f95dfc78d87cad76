//! The devices that DRA drivers publish for this node.

use std::collections::BTreeMap;

use gpulet_inventory::dra::PublishedDevice;
use serde::Deserialize;

use super::meta::{Key, Meta, Object};

/// A ResourceSlice as the API gives it, as far as it is read.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SliceObject {
    metadata: Meta,
    spec: Spec,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    driver: String,
    pool: Pool,
    #[serde(default)]
    devices: Vec<Device>,
}

#[derive(Debug, Clone, Deserialize)]
struct Pool {
    name: String,
    #[serde(default)]
    generation: i64,
}

#[derive(Debug, Clone, Deserialize)]
struct Device {
    name: String,
    #[serde(default)]
    attributes: BTreeMap<String, Attribute>,
}

/// A value of one of several types, each in a field of its own.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Attribute {
    string: Option<String>,
}

impl Object for SliceObject {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// One slice of a pool.
#[derive(Debug)]
pub(crate) struct Slice {
    driver: String,
    pool: String,
    generation: i64,
    devices: Vec<PublishedDevice>,
}

/// What is used of it.
pub(crate) fn slice(object: SliceObject) -> Slice {
    let Spec { driver, pool, devices } = object.spec;
    let devices = devices.into_iter().map(|device| {
        let string = |name| device.named(name).and_then(|value| value.string.clone());
        PublishedDevice {
            driver: driver.clone(),
            pool: pool.name.clone(),
            uuid: string("uuid"),
            pci_bus_id: string("pciBusID"),
            device: device.name,
        }
    });
    Slice { devices: devices.collect(), generation: pool.generation, pool: pool.name, driver }
}

impl Device {
    /// The attribute of this name: `DOMAIN/NAME`, or `NAME` alone for the driver's own domain.
    fn named(&self, name: &str) -> Option<&Attribute> {
        let found = self.attributes.iter().find(|(key, _)| key.rsplit('/').next() == Some(name));
        found.map(|(_, value)| value)
    }
}

/// All devices. A pool's slices of an older generation are about to be deleted and do not count.
pub(crate) fn devices(slices: &BTreeMap<Key, Slice>) -> Vec<PublishedDevice> {
    let mut newest: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for slice in slices.values() {
        let generation = newest.entry((&slice.driver, &slice.pool)).or_insert(slice.generation);
        *generation = slice.generation.max(*generation);
    }
    let current =
        |slice: &&Slice| newest.get(&(slice.driver.as_str(), slice.pool.as_str())) == Some(&slice.generation);
    slices.values().filter(current).flat_map(|slice| slice.devices.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, generation: i64, device: &str) -> SliceObject {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name},
            "spec": {"driver": "gpu.nvidia.com", "pool": {"name": "node-a", "generation": generation},
                "nodeName": "node-a",
                "devices": [{"name": device, "attributes": {
                    "uuid": {"string": "GPU-1"}, "resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"},
                    "dra.net/numaNode": {"int": 1}, "driverVersion": {"version": "1.2.3"}, "healthy": {"bool": true}}}]},
        }))
        .unwrap()
    }

    #[test]
    fn only_the_newest_generation_of_a_pool_counts() {
        let objects = [object("old", 1, "gpu-0"), object("new", 2, "gpu-1")];
        let slices = objects.map(|object| (Key::of(object.meta()), slice(object))).into_iter().collect();
        let device = PublishedDevice {
            driver: "gpu.nvidia.com".into(),
            pool: "node-a".into(),
            device: "gpu-1".into(),
            uuid: Some("GPU-1".into()),
            pci_bus_id: Some("0000:01:00.0".into()),
        };
        assert_eq!(devices(&slices), [device]);
    }
}
