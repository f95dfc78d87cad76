//! The files of a simulated node: `sys`, `proc`, `dev` and the rest, for `--host-root`.
//!
//! They are ordinary files, directories and links, so no rights are needed. What the driver makes (its files in
//! `/proc`, its device files, its bindings in `/sys`) comes and goes with it.

mod caps;
mod driver;
mod machine;
mod nic;
mod open_files;
mod pci;
mod processors;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use self::caps::nodes as capability_nodes;
pub(crate) use self::machine::KUBELET_PID;

use std::io;
use std::path::{Path, PathBuf};

use self::tree::Tree;
use crate::node::Node;
use crate::state::NodeState;

/// Why the files could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: check that the directory is writable and has room", .path.display())]
pub struct HostTreeError {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl HostTreeError {
    fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self { operation, path: path.to_owned(), source }
    }

    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "HostTree"
    }
}

/// Writes all files of a node below `root`. What another node has left in `sys` and `proc` there goes.
///
/// # Errors
/// A file that could not be made or removed.
pub fn write(node: &Node, state: &NodeState, root: &Path) -> Result<(), HostTreeError> {
    let mut tree = Tree::default();
    machine::add(&mut tree, node);
    processors::add(&mut tree, node);
    pci::add(&mut tree, node);
    nic::add(&mut tree, node);
    for of_the_kernel in ["sys", "proc", caps::NODES] {
        tree::remove(&root.join(of_the_kernel))?;
    }
    caps::add_nodes(&mut tree, state);
    tree.make(root)?;
    refresh(node, state, root)
}

/// Takes away what does not outlive a start of the machine: it is in memory only.
///
/// # Errors
/// A file that could not be removed.
pub fn reboot(root: &Path) -> Result<(), HostTreeError> {
    for name in tree::names(&root.join("run"))? {
        tree::remove(&root.join("run").join(name))?;
    }
    tree::remove(&root.join(caps::NODES))
}

/// Brings the files that change with the node's state up to date: those of the driver, link speeds, processes.
///
/// # Errors
/// A file that could not be made or removed.
pub fn refresh(node: &Node, state: &NodeState, root: &Path) -> Result<(), HostTreeError> {
    let mut tree = Tree::default();
    driver::add(&mut tree, node, state);
    machine::add_boot(&mut tree, node, state);
    machine::add_processes(&mut tree, state);
    // New files first: whoever looks in between sees too much rather than too little.
    tree.make(root)?;
    driver::sweep(&tree, node, root)?;
    machine::sweep(&tree, root)
}
