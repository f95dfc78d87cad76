//! A real kubelet comes to the settings that gpulet takes it to come to: it is started on files and flags, says what it
//! made of them, and is ended before it does anything.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpulet_cluster::kubelet::settings::{of_configz, of_files};
use gpulet_host::Root;
use gpulet_inventory::kubelet::KubeletSettings;
use serde_json::{Value, json};

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
const MEMORY: Option<u64> = Some(64 << 30);

/// How the kubelet prints its settings, and what they are called in its files.
const FIELDS: [(&str, &str); 12] = [
    ("TopologyManagerPolicy", "topologyManagerPolicy"),
    ("TopologyManagerScope", "topologyManagerScope"),
    ("TopologyManagerPolicyOptions", "topologyManagerPolicyOptions"),
    ("CPUManagerPolicy", "cpuManagerPolicy"),
    ("CPUManagerPolicyOptions", "cpuManagerPolicyOptions"),
    ("MemoryManagerPolicy", "memoryManagerPolicy"),
    ("ReservedSystemCPUs", "reservedSystemCPUs"),
    ("KubeReserved", "kubeReserved"),
    ("SystemReserved", "systemReserved"),
    ("EvictionHard", "evictionHard"),
    ("CgroupDriver", "cgroupDriver"),
    ("ReservedMemory", "reservedMemory"),
];

#[derive(Clone, Copy, Default)]
struct Case {
    config: Option<&'static str>,
    drop_ins: &'static [(&'static str, &'static str)],
    flags: &'static [&'static str],
}

const NOTHING: Case = Case { config: None, drop_ins: &[], flags: &[] };
const EMPTY: Case = Case { config: Some(""), ..NOTHING };
const FILE: Case = Case {
    config: Some(
        "topologyManagerPolicy: best-effort\ntopologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}\n\
         cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}\nmemoryManagerPolicy: Static\n\
         kubeReserved: {cpu: 500m, memory: 1Gi}\nsystemReserved: {cpu: '1.5'}\n\
         evictionHard: {memory.available: 10%, nodefs.available: 5%}\nreservedMemory:\n\
         - numaNode: 0\n  limits: {memory: 1Gi, hugepages-1Gi: 2Gi}\n- limits: {memory: 1073741824}\n  numaNode: 1\n",
    ),
    ..NOTHING
};

fn cases() -> Vec<Case> {
    vec![
        NOTHING,
        EMPTY,
        FILE,
        Case { config: Some("evictionHard: {}\n"), ..NOTHING },
        Case { config: Some("evictionHard: {nodefs.available: 5%}\n"), ..NOTHING },
        Case {
            config: Some("evictionHard: null\ntopologyManagerPolicy: ''\ncpuManagerPolicy: null\n"),
            ..NOTHING
        },
        Case {
            config: Some("evictionHard: {nodefs.available: 5%}\nmergeDefaultEvictionSettings: true\n"),
            ..NOTHING
        },
        Case { config: Some("reservedSystemCPUs: 0-1,3\nkubeReserved: {cpu: '2'}\n"), ..NOTHING },
        // Drop-ins in all their places and forms.
        Case {
            drop_ins: &[
                ("20.conf", "topologyManagerPolicy: restricted\nkubeReserved: {cpu: '2'}"),
                ("10.conf", "topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod"),
                ("15/deep/a.conf", "kubeReserved: {memory: 3Gi}"),
                ("15/z.conf", "kubeReserved: {memory: 4Gi}"),
                ("15-x.conf", "systemReserved: {memory: 5Gi}"),
                ("99.yaml", "topologyManagerScope: container"),
            ],
            ..FILE
        },
        Case { drop_ins: &[("1.conf", "evictionHard: {nodefs.available: 1%}")], ..EMPTY },
        Case { drop_ins: &[("1.conf", "evictionHard: null")], ..EMPTY },
        Case { drop_ins: &[("1.conf", "evictionHard: {memory.available: null}")], ..EMPTY },
        Case { drop_ins: &[("1.conf", "topologyManagerPolicy: null\nkubeReserved: null")], ..FILE },
        Case { drop_ins: &[("1.conf", "reservedMemory: [{numaNode: 2, limits: {memory: 1Gi}}]")], ..FILE },
        Case { drop_ins: &[("1.conf", "mergeDefaultEvictionSettings: true")], ..FILE },
        Case { drop_ins: &[("1.conf", "cpuManagerPolicy: static\nreservedSystemCPUs: '0'")], ..NOTHING },
        // Flags over files.
        Case {
            flags: &[
                "--topology-manager-policy=single-numa-node",
                "--topology_manager_scope",
                "pod",
                "--topology-manager-policy-options=max-allowable-numa-nodes=16,prefer-closest-numa-nodes=false",
                "--cpu-manager-policy-options=full-pcpus-only=false",
                "--cpu-manager-policy-options=distribute-cpus-across-numa=true",
                "--kube-reserved=memory=2Gi",
                "--kube-reserved",
                "cpu=3, pid=100",
                "--eviction-hard=memory.available<2Gi,nodefs.available<10%",
                "--reserved-memory=0:memory=1Gi,hugepages-1M=2Gi;1:memory=2Gi",
                "--reserved-memory=2:memory=512Mi",
            ],
            ..FILE
        },
        Case { flags: &["--kube-reserved=", "--eviction-hard=", "--reserved-cpus=0,2-3"], ..FILE },
        Case {
            flags: &["--cpu-manager-policy=static", "--reserved-cpus=1", "--cgroup-driver=systemd"],
            ..NOTHING
        },
        Case {
            drop_ins: &[("1.conf", "kubeReserved: {cpu: '7'}\nevictionHard: {memory.available: 7Mi}")],
            flags: &["--kube-reserved=memory=1Gi", "--topology-manager-policy=best-effort"],
            ..NOTHING
        },
    ]
}

