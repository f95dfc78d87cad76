//! Where the simulation directory is, seen from the loaded library.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directory above the one from which this library was loaded (`DIR/lib/libnvidia-ml.so.1`), else what
/// `GPULET_SIM_DIR` names.
pub(super) fn simulation_dir() -> Option<PathBuf> {
    let by_place = own_path().and_then(|path| {
        let dir = path.parent().filter(|dir| dir.ends_with("lib"))?.parent()?.to_owned();
        dir.join(crate::share::FILE_NAME).exists().then_some(dir)
    });
    let named = || std::env::var_os("GPULET_SIM_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    by_place.or_else(named)
}

/// The file from which this library was loaded.
fn own_path() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let here: fn() -> Option<PathBuf> = simulation_dir;
    // SAFETY: `info` is a valid place to write to, and dladdr only compares the address that it is given.
    let found = unsafe { libc::dladdr(here as *const c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr succeeded, so the name is a C string that lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Path::new(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()
}
