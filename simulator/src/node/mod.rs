//! Nodes as described in YAML: what hardware there is.

pub mod board;
mod check;
pub mod description;
pub mod driver;
pub(crate) mod mig;
pub mod problem;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod units;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::board::Board;
use self::check::Check;
use self::description::{CpuDescription, Description, GpuDescription, NumaDescription, Numbering};
use self::problem::{Fault, Problem};
use self::tree::{Function, Kind, Walk};

/// The nodes that come with the simulator.
const SHIPPED: &[(&str, &str)] = &[
    ("cpu-only", include_str!("../../nodes/cpu-only.yaml")),
    ("dgx-h100", include_str!("../../nodes/dgx-h100.yaml")),
    ("l40s-4x", include_str!("../../nodes/l40s-4x.yaml")),
];

/// Names of the nodes that come with the simulator.
pub fn shipped() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

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
    #[error("{file} is not a node description: {source}")]
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
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
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
        let mut boards = Boards { directory, loaded: BTreeMap::new() };
        let names = board_names(&description);
        names.iter().for_each(|name| boards.load(name));
        let max = |name: &str| boards.get(name).map(|board| (board.pcie.generation, board.pcie.width));
        let walk = Walk::through(&description.pci, &max);
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

/// Where a hardware thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Package.
    pub package: u32,
    /// Core within its package.
    pub core: u32,
    /// Thread within its core.
    pub thread: u32,
}

impl CpuDescription {
    /// Hardware threads in all.
    pub fn count(&self) -> u64 {
        let cores = u64::from(self.packages).saturating_mul(u64::from(self.cores_per_package));
        cores.saturating_mul(u64::from(self.threads_per_core))
    }

    /// Where CPU number `cpu` is.
    pub fn thread(&self, cpu: u32) -> Thread {
        let (per_package, threads) = (self.cores_per_package.max(1), self.threads_per_core.max(1));
        let cores = self.packages.saturating_mul(per_package).max(1);
        let (core, thread) = match self.numbering {
            Numbering::CoresFirst => (cpu % cores, cpu / cores),
            Numbering::ThreadsAdjacent => (cpu / threads, cpu % threads),
        };
        Thread { package: core / per_package, core: core % per_package, thread }
    }
}

fn board_names(description: &Description) -> Vec<String> {
    let max = |_: &str| None;
    let mut names: Vec<_> = Walk::through(&description.pci, &max)
        .functions
        .into_iter()
        .filter_map(|function| match function.kind {
            Kind::Gpu(gpu) => Some(gpu.board),
            _ => None,
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The boards that a description names.
struct Boards<'a> {
    directory: &'a Path,
    loaded: BTreeMap<String, Result<Arc<Board>, Vec<Fault>>>,
}

impl Boards<'_> {
    fn get(&self, name: &str) -> Option<&Arc<Board>> {
        self.loaded.get(name).and_then(|board| board.as_ref().ok())
    }

    fn load(&mut self, name: &str) {
        let text = match board::shipped_text(name) {
            Some(text) => Ok(text.to_owned()),
            None if name.ends_with(".yaml") || name.ends_with(".yml") => {
                std::fs::read_to_string(self.directory.join(name))
                    .map_err(|error| Fault::Board { board: name.to_owned(), problem: error.to_string() })
            }
            None => {
                let known = board::shipped().collect::<Vec<_>>().join(", ");
                Err(Fault::UnknownBoard { board: name.to_owned(), known })
            }
        };
        let board = text.map_err(|fault| vec![fault]).and_then(|text| read_board(name, &text));
        self.loaded.insert(name.to_owned(), board.map(Arc::new));
    }

    /// Every GPU with its board, in PCI order.
    fn fit(&self, functions: &[Function], problems: &mut Vec<Problem>) -> Vec<Gpu> {
        let mut found = Vec::new();
        for function in functions {
            let Kind::Gpu(gpu) = &function.kind else { continue };
            match self.loaded.get(&gpu.board) {
                Some(Ok(board)) => {
                    let wanted = gpu.mig.iter();
                    problems.extend(
                        wanted.flat_map(|mig| mig::problems(board, &gpu.board, mig, &function.place)),
                    );
                    found.push((gpu, board, function));
                }
                Some(Err(faults)) => {
                    let place = format!("{}.board", function.place);
                    problems
                        .extend(faults.iter().map(|f| Problem { place: place.clone(), fault: f.clone() }));
                }
                None => {}
            }
        }
        found.sort_by_key(|(gpu, ..)| gpu.at);
        let numbered = (0..).zip(found).map(|(index, (gpu, board, function))| Gpu {
            description: gpu.clone(),
            board: Arc::clone(board),
            function: function.clone(),
            minor: gpu.minor.unwrap_or(index),
        });
        numbered.collect()
    }
}

fn read_board(name: &str, text: &str) -> Result<Board, Vec<Fault>> {
    let wrong = |problem: String| Fault::Board { board: name.to_owned(), problem };
    let board: Board = serde_saphyr::from_str(text).map_err(|error| vec![wrong(error.to_string())])?;
    let problems = board.problems();
    match problems.is_empty() {
        true => Ok(board),
        false => Err(problems.iter().map(|problem| wrong(problem.to_string())).collect()),
    }
}
