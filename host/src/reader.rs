//! One pass of reading below a root.
//!
//! Links are followed here and not by the kernel, so that none leads out of the root and every one of them is recorded.
//! A directory is resolved once; what is read in it then takes no further look at the way to it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gpulet_inventory::host::Oddity;

use crate::recorded::Entry;
use crate::root::{MAX_FILE_BYTES, Root, is_missing};
use crate::text::visible;

/// As many links as the kernel follows on one way.
const MAX_LINKS: usize = 40;

/// The most oddities that are told of one pass. A machine has none, or a few.
const MAX_ODDITIES: usize = 1024;

/// As much of a path as is shown, bytes. None is longer.
const PATH_BYTES: usize = 4096;

/// One pass of reading.
#[derive(Debug)]
pub(crate) struct Reader<'r> {
    root: &'r Root,
    /// Paths that are known to be no links.
    real: RefCell<HashSet<String>>,
    oddities: RefCell<BTreeMap<String, String>>,
    buffer: RefCell<Vec<u8>>,
}

/// A directory below the root, its links resolved.
#[derive(Debug, Clone)]
pub(crate) struct Directory<'r> {
    reader: &'r Reader<'r>,
    path: String,
}

impl<'r> Reader<'r> {
    pub(crate) fn new(root: &'r Root) -> Self {
        Self { root, real: RefCell::default(), oddities: RefCell::default(), buffer: RefCell::default() }
    }

    /// What was odd, by path.
    pub(crate) fn oddities(&self) -> Vec<Oddity> {
        let oddity =
            |(path, problem): (&String, &String)| Oddity { path: path.clone(), problem: problem.clone() };
        self.oddities.borrow().iter().map(oddity).collect()
    }

    /// The directory at `path`; `None` if it is missing.
    pub(crate) fn directory(&'r self, path: &str) -> Option<Directory<'r>> {
        Directory { reader: self, path: String::new() }.below(path)
    }

    /// Keeps that what is at `path` could not be understood. Behind the most that are told, one more says that there are
    /// others.
    pub(crate) fn odd(&self, path: &str, problem: impl fmt::Display) {
        let mut oddities = self.oddities.borrow_mut();
        let (path, problem) = match oddities.len() {
            0..MAX_ODDITIES => (path, problem.to_string().replace(char::is_control, "?")),
            _ => (
                "",
                format!("more than {MAX_ODDITIES} files could not be understood; the others are not told"),
            ),
        };
        self.root.report(path, &problem);
        oddities.entry(visible(path, PATH_BYTES)).or_insert(problem);
    }

    /// The value of an operation on `path`; a failure is odd, unless `path` is only missing.
    fn known<T>(&self, path: &str, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(error) if is_missing(&error) => self.root.well(path),
            Err(error) => self.odd(path, error),
        }
        None
    }

    /// As `known`; but what may not be read is as good as missing.
    fn allowed<T>(&self, path: &str, result: io::Result<T>) -> Option<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            result => self.known(path, result),
        }
    }

    /// The real path that `path`, seen from the real directory `from`, leads to.
    fn resolve(&self, from: &str, path: &str) -> io::Result<String> {
        let mut at = from.to_owned();
        let mut rest: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let mut links = 0;
        while let Some(part) = rest.pop() {
            let above = at.len();
            match part.as_str() {
                "" | "." => continue,
                // There is nothing above the root.
                ".." => at.truncate(at.rfind('/').unwrap_or(0)),
                name => {
                    push(&mut at, name);
                    if self.real.borrow().contains(&at) {
                        continue;
                    }
                    let Some(target) = self.root.read_link(&at)? else {
                        self.real.borrow_mut().insert(at.clone());
                        continue;
                    };
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(io::Error::other(format!("more than {MAX_LINKS} links on the way")));
                    }
                    at.truncate(if target.starts_with('/') { 0 } else { above });
                    rest.extend(target.rsplit('/').map(str::to_owned));
                }
            }
        }
        Ok(at)
    }
}

impl Root {
    /// Where what is at `path`, as the node would name it, lies: links on the way and at its end are followed as on the node,
    /// so that none leads out of the root.
    ///
    /// # Errors
    /// When it is missing, the way to it may not be gone, or the path is no text.
    pub fn real(&self, path: &Path) -> io::Result<PathBuf> {
        let path = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        let root = self.unrecorded();
        let real = Reader::new(&root).resolve("", path)?;
        Ok(self.path().join(real))
    }

