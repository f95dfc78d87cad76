//! The NVIDIA kernel module (source: `/proc/driver/nvidia`).

use gpulet_inventory::host::GpuMemoryNode;
use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;

use super::pci::MAX_FUNCTIONS;
use crate::reader::{Directory, Reader};
use crate::text::{Unexpected, index};

const MODULE: &str = "proc/driver/nvidia";

/// The most GPUs of the module that are read.
const MAX_GPUS: usize = MAX_FUNCTIONS;

/// Version of the loaded module.
pub(super) fn module_version<'r>(reader: &'r Reader<'r>) -> Option<String> {
    reader.directory(MODULE)?.read("version", version)
}

/// The version in `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build  (…)`; the
/// proprietary module says `NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue …`.
fn version(text: &str) -> Result<String, Unexpected> {
    let is_number =
        |part: &str| !part.is_empty() && part.len() <= 8 && part.bytes().all(|b| b.is_ascii_digit());
    let is_version =
        |word: &&str| (2..=4).contains(&word.split('.').count()) && word.split('.').all(is_number);
    let line = text.lines().find_map(|line| line.strip_prefix("NVRM version:"));
    let version = line.and_then(|line| line.split_ascii_whitespace().find(is_version));
    version.map(str::to_owned).ok_or_else(|| Unexpected::new(text, "a line `NVRM version: …` with a version"))
}

/// NUMA nodes that are GPUs' own memory and online, by address. Most platforms have none.
pub(super) fn memory_nodes<'r>(reader: &'r Reader<'r>) -> Vec<GpuMemoryNode> {
    let Some(gpus) = reader.directory(&format!("{MODULE}/gpus")) else { return Vec::new() };
    let mut nodes: Vec<_> =
        gpus.names_up_to(MAX_GPUS).iter().filter_map(|name| memory_node(&gpus, name)).collect();
    nodes.sort_by_key(|node| node.pci);
    nodes
}

fn memory_node(gpus: &Directory<'_>, name: &str) -> Option<GpuMemoryNode> {
    let numa_node = gpus.below(name)?.read("numa_status", numa_status).flatten()?;
    let Ok(pci) = name.parse::<PciAddress>().map_err(|error| gpus.odd(name, error)) else { return None };
    Some(GpuMemoryNode { pci, numa_node })
}

/// The node in lines such as `Node: 255` and `Status: online`; absent while it is not online.
fn numa_status(text: &str) -> Result<Option<NumaNodeId>, Unexpected> {
    let value = |key: &str| {
        text.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            (found.trim() == key).then(|| value.trim())
        })
    };
    let node = value("Node").ok_or_else(|| Unexpected::new(text, "a file with a line `Node: …`"))?;
    let node = index(node)?.map(NumaNodeId);
    Ok(node.filter(|_| value("Status").is_none_or(|status| status == "online")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_modules_tell_their_version() {
        for (text, expected) in [
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build  (builder)\nGCC version:  gcc version 12.2.0",
                "580.105.08",
            ),
            (
                "NVRM version: NVIDIA UNIX aarch64 Kernel Module  550.54  Tue Feb  6 12:00:00 UTC 2024",
                "550.54",
            ),
        ] {
            assert_eq!(version(text).unwrap(), expected);
        }
        assert!(
            ["", "NVRM version: unknown", "GCC version: 12.2.0"].iter().all(|text| version(text).is_err())
        );
    }

    #[test]
    fn memory_that_is_not_online_is_no_node() {
        let node = |text| numa_status(text).map(|node| node.map(|node| node.0));
        assert_eq!(node("Node: 255\nStatus: online\n\nAddress: 0x0\nSize: 0x100"), Ok(Some(255)));
        assert_eq!(node("Node: 2"), Ok(Some(2)));
        assert_eq!(node("Node: 255\nStatus: offline"), Ok(None));
        assert_eq!(node("Node: -1\nStatus: disabled"), Ok(None));
        assert!(node("Node: 1099511627776").is_err() && node("Status: online").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "((Node|Status|NVRM version): ?)?[0-9. a-z\n:-]{0,40}") {
            let _ = (version(&text), numa_status(&text));
        }
    }
}
