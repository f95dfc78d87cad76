//! The boards that a description names, and the GPUs made of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::board::{self, Board};
use super::description::Description;
use super::problem::{Fault, Problem};
use super::tree::{Function, Kind, Walk};
use super::{Gpu, mig};

fn names(description: &Description) -> Vec<String> {
    let max = |_: &str| None;
    let mut names: Vec<_> = Walk::through(description, &max)
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
pub(super) struct Boards<'a> {
    directory: &'a Path,
    loaded: BTreeMap<String, Result<Arc<Board>, Vec<Fault>>>,
}

impl<'a> Boards<'a> {
    /// Those of a description whose board files are seen from `directory`.
    pub(super) fn of(description: &Description, directory: &'a Path) -> Self {
        let mut boards = Self { directory, loaded: BTreeMap::new() };
        names(description).iter().for_each(|name| boards.load(name));
        boards
    }

    /// A board that could be read.
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Board>> {
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
        let board = text.map_err(|fault| vec![fault]).and_then(|text| read(name, &text));
        self.loaded.insert(name.to_owned(), board.map(Arc::new));
    }

    /// Every GPU with its board, in PCI order.
    pub(super) fn fit(&self, functions: &[Function], problems: &mut Vec<Problem>) -> Vec<Gpu> {
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

pub(super) fn read(name: &str, text: &str) -> Result<Board, Vec<Fault>> {
    let wrong = |problem: String| Fault::Board { board: name.to_owned(), problem };
    let board: Board = serde_saphyr::from_str(text).map_err(|error| vec![wrong(error.to_string())])?;
    let problems = board.problems();
    match problems.is_empty() {
        true => Ok(board),
        false => Err(problems.iter().map(|problem| wrong(problem.to_string())).collect()),
    }
}
