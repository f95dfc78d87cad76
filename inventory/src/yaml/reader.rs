//! Reads sections of the document key by key and gathers everything that is wrong with them.

use std::cell::RefCell;
use std::path::PathBuf;

use super::problem::{Problem, Problems};
use super::tree::{Key, Node, Value};

/// Everything found wrong so far, noted by all sections.
#[derive(Debug, Default)]
pub struct Notes(RefCell<Problems>);

impl Notes {
    /// Adds what is wrong at `line`.
    pub fn add(&self, line: u64, message: String) {
        self.0.borrow_mut().add(Problem { line, message });
    }

    /// All of them in the order of the file.
    pub fn into_problems(self) -> Problems {
        let mut problems = self.0.into_inner();
        problems.settle();
        problems
    }
}

/// One section of the document, from which keys are taken one after the other.
pub struct Section<'a> {
    path: String,
    line: u64,
    entries: &'a [(Key, Node)],
    known: Vec<&'static str>,
    problems: &'a Notes,
}

impl<'a> Section<'a> {
    /// The document itself. An empty one is an empty section.
    pub fn top(document: &'a Node, problems: &'a Notes) -> Self {
        Self::of(String::new(), document, problems)
    }

    fn of(path: String, node: &'a Node, problems: &'a Notes) -> Self {
        let entries: &[_] = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            other => {
                let what = if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
                problems
                    .add(node.line, format!("{what} must be a section of keys, not {}", other.describe()));
                &[]
            }
        };
        Self { path, line: node.line, entries, known: Vec::new(), problems }
    }

    /// The section under `key`; absent if the key is.
    pub fn section(&mut self, key: &'static str) -> Option<Section<'a>> {
        let path = self.path_of(key);
        let problems = self.problems;
        self.find(key).map(|node| Self::of(path, node, problems))
    }

    /// What `key` holds, of whatever kind; absent if the key is.
    pub fn spot(&mut self, key: &'static str) -> Option<Spot<'a>> {
        let path = self.path_of(key);
        let notes = self.problems;
        self.find(key).map(|node| Spot { path, node, notes })
    }

    /// The value of `key` as `parse` reads it; absent if the key is, has no value, or is wrong (which is noted).
    pub fn value<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<T> {
        let path = self.path_of(key);
        let node = self.find(key).filter(|node| node.value != Value::Null)?;
        match parse(&node.value) {
            Ok(value) => Some(value),
            Err(message) => {
                self.problems.add(node.line, format!("{path}: {message}"));
                None
            }
        }
    }

    /// The line of `key`; 0 if it is absent.
    pub fn line_of(&self, key: &str) -> u64 {
        self.entries.iter().find(|(entry, _)| entry.name == key).map_or(0, |(_, node)| node.line)
    }

    /// Notes what only several keys together show to be wrong.
    pub fn wrong(&self, key: &'static str, message: &str) {
        self.problems.add(self.line_of(key), format!("{}: {message}", self.path_of(key)));
    }

    /// Notes what is wrong with the section itself, such as a key that it lacks.
    pub fn incomplete(&self, message: &str) {
        let place = if self.path.is_empty() { String::new() } else { format!("{}: ", self.path) };
        self.problems.add(self.line, format!("{place}{message}"));
    }

    /// Notes every key that no one has asked for.
    pub fn finish(self) {
        for (key, _) in self.entries {
            if !self.known.contains(&key.name.as_str()) {
                let key_path = self.path_of(&key.name.chars().take(64).collect::<String>());
                let known = self.known.join(", ");
                self.problems.add(key.line, format!("unknown key `{key_path}`; known here: {known}"));
            }
        }
    }

    fn find(&mut self, key: &'static str) -> Option<&'a Node> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.entries.iter().find(|(entry, _)| entry.name == key).map(|(_, node)| node)
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }
}

/// A node and where it is, for what is no section with known keys: lists, and maps whose keys are names.
#[derive(Debug, Clone)]
pub struct Spot<'a> {
    path: String,
    node: &'a Node,
    notes: &'a Notes,
}

impl<'a> Spot<'a> {
    /// The document itself.
    pub fn top(document: &'a Node, notes: &'a Notes) -> Self {
        Self { path: String::new(), node: document, notes }
    }

    /// It and its line.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// The keys that lead to it; empty for the document.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its line, from 1.
    pub fn line(&self) -> u64 {
        self.node.line
    }

    /// What it is.
    pub fn value(&self) -> &'a Value {
        &self.node.value
    }

    /// Notes that it is wrong.
    pub fn wrong(&self, message: &str) {
        let place = if self.path.is_empty() { "the document" } else { &self.path };
        self.notes.add(self.node.line, format!("{place}: {message}"));
    }

    /// What was read from it; absent where it is wrong, which is noted.
    pub fn noted<T>(&self, read: Result<T, String>) -> Option<T> {
        read.map_err(|message| self.wrong(&message)).ok()
    }

    /// It as a section with known keys.
    pub fn section(&self) -> Section<'a> {
        Section::of(self.path.clone(), self.node, self.notes)
    }

    /// The entries of a list; absent if it is none, which is noted.
    pub fn items(&self) -> Option<Vec<Self>> {
        let Value::List(items) = &self.node.value else {
            self.wrong(&format!("{} is not a list", self.node.value.describe()));
            return None;
        };
        let spot = |(at, node)| Self { path: format!("{}[{at}]", self.path), node, notes: self.notes };
        Some(items.iter().enumerate().map(spot).collect())
    }

    /// The entries of a map with their names; absent if it is none, which is noted.
    pub fn entries(&self) -> Option<Vec<(&'a Key, Self)>> {
        let Value::Map(entries) = &self.node.value else {
            self.wrong(&format!("{} is not a map", self.node.value.describe()));
            return None;
        };
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = |key: &Key| {
            let name: String = key.name.chars().take(64).collect();
            format!("{}{dot}{name}", self.path)
        };
        let spot = |(key, node): &'a (Key, Node)| (key, Self { path: path(key), node, notes: self.notes });
        Some(entries.iter().map(spot).collect())
    }
}

/// A text, for types that parse from one.
pub fn parsed<T>(value: &Value) -> Result<T, String>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    match value {
        Value::Text(text) => text.parse().map_err(|error: T::Err| error.to_string()),
        // Numbers are handed on as they were written, so that the message is about what the type expects.
        Value::Integer(number) => number.to_string().parse().map_err(|error: T::Err| error.to_string()),
        // What people write as `off` or `1.5`, YAML takes for something else.
        Value::Bool(_) | Value::Float(_) => {
            Err(format!("{} is not a text; if it is meant as one, put it in quotes", value.describe()))
        }
        other => Err(format!("{} is not a text", other.describe())),
    }
}

/// The path of a file. Where the daemon is started must not matter, so it begins with `/`.
pub fn absolute_path(value: &Value) -> Result<PathBuf, String> {
    let path = match value {
        Value::Text(text) => Some(PathBuf::from(text)).filter(|path| path.is_absolute()),
        _ => None,
    };
    path.ok_or_else(|| format!("{} is not a path that begins with /", value.describe()))
}

/// `true` or `false`.
pub fn flag(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        other => Err(format!("{} is not true or false", other.describe())),
    }
}

/// A whole number from `least` to `most`.
pub fn count(least: usize, most: usize) -> impl Fn(&Value) -> Result<usize, String> {
    move |value| {
        let number = match value {
            Value::Integer(number) => usize::try_from(*number).ok(),
            _ => None,
        };
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| format!("{} is not a whole number from {least} to {most}", value.describe()))
    }
}
