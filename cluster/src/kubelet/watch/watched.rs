//! The watches that are set, and what their events mean.
//!
//! Each directory that matters is watched; where it is missing, the nearest one above it that is there. When something
//! comes, goes or is replaced on the way to a directory that matters, all watches are set again: the kernel gives a
//! directory the watch that it has, so that only a directory that was not watched before makes a difference, and then all
//! in it counts as changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::places::Place;
use super::{Change, WatchError};

/// The watches that are set.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// As asked for.
    asked: Vec<Place>,
    /// Those, and what is below them.
    places: Vec<Place>,
    /// The directories that matter and are there.
    reached: BTreeMap<PathBuf, WatchDescriptor>,
    /// The directories behind each watch; several paths may lead to one.
    paths: BTreeMap<WatchDescriptor, BTreeSet<PathBuf>>,
}

impl Watched {
    /// Watches these places, in place of those before.
    pub(super) fn watch(&mut self, inotify: &Inotify, places: Vec<Place>) -> Result<Change, WatchError> {
        self.asked = places;
        self.set(inotify)
    }

    /// What the events mean. Watches are set again where that is needed.
    pub(super) fn take(&mut self, inotify: &Inotify, events: &[InotifyEvent]) -> Result<Change, WatchError> {
        let (mut change, mut stale) = (Change::default(), false);
        for event in events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                (change, stale) = (Change::ALL, true);
            }
            for directory in self.paths.get(&event.wd).into_iter().flatten() {
                // An event without a name is about the directory itself.
                let Some(name) = &event.name else {
                    stale = true;
                    continue;
                };
                let hits = self.places.iter().filter_map(|place| place.hit(directory, name));
                hits.for_each(|hit| change.add(hit));
                stale |= self.leads_on(directory, name);
            }
        }
        if stale {
            change.add(self.set(inotify)?);
        }
        Ok(change)
    }

    /// Whether `name` in `directory` is, or may be, on the way to a directory that matters.
    fn leads_on(&self, directory: &Path, name: &OsStr) -> bool {
        let path = directory.join(name);
        let in_settings = |place: &Place| place.name.is_none() && place.directory == *directory;
        self.places.iter().any(|place| {
            place.directory.starts_with(&path)
                || in_settings(place)
                || (place.means.settings && place.is(&path))
        })
    }

    fn set(&mut self, inotify: &Inotify) -> Result<Change, WatchError> {
        self.places =
            self.asked.iter().flat_map(|place| [vec![place.clone()], place.below()].concat()).collect();
        let directories: BTreeSet<&PathBuf> = self.places.iter().map(|place| &place.directory).collect();
        let (mut reached, mut paths) = (BTreeMap::new(), BTreeMap::<_, BTreeSet<PathBuf>>::new());
        for directory in directories {
            let (path, watch) = nearest(inotify, directory)?;
            if path == directory {
                reached.insert(directory.clone(), watch);
            }
            paths.entry(watch).or_default().insert(path.to_owned());
        }
        let mut change = Change::default();
        for place in &self.places {
            if reached.get(&place.directory) != self.reached.get(&place.directory) {
                change.add(place.means);
            }
        }
        for old in self.paths.keys().filter(|old| !paths.contains_key(old)) {
            // It may be gone with its directory.
            let _ = inotify.rm_watch(*old);
        }
        (self.reached, self.paths) = (reached, paths);
        Ok(change)
    }
}

/// Watches `directory`, or the nearest one above it that is there.
fn nearest<'d>(inotify: &Inotify, directory: &'d Path) -> Result<(&'d Path, WatchDescriptor), WatchError> {
    let mut before = None;
    loop {
        let found = first(inotify, directory)?;
        // What is below may have come before its parent was watched; then the second look finds it.
        if found.0 == directory || before == Some(found) {
            return Ok(found);
        }
        before = Some(found);
    }
}

fn first<'d>(inotify: &Inotify, directory: &'d Path) -> Result<(&'d Path, WatchDescriptor), WatchError> {
    for path in directory.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        match inotify.add_watch(path, events()) {
            Ok(watch) => return Ok((path, watch)),
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(errno) => return Err(WatchError::watching(path, errno)),
        }
    }
    Err(WatchError::watching(directory, Errno::ENOENT))
}

/// What is told of a directory: something in it comes, goes or was written, and it goes itself.
fn events() -> AddWatchFlags {
    use AddWatchFlags as Flags;
    let content = Flags::IN_CREATE | Flags::IN_DELETE | Flags::IN_MOVE | Flags::IN_CLOSE_WRITE;
    content | Flags::IN_DELETE_SELF | Flags::IN_MOVE_SELF | Flags::IN_ONLYDIR
}
