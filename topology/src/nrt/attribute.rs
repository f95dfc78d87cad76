//! Names and values of our own attributes. All of them stay as they are while nothing changes: no load, no temperature, no
//! link speed of the moment.

use std::collections::BTreeMap;
use std::fmt::Display;

use gpulet_inventory::topology::PlacedGpu;

use super::object::Attribute;
use crate::label;

/// The kernel's number of a NUMA node.
pub(super) const NUMA_ID: &str = "gpulet.dev/numa-id";
/// Who says that a device belongs to that NUMA node.
pub(super) const NUMA_SOURCE: &str = "gpulet.dev/numa-source";
/// Online CPUs of a NUMA node, as the kernel writes lists.
pub(super) const CPUS: &str = "gpulet.dev/cpus";
/// GPUs by the driver's index, else by address.
pub(super) const GPUS: &str = "gpulet.dev/gpus";
/// NICs by name.
pub(super) const NICS: &str = "gpulet.dev/nics";
/// The driver's index of a GPU.
pub(super) const INDEX: &str = "gpulet.dev/index";
/// A GPU's UUID.
pub(super) const UUID: &str = "gpulet.dev/uuid";
/// A PCI address.
pub(super) const PCI_ADDRESS: &str = "gpulet.dev/pci-address";
/// A GPU's product name.
pub(super) const PRODUCT: &str = "gpulet.dev/product";
/// Lanes that both ends of a link have.
pub(super) const PCIE_WIDTH: &str = "gpulet.dev/pcie-width";
/// The highest generation that both ends of a link have.
pub(super) const PCIE_GENERATION: &str = "gpulet.dev/pcie-generation";
/// The root complex, as sysfs names it.
pub(super) const PCIE_ROOT: &str = "gpulet.dev/pcie-root";
/// The NVLink domain and clique, as `nvidia.com/gpu.clique` has it.
pub(super) const CLIQUE: &str = "gpulet.dev/clique";
/// Claims by which containers have a GPU.
pub(super) const CLAIMS: &str = "gpulet.dev/claims";
/// NVLinks between two GPUs of a domain: a number, or the fewest and the most.
pub(super) const LINKS_PER_PAIR: &str = "gpulet.dev/links-per-pair";
/// Whether NVSwitches join a domain.
pub(super) const THROUGH_SWITCH: &str = "gpulet.dev/through-switch";
/// Bytes of memory.
pub(super) const MEMORY: &str = "gpulet.dev/memory";
/// NUMA nodes that are kept free for the memory of a GPU's MIG instances.
pub(super) const SPARE_NUMA_IDS: &str = "gpulet.dev/spare-numa-ids";

/// Values that would be longer are left out: a part of them would be wrong, and the object is not to grow.
const LONGEST: usize = 2048;

/// Attributes of one zone.
#[derive(Default)]
pub(super) struct Attributes {
    by_name: BTreeMap<&'static str, String>,
}

impl Attributes {
    /// Adds a value that is not empty.
    pub(super) fn add(&mut self, name: &'static str, value: impl Display) {
        let value = label::visible(&value.to_string());
        if !value.is_empty() && value.len() <= LONGEST {
            self.by_name.insert(name, value);
        }
    }

    /// Adds a value that is known.
    pub(super) fn add_known(&mut self, name: &'static str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// Adds a list that is not empty.
    pub(super) fn list(&mut self, name: &'static str, values: impl IntoIterator<Item = impl AsRef<str>>) {
        let values: Vec<String> = values.into_iter().map(|value| label::name(value.as_ref())).collect();
        self.add(name, values.join(","));
    }

    /// The attributes by name.
    pub(super) fn finish(self) -> Vec<Attribute> {
        let attribute = |(name, value): (&str, String)| Attribute { name: name.to_owned(), value };
        self.by_name.into_iter().map(attribute).collect()
    }
}

/// How a GPU is named in lists: by the driver's index, else by address.
pub(super) fn gpu(gpu: &PlacedGpu) -> String {
    gpu.index.map_or_else(|| gpu.place.pci.to_string(), |index| index.to_string())
}
