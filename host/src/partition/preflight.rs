//! Who has a GPU open, before anything of it is destroyed: processes by their open files, and modules of the kernel.
//!
//! The driver refuses to reset a GPU that anyone has open, and tells not by whom: a monitor, the daemon that keeps it
//! initialised, an X server, this process. On the kernel's own `/proc` an open file is known by its device number, whatever
//! the process calls it; in a made-up tree by where its link points.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use gpulet_inventory::holders::{CgroupOwner, ProcessOrigin};
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use gpulet_inventory::pci::PciAddress;
use nix::sys::stat::{major, minor};
use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};

use super::capabilities::{self, Capabilities, CapabilityOf};
use crate::owner;
use crate::reader::Reader;
use crate::root::Root;

/// The driver's number, which never changes; of its minor numbers the last two are no GPUs.
const NVIDIA: u64 = 195;
const CONTROL: u64 = 255;
const MODESET: u64 = 254;

/// As much as is read of a command line, bytes.
const MAX_COMMAND_LINE: usize = 4096;

/// Whoever has something of the driver's open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preflight {
    /// Processes, by number.
    pub openers: Vec<Opener>,
    /// Modules of the kernel that hold GPUs.
    pub modules: Vec<Module>,
    /// How many processes do not let their open files be seen. Other than zero: there may be more openers.
    pub unseen: u32,
}

/// A process that has something of the driver's open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    /// Its number, as the host's `/proc` has it.
    pub pid: u32,
    /// The name of its program.
    pub program: Option<String>,
    /// What it belongs to; absent if that is not told.
    pub origin: Option<ProcessOrigin>,
    /// What it has open.
    pub opened: BTreeSet<Opened>,
    /// Whether it is this process.
    pub is_self: bool,
}

/// Something that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Opened {
    /// A GPU by N of `/dev/nvidiaN`.
    Gpu(u32),
    /// The right to use a GPU instance.
    Instance {
        /// N of `/dev/nvidiaN`.
        gpu: u32,
        /// Which.
        instance: GpuInstanceId,
    },
    /// The right to use a compute instance.
    Compute {
        /// N of `/dev/nvidiaN`.
        gpu: u32,
        /// Within which GPU instance.
        instance: GpuInstanceId,
        /// Which.
        compute: ComputeInstanceId,
    },
    /// A graphics device, by the PCI function that it belongs to.
    Graphics(PciAddress),
    /// Something of the driver that holds no GPU: control device, unified memory, display, other capabilities.
    Other,
}

/// A module of the kernel that holds GPUs, or may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name, such as `nvidia_drm`.
    pub name: String,
    /// How many users it has besides other modules.
    pub references: u32,
    /// Whether it drives displays (its parameter `modeset`): then it may hold a GPU though nobody uses it.
    pub modeset: bool,
}

impl Preflight {
    /// Those who have this GPU or an instance of it open: N of its `/dev/nvidiaN`, and where it sits.
    pub fn openers_of(&self, gpu: u32, pci: PciAddress) -> impl Iterator<Item = &Opener> {
        self.openers.iter().filter(move |opener| opener.opened.iter().any(|opened| opened.is_of(gpu, pci)))
    }
}

impl Opened {
    fn is_of(&self, of: u32, pci: PciAddress) -> bool {
        match self {
            Self::Gpu(gpu) | Self::Instance { gpu, .. } | Self::Compute { gpu, .. } => *gpu == of,
            Self::Graphics(at) => *at == pci,
            Self::Other => false,
        }
    }
}

impl Opener {
    /// What lets it go of the GPU, for people.
    pub fn remedy(&self) -> String {
        let owner = self.origin.as_ref().map(|origin| &origin.owner);
        match (self.program.as_deref(), owner) {
            _ if self.is_self => "gpulet quiesce".to_owned(),
            (Some("nvidia-persistenced"), _) => {
                "turn persistence mode off, or stop nvidia-persistenced.service".to_owned()
            }
            (_, Some(CgroupOwner::Pods(_))) => "delete its Pod, or drain the node".to_owned(),
            (_, Some(CgroupOwner::Host(unit))) if unit.unit().ends_with(".service") => {
                format!("systemctl stop {}", unit.unit())
            }
            _ => format!("end process {}", self.pid),
        }
    }
}

impl fmt::Display for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        self.program.iter().try_for_each(|program| write!(f, " ({program})"))?;
        match self.origin.as_ref().map(|origin| &origin.owner) {
            Some(CgroupOwner::Host(unit)) => write!(f, " of {}", unit.unit()),
            Some(CgroupOwner::Pods(pods)) => {
                pods.iter().take(1).try_for_each(|pod| write!(f, " of Pod {}", pod.uid))
            }
            None => Ok(()),
        }
    }
}

