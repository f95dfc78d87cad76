//! The driver's capabilities: who may open an instance is decided by a device file, whose number and rights stand in
//! `/proc/driver/nvidia/capabilities`.

use std::collections::BTreeMap;
use std::fmt;

use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};

use crate::reader::{Directory, Reader};
use crate::text::{Unexpected, number};

/// The driver's name among the kernel's character devices.
const MAJOR_NAME: &str = "nvidia-caps";

/// The most entries of one directory that are read: 32 GPUs, 15 GPU instances of each.
const MAX_ENTRIES: usize = 64;

/// What a capability is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapabilityOf {
    /// Changing how GPUs are divided.
    Config,
    /// Seeing the instances of others.
    Monitor,
    /// Using a GPU instance.
    Instance {
        /// N of `/dev/nvidiaN`.
        gpu: u32,
        /// Which.
        instance: GpuInstanceId,
    },
    /// Using a compute instance.
    Compute {
        /// N of `/dev/nvidiaN`.
        gpu: u32,
        /// Within which GPU instance.
        instance: GpuInstanceId,
        /// Which.
        compute: ComputeInstanceId,
    },
}

impl fmt::Display for CapabilityOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config => f.write_str("changing how GPUs are divided"),
            Self::Monitor => f.write_str("seeing all instances"),
            Self::Instance { gpu, instance } => write!(f, "GPU instance {} of /dev/nvidia{gpu}", instance.0),
            Self::Compute { gpu, instance, compute } => {
                write!(f, "compute instance {} of GPU instance {} of /dev/nvidia{gpu}", compute.0, instance.0)
            }
        }
    }
}

/// A capability that there is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capability {
    pub(super) of: CapabilityOf,
    /// The minor number of its device file.
    pub(super) minor: u32,
    /// Whether others than the administrator may make and change the file.
    pub(super) may_be_made: bool,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// All capabilities.
#[derive(Debug, Default)]
pub(super) struct Capabilities {
    /// The major number of their device files; absent without the driver.
    pub(super) major: Option<u32>,
    /// Those that there are.
    pub(super) present: Vec<Capability>,
    /// All that there can be on this driver, by number; empty where it does not tell.
    pub(super) possible: BTreeMap<u32, String>,
}

impl Capabilities {
    /// The number of the device file.
    pub(super) fn minor(&self, of: CapabilityOf) -> Option<u32> {
        self.present.iter().find(|capability| capability.of == of).map(|capability| capability.minor)
    }

    /// What the device file of this number is for.
    pub(super) fn of(&self, minor: u32) -> Option<CapabilityOf> {
        self.present.iter().find(|capability| capability.minor == minor).map(|capability| capability.of)
    }

    /// Whether the device file of this number is for an instance that is gone. Other parts of the driver have numbers of
    /// their own.
    pub(super) fn is_gone(&self, minor: u32) -> bool {
        self.of(minor).is_none() && self.possible.contains_key(&minor)
    }
}

/// Reads all of them.
pub(super) fn read(reader: &Reader<'_>) -> Capabilities {
    Capabilities { major: major(reader, MAJOR_NAME), present: present(reader), possible: possible(reader) }
}

/// The number of the character devices of this name.
pub(super) fn major(reader: &Reader<'_>, name: &str) -> Option<u32> {
    let proc = reader.directory("proc")?;
    let text = proc.read("devices", |text| Ok::<_, Unexpected>(text.to_owned()))?;
    let lines =
        text.lines().skip_while(|line| *line != "Character devices:").take_while(|line| !line.is_empty());
    lines.skip(1).find_map(|line| {
        let (number, found) = line.trim().split_once(' ')?;
        (found.trim() == name).then(|| number.parse().ok()).flatten()
    })
}

