//! The open files of all processes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use nix::sys::stat::{major, minor};
use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};

use super::super::capabilities::{self, Capabilities, CapabilityOf};
use super::Opened;
use crate::reader::Reader;
use crate::root::Root;

/// The driver's number, which never changes; of its minor numbers the last two are no GPUs.
const NVIDIA: u64 = 195;
const CONTROL: u64 = 255;
const MODESET: u64 = 254;

/// What device numbers mean.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) gpus: u64,
    unified_memory: Option<u64>,
    switches: Option<u64>,
    capabilities: Capabilities,
}

impl Numbers {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        Self {
            gpus: NVIDIA,
            unified_memory: capabilities::major(reader, "nvidia-uvm").map(u64::from),
            switches: capabilities::major(reader, "nvidia-nvswitch").map(u64::from),
            capabilities: capabilities::read(reader),
        }
    }

    /// What the character device of this number is; absent if it is none of the driver's.
    fn opened(&self, major: u64, minor: u64) -> Option<Opened> {
        let minor = u32::try_from(minor).ok()?;
        match Some(major) {
            _ if major == self.gpus => Some(match u64::from(minor) {
                CONTROL | MODESET => Opened::Other,
                _ => Opened::Gpu(minor),
            }),
            number if number == self.capabilities.major.map(u64::from) => Some(self.capability(minor)),
            number if number == self.unified_memory || number == self.switches => Some(Opened::Other),
            _ => None,
        }
    }

    fn capability(&self, minor: u32) -> Opened {
        match self.capabilities.of(minor) {
            Some(CapabilityOf::Instance { gpu, instance }) => Opened::Instance { gpu, instance },
            Some(CapabilityOf::Compute { gpu, instance, compute }) => {
                Opened::Compute { gpu, instance, compute }
            }
            Some(CapabilityOf::Config | CapabilityOf::Monitor) | None => Opened::Other,
        }
    }

    /// The same by the name of a device file.
    fn named(&self, path: &str) -> Option<Opened> {
        let name = path.strip_prefix("/dev/")?;
        match name {
            "nvidiactl" | "nvidia-modeset" | "nvidia-uvm" | "nvidia-uvm-tools" | "nvidia-nvswitchctl" => {
                Some(Opened::Other)
            }
            _ => match name.strip_prefix("nvidia-caps/nvidia-cap") {
                Some(minor) => Some(self.capability(minor.parse().ok()?)),
                None => Some(Opened::Gpu(name.strip_prefix("nvidia")?.parse().ok()?)),
            },
        }
    }
}

/// One walk over all processes.
#[derive(Debug)]
pub(super) struct Walk<'r> {
    pub(super) root: &'r Root,
    pub(super) numbers: Numbers,
    pub(super) is_kernels: bool,
}

impl<'r> Walk<'r> {
    pub(super) fn new(root: &'r Root) -> Self {
        Self { root, numbers: Numbers::read(&Reader::new(root)), is_kernels: is_kernels(root) }
    }

    /// What each process has open of the driver's, and how many processes do not let it be seen.
    pub(super) fn all(&self) -> (BTreeMap<u32, BTreeSet<Opened>>, u32) {
        let names = self.root.list("proc").unwrap_or_default();
        let mut unseen = 0;
        let mut found = BTreeMap::new();
        for pid in names.iter().filter_map(|(name, _)| name.parse::<u32>().ok()) {
            let directory = format!("proc/{pid}/fd");
            let files = self.root.list(&directory);
            let files = files.map(|files| files.into_iter().map(|(name, _)| format!("{directory}/{name}")));
            let opened: io::Result<BTreeSet<Opened>> =
                files.and_then(|files| files.filter_map(|file| self.opened(&file).transpose()).collect());
            match opened {
                Ok(opened) if opened.is_empty() => {}
                Ok(opened) => drop(found.insert(pid, opened)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => unseen += 1,
                // It has ended meanwhile.
                Err(_) => {}
            }
        }
        (found, unseen)
    }

    /// What the file is; a failure only where it may not be seen. It may be closed meanwhile.
    fn opened(&self, file: &str) -> io::Result<Option<Opened>> {
        match self.root.read_link(file) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
            target => Ok(target.ok().flatten().and_then(|target| self.named(file, &target))),
        }
    }

    fn named(&self, file: &str, target: &str) -> Option<Opened> {
        let target = target.strip_suffix(" (deleted)").unwrap_or(target);
        if let Some(name) = target.split("/dev/dri/").nth(1) {
            return self.graphics(name);
        }
        if !self.is_kernels {
            return self.numbers.named(target);
        }
        // Others are not asked for their number: a file on a server that is gone would not answer.
        if !target.contains("/dev/") && !target.contains("nvidia") {
            return None;
        }
        let device = self.root.path().join(file).metadata().ok()?;
        let number = device.rdev();
        device
            .file_type()
            .is_char_device()
            .then(|| self.numbers.opened(major(number), minor(number)))
            .flatten()
    }

    /// The function that a graphics device such as `card0` belongs to, by where its link in sysfs leads.
    fn graphics(&self, name: &str) -> Option<Opened> {
        let link = self.root.read_link(&format!("sys/class/drm/{name}")).ok().flatten()?;
        let mut parts = link.rsplit('/').skip_while(|part| *part != "drm").skip(1);
        Some(Opened::Graphics(parts.next()?.parse().ok()?))
    }
}

/// Whether `/proc` is the kernel's own, whose links lead to what a process has open and not to where they point.
pub(super) fn is_kernels(root: &Root) -> bool {
    root.bundle().is_none()
        && statfs(&root.path().join("proc")).is_ok_and(|proc| proc.filesystem_type() == PROC_SUPER_MAGIC)
}
