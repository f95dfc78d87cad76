//! The kubelet's process, and the files that it takes its settings from.
//!
//! Only a process of root counts, and none of a Pod: anybody can start a program of that name and point it at files that
//! only root may read.

mod drop_ins;
mod process;

use std::io;

use gpulet_inventory::kubelet::{KubeletFile, KubeletFiles};

use crate::reader::Reader;
use crate::root::{MAX_FILE_BYTES, Root};
use process::Process;

/// Why the kubelet's files are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No process is a kubelet.
    #[error("no kubelet runs here, as far as /proc tells; is the host's /proc visible?")]
    NotRunning,
    /// The kubelet is part of another program, which gives it its settings without a trace.
    #[error(
        "the kubelet is part of {program} (process {pid}), whose command line does not tell the kubelet's settings"
    )]
    Embedded {
        /// The program.
        program: &'static str,
        /// Its process.
        pid: u32,
    },
    /// There is more than one, such as on a machine that runs nodes in containers.
    #[error("more than one kubelet runs here (processes {})", listed(pids))]
    Several {
        /// Their processes.
        pids: Vec<u32>,
    },
    /// A file that its command line names cannot be read.
    #[error("cannot read {path}, which the kubelet's command line names; is that directory mounted?")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl FindError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotRunning => "KubeletNotFound",
            Self::Embedded { .. } => "KubeletEmbedded",
            Self::Several { .. } => "SeveralKubelets",
            Self::Unreadable { .. } => "KubeletFileUnreadable",
        }
    }

    fn unreadable(path: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Unreadable { path: path.to_owned(), source }
    }
}

fn listed(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// Finds the kubelet and reads what its command line names.
///
/// # Errors
/// If there is no kubelet of its own, or a file cannot be read.
pub fn find(root: &Root) -> Result<KubeletFiles, FindError> {
    let Process { pid, arguments, .. } = process::find(root)?;
    let reader = Reader::new(root);
    let absolute =
        |path: String| if path.starts_with('/') { path } else { below_working_directory(root, pid, &path) };
    let named = |flag: &str| value_of(&arguments, flag).map(absolute);
    let (config, directory) = (named("config"), named("config-dir"));
    let config = config.map(|path| read(&reader, root, path)).transpose()?;
    let drop_ins =
        directory.as_ref().map(|directory| drop_ins::read(&reader, root, directory)).transpose()?;
    Ok(KubeletFiles {
        pid,
        config,
        drop_in_directory: directory,
        drop_ins: drop_ins.unwrap_or_default(),
        kubeconfig: named("kubeconfig"),
        arguments,
    })
}

/// Memory of the whole machine, bytes (`MemTotal` of `/proc/meminfo`).
pub fn memory_bytes(root: &Root) -> Option<u64> {
    let reader = Reader::new(root);
    let mut bytes = Vec::new();
    root.fetch(reader.directory("proc/meminfo")?.path(), 0, MAX_FILE_BYTES, &mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the last flag of that name says; the kubelet takes an empty path for none.
fn value_of(arguments: &[String], flag: &str) -> Option<String> {
    let mut value = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next().filter(|argument| *argument != "--") {
        let Some(argument) = argument.strip_prefix("--") else { continue };
        let (name, given) =
            argument.split_once('=').map_or((argument, None), |(name, given)| (name, Some(given)));
        if name.replace('_', "-") == flag {
            value = given.map(str::to_owned).or_else(|| rest.next().cloned());
        }
    }
    value.filter(|path| !path.is_empty())
}

/// A relative path is one from where the kubelet was started.
fn below_working_directory(root: &Root, pid: u32, path: &str) -> String {
    let directory = root.read_link(&format!("proc/{pid}/cwd")).ok().flatten().unwrap_or_default();
    format!("{}/{path}", directory.trim_end_matches('/'))
}

fn read(reader: &Reader<'_>, root: &Root, path: String) -> Result<KubeletFile, FindError> {
    let bytes = fetch(reader, root, &path).map_err(FindError::unreadable(&path))?;
    Ok(KubeletFile { path, bytes })
}

fn fetch(reader: &Reader<'_>, root: &Root, path: &str) -> io::Result<Vec<u8>> {
    let real = reader.directory(path).ok_or(io::ErrorKind::NotFound)?;
    let mut bytes = Vec::new();
    root.fetch(real.path(), 0, MAX_FILE_BYTES + 1, &mut bytes)?;
    match bytes.len() {
        0..=MAX_FILE_BYTES => Ok(bytes),
        _ => Err(io::Error::other(format!("it is larger than {MAX_FILE_BYTES} bytes"))),
    }
}
