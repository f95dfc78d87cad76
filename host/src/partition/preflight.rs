//! Who has a GPU open, before anything of it is destroyed: processes by their open files, and modules of the kernel.
//!
//! The driver refuses to reset a GPU that anyone has open, and tells not by whom: a monitor, the daemon that keeps it
//! initialised, an X server, this process. On the kernel's own `/proc` an open file is known by its device number, whatever
//! the process calls it; in a made-up tree by where its link points.

mod modules;
mod walk;

use std::collections::BTreeSet;
use std::fmt;

use gpulet_inventory::holders::{CgroupOwner, ProcessOrigin};
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use gpulet_inventory::pci::PciAddress;

use crate::owner;
use crate::root::Root;
use crate::text::visible;
use walk::Walk;

/// As much as is read of a command line, bytes.
const MAX_COMMAND_LINE: usize = 4096;

/// What is looked through, and what that takes of a process that is not all of root.
const OPEN_FILES: &str = "proc/PID/fd";
const CAPABILITIES: &str = "the capabilities SYS_PTRACE and DAC_READ_SEARCH";

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
    let (found, unseen) = Walk::new(&root).all();
    match unseen {
        0 => root.well(OPEN_FILES),
        count => root
            .report(OPEN_FILES, &format!("{count} processes do not let it be seen; it takes {CAPABILITIES}")),
    }
    let mut origins = owner::read(&root, found.keys().copied()).known;
    let own = root.read_link("proc/self").ok().flatten().and_then(|pid| pid.parse::<u32>().ok());
    let openers = found.into_iter().map(|(pid, opened)| Opener {
        pid,
        program: program(&root, pid),
        origin: origins.remove(&pid),
        opened,
        is_self: own == Some(pid),
    });
    Preflight { openers: openers.collect(), modules: modules::read(&root), unseen }
}

/// The last part of the first word of its command line.
fn program(root: &Root, pid: u32) -> Option<String> {
    let mut bytes = Vec::new();
    root.fetch(&format!("proc/{pid}/cmdline"), 0, MAX_COMMAND_LINE, &mut bytes).ok()?;
    let first = String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next()?).into_owned();
    let name = first.split_ascii_whitespace().next()?.trim_end_matches(':').rsplit('/').next()?;
    let shown = visible(name, 64);
    (!shown.is_empty()).then_some(shown)
}

#[cfg(test)]
mod tests;
