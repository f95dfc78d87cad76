//! Nodes as described in YAML: what hardware there is.
//!
//! The smallest description with a GPU:
//! ```yaml
//! about: One T4
//! driver: 580.105.08
//! cpu: {model: Any, packages: 1, cores-per-package: 4, threads-per-core: 2}
//! numa:
//! - {id: 0, cpus: 0-7, memory: 16GiB, distances: [10]}
//! pci:
//! - root: 0000:00
//!   numa: 0
//!   devices:
//!   - bridge: {at: 00:01.0, devices: [gpu: {at: 01:00.0, board: t4}]}
//! ```
//! The way of a description: text, [`description::Description`], a walk through its PCIe tree ([`tree`]), boards
//! ([`board`]), the check that all goes together; then it is a [`Node`]. All that is wrong is told at once.

pub mod board;
mod boards;
mod check;
pub mod description;
pub mod driver;
mod localities;
pub(crate) mod mig;
pub mod problem;
pub mod processors;
mod shipped;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod units;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::board::Board;
use self::boards::Boards;
use self::check::Check;
use self::description::{Description, GpuDescription, NumaDescription};
use self::problem::Problem;
pub use self::shipped::names as shipped;
use self::tree::{Function, Walk};

/// A node whose description holds together.
#[derive(Debug, Clone)]
pub struct Node {
    name: String,
    description: Description,
    functions: Vec<Function>,
    gpus: Vec<Gpu>,
}

/// A GPU of a node.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// As described.
    pub description: GpuDescription,
    /// Its board.
    pub board: Arc<Board>,
    /// Where it hangs.
    pub function: Function,
    /// N of `/dev/nvidiaN`.
    pub minor: u32,
}

impl Gpu {
    /// Whether it is in MIG mode without a compute instance.
    fn has_no_place_for_work(&self) -> bool {
        let mig = self.description.mig.as_ref();
        mig.is_some_and(|mig| mig.instances.iter().all(|i| i.compute.as_ref().is_some_and(Vec::is_empty)))
    }
}

/// Why a description cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No such node.
    #[error("there is no node `{name}`: name one of {known}, or the path of a YAML file")]
    Unknown {
        /// As asked for.
        name: String,
        /// Those that are shipped.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read {}: check the path and its permissions", .path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a description.
    #[error("{file} is not a node description")]
    Syntax {
        /// Which file.
        file: String,
        /// Where and why.
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    /// The description contradicts itself.
    #[error("{file} describes no possible node:{}", .problems.iter().map(|p| format!("\n  {p}")).collect::<String>())]
    Invalid {
        /// Which file.
        file: String,
        /// All that is wrong.
        problems: Vec<Problem>,
    },
}

impl NodeError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "UnknownNode",
            Self::Read { .. } => "UnreadableNode",
            Self::Syntax { .. } => "InvalidNodeSyntax",
            Self::Invalid { .. } => "InvalidNode",
        }
    }
}

impl Node {
    /// Loads a shipped node by its name, or one from a YAML file by its path.
    ///
    /// # Errors
    /// An unknown name, a file that cannot be read or parsed, and everything in it that contradicts itself.
    pub fn load(name_or_path: &str) -> Result<Self, NodeError> {
        if let Some((name, text)) = shipped::NODES.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(name, &format!("{name}.yaml"), text, Path::new("."));
        }
        let path = Path::new(name_or_path);
        let is_path = path.components().count() > 1 || path.extension().is_some() || path.exists();
        if !is_path {
            let known = shipped().collect::<Vec<_>>().join(", ");
            return Err(NodeError::Unknown { name: name_or_path.to_owned(), known });
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| NodeError::Read { path: path.to_owned(), source })?;
        let name = path.file_stem().map_or_else(|| "node".into(), |stem| stem.to_string_lossy());
        Self::parse(&name, name_or_path, &text, path.parent().unwrap_or(Path::new(".")))
    }

    /// Reads a description. `file` names it in errors; board files are seen from `directory`.
    ///
    /// # Errors
    /// As [`Node::load`], but for reading the file.
    pub fn parse(name: &str, file: &str, text: &str, directory: &Path) -> Result<Self, NodeError> {
        let description: Description = serde_saphyr::from_str(text)
            .map_err(|source| NodeError::Syntax { file: file.to_owned(), source: Box::new(source) })?;
        let boards = Boards::of(&description, directory);
        let max = |name: &str| boards.get(name).map(|board| (board.pcie.generation, board.pcie.width));
        let walk = Walk::through(&description, &max);
        let (functions, mut problems) = (walk.functions, walk.problems);
        let gpus = boards.fit(&functions, &mut problems);
        problems.extend(Check::all(&description, &functions, &gpus));
        match problems.is_empty() {
            true => Ok(Self { name: name.to_owned(), description, functions, gpus }),
            false => Err(NodeError::Invalid { file: file.to_owned(), problems }),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As described.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Every PCI function, each after the bridges above it.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// GPUs in PCI order, which is the driver's.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }
}

impl Description {
    /// NUMA nodes in the order of their numbers.
    pub fn numa_in_order(&self) -> Vec<&NumaDescription> {
        let mut nodes: Vec<_> = self.numa.iter().collect();
        nodes.sort_by_key(|node| node.id);
        nodes
    }
}
