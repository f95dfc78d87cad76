//! The driver's library as a file: found where Cargo put it, copied into each simulation directory.
//!
//! A copy for each directory, since the dynamic loader keeps one instance a file: tests in one process then do not
//! share a driver. A driver that is too old for some symbols has them renamed in its copy, so that looking them up
//! really fails.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

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
    /// The copy could not be made.
    #[error("cannot put the driver's library into {}: {source}", path.display())]
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
    let copy = || -> io::Result<()> {
        let lib = dir.join("lib");
        fs::create_dir_all(&lib)?;
        let fresh = target.with_extension("new");
        if missing.is_empty() {
            fs::copy(&built, &fresh)?;
        } else {
            let mut bytes = fs::read(&built)?;
            missing.iter().for_each(|symbol| hide(&mut bytes, symbol));
            fs::write(&fresh, bytes)?;
        }
        fs::rename(&fresh, &target)?;
        match symlink(SONAME, lib.join(DEVELOPMENT_NAME)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    };
    copy().map_err(|source| LibraryError::Copy { path: target.clone(), source })
}

/// Takes the library away: a node without a driver has none.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir.join("lib")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Renames a symbol wherever its name stands alone, which is in the string tables of symbols: whoever looks the name up
/// compares it with what stands there and does not find it.
fn hide(library: &mut [u8], symbol: &str) {
    let name = [b"\0", symbol.as_bytes(), b"\0"].concat();
    let places: Vec<usize> = library
        .windows(name.len())
        .enumerate()
        .filter(|(_, window)| *window == name)
        .map(|(at, _)| at)
        .collect();
    for place in places {
        if let Some(first) = library.get_mut(place + 1) {
            *first = b'-';
        }
    }
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
    fn only_the_whole_name_is_hidden() {
        let mut table = b"\0nvmlA\0nvmlAB\0nvmlA\0".to_vec();
        hide(&mut table, "nvmlA");
        assert_eq!(table, b"\0-vmlA\0nvmlAB\0-vmlA\0");
    }
}
