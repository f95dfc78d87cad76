//! Looks at a library's file before the loader does. The loader maps what a file says that it has, and the process dies
//! of the first access beyond the file's end, so one that is half copied must never get there.
//!
//! This cannot see a file that becomes shorter afterwards, or whose bytes are wrong.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use object::Endianness;
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_DYNAMIC, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};

/// Why a file is not given to the loader.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// A directory, a device, a pipe.
    #[error("it is no regular file")]
    NotRegular,
    /// Its headers are not those of a 64-bit library.
    #[error("it is no 64-bit ELF file: {0}")]
    NotElf(String),
    /// For another architecture.
    #[error(
        "it is for another kind of machine (ELF machine {found}, this one is {})",
        std::env::consts::ARCH
    )]
    OtherMachine { found: u16 },
    /// Shorter than its headers say.
    #[error("it is incomplete: it has {size} bytes and must have at least {needed}")]
    Incomplete { size: u64, needed: u64 },
}

impl Refusal {
    /// Whether the loader would take it nevertheless, and the process die of it.
    pub(crate) fn is_deadly(&self) -> bool {
        matches!(self, Self::Incomplete { .. })
    }

    /// What a person can do about it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "let gpulet read the file, or name another with --nvml-library",
            Self::NotRegular => "name the driver's library itself with --nvml-library",
            Self::NotElf(_) | Self::OtherMachine { .. } => {
                "install a driver library for this machine's architecture, or name another with --nvml-library"
            }
            Self::Incomplete { .. } => {
                "wait for the installation of the driver to finish, or repeat it: the file is incomplete"
            }
        }
    }
}

/// Whether the loader can be given this file.
///
/// # Errors
/// Why not.
pub(crate) fn check(path: &Path) -> Result<(), Refusal> {
    let unreadable = |error: io::Error| Refusal::Unreadable(error.to_string());
    // Asked before opening, which may do something to a device, and after it, in case that it was replaced.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(Refusal::NotRegular);
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Refusal::NotRegular);
    }
    check_headers(file, metadata.len())
}

fn check_headers(file: File, size: u64) -> Result<(), Refusal> {
    let not_elf = |error: object::read::Error| Refusal::NotElf(error.to_string());
    let file = ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(&file).map_err(not_elf)?;
    let endian = header.endian().map_err(not_elf)?;
    let machine = header.e_machine(endian);
    if own_machine().is_some_and(|own| own != machine) {
        return Err(Refusal::OtherMachine { found: machine });
    }
    let entries = u64::from(header.e_phentsize(endian)) * u64::from(header.e_phnum(endian));
    let headers_end = header.e_phoff(endian).saturating_add(entries);
    if headers_end > size {
        return Err(Refusal::Incomplete { size, needed: headers_end });
    }
    let segments = header.program_headers(endian, &file).map_err(not_elf)?;
    let loaded = segments.iter().filter(|segment| matches!(segment.p_type(endian), PT_LOAD | PT_DYNAMIC));
    let ends = loaded.map(|segment| segment.p_offset(endian).saturating_add(segment.p_filesz(endian)));
    match ends.max() {
        None => Err(Refusal::NotElf("it has nothing to load".into())),
        Some(needed) if needed > size => Err(Refusal::Incomplete { size, needed }),
        Some(_) => Ok(()),
    }
}

/// The number of this machine's architecture, where it is one that has NVIDIA's driver.
fn own_machine() -> Option<u16> {
    match std::env::consts::ARCH {
        "x86_64" => Some(EM_X86_64),
        "aarch64" => Some(EM_AARCH64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    fn program() -> Vec<u8> {
        fs::read("/proc/self/exe").unwrap()
    }

    fn check_bytes(bytes: &[u8]) -> Result<(), Refusal> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("library");
        fs::write(&path, bytes).unwrap();
        check(&path)
    }

    #[test]
    fn a_whole_file_passes_also_behind_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink(std::env::current_exe().unwrap(), &link).unwrap();
        assert_eq!(check(&link), Ok(()));
    }

    #[test]
    fn a_file_that_ends_anywhere_before_its_last_segment_is_incomplete() {
        let whole = program();
        let size = |bytes: &[u8]| match check_bytes(bytes) {
            Err(Refusal::Incomplete { size, needed }) => (size, needed),
            other => panic!("{other:?}"),
        };
        let (_, needed) = size(&whole[..4096]);
        let needed = usize::try_from(needed).unwrap();
        for cut in [64, 200, 100_000, needed - 1] {
            assert_eq!(size(&whole[..cut]).0, cut as u64);
        }
        assert_eq!(check_bytes(&whole[..needed]), Ok(()));
        for cut in [0, 4, 63] {
            assert!(matches!(check_bytes(&whole[..cut]), Err(Refusal::NotElf(_))), "{cut}");
        }
    }

    #[test]
    fn other_machines_and_widths_are_told() {
        let mut other = program();
        other[18] = 8;
        other[19] = 0;
        assert_eq!(check_bytes(&other), Err(Refusal::OtherMachine { found: 8 }));
        let mut narrow = program();
        narrow[4] = 1;
        assert!(matches!(check_bytes(&narrow), Err(Refusal::NotElf(_))));
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [pipe.as_path(), dir.path(), Path::new("/dev/null")] {
            assert_eq!(check(path), Err(Refusal::NotRegular), "{}", path.display());
        }
        assert!(matches!(check(&dir.path().join("none")), Err(Refusal::Unreadable(_))));
    }
}
