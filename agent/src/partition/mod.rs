//! Looks at how the GPUs of this node are divided, plans, and carries a plan out.
//!
//! ```text
//!   look ------> Looked: each GPU fresh from the driver, with everyone who may use it
//!     |
//!   plan ------> NodePlan (pure)
//!     |
//!   carry_out -> NodeOutcome: one state machine per GPU, its commands done at the edges
//!
//!   recover ---> what a crash has cut off: finished, or rolled back
//! ```
//!
//! - [`looked`]: what was seen; `look` sees it, and `holders` puts everyone on each instance that he may use
//! - `pods`: who was given what by the kubelet, and whether that is all
//! - [`wanted`]: what is wanted, by a partition file or by what the GPUs report
//! - [`report`]: what would be done, as people approve it and programs read it
//! - `care`: device files and CDI specifications afterwards; `rebooting`: where nothing else helps
//! - `execute`: the commands of a machine, done at the edges
//! - [`outcome`]: how it ended, in words for people, labels and exit codes
//!
//! Whoever calls `carry_out` or `recover` holds the node's lock.

mod care;
mod carry_out;
mod execute;
mod holders;
mod look;
mod looked;
mod names;
mod openers;
mod outcome;
mod pods;
mod rebooting;
pub(crate) mod report;
mod wanted;

use std::path::PathBuf;
use std::sync::Arc;

use gpulet_host::Root;
use gpulet_inventory::pod::Pod;
use gpulet_nvml::Driver;
use tokio::sync::watch;

use crate::kubelet::Kubelet;

pub(crate) use care::Cared;
pub(crate) use looked::{Looked, LookedGpu, UnreadGpu};
pub(crate) use names::stoppable;
pub(crate) use outcome::{End, GpuOutcome, NodeOutcome, Recovered};
pub(crate) use wanted::{Layouts, Origin, USUAL_FILE, WantedError};

/// What divides the GPUs of this node. It is cheap to make and holds nothing open but what it is given.
#[derive(Debug, Clone)]
pub(crate) struct Partitioner {
    /// The root of the node's file system.
    pub(crate) root: Root,
    /// The node's driver.
    pub(crate) driver: Driver,
    /// The node's kubelet, if it has one.
    pub(crate) kubelet: Kubelet,
    /// Where the journals are.
    pub(crate) state_dir: PathBuf,
    /// The node's Pods by the API, as far as it is asked: they give processes their Pods' names, and tell which Pods have
    /// ended.
    pub(crate) pods: watch::Receiver<Option<Arc<Vec<Pod>>>>,
}

#[cfg(test)]
mod tests;
