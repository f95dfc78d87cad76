//! NVIDIA GPUs on the PCI bus, with or without a driver (source: `/sys/bus/pci/devices`).

use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::snapshot::GpuPlace;

use crate::root::Root;

const DEVICES: &str = "sys/bus/pci/devices";

/// NVIDIA Corporation.
const NVIDIA: u32 = 0x10de;

/// Base class and subclass of a VGA controller and of a 3D controller: a board with and without display outputs.
/// The rest of a board (audio, USB, NVSwitches) has others.
const GPU_CLASSES: [u32; 2] = [0x0300, 0x0302];

/// The NVIDIA GPUs that the kernel sees, by ascending address.
pub fn nvidia_gpus(root: &Root) -> Vec<GpuPlace> {
    let mut gpus: Vec<GpuPlace> = root.names(DEVICES).iter().filter_map(|name| gpu(root, name)).collect();
    // Names sort otherwise than addresses where a domain has more than four digits.
    gpus.sort_by_key(|place| place.pci);
    gpus
}

fn gpu(root: &Root, name: &str) -> Option<GpuPlace> {
    let file = |attribute: &str| format!("{DEVICES}/{name}/{attribute}");
    let vendor = root.read(&file("vendor"), hexadecimal)?;
    if vendor != NVIDIA {
        return None;
    }
    let class = root.read(&file("class"), hexadecimal)?;
    if !GPU_CLASSES.contains(&(class >> 8)) {
        return None;
    }
    Some(GpuPlace {
        pci: name.parse::<PciAddress>().ok()?,
        numa_node: root.read(&file("numa_node"), numa_node).flatten(),
        driver: root.link_name(&file("driver")),
    })
}

/// Why a file of a PCI device cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum DeviceFileError {
    #[error("`{0}` is not a hexadecimal number such as 0x10de")]
    NoHexadecimal(String),
    #[error("`{0}` is not a NUMA node; expected -1 or a number")]
    NoNumaNode(String),
}

fn shortened(text: &str) -> String {
    text.chars().take(32).collect()
}

fn hexadecimal(text: &str) -> Result<u32, DeviceFileError> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| DeviceFileError::NoHexadecimal(shortened(text)))
}

/// `-1` is the kernel's word for "the firmware did not say".
fn numa_node(text: &str) -> Result<Option<NumaNodeId>, DeviceFileError> {
    if text == "-1" {
        return Ok(None);
    }
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    let number = plain.then(|| text.parse().ok()).flatten();
    number.map(|number| Some(NumaNodeId(number))).ok_or_else(|| DeviceFileError::NoNumaNode(shortened(text)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn device(root: &Path, address: &str, vendor: &str, class: &str, numa_node: Option<&str>) {
        let at = root.join(DEVICES).join(address);
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("vendor"), format!("{vendor}\n")).unwrap();
        fs::write(at.join("class"), format!("{class}\n")).unwrap();
        if let Some(node) = numa_node {
            fs::write(at.join("numa_node"), format!("{node}\n")).unwrap();
        }
    }

    #[test]
    fn gpus_alone_are_found_and_sorted_by_address() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        device(at, "10000:01:00.0", "0x10de", "0x030200", Some("-1"));
        device(at, "0000:3b:00.0", "0x10de", "0x030000", Some("1"));
        device(at, "0000:3b:00.1", "0x10de", "0x040300", Some("1"));
        device(at, "0000:5c:00.0", "0x10de", "0x068000", Some("1"));
        device(at, "0000:02:00.0", "0x1002", "0x030000", Some("0"));
        symlink("../../../bus/pci/drivers/vfio-pci", at.join(DEVICES).join("0000:3b:00.0/driver")).unwrap();
        let root = Root::new(at);
        let gpus = nvidia_gpus(&root);
        let told: Vec<_> = gpus
            .iter()
            .map(|gpu| (gpu.pci.to_string(), gpu.numa_node.map(|node| node.0), gpu.driver.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                ("0000:3b:00.0".to_owned(), Some(1), Some("vfio-pci")),
                ("10000:01:00.0".to_owned(), None, None)
            ]
        );
        assert_eq!(root.odd_files(), 0);
    }

    #[test]
    fn an_odd_device_hides_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        device(at, "0000:01:00.0", "ten", "0x030200", None);
        device(at, "0000:02:00.0", "0x10de", "0x030200", Some("east"));
        device(at, "not-an-address", "0x10de", "0x030200", None);
        fs::write(at.join(DEVICES).join("stray"), "a file where a device would be").unwrap();
        let root = Root::new(at);
        let gpus = nvidia_gpus(&root);
        assert_eq!(gpus.len(), 1);
        assert_eq!((gpus[0].pci.to_string().as_str(), gpus[0].numa_node), ("0000:02:00.0", None));
        assert!(root.odd_files() >= 2);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(0x)?[-+0-9a-fx ]{0,12}") {
            let _ = hexadecimal(&text);
            let _ = numa_node(&text);
        }

        #[test]
        fn written_numbers_are_read(number: u32) {
            prop_assert_eq!(hexadecimal(&format!("{number:#06x}")).unwrap(), number);
            prop_assert_eq!(numa_node(&number.to_string()).unwrap(), Some(NumaNodeId(number)));
        }
    }
}
