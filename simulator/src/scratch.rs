//! Where directories of simulated nodes are best put for a while.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};

/// In memory on most Linux machines.
const MEMORY: &str = "/dev/shm";

/// A node's files take a hundredth of this; a container engine's usual 64 MiB hold only a few.
const ROOM: u64 = 1 << 30;

/// The directory in which to make temporary directories for nodes: in memory where there is such a place, for a node is
/// some thousand small files, and the usual one elsewhere. A place with little room is not taken, nor one from which no
/// library can be loaded (container engines mount it so), since a node's driver is one.
pub fn scratch_dir() -> PathBuf {
    let memory = Path::new(MEMORY);
    if can_hold_nodes(memory) { memory.to_owned() } else { std::env::temp_dir() }
}

fn can_hold_nodes(directory: &Path) -> bool {
    let writable = nix::unistd::access(directory, nix::unistd::AccessFlags::W_OK).is_ok();
    writable
        && statvfs(directory).is_ok_and(|of| {
            let room = of.blocks_available().saturating_mul(of.fragment_size());
            is_suitable(of.flags(), room)
        })
}

fn is_suitable(flags: FsFlags, room: u64) -> bool {
    !flags.intersects(FsFlags::ST_NOEXEC | FsFlags::ST_RDONLY) && room >= ROOM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_must_load_and_nodes_must_fit() {
        assert!(is_suitable(FsFlags::ST_NOSUID, ROOM));
        assert!(!is_suitable(FsFlags::ST_NOEXEC | FsFlags::ST_NOSUID, ROOM), "as container engines mount it");
        assert!(!is_suitable(FsFlags::ST_RDONLY, ROOM));
        assert!(!is_suitable(FsFlags::empty(), 64 << 20));
    }

    #[test]
    fn the_place_exists_and_proc_is_none() {
        assert!(scratch_dir().is_dir());
        assert!(!can_hold_nodes(Path::new("/proc")), "it has no room");
        assert!(!can_hold_nodes(Path::new("/nonexistent")));
    }
}
