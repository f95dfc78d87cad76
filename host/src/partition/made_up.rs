//! A made-up tree of a host for tests, with programs in it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use tempfile::TempDir;

use crate::root::Root;

pub(crate) struct MadeUp(TempDir);

/// Whether this process may make device files and the like.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

impl MadeUp {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn root(&self) -> Root {
        Root::new(self.0.path().join("root"))
    }

    /// Where `path` of the host lies.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join("root").join(path)
    }

    /// A directory beside the root.
    pub(crate) fn outside(&self) -> PathBuf {
        let outside = self.0.path().join("outside");
        fs::create_dir_all(&outside).unwrap();
        outside
    }

    fn made(&self, path: &str) -> PathBuf {
        let at = self.at(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        at
    }

    pub(crate) fn directory(&self, path: &str) -> &Self {
        fs::create_dir_all(self.at(path)).unwrap();
        self
    }

    pub(crate) fn file(&self, path: &str, content: &str) -> &Self {
        fs::write(self.made(path), content).unwrap();
        self
    }

    pub(crate) fn link(&self, path: &str, to: impl AsRef<Path>) -> &Self {
        symlink(to, self.made(path)).unwrap();
        self
    }

    pub(crate) fn device(&self, path: &str, major: u64, minor: u64) -> &Self {
        mknod(&self.made(path), SFlag::S_IFCHR, Mode::S_IRUSR, makedev(major, minor)).unwrap();
        self
    }

    /// A script of the shell. It is written by another process: nobody can run what this one has open, not even in the moment
    /// in which another test starts a program.
    pub(crate) fn program(&self, path: &str, does: &str) -> &Self {
        let at = self.made(path);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg("cat > \"$0\" && chmod 755 \"$0\"").arg(&at).stdin(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        write!(shell.stdin.take().unwrap(), "#!/bin/sh\n{does}\n").unwrap();
        assert!(shell.wait().unwrap().success());
        self
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }
}
