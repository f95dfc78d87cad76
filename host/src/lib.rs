//! The kernel's side of a node: what sysfs and procfs tell, every path under a configurable root.
//!
//! A file that is missing is a fact (a kernel without NUMA, a device without a driver) and no error. A file that
//! holds what it cannot hold is reported once and skipped, so that one odd device hides no other.
//!
//! - [`root`]: the root that every path is put under: a directory, or a bundle from another machine
//! - [`hardware`]: NUMA nodes, CPUs, the PCI tree, NICs
//! - [`kubelet`]: the kubelet's process and configuration files
//! - [`owner`]: what the processes on the GPUs belong to
//! - [`bundle`], [`recorded`]: what was read, packed to be read again elsewhere
//! - [`process`]: this process itself
//! - [`partition`]: what dividing GPUs needs of the host
//! - [`program`]: programs of the host

pub mod bundle;
mod disk;
pub mod hardware;
pub mod kubelet;
pub mod owner;
pub mod partition;
pub mod process;
pub mod program;
mod reader;
pub mod recorded;
pub mod root;
mod text;

pub use bundle::Bundle;
pub use recorded::Recorded;
pub use root::Root;