/// The kubelet, built like the rest of the control plane.
fn kubelet() -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/control-plane/build");
    let built = Command::new(script).arg("kubelet").stderr(Stdio::inherit()).output().unwrap();
    assert!(built.status.success(), "{script} kubelet failed");
    Path::new(String::from_utf8(built.stdout).unwrap().trim()).join("kubelet")
}

/// Writes the case's files below `root`, and says by which flags they are named below `prefix`.
fn write(case: &Case, root: &Path, prefix: &str) -> Vec<String> {
    let put = |path: &str, body: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{HEAD}{body}")).unwrap();
    };
    let mut flags = Vec::new();
    if let Some(config) = case.config {
        put("etc/kubelet.yaml", config);
        flags.push(format!("--config={prefix}/etc/kubelet.yaml"));
    }
    if !case.drop_ins.is_empty() {
        case.drop_ins.iter().for_each(|(name, body)| put(&format!("etc/kubelet.d/{name}"), body));
        // Neither is read: a directory behind a link, and a link to a file without the ending.
        put("elsewhere/9.conf", "topologyManagerScope: container");
        symlink("../../elsewhere", root.join("etc/kubelet.d/98")).unwrap();
        symlink("../../elsewhere/9.conf", root.join("etc/kubelet.d/99")).unwrap();
        flags.push(format!("--config-dir={prefix}/etc/kubelet.d"));
    }
    flags.extend(case.flags.iter().map(|flag| (*flag).to_owned()));
    flags
}

/// What the kubelet makes of it, in the form of its own account.
fn told(kubelet: &Path, directory: &Path, flags: &[String]) -> Value {
    let below = |name: &str| directory.join(name).display().to_string();
    let mut child = Command::new(kubelet)
        .args(["--v=5", "--fail-cgroupv1=false"])
        .args([format!("--root-dir={}", below("root")), format!("--cert-dir={}", below("pki"))])
        .args(flags)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut seen = Vec::new();
    let begun =
        lines.by_ref().inspect(|line| seen.push(line.clone())).any(|line| line.ends_with("configuration=<"));
    let printed: String = lines.take_while(|line| line != " >").collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(begun, "the kubelet refuses {flags:?}: {}", seen.last().unwrap());
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let mut fields: serde_json::Map<String, Value> =
        FIELDS.iter().map(|(printed_as, name)| ((*name).to_owned(), printed[*printed_as].clone())).collect();
    if let Some(Value::Array(entries)) = fields.get_mut("reservedMemory") {
        entries.iter_mut().for_each(|of| *of = json!({"numaNode": of["NumaNode"], "limits": of["Limits"]}));
    }
    json!({ "kubeletconfig": fields })
}

#[test]
#[ignore = "needs a kubelet"]
fn a_real_kubelet_makes_the_same_of_the_same_files_and_flags() {
    let kubelet = kubelet();
    let mut seen = BTreeSet::new();
    for (number, case) in cases().iter().enumerate() {
        let root = tempfile::tempdir().unwrap();
        let flags = write(case, root.path(), &root.path().display().to_string());
        let told = told(&kubelet, root.path(), &flags).to_string();

        let node = tempfile::tempdir().unwrap();
        let words = [vec!["/usr/bin/kubelet".to_owned()], write(case, node.path(), "")].concat();
        fs::create_dir_all(node.path().join("proc/7")).unwrap();
        fs::write(node.path().join("proc/7/cmdline"), words.join("\0") + "\0").unwrap();
        let files = gpulet_host::kubelet::find(&Root::new(node.path())).unwrap();

        let nowhere = |settings| KubeletSettings { source: String::new(), ..settings };
        let expected = nowhere(of_configz(told.as_bytes(), MEMORY, "").unwrap());
        assert_eq!(nowhere(of_files(&files, MEMORY).unwrap()), expected, "case {number}: {flags:?}\n{told}");
        seen.insert(format!("{expected:?}"));
    }
    assert!(seen.len() > 10, "only {} of the cases differ", seen.len());
}
