//! The driver's library in this process.
#![allow(unsafe_code)]

use std::ffi::OsStr;

use nvml_wrapper_sys::bindings::{NVML_INIT_FLAG_NO_GPUS, NvmlLib};

use super::symbol::{INIT, INIT_WITH_FLAGS, SHUTDOWN};
use crate::code;
use crate::file::Refusal;
use crate::tracker::Tracker;

/// The library, loaded and initialised. It is shut down and unloaded when the last owner lets go of it, so never
/// under a call that is in flight: whoever makes a call owns it.
pub(crate) struct Library {
    table: NvmlLib,
}

/// Why the library could not be made ready.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The loader was not given it.
    Refused(Refusal),
    /// The loader refused it, in its own words.
    Loader(String),
    /// It has no `nvmlInit`.
    NotNvml,
    /// `nvmlInit` returned this.
    Init(u32),
}

impl Library {
    /// Loads and initialises it. GPUs need not be there. Each step is named to `tracker`, for each can hang.
    pub(crate) fn open(name: &OsStr, tracker: &Tracker) -> Result<Self, LoadError> {
        tracker.enter("dlopen");
        // SAFETY: loading runs the library's initialisers. It is the driver's own library, or one that the
        // administrator named; there is no way to use a driver without trusting it.
        let loaded = unsafe { NvmlLib::new(name) };
        tracker.leave();
        let table = loaded.map_err(|error| LoadError::Loader(error.to_string()))?;
        let code = initialise(&table, tracker)?;
        if code == code::SUCCESS { Ok(Self { table }) } else { Err(LoadError::Init(code)) }
    }

    /// Its symbols.
    pub(super) fn table(&self) -> &NvmlLib {
        &self.table
    }
}

fn initialise(table: &NvmlLib, tracker: &Tracker) -> Result<u32, LoadError> {
    if let Some(init) = (INIT_WITH_FLAGS.find)(table) {
        tracker.enter(INIT_WITH_FLAGS.name);
        // SAFETY: the function takes flags and no pointer.
        let code = unsafe { init(NVML_INIT_FLAG_NO_GPUS) };
        tracker.leave();
        return Ok(code);
    }
    let init = (INIT.find)(table).ok_or(LoadError::NotNvml)?;
    tracker.enter(INIT.name);
    // SAFETY: the function takes nothing.
    let code = unsafe { init() };
    tracker.leave();
    Ok(code)
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Some(shutdown) = (SHUTDOWN.find)(&self.table) {
            // SAFETY: it was initialised when it was opened, and no call is in flight: each owns the library.
            unsafe { shutdown() };
        }
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}
