//! The kernel's side of a node: what sysfs and procfs tell, every path under a configurable root.
//!
//! A file that is missing is a fact (a kernel without NUMA, a device without a driver) and no error. A file that
//! holds what it cannot hold is reported once and skipped, so that one odd device hides no other.
//!
//! - [`root`]: the root that every path is put under
//! - [`numa`], [`pci`], [`topology`]: where things sit
//! - [`process`]: this process itself

pub mod numa;
pub mod pci;
pub mod process;
pub mod root;
pub mod topology;

pub use root::Root;
