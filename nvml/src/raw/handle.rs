//! What the driver hands out: pointers into its own tables, meaningless to anyone else.
#![allow(unsafe_code)]

use nvml_wrapper_sys::bindings as sys;

/// A handle as the C functions take it. Only this module makes them, so that no one calls the driver with a pointer
/// that it did not give.
pub(crate) trait Handle: Copy {
    /// Its C type.
    type Raw: Copy;

    /// For a call.
    fn raw(self) -> Self::Raw;
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $name(pub(super) $raw);

        // SAFETY: the pointer is never followed here; the driver's library takes its handles from any thread
        // (nvml.h: "The NVML API is thread-safe").
        unsafe impl Send for $name {}

        impl Handle for $name {
            type Raw = $raw;

            fn raw(self) -> $raw {
                self.0
            }
        }
    };
}

handle!(
    /// A GPU or a MIG device, valid until the library is shut down.
    Device,
    sys::nvmlDevice_t
);
handle!(
    /// A GPU instance, valid until it is destroyed.
    GpuInstance,
    sys::nvmlGpuInstance_t
);
handle!(
    /// A compute instance, valid until it is destroyed.
    ComputeInstance,
    sys::nvmlComputeInstance_t
);
