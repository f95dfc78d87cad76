//! Trees of files for the tests, and reading them in every way there is.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use gpulet_host::{Bundle, Root, hardware};
use gpulet_inventory::host::{Host, PciDevice};
use tempfile::TempDir;

/// A tree of files on disk.
pub(crate) struct Tree(TempDir);

impl Tree {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, at: &str, content: impl AsRef<[u8]>) -> &Self {
        let file = self.path().join(at);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
        self
    }

    /// Files of one directory.
    pub(crate) fn files(&self, directory: &str, files: &[(&str, &str)]) -> &Self {
        for (name, content) in files {
            self.file(&format!("{directory}/{name}"), format!("{content}\n"));
        }
        self
    }

    pub(crate) fn link(&self, at: &str, to: &str) -> &Self {
        let link = self.path().join(at);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(to, link).unwrap();
        self
    }

    /// A PCI function in `/sys/devices/PARENT/ADDRESS`, listed on the bus.
    pub(crate) fn pci(&self, parent: &str, address: &str, files: &[(&str, &str)]) -> &Self {
        let directory = format!("devices/{parent}/{address}");
        self.files(&format!("sys/{directory}"), files);
        self.link(&format!("sys/bus/pci/devices/{address}"), &format!("../../../{directory}"))
    }

    /// What is read of it. A recording of that and a bundle of the recording must tell the same.
    pub(crate) fn read(&self) -> Host {
        read_and_replay(&Root::new(self.path()))
    }
}

/// Reads, and checks that recording and bundle tell the same.
pub(crate) fn read_and_replay(root: &Root) -> Host {
    let recorded = root.recorded();
    let host = hardware::read(&recorded);
    assert_eq!(host, hardware::read(root), "recording changes nothing, and reading twice tells the same");
    let bundle = Bundle { host: recorded.recording(), ..Bundle::default() };
    assert_same(&hardware::read(&Root::replay(bundle.clone())), &host);

    let mut packed = Vec::new();
    bundle.write(&mut packed).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), packed).unwrap();
    let unpacked = Root::open(file.path()).unwrap();
    assert_eq!(unpacked.bundle(), Some(&bundle));
    assert_same(&hardware::read(&unpacked), &host);
    host
}

/// The words of an oddity come from the operating system and may differ; where it is may not.
fn assert_same(replayed: &Host, host: &Host) {
    let places = |host: &Host| host.oddities.iter().map(|oddity| oddity.path.clone()).collect::<Vec<_>>();
    assert_eq!(places(replayed), places(host));
    assert_eq!(&Host { oddities: host.oddities.clone(), ..replayed.clone() }, host);
}

pub(crate) fn device<'h>(host: &'h Host, address: &str) -> &'h PciDevice {
    let device = host.pci.iter().find(|device| device.address.to_string() == address);
    device.unwrap_or_else(|| panic!("{address} is not among {:?}", host.pci))
}

/// `root bridge bridge` above a device.
pub(crate) fn above(device: &PciDevice) -> String {
    let bridges = device.path.bridges.iter().map(ToString::to_string);
    std::iter::once(device.path.root.clone()).chain(bridges).collect::<Vec<_>>().join(" ")
}

/// The files that name a GPU, an NVSwitch, a NIC, a bridge.
pub(crate) const GPU: [(&str, &str); 3] = [("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2330")];
pub(crate) const NIC: [(&str, &str); 3] = [("class", "0x020700"), ("vendor", "0x15b3"), ("device", "0x1021")];
pub(crate) const BRIDGE: [(&str, &str); 3] =
    [("class", "0x060400"), ("vendor", "0x8086"), ("device", "0x352a")];
