//! The node's hardware, as the kernel and the NVIDIA kernel module tell it.
//!
//! - `numa`, `cpus`: NUMA nodes with their memory and huge pages, CPUs with their caches
//! - `pci`, `identity`, `link`, `acs`: GPUs, NVSwitches, NICs and the bridges above them
//! - `nics`: network interfaces and RDMA devices
//! - `model`: the numbers by which a model of device is told
//! - `nvidia`: `/proc/driver/nvidia`

mod acs;
mod cpus;
mod identity;
mod link;
mod model;
mod nics;
mod numa;
mod nvidia;
mod pci;

use gpulet_inventory::host::Host;

pub use model::{Model, PciId, model};

use crate::reader::Reader;
use crate::root::Root;

/// Reads the hardware below `root`. What the kernel does not tell is absent from the result; what could not be
/// understood stands in [`Host::oddities`], is logged once, and hides nothing else.
pub fn read(root: &Root) -> Host {
    let reader = Reader::new(root);
    let numa_nodes = numa::nodes(&reader);
    let bus = pci::bus(&reader);
    Host {
        huge_pages: numa::huge_pages(&reader, &numa_nodes),
        cpus: cpus::read(&reader),
        nics: nics::read(&bus.functions),
        pci: pci::with_bridges(&reader, bus),
        gpu_memory: nvidia::memory_nodes(&reader),
        nvidia_module: nvidia::module_version(&reader),
        oddities: reader.oddities(),
        numa_nodes,
    }
}
