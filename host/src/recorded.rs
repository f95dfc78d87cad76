//! Files, directories and links as they were read, kept in memory.

use std::collections::btree_map::{Entry as Slot, Iter};
use std::collections::{BTreeMap, HashSet};
use std::io;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A directory.
    Directory,
    /// Something that was seen and not read, or could not be read.
    Unread,
    /// A link, with what it points to.
    Link(String),
    /// A file, with what was read of it; where only parts were read, the rest is zeros.
    File(Vec<u8>),
}

impl Entry {
    /// How much it tells; of two entries for one path the one that tells more is kept.
    fn rank(&self) -> u8 {
        match self {
            Self::Directory => 0,
            Self::Unread => 1,
            Self::Link(_) => 2,
            Self::File(_) => 3,
        }
    }
}

/// Entries by path, relative to the root and without `.` and `..`. Directories above an entry go without saying.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded(BTreeMap<String, Entry>);

impl Recorded {
    /// All entries, by path.
    pub fn iter(&self) -> Iter<'_, String, Entry> {
        self.0.iter()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What stands at `path`; a directory that goes without saying is absent.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.0.get(path)
    }

    /// Adds an entry, unless what is there tells more.
    pub(crate) fn add(&mut self, path: &str, entry: Entry) {
        match self.0.entry(path.to_owned()) {
            Slot::Vacant(slot) => drop(slot.insert(entry)),
            Slot::Occupied(mut slot) if slot.get().rank() <= entry.rank() => drop(slot.insert(entry)),
            Slot::Occupied(_) => {}
        }
    }

    /// Adds what was read of a file from `offset`.
    pub(crate) fn add_bytes(&mut self, path: &str, offset: u64, bytes: &[u8]) {
        let mut whole = match self.0.remove(path) {
            Some(Entry::File(whole)) if offset > 0 => whole,
            _ => Vec::new(),
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        // Nothing past the end was read, and nothing of a file is told by that.
        if !bytes.is_empty() || offset == 0 {
            let to = from.saturating_add(bytes.len());
            if whole.len() < to {
                whole.resize(to, 0);
            }
            if let Some(part) = whole.get_mut(from..to) {
                part.copy_from_slice(bytes);
            }
        }
        self.0.insert(path.to_owned(), Entry::File(whole));
    }

    /// Reads a file's bytes from `offset`, at most `limit`.
    pub(crate) fn fetch(&self, path: &str, offset: u64, limit: usize, into: &mut Vec<u8>) -> io::Result<()> {
        match self.0.get(path) {
            Some(Entry::File(bytes)) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                into.extend(bytes.iter().skip(from).take(limit));
                Ok(())
            }
            Some(Entry::Unread) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it was not read, or could not be, when the bundle was made",
            )),
            Some(Entry::Link(_)) => Err(io::Error::other("it is a link")),
            Some(Entry::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None if self.is_above_something(path) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// What the link at `path` points to; `None` if it is something else than a link.
    pub(crate) fn read_link(&self, path: &str) -> io::Result<Option<String>> {
        match self.0.get(path) {
            Some(Entry::Link(target)) => Ok(Some(target.clone())),
            Some(_) => Ok(None),
            None if self.is_above_something(path) => Ok(None),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// What is in the directory at `path`.
    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<(String, Entry)>> {
        let above = below(path, "");
        let (mut entries, mut known) = (Vec::new(), HashSet::new());
        for (at, entry) in self.0.range(above.clone()..) {
            let Some(rest) = at.strip_prefix(&above) else { break };
            let (name, entry) = match rest.split_once('/') {
                None => (rest, entry.clone()),
                Some((name, _)) => (name, Entry::Directory),
            };
            // What is in a directory stands behind it, and names with characters before `/` between the two.
            if known.insert(name) {
                entries.push((name.to_owned(), entry));
            }
        }
        match self.0.get(path) {
            Some(Entry::Directory) => Ok(entries),
            Some(_) => Err(io::ErrorKind::NotADirectory.into()),
            None if entries.is_empty() => Err(io::ErrorKind::NotFound.into()),
            None => Ok(entries),
        }
    }

    fn is_above_something(&self, path: &str) -> bool {
        let above = below(path, "");
        self.0.range(above.clone()..).next().is_some_and(|(at, _)| at.starts_with(&above))
    }
}

/// The path of `name` in the directory at `path`.
pub(crate) fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}/{name}"),
    }
}

impl FromIterator<(String, Entry)> for Recorded {
    fn from_iter<I: IntoIterator<Item = (String, Entry)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(entries: &[(&str, Entry)]) -> Recorded {
        entries.iter().map(|(path, entry)| ((*path).to_owned(), entry.clone())).collect()
    }

    fn names(recorded: &Recorded, path: &str) -> Vec<String> {
        recorded.list(path).unwrap().into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn directories_go_without_saying() {
        let file = Entry::File(b"1".to_vec());
        let recorded = recorded(&[
            ("a/b", file.clone()),
            ("a/b-c", file.clone()),
            ("a/d", Entry::Directory),
            ("a/d!x", file.clone()),
            ("a/d/e/f", file.clone()),
            ("a/d/e/g", file),
        ]);
        assert_eq!(names(&recorded, "a"), ["b", "b-c", "d", "d!x"]);
        assert_eq!(names(&recorded, "a/d"), ["e"]);
        assert_eq!(recorded.read_link("a").unwrap(), None);
        assert_eq!(recorded.read_link("x").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(recorded.list("a/b").unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(recorded.list("ab").unwrap_err().kind(), io::ErrorKind::NotFound);
        let mut bytes = Vec::new();
        assert_eq!(recorded.fetch("a", 0, 9, &mut bytes).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn what_tells_more_stays() {
        let mut recorded = Recorded::default();
        recorded.add_bytes("f", 0, b"seven");
        recorded.add("f", Entry::Unread);
        recorded.add("f", Entry::Directory);
        assert_eq!(recorded.get("f"), Some(&Entry::File(b"seven".to_vec())));
        recorded.add_bytes("f", 0, b"six");
        assert_eq!(recorded.get("f"), Some(&Entry::File(b"six".to_vec())), "the last reading counts");
    }

    #[test]
    fn parts_of_a_file_are_put_in_their_places() {
        let mut recorded = Recorded::default();
        recorded.add_bytes("config", 4, b"ab");
        recorded.add_bytes("config", 1, b"c");
        recorded.add_bytes("config", 100, b"");
        assert_eq!(recorded.get("config"), Some(&Entry::File(b"\0c\0\0ab".to_vec())));
        let mut bytes = Vec::new();
        recorded.fetch("config", 4, 1, &mut bytes).unwrap();
        assert_eq!(bytes, b"a");
        bytes.clear();
        recorded.fetch("config", 100, 4, &mut bytes).unwrap();
        assert!(bytes.is_empty());
    }
}
