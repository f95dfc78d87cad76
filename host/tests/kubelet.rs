//! Finding the kubelet and the files that its command line names.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use gpulet_host::kubelet::{FindError, find, memory_bytes};
use gpulet_host::{Bundle, Root};
use gpulet_inventory::kubelet::KubeletFiles;
use proptest::prelude::*;
use support::Tree;

const ROOT_USER: &str = "Name:\tkubelet\nPPid:\t1\nUid:\t0\t0\t0\t0\n";

/// A tree with these processes: number, status, cgroup, words of the command line.
fn processes(processes: &[(u32, &str, &str, &[&str])]) -> Tree {
    let tree = Tree::new();
    for (pid, status, cgroup, words) in processes {
        let line: String = words.iter().map(|word| format!("{word}\0")).collect();
        tree.file(&format!("proc/{pid}/cmdline"), line);
        tree.file(&format!("proc/{pid}/status"), status);
        tree.file(&format!("proc/{pid}/cgroup"), cgroup);
        tree.link(&format!("proc/{pid}/cwd"), "/");
    }
    tree.file("proc/uptime", "1.0 1.0\n").file("proc/self/cmdline", "kubelet\0");
    tree
}

fn kubelet(words: &[&str]) -> Tree {
    let words = [&["/usr/bin/kubelet"], words].concat();
    processes(&[
        (1, ROOT_USER, "0::/init.scope\n", &["/sbin/init"]),
        (2, ROOT_USER, "0::/\n", &[]),
        (713, ROOT_USER, "0::/system.slice/kubelet.service\n", &words),
        (800, ROOT_USER, "0::/user.slice\n", &["vi", "/usr/bin/kubelet"]),
    ])
}

/// What is found, and that a recording tells the same.
fn found(tree: &Tree) -> Result<KubeletFiles, FindError> {
    let root = Root::new(tree.path());
    let recorded = root.recorded();
    let files = find(&recorded);
    if let Ok(files) = &files {
        let bundle = Bundle { host: recorded.recording(), ..Bundle::default() };
        assert_eq!(&find(&Root::replay(bundle)).unwrap(), files);
    }
    files
}

fn paths(files: &KubeletFiles) -> Vec<&str> {
    files.drop_ins.iter().map(|file| file.path.as_str()).collect()
}

#[test]
fn a_kubelet_of_kubeadm() {
    let words =
        ["--bootstrap-kubeconfig=/etc/kubernetes/bootstrap.conf", "--config=/var/lib/kubelet/config.yaml"];
    let tree = kubelet(&[words[0], words[1], "--v", "2"]);
    tree.file("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n");
    let files = found(&tree).unwrap();
    assert_eq!((files.pid, files.arguments.len()), (713, 4));
    let config = files.config.unwrap();
    assert_eq!(
        (config.path.as_str(), config.bytes.as_slice()),
        ("/var/lib/kubelet/config.yaml", &b"kind: KubeletConfiguration\n"[..])
    );
    assert_eq!((files.drop_ins, files.drop_in_directory, files.kubeconfig), (vec![], None, None));
}

#[test]
fn a_kubelet_without_files_runs_on_its_defaults() {
    let files = found(&kubelet(&["--config="])).unwrap();
    assert_eq!((files.config, files.arguments), (None, vec!["--config=".to_owned()]));
}

#[test]
fn flags_are_read_in_all_their_spellings_and_the_last_counts() {
    let tree = kubelet(&[
        "--config",
        "/first",
        "--kubeconfig=/etc/kubernetes/first.conf",
        "--config",
        "/second",
        "--config_dir=/drop-ins",
        "--kubeconfig",
        "/etc/kubernetes/kubelet.conf",
        "--",
        "--config=/third",
    ]);
    tree.file("second", "2").file("drop-ins/a.conf", "3");
    let files = found(&tree).unwrap();
    assert_eq!(files.config.unwrap().path, "/second");
    assert_eq!(files.drop_in_directory.as_deref(), Some("/drop-ins"));
    assert_eq!(files.kubeconfig.as_deref(), Some("/etc/kubernetes/kubelet.conf"));
}