fn present(reader: &Reader<'_>) -> Vec<Capability> {
    let Some(root) = reader.directory("proc/driver/nvidia/capabilities") else { return Vec::new() };
    let mut found = Vec::new();
    if let Some(mig) = root.below("mig") {
        found.extend(capability(&mig, "config", CapabilityOf::Config));
        found.extend(capability(&mig, "monitor", CapabilityOf::Monitor));
    }
    for (gpu, directory) in numbered(&root, "gpu") {
        let Some(mig) = directory.below("mig") else { continue };
        for (instance, directory) in numbered(&mig, "gi") {
            let instance = GpuInstanceId(instance);
            found.extend(capability(&directory, "access", CapabilityOf::Instance { gpu, instance }));
            for (compute, directory) in numbered(&directory, "ci") {
                let compute = ComputeInstanceId(compute);
                let of = CapabilityOf::Compute { gpu, instance, compute };
                found.extend(capability(&directory, "access", of));
            }
        }
    }
    found
}

/// Directories of this name with a number behind it.
fn numbered<'r>(directory: &Directory<'r>, prefix: &str) -> Vec<(u32, Directory<'r>)> {
    let names = directory.names_up_to(MAX_ENTRIES);
    let numbered = names.iter().filter_map(|name| {
        let number = number(name.strip_prefix(prefix).filter(|digits| !digits.is_empty())?).ok()?;
        Some((u32::try_from(number).ok()?, directory.below(name)?))
    });
    numbered.collect()
}

fn capability(directory: &Directory<'_>, name: &str, of: CapabilityOf) -> Option<Capability> {
    directory.read(name, |text| parsed(text, of))
}

/// Lines such as `DeviceFileMinor: 12`. What is not told is as the driver's own program takes it: root's, and anybody's to
/// read and write.
fn parsed(text: &str, of: CapabilityOf) -> Result<Capability, Unexpected> {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.map(|value| number(value.trim()))
            .transpose()
            .map(|value| value.and_then(|value| u32::try_from(value).ok()))
    };
    let minor = value("DeviceFileMinor")?.filter(|minor| *minor < 1 << 20);
    Ok(Capability {
        of,
        minor: minor.ok_or_else(|| Unexpected::new(text, "a capability with a line `DeviceFileMinor: N`"))?,
        may_be_made: value("DeviceFileModify")?.is_none_or(|modify| modify == 1),
        mode: value("DeviceFileMode")?.unwrap_or(0o666) & 0o777,
        uid: value("DeviceFileUID")?.unwrap_or(0),
        gid: value("DeviceFileGID")?.unwrap_or(0),
    })
}

/// Lines such as `gpu0/gi1/access 12`.
fn possible(reader: &Reader<'_>) -> BTreeMap<u32, String> {
    let table = reader.directory("proc/driver/nvidia-caps");
    let text = table.and_then(|table| table.read("mig-minors", |text| Ok::<_, Unexpected>(text.to_owned())));
    let text = text.unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    lines.filter_map(|(name, minor)| Some((minor.parse().ok()?, name.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_told_is_as_the_drivers_own_program_takes_it() {
        let told = |text| parsed(text, CapabilityOf::Config);
        let all = "DeviceFileMinor: 12\nDeviceFileMode: 256\nDeviceFileModify: 0\nDeviceFileUID: 5\nDeviceFileGID: 7";
        let capability = told(all).unwrap();
        assert_eq!((capability.minor, capability.mode, capability.may_be_made), (12, 0o400, false));
        assert_eq!((capability.uid, capability.gid), (5, 7));
        let capability = told("DeviceFileMinor: 3\nDeviceFileMode: 292\nDeviceFileModify: 1").unwrap();
        assert_eq!((capability.minor, capability.mode, capability.may_be_made), (3, 0o444, true));
        assert_eq!((capability.uid, capability.gid), (0, 0));
        assert_eq!(told("DeviceFileMinor: 3").unwrap().mode, 0o666);
        for text in [
            "",
            "DeviceFileMode: 292",
            "DeviceFileMinor: x",
            "DeviceFileMinor: -1",
            "DeviceFileMinor: 1048576",
        ] {
            assert!(told(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(DeviceFile(Minor|Mode|Modify|UID|GID): ?[-0-9x]{0,12}\n){0,4}|.{0,40}") {
            let _ = parsed(&text, CapabilityOf::Monitor);
        }
    }
}
