//! What processes belong to, on this machine and on a simulated one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::process::{Command, Stdio};

use gpulet_host::{Bundle, Root, owner};
use gpulet_inventory::holders::{CgroupOwner, HostUnit, PodGroup};
use gpulet_simulator::command::{Command as Happening, Hold};
use gpulet_simulator::engine::Engine;
use gpulet_simulator::host_tree;
use gpulet_simulator::node::Node;
use gpulet_simulator::state::ProcessKind;
use procfs::process::Process;

#[test]
fn processes_of_this_machine_until_they_are_gone() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let (own, other) = (std::process::id(), child.id());
    let root = Root::new("/");
    let found = owner::read(&root, [own, other]);
    assert_eq!((found.known.len(), found.vanished), (2, 0));
    for (pid, origin) in &found.known {
        let process = Process::new(i32::try_from(*pid).unwrap()).unwrap();
        assert_eq!(origin.start_ticks, process.stat().unwrap().starttime);
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        assert_eq!(Some(&origin.owner), CgroupOwner::of(&text).as_ref(), "{text}");
    }
    // Gone but not yet waited for, it still has files; afterwards it has none.
    child.kill().unwrap();
    child.wait().unwrap();
    let found = owner::read(&root, [own, other]);
    assert_eq!((found.known.keys().collect::<Vec<_>>(), found.vanished), (vec![&own], 1));
}

#[test]
fn processes_of_a_simulated_machine_and_of_its_recording() {
    const UID: &str = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";
    let id = "9a".repeat(32);
    let directory = tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap();
    let mut engine = Engine::new(&Node::load("l40s-4x").unwrap(), 1, 0).unwrap();
    host_tree::write(engine.node(), engine.state(), directory.path()).unwrap();
    let mut hold = |gpu: u32, pid: u32, cgroup: Option<String>| {
        let name = "/usr/bin/train --all".to_owned();
        let hold =
            Hold { gpu, pid, kind: ProcessKind::Compute, memory_bytes: None, instance: None, name, cgroup };
        engine.apply(Happening::Hold(hold)).unwrap();
    };
    hold(0, 100, None);
    hold(0, 101, Some(format!("/kubepods/burstable/pod{UID}/{id}")));
    // The same process, which stays where it is.
    hold(1, 101, None);
    host_tree::refresh(engine.node(), engine.state(), directory.path()).unwrap();
    let root = Root::new(directory.path()).recorded();
    let found = owner::read(&root, [100, 101, 102]);
    let service = CgroupOwner::Host(HostUnit::new("train.service"));
    let pod = CgroupOwner::Pods(vec![PodGroup { uid: UID.to_owned(), container: Some(id) }]);
    let owners: Vec<_> = found.known.values().map(|origin| &origin.owner).collect();
    assert_eq!((owners, found.vanished), (vec![&service, &pod], 1));
    let bundle = Bundle { host: root.recording(), ..Bundle::default() };
    assert_eq!(owner::read(&Root::replay(bundle), [100, 101, 102]), found);
}
