//! The directory of the capabilities' device files, one file at a time.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use super::super::capabilities::Capability;

/// The directory's name.
pub(super) const FOLDER: &str = "nvidia-caps";

/// What the files are called, and a number behind it.
pub(super) const PREFIX: &str = "nvidia-cap";

/// Why a file is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Missing,
    Wrong,
}

/// Real directories that the files are in.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) caps: PathBuf,
    /// Links by number, which systemd looks devices up by.
    pub(super) links: Option<PathBuf>,
    pub(super) is_real: bool,
    pub(super) major: u32,
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

    pub(super) fn fault(&self, capability: &Capability) -> Option<Fault> {
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
    pub(super) fn make(&self, capability: &Capability) -> io::Result<()> {
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

    pub(super) fn remove(&self, minor: u32) -> io::Result<()> {
        if let Some((link, target)) = self.link(minor)
            && fs::read_link(&link).is_ok_and(|there| there == target)
        {
            removed(&link)?;
        }
        removed(&self.file(minor))
    }

    /// Numbers of the files that are there.
    pub(super) fn minors(&self) -> Vec<u32> {
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
