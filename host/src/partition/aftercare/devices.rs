//! Device files of the capabilities: the driver does not make them, and does not remove them with the instance.
//!
//! A file of which the administrator has said that only he makes it is left as it is. So is one that is for something else
//! than instances. A tree without `/dev/null` is a made-up one: there a plain file stands for a device.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::super::capabilities::{Capabilities, Capability};
use super::super::reset::DRIVER_CONTAINER;
use super::Finding;
use super::place::{FOLDER, Fault, PREFIX, Place};
use crate::root::Root;

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