    /// Where the directory `path` lies, as [`Self::real`]; what is missing of it is made.
    ///
    /// # Errors
    /// When it cannot be made, or the way to it may not be gone.
    pub fn made_directory(&self, path: &Path) -> io::Result<PathBuf> {
        let mut there = PathBuf::from("/");
        let mut real = self.real(&there)?;
        for part in path {
            there.push(part);
            real = match self.real(&there) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let made = real.join(part);
                    fs::create_dir(&made)?;
                    made
                }
                found => found?,
            };
        }
        Ok(real)
    }
}

impl<'r> Directory<'r> {
    /// Its path below the root.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The directory at `path`, seen from here; `None` if it is missing.
    pub(crate) fn below(&self, path: &str) -> Option<Self> {
        let resolved = self.reader.resolve(&self.path, path);
        let path = self.reader.known(&self.file(path), resolved)?;
        Some(Self { reader: self.reader, path })
    }

    /// The directory `levels` above this one; the root itself where there are not so many.
    pub(crate) fn above(&self, levels: usize) -> Self {
        let mut path = self.path.as_str();
        for _ in 0..levels {
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
        Self { reader: self.reader, path: path.to_owned() }
    }

    /// Reads the file `name` and makes of it what `parse` makes of its text without the white space around. `None` if
    /// the file is missing (a fact) or holds something else (an oddity).
    pub(crate) fn read<T, E: fmt::Display>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let path = self.file(name);
        let mut buffer = self.reader.buffer.take();
        let fetched = self.reader.root.fetch(&path, 0, MAX_FILE_BYTES + 1, &mut buffer);
        let value = self.reader.known(&path, fetched).and_then(|()| match text(&buffer) {
            Err(problem) => {
                self.reader.odd(&path, problem);
                None
            }
            Ok(text) => parse(text.trim()).map_err(|problem| self.reader.odd(&path, problem)).ok(),
        });
        self.reader.buffer.replace(buffer);
        if value.is_some() {
            self.reader.root.well(&path);
        }
        value
    }

    /// Makes of the file `name` what `parse` makes of its words, each asked for by its offset: four bytes as a
    /// little-endian number, `None` where the file ends before or may not be read.
    pub(crate) fn words<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&dyn Fn(u32) -> Option<u32>) -> Option<T>,
    ) -> Option<T> {
        let path = self.file(name);
        let file = self.reader.allowed(&path, self.reader.root.open_file(&path))?;
        parse(&|offset| {
            let mut word = Vec::with_capacity(4);
            self.reader.allowed(&path, file.fetch(u64::from(offset), 4, &mut word))?;
            word.try_into().ok().map(u32::from_le_bytes)
        })
    }

    /// The names in this directory, sorted. Which of them are directories, and no links, is known from now on.
    pub(crate) fn names(&self) -> Vec<String> {
        let listed = self.reader.known(&self.path, self.reader.root.list(&self.path)).unwrap_or_default();
        let directories = listed.iter().filter(|(_, entry)| *entry == Entry::Directory);
        self.reader.real.borrow_mut().extend(directories.map(|(name, _)| self.file(name)));
        let mut names: Vec<String> = listed.into_iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    }

    /// The first names in this directory, sorted, at most `most`; more is odd.
    pub(crate) fn names_up_to(&self, most: usize) -> Vec<String> {
        let mut names = self.names();
        if names.len() > most {
            self.reader
                .odd(&self.path, format!("it has {} entries; only the first {most} are read", names.len()));
            names.truncate(most);
        }
        names
    }

    /// `name`, which something in this directory has, as it is shown; one that is not of at most `longest` visible
    /// characters is odd, and those of it that are none are replaced.
    pub(crate) fn shown(&self, name: &str, longest: usize) -> String {
        let shown = visible(name, longest);
        if shown != name {
            self.odd(&shown, format!("its name is not one of at most {longest} visible characters"));
        }
        shown
    }

    /// The last part of what the link `name` points to; `None` where there is no link.
    pub(crate) fn link_name(&self, name: &str) -> Option<String> {
        let path = self.file(name);
        let target = self.reader.known(&path, self.reader.root.read_link(&path))??;
        target.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
    }

    /// Keeps that the file `name` could not be understood.
    pub(crate) fn odd(&self, name: &str, problem: impl fmt::Display) {
        self.reader.odd(&self.file(name), problem);
    }

    fn file(&self, name: &str) -> String {
        let mut path = String::with_capacity(self.path.len() + name.len() + 1);
        path.push_str(&self.path);
        push(&mut path, name);
        path
    }
}

