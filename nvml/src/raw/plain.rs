//! C values that may be all zeros, and versions of C structs.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong};

use gpulet_inventory::numa::CpuSet;
use nvml_wrapper_sys::bindings as sys;

/// A C value for which any bit pattern is valid, all zeros included.
///
/// # Safety
/// The type must consist of integers, floating-point numbers, raw pointers and arrays, structs and unions of them.
pub(crate) unsafe trait Plain: Copy {
    /// All zeros.
    fn zeroed() -> Self {
        // SAFETY: implementors promise that all zeros is a valid value.
        unsafe { std::mem::zeroed() }
    }
}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {
        // SAFETY: an integer, or a `repr(C)` struct of integers, raw pointers and arrays of integers (bindings.rs).
        $(unsafe impl Plain for $type {})*
    };
}

plain!(
    u32,
    u64,
    c_int,
    sys::nvmlBAR1Memory_t,
    sys::nvmlComputeInstanceInfo_t,
    sys::nvmlComputeInstancePlacement_t,
    sys::nvmlComputeInstanceProfileInfo_t,
    sys::nvmlEventData_t,
    sys::nvmlFieldValue_t,
    sys::nvmlGpuFabricInfo_t,
    sys::nvmlGpuFabricInfo_v2_t,
    sys::nvmlGpuFabricInfo_v3_t,
    sys::nvmlGpuInstanceInfo_t,
    sys::nvmlGpuInstancePlacement_t,
    sys::nvmlGpuInstanceProfileInfo_t,
    sys::nvmlGpuInstanceProfileInfo_v2_t,
    sys::nvmlGpuInstanceProfileInfo_v3_t,
    sys::nvmlMemory_t,
    sys::nvmlMemory_v2_t,
    sys::nvmlPciInfo_t,
    sys::nvmlProcessInfo_t,
    sys::nvmlTemperature_t,
    sys::nvmlUtilization_t,
);

/// The version word of a versioned struct: its size, and its number in the upper byte (`NVML_STRUCT_VERSION`).
pub(crate) fn version_of<T>(number: u32) -> u32 {
    // The structs of the interface are a few hundred bytes.
    u32::try_from(size_of::<T>()).unwrap_or(0) | number << 24
}

/// Text in a buffer of C characters (which have a sign on some machines), up to its end or the first zero; what is
/// not UTF-8 is replaced.
pub(crate) fn text(buffer: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().flat_map(|c| c.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The numbers whose bits are set in a mask of words, lowest first.
pub(crate) fn members(words: &[c_ulong]) -> CpuSet {
    let bits = words.iter().flat_map(|word| (0..c_ulong::BITS).map(move |bit| word >> bit & 1 == 1));
    (0..).zip(bits).filter_map(|(number, set)| set.then_some(number)).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::c_char;

    use super::*;

    #[test]
    fn versions_are_those_of_the_header() {
        // nvmlMemory_v2 is 0x02000028 in nvml.h.
        assert_eq!(version_of::<sys::nvmlMemory_v2_t>(2), 0x0200_0028);
    }

    #[test]
    fn a_mask_counts_from_its_first_word() {
        assert_eq!(
            members(&[0b1011, 0, 1 << (c_ulong::BITS - 1)]).to_string(),
            format!("0-1,3,{}", 3 * c_ulong::BITS - 1)
        );
        assert!(members(&[0; 128]).is_empty());
    }

    #[test]
    fn text_ends_at_zero_or_at_the_end() {
        assert_eq!(text(&[b'H', b'1', 0, b'x'].map(|b: u8| b as c_char)), "H1");
        assert_eq!(text(&[b'H', b'1'].map(|b: u8| b as c_char)), "H1");
        assert_eq!(text(&[]), "");
    }
}