#[test]
fn relative_paths_begin_where_the_kubelet_was_started() {
    let tree = kubelet(&["--config=kubelet/config.yaml"]);
    std::fs::remove_file(tree.path().join("proc/713/cwd")).unwrap();
    tree.link("proc/713/cwd", "/etc").file("etc/kubelet/config.yaml", "here");
    assert_eq!(found(&tree).unwrap().config.unwrap().path, "/etc/kubelet/config.yaml");
}

#[test]
fn drop_ins_come_in_the_order_in_which_the_kubelet_walks() {
    let tree = kubelet(&["--config-dir=/etc/kubelet.d/"]);
    for name in [
        "20-b.conf",
        "10-a.conf",
        "15/z.conf",
        "15/deeper/y.conf",
        "9.conf",
        "15-x.conf",
        "readme.txt",
        "30.conf.bak",
        "15/notes",
    ] {
        tree.file(&format!("etc/kubelet.d/{name}"), name);
    }
    tree.file("elsewhere/linked", "linked").file("elsewhere/below/unseen.conf", "unseen");
    tree.link("etc/kubelet.d/12.conf", "../../elsewhere/linked").link("etc/kubelet.d/13", "/elsewhere/below");
    let files = found(&tree).unwrap();
    let expected =
        ["10-a.conf", "12.conf", "15/deeper/y.conf", "15/z.conf", "15-x.conf", "20-b.conf", "9.conf"];
    assert_eq!(paths(&files), expected.map(|name| format!("/etc/kubelet.d/{name}")));
    assert_eq!(files.drop_ins[1].bytes, b"linked");
    assert_eq!(files.drop_in_directory.as_deref(), Some("/etc/kubelet.d/"));
}

#[test]
fn a_drop_in_directory_that_is_a_link_is_not_walked() {
    let tree = kubelet(&["--config-dir=/etc/kubelet.d"]);
    tree.file("elsewhere/1.conf", "1").link("etc/kubelet.d", "/elsewhere");
    assert_eq!(paths(&found(&tree).unwrap()), Vec::<&str>::new());
    let tree = kubelet(&["--config-dir=/etc/kubelet.d/"]);
    tree.file("elsewhere/1.conf", "1").link("etc/kubelet.d", "/elsewhere");
    assert_eq!(paths(&found(&tree).unwrap()), ["/etc/kubelet.d/1.conf"]);
}

