//! Device files of the capabilities: the driver does not make them, and does not remove them with the instance.
//!
//! A file of which the administrator has said that only he makes it is left as it is. So is one that is for something else
//! than instances. A tree without `/dev/null` is a made-up one: there a plain file stands for a device.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use super::super::capabilities::{Capabilities, Capability};
use super::super::reset::DRIVER_CONTAINER;
use super::Finding;
use crate::root::Root;

/// The directory of the files.
const FOLDER: &str = "nvidia-caps";

/// What they are called, and a number behind it.
const PREFIX: &str = "nvidia-cap";

/// Makes what is missing, mends what is wrong, removes what is gone, and looks again.
pub(super) fn mend(root: &Root, capabilities: &Capabilities) -> Vec<Finding> {
    if capabilities.present.is_empty() {
        return vec![Finding::Right(
            "the driver shows no capabilities, so there are no device files for them".to_owned(),
        )];
    }
    let Some(major) = capabilities.major else {
        return vec![Finding::Wrong {
            reason: "DeviceNumberUnknown",
            message: "/proc/devices tells no number of nvidia-caps: device files of MIG instances cannot be made; is the \
                      driver loaded?"
                .to_owned(),
        }];
    };
    directories(root)
        .iter()
        .flat_map(|directory| Devices::new(directory, major).mend(root, capabilities))
        .collect()
}

/// The node's `/dev`, and that of a driver container where it has files of its own.
fn directories(root: &Root) -> Vec<String> {
    let container = format!("{DRIVER_CONTAINER}/dev");
    let real = |path: &str| root.real(Path::new(path)).ok();
    let has_own = real(&format!("{container}/nvidiactl")).is_some() && real(&container) != real("dev");
    ["dev".to_owned()].into_iter().chain(has_own.then_some(container)).collect()
}

/// Device files below one `/dev`.
#[derive(Debug)]
struct Devices<'a> {
    /// As the node names it, without the first slash.
    directory: &'a str,
    major: u32,
}

/// What had to be done.
#[derive(Debug, Default)]
struct Done {
    made: Vec<u32>,
    mended: Vec<u32>,
    removed: Vec<u32>,
}

/// Why a file is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Missing,
    Wrong,
}

impl<'a> Devices<'a> {
    fn new(directory: &'a str, major: u32) -> Self {
        Self { directory, major }
    }

    fn mend(&self, root: &Root, capabilities: &Capabilities) -> Vec<Finding> {
        let mut findings = Vec::new();
        match self.place(root) {
            Err(error) => findings.push(self.unavailable(&error)),
            Ok(place) => {
                let done = self.bring(&place, capabilities, &mut findings);
                findings.extend(self.told(&place, capabilities, &done));
            }
        }
        findings
    }

    /// Where the files are; the directory is made where it is missing, but not the one that it is in.
    fn place(&self, root: &Root) -> io::Result<Place> {
        let dev = root.real(Path::new(self.directory))?;
        if !dev.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let is_real =
            fs::symlink_metadata(dev.join("null")).is_ok_and(|null| null.file_type().is_char_device());
        let caps = root.made_directory(&Path::new("/").join(self.directory).join(FOLDER))?;
        let links = is_real.then(|| dev.join("char")).filter(|links| links.is_dir());
        Ok(Place { caps, links, is_real, major: self.major })
    }

    fn bring(&self, place: &Place, capabilities: &Capabilities, findings: &mut Vec<Finding>) -> Done {
        let mut done = Done::default();
        for capability in &capabilities.present {
            let Some(fault) = place.fault(capability) else { continue };
            if !capability.may_be_made {
                findings.push(self.administrators(capability));
                continue;
            }
            match (place.make(capability), fault) {
                (Ok(()), Fault::Missing) => done.made.push(capability.minor),
                (Ok(()), Fault::Wrong) => done.mended.push(capability.minor),
                (Err(error), _) => findings.push(self.unmade(capability, &error)),
            }
        }
        for minor in place.minors().into_iter().filter(|minor| capabilities.is_gone(*minor)) {
            match place.remove(minor) {
                Ok(()) => done.removed.push(minor),
                Err(error) => findings.push(self.unremoved(minor, &error)),
            }
        }
        done
    }

    /// What there is now, looked at again.
    fn told(&self, place: &Place, capabilities: &Capabilities, done: &Done) -> Option<Finding> {
        let may_be_made = capabilities.present.iter().filter(|capability| capability.may_be_made);
        let faults = may_be_made.filter(|capability| place.fault(capability).is_some()).count();
        let left = place.minors().into_iter().filter(|minor| capabilities.is_gone(*minor)).count();
        if faults + left > 0 {
            // Each was told with its reason, unless someone else undid it.
            return None;
        }
        let (count, at) = (capabilities.present.len(), format!("/{}/{FOLDER}", self.directory));
        let list = |what: &str, minors: &[u32]| {
            let minors = minors.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            (!minors.is_empty()).then(|| format!("{what} {minors}"))
        };
        let changes =
            [list("made", &done.made), list("mended", &done.mended), list("removed", &done.removed)];
        let changes = changes.into_iter().flatten().collect::<Vec<_>>().join("; ");
        Some(match changes.is_empty() {
            true => Finding::Right(format!("{at} has the device files of all {count} capabilities")),
            false => {
                Finding::Mended(format!("{at} has the device files of all {count} capabilities: {changes}"))
            }
        })
    }

