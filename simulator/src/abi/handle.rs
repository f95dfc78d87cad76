//! Handles: opaque pointers to the caller, here a number that says what it means.
//!
//! Each carries the count of driver loads, so that a handle which outlived its driver is told from a good one.

use std::ffi::c_void;

use super::code::{Answer, INVALID_ARGUMENT};

/// Marks a handle as ours, in its upper 16 bits. No pointer to memory looks like this.
const MARK: u64 = 0x4C47;

/// What a handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Object {
    /// A whole GPU, by index.
    Gpu(u32),
    /// A MIG device: GPU index, GPU instance id, compute instance id.
    MigDevice(u32, u32, u32),
    /// A GPU instance: GPU index, id.
    GpuInstance(u32, u32),
    /// A compute instance: GPU index, GPU instance id, id.
    ComputeInstance(u32, u32, u32),
    /// An event set, by number.
    EventSet(u32),
    /// A GPM sample, by number.
    GpmSample(u32),
}

/// A handle as it crosses the ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle(u64);

impl<T> From<*mut T> for Handle {
    fn from(pointer: *mut T) -> Self {
        Self(pointer.cast::<c_void>().addr() as u64)
    }
}

impl Handle {
    /// The handle of `object` under the given load of the driver.
    pub(super) fn new(load: u64, object: Object) -> Self {
        let (kind, a, b, c) = match object {
            Object::Gpu(gpu) => (1, gpu, 0, 0),
            Object::MigDevice(gpu, gi, ci) => (2, gpu, gi, ci),
            Object::GpuInstance(gpu, gi) => (3, gpu, gi, 0),
            Object::ComputeInstance(gpu, gi, ci) => (4, gpu, gi, ci),
            Object::EventSet(number) => (5, number & 0xFF, number >> 8 & 0xFF, number >> 16 & 0xFF),
            Object::GpmSample(number) => (6, number & 0xFF, number >> 8 & 0xFF, number >> 16 & 0xFF),
        };
        let low = [kind << 24, a << 16, b << 8, c].into_iter().map(u64::from).sum::<u64>();
        Self(MARK << 48 | (load & 0xFFFF) << 32 | low)
    }

    /// As the pointer type that a symbol returns.
    pub(super) fn pointer<T>(self) -> *mut T {
        std::ptr::without_provenance_mut(self.0 as usize)
    }

    /// What it stands for.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for null, garbage and handles of another load of the driver.
    pub(super) fn object(self, load: u64) -> Answer<Object> {
        let byte = |shift: u32| (self.0 >> shift) as u32 & 0xFF;
        if self.0 >> 48 != MARK || self.0 >> 32 & 0xFFFF != load & 0xFFFF {
            return Err(INVALID_ARGUMENT);
        }
        let (a, b, c) = (byte(16), byte(8), byte(0));
        match byte(24) {
            1 => Ok(Object::Gpu(a)),
            2 => Ok(Object::MigDevice(a, b, c)),
            3 => Ok(Object::GpuInstance(a, b)),
            4 => Ok(Object::ComputeInstance(a, b, c)),
            5 => Ok(Object::EventSet(a | b << 8 | c << 16)),
            6 => Ok(Object::GpmSample(a | b << 8 | c << 16)),
            _ => Err(INVALID_ARGUMENT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_says_what_it_stands_for() {
        for object in [
            Object::Gpu(7),
            Object::MigDevice(7, 13, 2),
            Object::GpuInstance(0, 1),
            Object::ComputeInstance(1, 2, 3),
            Object::EventSet(70_000),
            Object::GpmSample(3),
        ] {
            assert_eq!(Handle::new(3, object).object(3), Ok(object));
        }
    }

    #[test]
    fn garbage_and_handles_of_an_earlier_load_are_refused() {
        let handle = Handle::new(3, Object::Gpu(0));
        assert_eq!(handle.object(4), Err(INVALID_ARGUMENT));
        assert_eq!(Handle::from(std::ptr::null_mut::<u8>()).object(0), Err(INVALID_ARGUMENT));
        let mut byte = 0_u8;
        assert_eq!(Handle::from(&raw mut byte).object(3), Err(INVALID_ARGUMENT));
    }
}