#[test]
fn what_is_named_and_missing_or_too_large_is_an_error_with_its_path() {
    for (words, large) in [
        ("--config=/etc/k.yaml", None),
        ("--config-dir=/etc/k.d", None),
        ("--config=/etc/large", Some("etc/large")),
    ] {
        let tree = kubelet(&[words]);
        if let Some(file) = large {
            tree.file(file, vec![b' '; (1 << 20) + 1]);
        }
        let error = found(&tree).unwrap_err();
        let path = words.split_once('=').unwrap().1;
        assert_eq!(error.reason(), "KubeletFileUnreadable");
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[test]
fn no_kubelet() {
    let error = found(&processes(&[(1, ROOT_USER, "", &["/sbin/init"])])).unwrap_err();
    assert_eq!(error.reason(), "KubeletNotFound");
    assert_eq!(find(&Root::new("/nowhere")).unwrap_err().reason(), "KubeletNotFound");
}

#[test]
fn kubelets_that_are_part_of_another_program() {
    for (words, expected) in [
        (&["/usr/local/bin/k3s server", "", ""][..], "k3s"),
        (&["/usr/local/bin/k3s", "agent", "--server", "https://a"][..], "k3s"),
        (
            &["/snap/microk8s/7/kubelite", "--kubelet-args-file=/var/snap/microk8s/7/args/kubelet"][..],
            "MicroK8s",
        ),
    ] {
        let error = found(&processes(&[(9, ROOT_USER, "", words)])).unwrap_err();
        assert_eq!(error.reason(), "KubeletEmbedded");
        assert!(error.to_string().contains(expected) && error.to_string().contains('9'), "{error}");
    }
    // What the same program does in passing is no kubelet.
    let passing = processes(&[(9, ROOT_USER, "", &["/usr/local/bin/k3s", "kubectl", "get", "nodes"])]);
    assert_eq!(found(&passing).unwrap_err().reason(), "KubeletNotFound");
}

#[test]
fn kubelets_under_another_name() {
    let rke2 = processes(&[(9, ROOT_USER, "", &["/var/lib/rancher/rke2/data/v1/bin/kubelet", "--v=1"])]);
    assert_eq!(found(&rke2).unwrap().arguments, ["--v=1"]);
    for words in [&["/hyperkube", "kubelet", "--v=1"][..], &["/hyperkube kubelet", "--v=1"][..]] {
        let pid = found(&processes(&[(9, ROOT_USER, "", words)])).unwrap().pid;
        assert_eq!(pid, 9);
    }
}

#[test]
fn who_only_calls_itself_kubelet_is_not_believed() {
    const USER: &str = "PPid:\t1\nUid:\t1000\t1000\t1000\t1000\n";
    let pod = "0::/kubepods.slice/kubepods-pod0b4c.slice/cri-containerd-77.scope\n";
    let out_of_sight = "0::/../../pod6c0f9a52-6b9c-4f0e-8f6f-0123456789ab/77\n";
    let tree = processes(&[
        (7, USER, "0::/user.slice\n", &["kubelet", "--config=/etc/shadow"]),
        (8, ROOT_USER, pod, &["kubelet", "--config=/etc/shadow"]),
        (9, ROOT_USER, out_of_sight, &["kubelet", "--config=/etc/shadow"]),
        (10, ROOT_USER, "0::/podruntime/kubelet\n", &["kubelet", "--v=2"]),
    ]);
    assert_eq!(found(&tree).unwrap().pid, 10);
}

#[test]
fn more_than_one_kubelet_is_told_and_a_child_in_its_birth_is_none() {
    let two = processes(&[(70, ROOT_USER, "", &["kubelet"]), (8, ROOT_USER, "", &["kubelet", "--v=3"])]);
    assert_eq!(found(&two).unwrap_err().to_string(), "more than one kubelet runs here (processes 8, 70)");
    let child = "PPid:\t8\nUid:\t0\t0\t0\t0\n";
    let forking = processes(&[(8, ROOT_USER, "", &["kubelet"]), (70, child, "", &["kubelet"])]);
    assert_eq!(found(&forking).unwrap().pid, 8);
}

#[test]
fn a_recording_keeps_the_kubelet_and_no_other_program() {
    let tree = kubelet(&[]);
    tree.file("proc/900/cmdline", "mail\0--to=somebody\0");
    let root = Root::new(tree.path()).recorded();
    find(&root).unwrap();
    let recorded = root.recording();
    assert!(recorded.get("proc/713/cmdline").is_some() && recorded.get("proc/713/status").is_some());
    assert!(recorded.iter().all(|(path, _)| path.starts_with("proc/713")), "{recorded:?}");
}

#[test]
fn the_machines_memory() {
    let tree = Tree::new();
    assert_eq!(memory_bytes(&Root::new(tree.path())), None);
    tree.file("proc/meminfo", "MemTotal:       65843092 kB\nMemFree: 1 kB\n");
    assert_eq!(memory_bytes(&Root::new(tree.path())), Some(65_843_092 * 1024));
    tree.file("proc/meminfo", "MemTotal: 99999999999999999999 kB\n");
    assert_eq!(memory_bytes(&Root::new(tree.path())), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_command_line_makes_it_fail(
        line in proptest::collection::vec(any::<u8>(), 0..40),
        name in "(hyperkube|kubelet|k3s|kubelite)[ \0]?",
        status in "(PPid:|Uid:)?[\t 0-9]{0,9}",
    ) {
        let tree = Tree::new();
        tree.file("proc/5/cmdline", [name.as_bytes(), &line].concat());
        tree.file("proc/5/status", status);
        let _ = find(&Root::new(tree.path()));
    }
}
