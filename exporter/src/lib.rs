//! The crate gpulet-exporter.