    fn path(&self, minor: u32) -> String {
        format!("/{}/{FOLDER}/{PREFIX}{minor}", self.directory)
    }

    fn unavailable(&self, error: &io::Error) -> Finding {
        let message = format!(
            "the device files of MIG instances cannot be seen to in /{}: {error}; is the host's /dev mounted below its root, \
             and writable?",
            self.directory
        );
        Finding::Wrong { reason: "DevicesUnavailable", message }
    }

    fn administrators(&self, capability: &Capability) -> Finding {
        let (path, major, minor) = (self.path(capability.minor), self.major, capability.minor);
        let message = format!(
            "{path} for {} is missing or wrong, and the driver is told (NVreg_ModifyDeviceFiles=0) that only the \
             administrator makes it: mknod -m {:o} {path} c {major} {minor}",
            capability.of, capability.mode
        );
        Finding::Wrong { reason: "DeviceFileMissing", message }
    }

    fn unmade(&self, capability: &Capability, error: &io::Error) -> Finding {
        let (path, major, minor) = (self.path(capability.minor), self.major, capability.minor);
        let message = format!(
            "{path} for {} cannot be made: {error}; it takes the capability MKNOD and a writable /dev. By hand: \
             mknod -m {:o} {path} c {major} {minor}",
            capability.of, capability.mode
        );
        Finding::Wrong { reason: "DeviceFileMissing", message }
    }

    fn unremoved(&self, minor: u32, error: &io::Error) -> Finding {
        let path = self.path(minor);
        let message =
            format!("{path} is for an instance that is gone, and cannot be removed: {error}; remove it");
        Finding::Wrong { reason: "DeviceFileStale", message }
    }
}

/// Real directories that the files are in.
#[derive(Debug)]
struct Place {
    caps: PathBuf,
    /// Links by number, which systemd looks devices up by.
    links: Option<PathBuf>,
    is_real: bool,
    major: u32,
}

impl Place {
    fn file(&self, minor: u32) -> PathBuf {
        self.caps.join(format!("{PREFIX}{minor}"))
    }

    fn link(&self, minor: u32) -> Option<(PathBuf, PathBuf)> {
        let name = format!("{}:{minor}", self.major);
        let target = Path::new("..").join(FOLDER).join(format!("{PREFIX}{minor}"));
        self.links.as_ref().map(|links| (links.join(name), target))
    }

    fn fault(&self, capability: &Capability) -> Option<Fault> {
        let Ok(there) = fs::symlink_metadata(self.file(capability.minor)) else {
            return Some(Fault::Missing);
        };
        let is_right = match self.is_real {
            true => {
                let is_it =
                    there.file_type().is_char_device() && there.rdev() == self.number(capability.minor);
                let rights = (there.mode() & 0o777, there.uid(), there.gid());
                is_it && rights == (capability.mode, capability.uid, capability.gid)
            }
            false => there.is_file(),
        };
        let is_linked = self
            .link(capability.minor)
            .is_none_or(|(link, target)| fs::read_link(link).is_ok_and(|there| there == target));
        (!is_right || !is_linked).then_some(Fault::Wrong)
    }

    fn number(&self, minor: u32) -> u64 {
        makedev(self.major.into(), minor.into())
    }

    /// Puts it in place in one step: whoever opens it meanwhile finds the old one or this one.
    fn make(&self, capability: &Capability) -> io::Result<()> {
        let beside = self.caps.join(format!(".{PREFIX}{}.new", capability.minor));
        removed(&beside)?;
        let made =
            self.made(&beside, capability).and_then(|()| fs::rename(&beside, self.file(capability.minor)));
        if made.is_err() {
            let _ = fs::remove_file(&beside);
        }
        made?;
        let Some((link, target)) = self.link(capability.minor) else { return Ok(()) };
        if fs::read_link(&link).is_ok_and(|there| there == target) {
            return Ok(());
        }
        removed(&link)?;
        symlink(target, link)
    }

    fn made(&self, beside: &Path, capability: &Capability) -> io::Result<()> {
        if !self.is_real {
            return fs::OpenOptions::new().write(true).create_new(true).open(beside).map(drop);
        }
        mknod(beside, SFlag::S_IFCHR, Mode::from_bits_truncate(0o600), self.number(capability.minor))?;
        lchown(beside, Some(capability.uid), Some(capability.gid))?;
        fs::set_permissions(beside, fs::Permissions::from_mode(capability.mode))
    }

    fn remove(&self, minor: u32) -> io::Result<()> {
        if let Some((link, target)) = self.link(minor)
            && fs::read_link(&link).is_ok_and(|there| there == target)
        {
            removed(&link)?;
        }
        removed(&self.file(minor))
    }

    /// Numbers of the files that are there.
    fn minors(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.caps).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut minors: Vec<u32> = names.filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok()).collect();
        minors.sort_unstable();
        minors
    }
}

fn removed(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
