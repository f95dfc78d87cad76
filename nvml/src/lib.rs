//! The crate gpulet-nvml.
