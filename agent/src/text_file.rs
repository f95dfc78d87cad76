//! Reading a small file that may be anything, wherever it is kept.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::fcntl::OFlag;

/// How long reading may take: a file system whose server is gone never answers.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Reads one file, again and again. Clones are the same reader.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextReader {
    /// Whether a thread reads, so that no second one hangs beside one that does.
    reading: Arc<AtomicBool>,
}

impl TextReader {
    /// The text of the plain file `path`, where a link leads to one, too, of at most `largest` bytes. Takes no longer
    /// than some seconds: it is read on a thread of its own, which is left behind if it hangs.
    ///
    /// # Errors
    /// When it cannot be read, or not in time, is something else (a directory, a pipe, a device), is larger, or is no
    /// text.
    pub(crate) fn read(&self, path: &Path, largest: u64) -> io::Result<String> {
        let path = path.to_owned();
        self.in_time(READ_WITHIN, move || read_text(&path, largest))
    }

    fn in_time(
        &self,
        within: Duration,
        read: impl FnOnce() -> io::Result<String> + Send + 'static,
    ) -> io::Result<String> {
        if self.reading.swap(true, Ordering::AcqRel) {
            return Err(timed_out("reading it, begun earlier, has not come to an end yet"));
        }
        let (sender, outcome) = mpsc::channel();
        let reading = Reading(Arc::clone(&self.reading));
        let read = move || {
            let outcome = read();
            drop(reading);
            let _ = sender.send(outcome);
        };
        thread::Builder::new().name("reader".into()).spawn(read)?;
        outcome.recv_timeout(within).unwrap_or_else(|error| {
            Err(match error {
                RecvTimeoutError::Timeout => timed_out("its file system does not answer"),
                RecvTimeoutError::Disconnected => io::Error::other("the thread that reads it panicked"),
            })
        })
    }
}

/// Says that nothing is being read any more, however reading ends.
struct Reading(Arc<AtomicBool>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

fn read_text(path: &Path, largest: u64) -> io::Result<String> {
    // Opening a pipe that no one writes to would wait for one who does.
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
    }
    let mut bytes = Vec::new();
    // What the file system says of the size may not hold: some files of the kernel are said to be empty.
    file.take(largest.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > largest) {
        let what = format!("it is larger than {largest} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_files_of_some_size_are_read_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "12345").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_text(&at("link"), 5).unwrap(), "12345");
        let refused = |path: &Path, largest| read_text(path, largest).unwrap_err().to_string();
        assert_eq!(refused(&at("file"), 4), "it is larger than 4 bytes");
        for other in [&at("pipe"), directory.path(), Path::new("/dev/zero")] {
            assert_eq!(refused(other, 4), "it is not a plain file", "{}", other.display());
        }
    }

    #[test]
    fn one_that_hangs_is_not_waited_for_nor_joined_by_a_second() {
        let reader = TextReader::default();
        let (release, held) = mpsc::channel::<()>();
        let hanging = move || {
            let _ = held.recv();
            Ok("late".to_owned())
        };
        let first = reader.in_time(Duration::from_millis(10), hanging).unwrap_err();
        assert!(first.to_string().contains("does not answer"), "{first}");
        let second = reader.clone().read(Path::new("/dev/null"), 1).unwrap_err();
        assert!(second.to_string().contains("begun earlier"), "{second}");
        drop(release);
        while reader.reading.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let text = reader.in_time(READ_WITHIN, || Ok("now".to_owned()));
        assert_eq!(text.unwrap(), "now");
    }
}
