//! Logging: to the journal, as text, or as JSON, always on standard error; the level can change while running.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, reload};

use crate::config::level::{LogFormat, LogLevel};
use crate::config::settings::Log;

/// Where messages go and how they look there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sink {
    Journal,
    Text { colour: bool },
    Json,
}

/// What is known about standard error.
#[derive(Debug, Clone, Copy)]
struct Stderr {
    terminal: bool,
    journal: bool,
    no_colour: bool,
}

/// Changes what is logged while running.
pub(crate) struct Level(reload::Handle<Targets, Registry>);

/// Starts logging for the whole process. Done once, before anything is logged.
pub(crate) fn start(log: &Log) -> Level {
    let stderr = Stderr {
        terminal: io::stderr().is_terminal(),
        journal: stderr_is_journal(),
        no_colour: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
    };
    let (filter, handle) = reload::Layer::new(log.level.targets());
    let subscriber = Registry::default().with(output(sink(log.format, stderr)).with_filter(filter));
    // A second call in one process would be refused; the first stays, which is what is wanted.
    let _ = tracing::subscriber::set_global_default(subscriber);
    // Panics are caught and their loops started again; where they came from belongs in the log, in its form.
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a bug: the program panicked")));
    Level(handle)
}

impl Level {
    /// Logs from `level` on.
    pub(crate) fn change(&self, level: &LogLevel) {
        if let Err(error) = self.0.modify(|targets| *targets = level.targets()) {
            tracing::warn!(%error, "the log level could not be changed");
        }
    }
}

fn sink(format: LogFormat, stderr: Stderr) -> Sink {
    match format {
        LogFormat::Auto if stderr.journal => Sink::Journal,
        LogFormat::Auto if !stderr.terminal => Sink::Json,
        LogFormat::Auto | LogFormat::Text => Sink::Text { colour: stderr.terminal && !stderr.no_colour },
        LogFormat::Json => Sink::Json,
    }
}

type Output = Box<dyn Layer<Registry> + Send + Sync>;

fn output(sink: Sink) -> Output {
    let json = || tracing_subscriber::fmt::layer().json().with_writer(io::stderr).boxed();
    match sink {
        // The socket of the journal can be missing even so, in a container for one.
        Sink::Journal => tracing_journald::layer().map_or_else(|_| json(), |journal| journal.boxed()),
        Sink::Text { colour } => {
            tracing_subscriber::fmt::layer().with_ansi(colour).with_writer(io::stderr).boxed()
        }
        Sink::Json => json(),
    }
}

/// Whether systemd connected standard error to the journal: `$JOURNAL_STREAM` names it by device and inode, and children
/// whose standard error leads elsewhere inherit the variable all the same.
fn stderr_is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    nix::sys::stat::fstat(io::stderr()).is_ok_and(|stat| names_stream(&stream, stat.st_dev, stat.st_ino))
}

fn names_stream(journal_stream: &str, device: u64, inode: u64) -> bool {
    let numbers = journal_stream.split_once(':');
    numbers.is_some_and(|(dev, ino)| dev.parse() == Ok(device) && ino.parse() == Ok(inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sink_follows_standard_error_unless_told() {
        let stderr = |terminal, journal| Stderr { terminal, journal, no_colour: false };
        assert_eq!(sink(LogFormat::Auto, stderr(false, true)), Sink::Journal);
        assert_eq!(sink(LogFormat::Auto, stderr(true, false)), Sink::Text { colour: true });
        assert_eq!(sink(LogFormat::Auto, stderr(false, false)), Sink::Json);
        assert_eq!(sink(LogFormat::Text, stderr(false, true)), Sink::Text { colour: false });
        assert_eq!(sink(LogFormat::Json, stderr(true, false)), Sink::Json);
        let no_colour = Stderr { no_colour: true, ..stderr(true, false) };
        assert_eq!(sink(LogFormat::Auto, no_colour), Sink::Text { colour: false });
    }

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        assert!(names_stream("8:4711", 8, 4711));
        for other in ["8:4712", "9:4711", "8", "", "a:b", "8:4711:1"] {
            assert!(!names_stream(other, 8, 4711), "{other}");
        }
    }
}
