//! The device files of a node, until the whole host tree is written.

use std::fs;
use std::io;
use std::path::Path;

use crate::node::Node;
use crate::state::NodeState;

/// Why the files cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the host's files: {0}")]
pub struct HostTreeError(#[from] io::Error);

impl HostTreeError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "HostTreeNotWritten"
    }
}

pub(crate) fn write(_node: &Node, state: &NodeState, root: &Path) -> Result<(), HostTreeError> {
    refresh(_node, state, root)
}

pub(crate) fn refresh(_node: &Node, state: &NodeState, root: &Path) -> Result<(), HostTreeError> {
    let dev = root.join("dev");
    fs::create_dir_all(&dev)?;
    if state.driver.loaded {
        fs::write(dev.join("nvidiactl"), "")?;
        for gpu in &state.gpus {
            fs::write(dev.join(format!("nvidia{}", gpu.identity.minor)), "")?;
        }
    }
    Ok(())
}
