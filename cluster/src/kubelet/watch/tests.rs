use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::{Change, Watch};

const ALLOCATION: Change = Change { allocation: true, socket_replaced: false, settings: false };
const SOCKET: Change = Change { allocation: false, socket_replaced: true, settings: false };
const SETTINGS: Change = Change { allocation: false, socket_replaced: false, settings: true };

/// A node's files: the kubelet's root, and a configuration elsewhere.
struct Node(TempDir);

impl Node {
    fn new() -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        for directory in ["kubelet/device-plugins", "kubelet/pod-resources", "etc/kubelet.d"] {
            fs::create_dir_all(node.at(directory)).unwrap();
        }
        node
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str) {
        fs::write(self.at(path), "something").unwrap();
    }

    /// As the kubelet writes its state: aside, and then in place.
    fn replace(&self, path: &str) {
        let aside = self.at(path).with_file_name(".aside");
        fs::write(&aside, "something").unwrap();
        fs::rename(aside, self.at(path)).unwrap();
    }

    fn watch(&self) -> Watch {
        Watch::new(self.at("kubelet"), ["etc/config.yaml", "etc/kubelet.d"].map(|path| self.at(path)))
            .unwrap()
    }
}

/// The next change; the tests end soon also where none comes.
async fn next(watch: &mut Watch) -> Change {
    tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.expect("a change").unwrap()
}

/// All that changed until now: the last thing that a test does before is to write a state file.
async fn until_allocation(watch: &mut Watch) -> Change {
    let mut all = Change::default();
    while !all.allocation {
        all.add(next(watch).await);
    }
    all
}

#[tokio::test]
async fn each_file_means_what_it_means() {
    let node = Node::new();
    let mut watch = node.watch();
    for (path, expected) in [
        ("kubelet/cpu_manager_state", ALLOCATION),
        ("kubelet/memory_manager_state", ALLOCATION),
        ("kubelet/dra_manager_state", ALLOCATION),
        ("kubelet/device-plugins/kubelet_internal_checkpoint", ALLOCATION),
        ("kubelet/pod-resources/kubelet.sock", SOCKET),
        ("etc/config.yaml", SETTINGS),
        ("etc/kubelet.d/10.conf", SETTINGS),
    ] {
        for _ in 0..2 {
            node.replace(path);
            assert_eq!(next(&mut watch).await, expected, "{path}");
        }
        fs::remove_file(node.at(path)).unwrap();
        assert_eq!(next(&mut watch).await, expected, "{path} removed");
        node.write(path);
        assert_eq!(next(&mut watch).await, expected, "{path} written in place");
        drain(&mut watch);
    }
}

/// Takes what the kernel has told until now, which is all that was done until now.
fn drain(watch: &mut Watch) {
    let inotify = &watch.events.get_ref().0;
    while let Ok(events) = inotify.read_events() {
        watch.watched.take(inotify, &events).unwrap();
    }
    watch.pending = Change::default();
}

#[tokio::test]
async fn what_is_nobodys_business_changes_nothing() {
    let node = Node::new();
    let mut watch = node.watch();
    node.write("kubelet/config.json");
    node.write("kubelet/device-plugins/nvidia.sock");
    node.write("kubelet/pod-resources/other.sock");
    node.write("etc/passwd");
    fs::create_dir(node.at("kubelet/pods")).unwrap();
    node.replace("kubelet/cpu_manager_state");
    assert_eq!(until_allocation(&mut watch).await, ALLOCATION);
}

#[tokio::test]
async fn what_changes_at_once_is_told_at_once() {
    let node = Node::new();
    let mut watch = node.watch();
    for _ in 0..50 {
        node.replace("kubelet/cpu_manager_state");
        node.replace("kubelet/memory_manager_state");
        node.replace("kubelet/pod-resources/kubelet.sock");
    }
    let expected = Change { allocation: true, socket_replaced: true, settings: false };
    assert_eq!(next(&mut watch).await, expected);
    assert!(tokio::time::timeout(Duration::ZERO, watch.changed()).await.is_err(), "nothing is told twice");
}

#[tokio::test]
async fn a_change_that_was_not_waited_for_is_not_lost() {
    let node = Node::new();
    let mut watch = node.watch();
    assert!(tokio::time::timeout(Duration::ZERO, watch.changed()).await.is_err());
    node.replace("kubelet/cpu_manager_state");
    assert_eq!(next(&mut watch).await, ALLOCATION);
}

#[tokio::test]
async fn directories_that_are_absent_at_the_start_are_waited_for() {
    let node = Node::new();
    let root = node.at("var/lib/kubelet");
    let mut watch = Watch::new(&root, [node.at("var/etc/config.yaml")]).unwrap();
    // The way to them comes step by step, and then all at once.
    fs::create_dir(node.at("var")).unwrap();
    fs::create_dir_all(root.join("device-plugins")).unwrap();
    node.replace("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint");
    assert!(until_allocation(&mut watch).await.allocation);
    drain(&mut watch);
    fs::create_dir(root.join("pod-resources")).unwrap();
    assert_eq!(next(&mut watch).await, SOCKET, "what is in a new directory may be new");
    node.replace("var/lib/kubelet/pod-resources/kubelet.sock");
    assert_eq!(next(&mut watch).await, SOCKET);
    fs::create_dir(node.at("var/etc")).unwrap();
    assert_eq!(next(&mut watch).await, SETTINGS);
    node.replace("var/etc/config.yaml");
    assert_eq!(next(&mut watch).await, SETTINGS);
}

