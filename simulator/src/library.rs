//! The driver's library as a file: found where Cargo put it, copied into each simulation directory.
//!
//! A copy for each directory, since the dynamic loader keeps one instance a file: tests in one process then do not
//! share a driver. A driver that is too old for some symbols has them renamed in its copy, so that looking them up
//! really fails.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::abi::SYMBOLS;

/// The file that Cargo makes.
const BUILT_NAME: &str = "libgpulet_simulator.so";
/// The names that clients ask for.
const SONAME: &str = "libnvidia-ml.so.1";
const DEVELOPMENT_NAME: &str = "libnvidia-ml.so";

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// It was not built, or the program was moved away from it.
    #[error("{BUILT_NAME} is not beside this program; looked in {}; build it with `cargo build -p gpulet-simulator`", list(.places))]
    NotFound {
        /// Where it was looked for.
        places: Vec<PathBuf>,
    },
    /// It was built from other sources, or is not complete.
    #[error("{} does not go with this program (it has no {symbol}): let `cargo build` finish and start again", path.display())]
    OfAnotherBuild {
        /// The library.
        path: PathBuf,
        /// A symbol that it should have.
        symbol: &'static str,
    },
    /// The copy could not be made.
    #[error("cannot put the driver's library into {}", path.display())]
    Copy {
        /// The copy.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl LibraryError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "LibraryNotFound",
            Self::OfAnotherBuild { .. } => "LibraryOfAnotherBuild",
            Self::Copy { .. } => "LibraryNotCopied",
        }
    }
}

fn list(places: &[PathBuf]) -> String {
    places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Path of the library in a simulation directory.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("lib").join(SONAME)
}

/// Puts the library of a driver without the `missing` symbols into a simulation directory. What a process has loaded
/// already stays as it is.
pub(crate) fn install(dir: &Path, missing: &[String]) -> Result<(), LibraryError> {
    let built = built()?;
    let target = path(dir);
    let failed = |source| LibraryError::Copy { path: target.clone(), source };
    let mut bytes = fs::read(&built).map_err(failed)?;
    check(&bytes, &built)?;
    let copy = |bytes: &mut [u8]| -> io::Result<()> {
        let lib = dir.join("lib");
        fs::create_dir_all(&lib)?;
        let fresh = target.with_extension("new");
        hide(bytes, missing)?;
        fs::write(&fresh, bytes)?;
        fs::rename(&fresh, &target)?;
        match symlink(SONAME, lib.join(DEVELOPMENT_NAME)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    };
    copy(&mut bytes).map_err(failed)
}

/// Refuses a library that does not go with this program, such as one that Cargo is writing at this moment.
fn check(library: &[u8], path: &Path) -> Result<(), LibraryError> {
    let names = dynamic_names(library).and_then(|place| library.get(place)).unwrap_or_default();
    let present: BTreeSet<&[u8]> = names.split(|byte| *byte == 0).collect();
    match SYMBOLS.iter().find(|symbol| !present.contains(symbol.as_bytes())) {
        Some(symbol) => Err(LibraryError::OfAnotherBuild { path: path.to_owned(), symbol }),
        None => Ok(()),
    }
}

/// Takes the library away: a node without a driver has none.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir.join("lib")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Renames symbols in the table of names that the dynamic loader compares with: looking them up then fails.
fn hide(library: &mut [u8], symbols: &[String]) -> io::Result<()> {
    let names = dynamic_names(library).and_then(|place| library.get_mut(place)).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "it is no ELF file with a table of symbols")
    })?;
    for name in names.split_mut(|byte| *byte == 0) {
        let hidden = symbols.iter().any(|symbol| symbol.as_bytes() == name);
        if let (true, Some(first)) = (hidden, name.first_mut()) {
            *first = b'-';
        }
    }
    Ok(())
}

/// Where the names of dynamic symbols lie in a 64-bit little-endian ELF file: the section that the section of dynamic
/// symbols links to.
fn dynamic_names(elf: &[u8]) -> Option<Range<usize>> {
    const DYNAMIC_SYMBOLS: u64 = 11;
    let number = |at: usize, bytes: usize| {
        let little = elf.get(at..at.checked_add(bytes)?)?;
        Some(little.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (sections, size, count) = (number(0x28, 8)?, number(0x3A, 2)?, number(0x3C, 2)?);
    let section = |index: u64| usize::try_from(sections.checked_add(index * size)?).ok();
    let symbols = (0..count).filter_map(section).find(|at| number(at + 4, 4) == Some(DYNAMIC_SYMBOLS))?;
    let names = section(number(symbols + 0x28, 4)?)?;
    let start = usize::try_from(number(names + 0x18, 8)?).ok()?;
    Some(start..start.checked_add(usize::try_from(number(names + 0x20, 8)?).ok()?)?)
}

/// The newest library beside the running program: Cargo puts it next to a program that is built with it, and into
/// `deps/` for one that depends on it.
fn built() -> Result<PathBuf, LibraryError> {
    let beside =
        std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned)).unwrap_or_default();
    let places: Vec<PathBuf> = ["", "deps", "..", "../deps"].iter().map(|place| beside.join(place)).collect();
    let candidates = places.iter().map(|place| place.join(BUILT_NAME));
    let dated = candidates
        .filter_map(|file| fs::metadata(&file).and_then(|meta| meta.modified()).ok().map(|t| (t, file)));
    dated.max().map(|(_, file)| file).ok_or(LibraryError::NotFound { places })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_is_refused() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 4096]] {
            assert!(hide(&mut bytes.to_vec(), &[]).is_err());
        }
        let mut cut = fs::read(std::env::current_exe().unwrap()).unwrap();
        cut.truncate(64);
        assert!(hide(&mut cut, &[]).is_err());
    }

    #[test]
    fn a_library_must_have_every_symbol() {
        let own = std::env::current_exe().unwrap();
        let refused = check(&fs::read(&own).unwrap(), &own).unwrap_err();
        assert_eq!(refused.reason(), "LibraryOfAnotherBuild");
        assert!(check(&fs::read(built().unwrap()).unwrap(), &own).is_ok());
    }

    #[test]
    fn only_the_names_of_dynamic_symbols_change() {
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut changed = program.clone();
        hide(&mut changed, &["malloc".to_owned(), "mallo".to_owned()]).unwrap();
        let differences: Vec<_> =
            program.iter().zip(&changed).filter(|(before, after)| before != after).collect();
        assert_eq!(differences, [(&b'm', &b'-')]);
    }
}
