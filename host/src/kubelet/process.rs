//! Which process is the kubelet (source: `/proc`).

use super::FindError;
use crate::root::Root;

/// As much as is read of a command line, bytes.
const MAX_COMMAND_LINE: usize = 64 << 10;

/// A process that is a kubelet, or has one in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// Without the program's name.
    pub(super) arguments: Vec<String>,
    /// The program that the kubelet is part of; absent: it is the kubelet.
    embedded_in: Option<&'static str>,
}

/// The one process that is the kubelet.
pub(super) fn find(root: &Root) -> Result<Process, FindError> {
    // What other programs run here stays out of what is recorded.
    let quiet = root.unrecorded();
    let names = quiet.list("proc").unwrap_or_default();
    let pids = names.iter().filter_map(|(name, _)| name.parse::<u32>().ok());
    let mut found: Vec<Process> = pids
        .filter_map(|pid| kubelet(&quiet, pid))
        .filter(|process| is_of_the_host(&quiet, process.pid))
        .collect();
    if found.len() > 1 {
        found = without_children(&quiet, found);
    }
    let process = match found.as_slice() {
        [] => return Err(FindError::NotRunning),
        [process] => process,
        several => {
            let mut pids: Vec<u32> = several.iter().map(|process| process.pid).collect();
            pids.sort_unstable();
            return Err(FindError::Several { pids });
        }
    };
    match process.embedded_in {
        Some(program) => Err(FindError::Embedded { program, pid: process.pid }),
        // Again, to be recorded: it, and what tells that it is the host's.
        None => {
            is_of_the_host(root, process.pid);
            kubelet(root, process.pid).ok_or(FindError::NotRunning)
        }
    }
}

/// The process, if its command line is that of a kubelet.
fn kubelet(root: &Root, pid: u32) -> Option<Process> {
    let mut bytes = Vec::new();
    root.fetch(&format!("proc/{pid}/cmdline"), 0, MAX_COMMAND_LINE, &mut bytes).ok()?;
    let mut words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let program = words.next()?;
    let mut arguments: Vec<String> = words.collect();
    // Each word ends with a zero, the last one too.
    if arguments.last().is_some_and(String::is_empty) {
        arguments.pop();
    }
    // Some programs write all of their title into their first word.
    let mut title = program.split_ascii_whitespace();
    let name = title.next()?.rsplit('/').next()?;
    let first = title.next().or(arguments.first().map(String::as_str)).unwrap_or_default();
    let embedded_in = match (name, first) {
        ("kubelet", _) => None,
        ("hyperkube", "kubelet") => {
            arguments.drain(..arguments.len().min(1));
            None
        }
        ("k3s", "server" | "agent") | ("k3s-server" | "k3s-agent", _) => Some("k3s"),
        ("kubelite", _) => Some("kubelite (MicroK8s)"),
        _ => return None,
    };
    Some(Process { pid, arguments, embedded_in })
}

/// Whether it is root's, and no Pod's. A process that tells neither is gone, or a recording's.
fn is_of_the_host(root: &Root, pid: u32) -> bool {
    let user = status(root, pid, "Uid:");
    let cgroups = text(root, &format!("proc/{pid}/cgroup"));
    user.is_none_or(|user| user == "0") && !cgroups.lines().any(is_of_a_pod)
}

/// The kubelet names a Pod's cgroup by its UID, below one whose name begins with `kubepods`, which may be out of sight.
fn is_of_a_pod(line: &str) -> bool {
    const UID: usize = "00000000000000000000000000000000".len();
    let pod = |part: &str| part.strip_prefix("pod").is_some_and(|uid| uid.len() >= UID);
    line.contains("kubepods") || line.split('/').any(pod)
}

/// A kubelet that starts a program is there twice, for a moment.
fn without_children(root: &Root, found: Vec<Process>) -> Vec<Process> {
    let pids: Vec<u32> = found.iter().map(|process| process.pid).collect();
    let parent =
        |process: &Process| status(root, process.pid, "PPid:").and_then(|pid| pid.parse::<u32>().ok());
    found.into_iter().filter(|process| parent(process).is_none_or(|parent| !pids.contains(&parent))).collect()
}

/// The first word behind a name in the process's status.
fn status(root: &Root, pid: u32, name: &str) -> Option<String> {
    let text = text(root, &format!("proc/{pid}/status"));
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next().map(str::to_owned)
}

fn text(root: &Root, path: &str) -> String {
    let mut bytes = Vec::new();
    match root.fetch(path, 0, MAX_COMMAND_LINE, &mut bytes) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}
