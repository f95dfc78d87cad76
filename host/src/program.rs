//! Programs of the host: found below the root, run as on the host, for a bounded time.
//!
//! Where the root is another system than the one that this process is in (the host's, mounted into a container; a driver
//! container's), a program of it needs that system's libraries and files: it is run with the root as its own. A root that
//! does not say which system it is (no `os-release`) is none, but a made-up tree with programs for this one.

mod child;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::{PermissionsExt, chroot};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::root::Root;
use child::{GRACE, collect, gathered, waited};

/// Where programs lie. The last is where container-optimised systems keep the driver's.
const DIRECTORIES: [&str; 8] = [
    "usr/bin",
    "usr/sbin",
    "usr/local/bin",
    "usr/local/sbin",
    "bin",
    "sbin",
    "run/current-system/sw/bin",
    "home/kubernetes/bin/nvidia/bin",
];

/// How much of it an error tells.
const TOLD: usize = 600;

/// A program that was found.
#[derive(Debug, Clone)]
pub struct Program {
    /// The system that it belongs to; absent: the one that this process is in.
    system: Option<PathBuf>,
    /// Its path in that system.
    path: PathBuf,
    /// Its path as the node names it, for people.
    shown: String,
}

/// What a program that succeeded has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// To its standard output.
    pub stdout: String,
    /// To its standard error.
    pub stderr: String,
}

/// Why a program was not run to a good end.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is in none of the places.
    #[error("there is no program {name} below {}; looked in {places}. Is the whole of the host's file system mounted there?", root.display())]
    NotFound {
        /// Its name.
        name: String,
        /// Below which root.
        root: PathBuf,
        /// Where.
        places: String,
    },
    /// It could not be started.
    #[error("{command} cannot be started{hint}")]
    NotStarted {
        /// The program and its arguments.
        command: String,
        /// What is needed for it.
        hint: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It did not end in time, and was killed.
    #[error("{command} did not end within {} s and was {}; it said: {said}", deadline.as_secs(), end(*gone))]
    TimedOut {
        /// The program and its arguments.
        command: String,
        /// How long it had.
        deadline: Duration,
        /// Whether it is gone.
        gone: bool,
        /// What it wrote till then.
        said: String,
    },
    /// It said that it failed.
    #[error("{command} failed ({status}); it said: {said}")]
    Failed {
        /// The program and its arguments.
        command: String,
        /// Its exit code or signal.
        status: String,
        /// What it wrote.
        said: String,
    },
}

impl ProgramError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "ProgramNotFound",
            Self::NotStarted { .. } => "ProgramNotStarted",
            Self::TimedOut { .. } => "ProgramTimedOut",
            Self::Failed { .. } => "ProgramFailed",
        }
    }
}

fn end(gone: bool) -> &'static str {
    match gone {
        true => "killed",
        false => "told to go, and still is there: the kernel does not let go of it",
    }
}

impl Program {
    /// The program `name` of the system below `root`.
    ///
    /// # Errors
    /// If it is in none of the places where programs lie.
    pub fn find(root: &Root, name: &str) -> Result<Self, ProgramError> {
        let found = DIRECTORIES.iter().find_map(|directory| Self::at(root, &format!("{directory}/{name}")));
        found.ok_or_else(|| ProgramError::NotFound {
            name: name.to_owned(),
            root: root.path().to_owned(),
            places: DIRECTORIES.join(", "),
        })
    }