fn push(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('/');
    }
    path.push_str(name);
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(format!("it is larger than {MAX_FILE_BYTES} bytes"));
    }
    std::str::from_utf8(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// What reading the number at `path` gives, and how many oddities.
    fn number(root: &Root, path: &str) -> (Option<u32>, usize) {
        let reader = Reader::new(root);
        let (directory, name) = path.rsplit_once('/').unwrap();
        let number =
            reader.directory(directory).and_then(|directory| directory.read(name, str::parse::<u32>));
        (number, reader.oddities().len())
    }

    #[test]
    fn an_odd_file_is_reported_once_until_it_is_well() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        fs::create_dir(directory.path().join("d")).unwrap();
        assert_eq!(number(&root, "d/number"), (None, 0), "missing is not odd");
        fs::write(directory.path().join("d/number"), "seven").unwrap();
        assert_eq!(number(&root, "d/number"), (None, 1));
        assert_eq!(number(&root.clone(), "d/number"), (None, 1), "each pass tells it");
        fs::write(directory.path().join("d/number"), "7\n").unwrap();
        assert_eq!(number(&root, "d/number"), (Some(7), 0));
    }

    #[test]
    fn what_is_no_text_or_too_large_or_no_file_is_odd() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join("bytes"), [0xff, 0xfe]).unwrap();
        fs::write(at.join("large"), vec![b'7'; 10 << 20]).unwrap();
        fs::create_dir(at.join("directory")).unwrap();
        nix::unistd::mkfifo(&at.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        symlink("large", at.join("link")).unwrap();
        let root = Root::new(at);
        let reader = Reader::new(&root);
        let here = reader.directory("").unwrap();
        for name in ["bytes", "large", "directory", "pipe", "link"] {
            assert_eq!(here.read(name, str::parse::<u32>), None, "{name}");
        }
        assert_eq!(reader.oddities().len(), 5, "{:?}", reader.oddities());
        assert!(here.below("bytes").unwrap().names().is_empty(), "a file is no directory");
        assert!(here.below("nothing").is_none());
    }

    #[test]
    fn some_oddities_are_told_and_that_there_are_more() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        let reader = Reader::new(&root);
        for number in 0..3000 {
            reader.odd(&format!("d/{number}"), "\u{1b}[31m");
        }
        let oddities = reader.oddities();
        assert_eq!(oddities.len(), MAX_ODDITIES + 1);
        assert!(oddities[0].path.is_empty() && oddities[0].problem.contains("1024"), "{:?}", oddities[0]);
        assert_eq!(oddities[1].problem, "?[31m");
    }

    #[test]
    fn links_stay_below_the_root() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("root");
        fs::create_dir_all(at.join("etc/deep")).unwrap();
        fs::write(at.join("etc/number"), "7").unwrap();
        fs::write(directory.path().join("number"), "666").unwrap();
        symlink("/etc", at.join("absolute")).unwrap();
        symlink("../../../../../../etc", at.join("etc/deep/upward")).unwrap();
        symlink("..", at.join("above")).unwrap();
        let root = Root::new(&at);
        for path in ["absolute/number", "etc/deep/upward/number", "above/etc/number", "./etc/deep/../number"]
        {
            assert_eq!(number(&root, path), (Some(7), 0), "{path}");
        }
        assert_eq!(number(&root, "above/number"), (None, 0), "there is none below the root");
        let reader = Reader::new(&root);
        assert_eq!(reader.directory("etc/deep/upward").unwrap().path(), "etc");
        assert_eq!(root.real(Path::new("/absolute/deep/upward")).unwrap(), at.join("etc"));
        assert_eq!(root.real(Path::new("/absolute/none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_ring_of_links_is_odd() {
        let directory = tempfile::tempdir().unwrap();
        symlink("b", directory.path().join("a")).unwrap();
        symlink("a", directory.path().join("b")).unwrap();
        let root = Root::new(directory.path());
        let reader = Reader::new(&root);
        assert!(reader.directory("a/x").is_none());
        assert!(reader.oddities()[0].problem.contains("40 links"), "{:?}", reader.oddities());
    }
}
