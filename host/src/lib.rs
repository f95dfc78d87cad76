//! The crate gpulet-host.
