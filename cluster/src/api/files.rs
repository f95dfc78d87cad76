//! Files of the node, read below the directory where its file system is mounted.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

/// The most that is read of one file, bytes. Credentials are a few kilobytes.
const MAX_BYTES: u64 = 1 << 20;

/// The node's file system.
#[derive(Debug, Clone)]
pub(crate) struct NodeFiles {
    root: PathBuf,
}

impl NodeFiles {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// Whether the node's file system is this program's own.
    pub(crate) fn are_ours(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where `path` is for this program, for messages.
    pub(crate) fn shown(&self, path: &Path) -> String {
        if self.are_ours() {
            return path.display().to_string();
        }
        self.root.join(path.strip_prefix("/").unwrap_or(path)).display().to_string()
    }

    /// What the file says. Symbolic links are followed as the node would: an absolute one begins at the root again. The
    /// kubelet's client certificate is such a link.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let file = if self.are_ours() {
            // systemd's RestrictSUIDSGID= takes openat2 from a service.
            open(path, flags, Mode::empty())?
        } else {
            let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_IN_ROOT);
            openat2(&File::open(&self.root)?, path, how)?
        };
        let mut bytes = Vec::new();
        let read = File::from(file).take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if read as u64 > MAX_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("larger than {MAX_BYTES} bytes"),
            ));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_link_stays_below_the_root() {
        let directory = tempfile::tempdir().unwrap();
        let pki = directory.path().join("var/lib/kubelet/pki");
        std::fs::create_dir_all(&pki).unwrap();
        std::fs::write(pki.join("kubelet-client-1.pem"), "certificate").unwrap();
        let link = pki.join("kubelet-client-current.pem");
        std::os::unix::fs::symlink("/var/lib/kubelet/pki/kubelet-client-1.pem", link).unwrap();
        std::os::unix::fs::symlink("/../../etc/hostname", pki.join("out")).unwrap();
        let files = NodeFiles::new(directory.path());
        let read = |name: &str| files.read(&Path::new("/var/lib/kubelet/pki").join(name));
        assert_eq!(read("kubelet-client-current.pem").unwrap(), b"certificate");
        assert_eq!(read("out").unwrap_err().kind(), io::ErrorKind::NotFound, "`..` does not lead out of it");
        assert_eq!(read("none").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
