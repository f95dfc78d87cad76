//! Ending the process while the driver hangs.
#![allow(unsafe_code)]

use std::ffi::c_int;

// SAFETY: this is POSIX's declaration of the function.
unsafe extern "C" {
    // It reads nothing but its argument and does not return, so that any call is sound.
    safe fn _exit(status: c_int) -> !;
}

/// Ends the process at once with the exit code `code`, without handlers of `exit(3)` and destructors of libraries.
///
/// Those wait for the loader's lock. A thread that hangs in `dlopen`, which `Driver::sample` does not wait for, holds
/// it for as long as it hangs. What is to be written must have been written before: nothing is flushed here.
pub fn leave(code: u8) -> ! {
    _exit(c_int::from(code))
}