    /// The program at `path` of the system below `root`; absent if there is none that can be run.
    pub fn at(root: &Root, path: &str) -> Option<Self> {
        let real = root.real(Path::new(path)).ok()?;
        let metadata = real.metadata().ok()?;
        if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
            return None;
        }
        let is_system =
            ["etc/os-release", "usr/lib/os-release"].iter().any(|file| root.real(Path::new(file)).is_ok());
        let inside = Path::new("/").join(real.strip_prefix(root.path()).unwrap_or(&real));
        let other = is_system && root.path() != Path::new("/");
        let (system, path) = match other {
            true => (Some(root.path().to_owned()), inside.clone()),
            false => (None, real),
        };
        Some(Self { system, path, shown: inside.display().to_string() })
    }

    /// How it has to be told of the file at this real path.
    pub(crate) fn sees(&self, real: &Path) -> PathBuf {
        let inside = self.system.as_ref().and_then(|system| real.strip_prefix(system).ok());
        inside.map_or_else(|| real.to_owned(), |inside| Path::new("/").join(inside))
    }

    /// Runs it. Its input is empty; it knows no more than the deadline of when it is stopped.
    ///
    /// # Errors
    /// If it cannot be started, does not end in time, or says that it failed.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A], deadline: Duration) -> Result<Output, ProgramError> {
        let told = self.told(arguments);
        let mut child = self.spawn(arguments).map_err(|source| ProgramError::NotStarted {
            command: told.clone(),
            hint: self.hint(&source),
            source,
        })?;
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        let ended = waited(child);
        let Some(status) = ended.recv_timeout(deadline).ok() else {
            let _ = killpg(group, Signal::SIGKILL);
            let gone = ended.recv_timeout(GRACE).is_ok();
            let said = said(&gathered(&stdout), &gathered(&stderr));
            return Err(ProgramError::TimedOut { command: told, deadline, gone, said });
        };
        let output = Output { stdout: gathered(&stdout), stderr: gathered(&stderr) };
        match status {
            Ok(status) if status.success() => Ok(output),
            status => {
                let said = said(&output.stdout, &output.stderr);
                Err(ProgramError::Failed { command: told, status: shown(status), said })
            }
        }
    }

    /// The command as a person would write it.
    fn told<A: AsRef<OsStr>>(&self, arguments: &[A]) -> String {
        arguments.iter().fold(self.shown.clone(), |mut told, argument| {
            // Writing to a string cannot fail.
            let _ = write!(told, " {}", argument.as_ref().to_string_lossy());
            told
        })
    }

    fn hint(&self, error: &io::Error) -> &'static str {
        match (&self.system, error.kind()) {
            (Some(_), io::ErrorKind::PermissionDenied) => {
                "; to run programs of the host from a container takes the capability SYS_CHROOT"
            }
            (Some(_), io::ErrorKind::NotFound) => "; is the whole of the host's file system mounted there?",
            _ => "",
        }
    }

    fn spawn<A: AsRef<OsStr>>(&self, arguments: &[A]) -> io::Result<Child> {
        let mut command = Command::new(&self.path);
        // Opened here: the other system may have none.
        let nothing = File::open("/dev/null")?;
        command.args(arguments).stdin(nothing).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that what it starts goes with it.
        command.process_group(0).env("LC_ALL", "C");
        let Some(system) = &self.system else { return command.spawn() };
        command.env_clear().env("LC_ALL", "C").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin");
        // systemctl does nothing in a root of its own, and says that it succeeded: this root is systemd's too.
        command.env("SYSTEMD_IGNORE_CHROOT", "1");
        // A child begins where its parent thread is: one that has a root of its own, and ends with this.
        let within = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                unshare(CloneFlags::CLONE_FS)?;
                chroot(system)?;
                std::env::set_current_dir("/")?;
                command.spawn()
            });
            thread.join()
        });
        within.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it broke off")))
    }
}

fn shown(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "for no reason told".to_owned(),
        },
        Err(error) => error.to_string(),
    }
}

/// What it wrote, on one line. Programs of the driver tell their errors on either stream.
fn said(stdout: &str, stderr: &str) -> String {
    let words = stderr.split_whitespace().chain(stdout.split_whitespace()).collect::<Vec<_>>().join(" ");
    let shown: String = words.chars().map(|c| if c.is_control() { '?' } else { c }).take(TOLD).collect();
    match shown.is_empty() {
        true => "nothing".to_owned(),
        false => shown,
    }
}

#[cfg(test)]
mod tests;