impl Module {
    /// Whether it holds a GPU for sure; else it may.
    pub fn is_certain(&self) -> bool {
        self.references > 0
    }

    /// What it does with the GPU and how it lets go of it, for people.
    pub fn why(&self) -> String {
        let users = match self.references {
            0 => "it drives displays".to_owned(),
            count => format!("{count} users"),
        };
        format!("{users}; stop what draws on the GPU and unload it (modprobe -r {})", self.name)
    }
}

/// Looks at every process and module.
pub fn look(root: &Root) -> Preflight {
    let root = root.unrecorded();
    let reader = Reader::new(&root);
    let numbers = Numbers::read(&reader);
    let walk = Walk { root: &root, numbers, is_kernels: is_kernels(&root) };
    let (found, unseen) = walk.all();
    let mut origins = owner::read(&root, found.keys().copied()).known;
    let own = root.read_link("proc/self").ok().flatten().and_then(|pid| pid.parse::<u32>().ok());
    let openers = found.into_iter().map(|(pid, opened)| Opener {
        pid,
        program: program(&root, pid),
        origin: origins.remove(&pid),
        opened,
        is_self: own == Some(pid),
    });
    Preflight { openers: openers.collect(), modules: modules(&root, &reader), unseen }
}

/// What device numbers mean.
#[derive(Debug)]
struct Numbers {
    gpus: u64,
    unified_memory: Option<u64>,
    switches: Option<u64>,
    capabilities: Capabilities,
}

impl Numbers {
    fn read(reader: &Reader<'_>) -> Self {
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

#[derive(Debug)]
struct Walk<'r> {
    root: &'r Root,
    numbers: Numbers,
    is_kernels: bool,
}

impl Walk<'_> {
    fn all(&self) -> (BTreeMap<u32, BTreeSet<Opened>>, u32) {
        let names = self.root.list("proc").unwrap_or_default();
        let mut unseen = 0;
        let mut found = BTreeMap::new();
        for pid in names.iter().filter_map(|(name, _)| name.parse::<u32>().ok()) {
            let directory = format!("proc/{pid}/fd");
            match self.root.list(&directory) {
                Ok(files) => {
                    let files = files.iter().map(|(name, _)| format!("{directory}/{name}"));
                    let opened: BTreeSet<Opened> = files.filter_map(|file| self.opened(&file)).collect();
                    if !opened.is_empty() {
                        found.insert(pid, opened);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => unseen += 1,
                // It has ended meanwhile.
                Err(_) => {}
            }
        }
        (found, unseen)
    }

    fn opened(&self, file: &str) -> Option<Opened> {
        let target = self.root.read_link(file).ok().flatten()?;
        let target = target.strip_suffix(" (deleted)").unwrap_or(&target);
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
fn is_kernels(root: &Root) -> bool {
    root.bundle().is_none()
        && statfs(&root.path().join("proc")).is_ok_and(|proc| proc.filesystem_type() == PROC_SUPER_MAGIC)
}

/// The last part of the first word of its command line.
fn program(root: &Root, pid: u32) -> Option<String> {
    let mut bytes = Vec::new();
    root.fetch(&format!("proc/{pid}/cmdline"), 0, MAX_COMMAND_LINE, &mut bytes).ok()?;
    let first = String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next()?).into_owned();
    let name = first.split_ascii_whitespace().next()?.trim_end_matches(':').rsplit('/').next()?;
    let shown = crate::text::visible(name, 64);
    (!shown.is_empty()).then_some(shown)
}

/// Lines such as `nvidia_drm 77824 4 - Live 0x0`: name, size, users, and among them other modules.
fn modules(root: &Root, reader: &Reader<'_>) -> Vec<Module> {
    let mut bytes = Vec::new();
    if root.fetch("proc/modules", 0, crate::root::MAX_FILE_BYTES, &mut bytes).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let held = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().filter(|name| *name == "nvidia_drm")?;
        let references: u32 = words.nth(1)?.parse().ok()?;
        let modules = words.next()?.split(',').filter(|name| !name.is_empty() && *name != "-").count();
        let references = references.saturating_sub(u32::try_from(modules).unwrap_or(u32::MAX));
        Some(Module { name: name.to_owned(), references, modeset: modeset(reader, name) })
    });
    held.filter(|module| module.references > 0 || module.modeset).collect()
}

fn modeset(reader: &Reader<'_>, module: &str) -> bool {
    let parameters = reader.directory(&format!("sys/module/{module}/parameters"));
    let value = parameters.and_then(|parameters| {
        parameters.read("modeset", |text| Ok::<_, std::convert::Infallible>(text.to_owned()))
    });
    value.is_some_and(|value| matches!(value.as_str(), "Y" | "1"))
}

#[cfg(test)]
mod tests;
