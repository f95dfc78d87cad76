//! Documents that people write, read so that everything that is wrong is told at once, each with its line.

mod problem;
mod reader;
mod tree;

pub use problem::{Problem, Problems};
pub use reader::{Notes, Section, Spot, absolute_path, count, flag, parsed};
pub use tree::{Key, Node, Value};

/// The document in this text. One of comments alone says nothing, which is fine.
///
/// # Errors
/// When it is not YAML, where that is found out.
pub fn document(text: &str) -> Result<Node, Problem> {
    let empty = text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if empty {
        return Ok(Node { line: 1, value: Value::Null });
    }
    serde_saphyr::from_str(text).map_err(|error| Problem {
        line: error.location().map_or(0, |location| location.line()),
        message: not_yaml(error.without_snippet()),
    })
}

/// The parser's own words without the place, which stands before them already.
fn not_yaml(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    format!("not YAML that can be read: {first}")
}