#[tokio::test]
async fn directories_that_are_removed_and_made_again() {
    let node = Node::new();
    let mut watch = node.watch();
    for _ in 0..3 {
        fs::remove_dir_all(node.at("kubelet/device-plugins")).unwrap();
        assert_eq!(next(&mut watch).await, ALLOCATION, "removed");
        fs::create_dir(node.at("kubelet/device-plugins")).unwrap();
        assert_eq!(next(&mut watch).await, ALLOCATION, "made again");
        node.replace("kubelet/device-plugins/kubelet_internal_checkpoint");
        assert_eq!(next(&mut watch).await, ALLOCATION, "written to");
    }
}

#[tokio::test]
async fn a_root_that_is_replaced_as_a_whole() {
    let node = Node::new();
    let mut watch = node.watch();
    fs::rename(node.at("kubelet"), node.at("before")).unwrap();
    fs::create_dir_all(node.at("kubelet/device-plugins")).unwrap();
    fs::create_dir_all(node.at("kubelet/pod-resources")).unwrap();
    let mut all = until_allocation(&mut watch).await;
    while !all.socket_replaced {
        all.add(next(&mut watch).await);
    }
    assert!(!all.settings);
    drain(&mut watch);
    // The old one is not looked at any more.
    node.replace("before/cpu_manager_state");
    node.replace("before/pod-resources/kubelet.sock");
    node.replace("kubelet/device-plugins/kubelet_internal_checkpoint");
    assert_eq!(next(&mut watch).await, ALLOCATION);
}

#[tokio::test]
async fn a_file_stands_where_a_directory_should() {
    let node = Node::new();
    let root = node.at("file");
    fs::write(&root, "").unwrap();
    let mut watch = Watch::new(&root, []).unwrap();
    fs::remove_file(&root).unwrap();
    fs::create_dir(&root).unwrap();
    assert!(until_allocation(&mut watch).await.allocation);
    node.replace("file/cpu_manager_state");
    assert!(until_allocation(&mut watch).await.allocation);
}

#[tokio::test]
async fn directories_of_drop_ins_are_watched_as_they_come() {
    let node = Node::new();
    let mut watch = node.watch();
    fs::create_dir(node.at("etc/kubelet.d/deep")).unwrap();
    assert_eq!(next(&mut watch).await, SETTINGS);
    drain(&mut watch);
    node.replace("etc/kubelet.d/deep/10.conf");
    assert_eq!(next(&mut watch).await, SETTINGS);
    fs::remove_dir_all(node.at("etc/kubelet.d")).unwrap();
    assert_eq!(next(&mut watch).await, SETTINGS);
    drain(&mut watch);
    fs::create_dir(node.at("etc/kubelet.d")).unwrap();
    assert_eq!(next(&mut watch).await, SETTINGS);
    drain(&mut watch);
    node.replace("etc/kubelet.d/20.conf");
    assert_eq!(next(&mut watch).await, SETTINGS);
}

#[tokio::test]
async fn the_settings_that_are_followed_can_change() {
    let node = Node::new();
    let mut watch = Watch::new(node.at("kubelet"), []).unwrap();
    node.replace("etc/config.yaml");
    watch.follow([node.at("etc/config.yaml")]).unwrap();
    assert_eq!(next(&mut watch).await, SETTINGS, "it may have changed before it was followed");
    node.replace("etc/config.yaml");
    assert_eq!(next(&mut watch).await, SETTINGS);
    watch.follow([]).unwrap();
    drain(&mut watch);
    node.replace("etc/config.yaml");
    node.replace("kubelet/cpu_manager_state");
    assert_eq!(until_allocation(&mut watch).await, ALLOCATION);
}

#[tokio::test]
async fn when_the_kernel_could_not_keep_up_everything_counts_as_changed() {
    let node = Node::new();
    let mut watch = node.watch();
    let most: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    // By turns, so that the kernel does not take two for one.
    let noise = ["kubelet/noise", "kubelet/other"].map(|path| node.at(path));
    noise.iter().for_each(|path| fs::write(path, "").unwrap());
    for turn in 0..=most {
        fs::OpenOptions::new().write(true).open(&noise[turn % 2]).unwrap();
    }
    let mut all = Change::default();
    while all != Change::ALL {
        all.add(next(&mut watch).await);
    }
    node.replace("kubelet/cpu_manager_state");
    assert_eq!(until_allocation(&mut watch).await, ALLOCATION);
}

#[tokio::test]
async fn a_root_that_cannot_be_is_refused() {
    let error = Watch::new(Path::new("/proc/self/fd/999/x".repeat(400).as_str()), []).unwrap_err();
    assert_eq!(error.reason(), "NotWatched");
}
