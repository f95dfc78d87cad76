use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::partition::made_up::MadeUp;

/// Where a child process is to hold the lock.
const CHILD: &str = "GPULET_TEST_LOCK_CHILD";

/// Starts this test program again, which then holds the lock until it is killed.
fn holder(root: &Root) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "partition::lock::tests::as_a_child_that_holds_it", "--nocapture"]);
    command.env(CHILD, root.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("ready")), "it ended by itself");
    child
}

/// No test by itself: what the child of the test below does.
#[test]
fn as_a_child_that_holds_it() {
    let Some(root) = std::env::var_os(CHILD) else { return };
    let _lock = Lock::take(&Root::new(root)).unwrap();
    println!("\nready");
    let _ = std::io::stdin().lines().next();
}

#[test]
fn a_second_process_is_told_who_holds_it_until_that_is_killed() {
    let tree = MadeUp::new();
    tree.directory("proc");
    let mut child = holder(&tree.root());
    let error = Lock::take(&tree.root()).unwrap_err();
    assert_eq!(error.reason(), "LockHeld");
    assert!(matches!(error, LockError::Held { pid: Some(pid) } if pid == child.id()), "{error:?}");
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    let lock = Lock::take(&tree.root()).unwrap();
    assert_eq!(tree.text("run/gpulet/partition.lock"), format!("{}\n", std::process::id()));
    drop(lock);
    assert_eq!(tree.text("run/gpulet/partition.lock"), "");
    drop(Lock::take(&tree.root()).unwrap());
}

#[test]
fn the_holder_is_told_as_the_host_numbers_it() {
    let tree = MadeUp::new();
    tree.link("proc/self", "4711");
    let _lock = Lock::take(&tree.root()).unwrap();
    let error = Lock::take(&tree.root()).unwrap_err();
    assert!(matches!(error, LockError::Held { pid: Some(4711) }), "{error:?}");
}

#[test]
fn it_is_below_the_root_and_no_link_leads_out() {
    let tree = MadeUp::new();
    tree.directory("proc").link("run", "/var/run");
    // The node has no such directory yet, so the link leads nowhere.
    assert_eq!(Lock::take(&tree.root()).unwrap_err().reason(), "LockUnavailable");
    tree.directory("var/run/gpulet");
    drop(Lock::take(&tree.root()).unwrap());
    assert!(tree.at("var/run/gpulet/partition.lock").is_file());
    let victim = tree.outside().join("victim");
    fs::write(&victim, "precious").unwrap();
    fs::remove_file(tree.at("var/run/gpulet/partition.lock")).unwrap();
    symlink(&victim, tree.at("var/run/gpulet/partition.lock")).unwrap();
    let error = Lock::take(&tree.root()).unwrap_err();
    assert_eq!(error.reason(), "LockUnavailable");
    assert!(error.to_string().contains("run/gpulet/partition.lock"), "{error}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_lock_on_a_file_that_was_removed_is_none() {
    let tree = MadeUp::new();
    tree.directory("proc");
    let first = Lock::take(&tree.root()).unwrap();
    fs::remove_file(tree.at("run/gpulet/partition.lock")).unwrap();
    assert!(!is_at(&first.file, &tree.at("run/gpulet/partition.lock")).unwrap());
}
