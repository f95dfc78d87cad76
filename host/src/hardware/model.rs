//! The numbers by which a model of PCI device is told.

use gpulet_inventory::pci::PciAddress;

use crate::reader::{Directory, Reader};
use crate::root::Root;
use crate::text::id;

/// A device and its vendor, as PCI numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PciId {
    /// The vendor, or of a board its maker; NVIDIA is 0x10de.
    pub vendor: u16,
    /// The device, or the board.
    pub device: u16,
}

/// What a function is. What the kernel does not tell is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Model {
    /// The chip (source: `vendor`, `device`).
    pub device: Option<PciId>,
    /// The board that it is on (source: `subsystem_vendor`, `subsystem_device`).
    pub board: Option<PciId>,
}

/// The model of the function at `address`.
pub fn model(root: &Root, address: PciAddress) -> Model {
    let reader = Reader::new(root);
    let Some(function) = reader.directory(&format!("{}/{address}", super::pci::DEVICES)) else {
        return Model::default();
    };
    Model {
        device: pair(&function, "vendor", "device"),
        board: pair(&function, "subsystem_vendor", "subsystem_device"),
    }
}

fn pair(function: &Directory<'_>, vendor: &str, device: &str) -> Option<PciId> {
    Some(PciId { vendor: function.read(vendor, id)?, device: function.read(device, id)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_tell_is_absent() {
        let directory = tempfile::tempdir().unwrap();
        let function = directory.path().join("sys/bus/pci/devices/0000:17:00.0");
        std::fs::create_dir_all(&function).unwrap();
        let file = |name: &str, text: &str| std::fs::write(function.join(name), text).unwrap();
        let address: PciAddress = "0000:17:00.0".parse().unwrap();
        let root = Root::new(directory.path());
        assert_eq!(model(&root, address), Model::default());
        file("vendor", "0x10de\n");
        file("device", "0x2330\n");
        file("subsystem_vendor", "0x10de\n");
        let h100 = Some(PciId { vendor: 0x10de, device: 0x2330 });
        assert_eq!(model(&root, address), Model { device: h100, board: None });
        file("subsystem_device", "0x16c1\n");
        assert_eq!(model(&root, address).board, Some(PciId { vendor: 0x10de, device: 0x16c1 }));
        assert_eq!(model(&root, "0000:18:00.0".parse().unwrap()), Model::default());
    }
}
