//! What the processes on the GPUs belong to (source: `/proc/PID/cgroup`, guarded by `/proc/PID/stat`).

use std::collections::BTreeSet;

use gpulet_inventory::holders::{CgroupOwner, ProcessOrigin, Processes};

use crate::reader::{Directory, Reader};
use crate::recorded::Entry;
use crate::root::Root;

/// The most that is read of one file, bytes. A line per hierarchy, each of at most a path's length.
const MAX_BYTES: usize = 64 << 10;

/// Where `starttime` stands among the fields behind the name, which begin with the third.
const START_TIME: usize = 22 - 3;

/// Looks up the processes with these ids. One that is gone, or is another one by the time that it has been read, is
/// counted and left out; so is one of which may not be read.
pub fn read(root: &Root, pids: impl IntoIterator<Item = u32>) -> Processes {
    let reader = Reader::new(root);
    let mut processes = Processes::default();
    for pid in pids.into_iter().collect::<BTreeSet<_>>() {
        let directory = reader.directory(&format!("proc/{pid}"));
        match directory.and_then(|directory| origin(root, &directory)) {
            Some(origin) => drop(processes.known.insert(pid, origin)),
            None => processes.vanished += 1,
        }
    }
    processes
}

/// The name of a process's program (`/proc/PID/comm`: at most 15 bytes of it); absent for one that is gone.
pub fn program(root: &Root, pid: u32) -> Option<String> {
    let mut bytes = Vec::new();
    root.fetch(&format!("proc/{pid}/comm"), 0, MAX_BYTES, &mut bytes).ok()?;
    // A program gives itself any name, control characters included.
    let name: String = String::from_utf8_lossy(&bytes).trim_end().escape_default().take(64).collect();
    (!name.is_empty()).then_some(name)
}

/// Whether any process of the node belongs to a Pod; absent where `/proc` cannot be looked through.
pub fn is_any_of_a_pod(root: &Root) -> Option<bool> {
    // Whose the processes are is nobody's business but here.
    let root = &root.unrecorded();
    let names = root.list("proc").ok()?;
    let mut pids = names.iter().filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_digit()));
    if names.is_empty() {
        // It is not mounted.
        return None;
    }
    let of_a_pod = |(name, _): &(String, Entry)| {
        let mut bytes = Vec::new();
        // One that is gone since is no Pod's any more.
        root.fetch(&format!("proc/{name}/cgroup"), 0, MAX_BYTES, &mut bytes).is_ok()
            && matches!(CgroupOwner::of(&String::from_utf8_lossy(&bytes)), Some(CgroupOwner::Pods(_)))
    };
    Some(pids.any(of_a_pod))
}

/// The id may go to another process at any moment: it is the same one if it started at the same time before and after.
fn origin(root: &Root, process: &Directory<'_>) -> Option<ProcessOrigin> {
    let start = || start_ticks(&text(root, process, "stat")?);
    let before = start()?;
    let owner = CgroupOwner::of(&text(root, process, "cgroup")?)?;
    (start()? == before).then_some(ProcessOrigin { start_ticks: before, owner })
}

fn text(root: &Root, process: &Directory<'_>, name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    root.fetch(&format!("{}/{name}", process.path()), 0, MAX_BYTES, &mut bytes).ok()?;
    // A program gives itself any name.
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The time in a line such as `4242 (python3) S 1 …`. The name may hold anything, also spaces and parentheses.
fn start_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(START_TIME)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stat(name: &str, start: u64) -> String {
        let zeros = "0 ".repeat(18);
        format!("4242 ({name}) S {zeros}{start} 0 0\n")
    }

    #[test]
    fn the_name_is_no_field() {
        for name in ["python3", "a b", "x) S 1 2 3", "", "(", "é"] {
            assert_eq!(start_ticks(&stat(name, 77)), Some(77), "{name}");
        }
        for text in ["", "1 (x", "1 (x) S 1", "1 (x) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 x"] {
            assert_eq!(start_ticks(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_not_there_or_says_nothing_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let file = |pid: u32, name: &str, text: &str| {
            let at = directory.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join(name), text).unwrap();
        };
        for pid in [10, 11, 12] {
            file(pid, "stat", &stat("x", pid.into()));
        }
        file(10, "cgroup", "0::/system.slice/a.service\n");
        file(12, "cgroup", "nonsense");
        file(13, "cgroup", "0::/system.slice/a.service\n");
        std::os::unix::fs::symlink("/proc/self", directory.path().join("proc/14")).unwrap();
        let processes = read(&Root::new(directory.path()), [10, 10, 11, 12, 13, 14, 15]);
        assert_eq!(processes.known.keys().collect::<Vec<_>>(), [&10]);
        assert_eq!((processes.known[&10].start_ticks, processes.vanished), (10, 5));
    }

    #[test]
    fn whether_a_pod_runs_is_told_by_the_processes() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        assert_eq!(is_any_of_a_pod(&root), None, "nothing is mounted");
        let file = |pid: u32, cgroup: &str| {
            let at = directory.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("cgroup"), cgroup).unwrap();
        };
        std::fs::create_dir_all(directory.path().join("proc")).unwrap();
        assert_eq!(is_any_of_a_pod(&root), None, "a place for it alone");
        std::fs::create_dir_all(directory.path().join("proc/sys")).unwrap();
        assert_eq!(is_any_of_a_pod(&root), Some(false));
        file(1, "0::/init.scope\n");
        file(2, "0::/system.slice/kubelet.service\n");
        assert_eq!(is_any_of_a_pod(&root), Some(false));
        file(3, "0::/kubepods.slice/kubepods-pod7d1c0b1e_0000_1111_2222_333344445555.slice/cri-x.scope\n");
        assert_eq!(is_any_of_a_pod(&root), Some(true));
    }

    proptest! {
        #[test]
        fn any_line_is_understood_or_refused(text in ".{0,40}|[0-9 ()S]{0,80}") {
            let _ = start_ticks(&text);
        }
    }
}
