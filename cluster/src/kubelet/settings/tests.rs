use gpulet_inventory::kubelet::{KubeletFile, KubeletFiles, KubeletSettings};
use proptest::prelude::*;

use super::{SettingsError, chain, of_configz, of_files, settings};

const GIB: u64 = 1 << 30;
const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn file(path: &str, body: &str) -> KubeletFile {
    KubeletFile { path: path.to_owned(), bytes: format!("{HEAD}{body}").into_bytes() }
}

fn files(config: Option<&str>, drop_ins: &[&str], flags: &[&str]) -> KubeletFiles {
    KubeletFiles {
        pid: 7,
        arguments: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        config: config.map(|body| file("/etc/kubelet.yaml", body)),
        drop_ins: drop_ins.iter().map(|body| file("/etc/kubelet.d/1.conf", body)).collect(),
        ..KubeletFiles::default()
    }
}

fn read(config: Option<&str>, drop_ins: &[&str], flags: &[&str]) -> KubeletSettings {
    of_files(&files(config, drop_ins, flags), Some(64 * GIB)).unwrap()
}

fn of_config(body: &str) -> KubeletSettings {
    read(Some(body), &[], &[])
}

fn refused(config: Option<&str>, drop_ins: &[&str], flags: &[&str]) -> SettingsError {
    of_files(&files(config, drop_ins, flags), Some(64 * GIB)).unwrap_err()
}

#[test]
fn a_kubelet_without_anything_runs_on_its_defaults() {
    let expected = KubeletSettings {
        topology_manager_policy: "none".to_owned(),
        topology_manager_scope: "container".to_owned(),
        cpu_manager_policy: "none".to_owned(),
        memory_manager_policy: "None".to_owned(),
        cgroup_driver: "cgroupfs".to_owned(),
        source: "the kubelet's defaults".to_owned(),
        ..KubeletSettings::default()
    };
    // Without a configuration file, not even memory is kept free.
    assert_eq!(read(None, &[], &[]), expected);
    let with_file = KubeletSettings {
        reserved_memory_bytes: 100 << 20,
        source: "/etc/kubelet.yaml".to_owned(),
        ..expected
    };
    assert_eq!(of_config(""), with_file);
    assert_eq!(
        of_config("topologyManagerPolicy: ''\ncpuManagerPolicy: null\nreservedMemory: null\n"),
        with_file
    );
}

#[test]
fn every_field_of_a_file() {
    let read = of_config(
        "topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\n\
         topologyManagerPolicyOptions: {max-allowable-numa-nodes: '16', prefer-closest-numa-nodes: true}\n\
         cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}\n\
         memoryManagerPolicy: Static\ncgroupDriver: systemd\n\
         kubeReserved: {cpu: 500m, memory: 1Gi, ephemeral-storage: 1Gi}\nsystemReserved: {cpu: '1.5', memory: 1e9}\n\
         evictionHard: {memory.available: 500Mi, nodefs.available: 5%}\n\
         reservedMemory:\n- numaNode: 0\n  limits: {memory: 1Gi, hugepages-1Gi: 2Gi}\n- numaNode: 1\n  limits: {memory: 1073741824}\n",
    );
    assert_eq!(read.topology_manager_policy, "single-numa-node");
    assert_eq!(read.topology_manager_scope, "pod");
    assert_eq!(read.topology_manager_options["max-allowable-numa-nodes"], "16");
    assert_eq!(read.topology_manager_options["prefer-closest-numa-nodes"], "true");
    assert_eq!(read.cpu_manager_policy, "static");
    assert_eq!(read.cpu_manager_options["full-pcpus-only"], "true");
    assert_eq!((read.memory_manager_policy.as_str(), read.cgroup_driver.as_str()), ("Static", "systemd"));
    assert_eq!((read.reserved_milli_cpus, read.reserved_cpus), (2000, None));
    assert_eq!(read.reserved_memory_bytes, GIB + 1_000_000_000 + (500 << 20));
    assert_eq!(read.reserved_memory[&0]["memory"], GIB);
    assert_eq!(read.reserved_memory[&0]["hugepages-1Gi"], 2 * GIB);
    assert_eq!(read.reserved_memory[&1]["memory"], GIB);
}

#[test]
fn json_is_read_as_yaml_is() {
    let body = r#"{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
                   "cpuManagerPolicy": "static", "reservedSystemCPUs": "0-1,8"}"#;
    let config = KubeletFile { path: "/etc/kubelet.json".to_owned(), bytes: body.into() };
    let read = of_files(&KubeletFiles { config: Some(config), ..KubeletFiles::default() }, None).unwrap();
    assert_eq!(read.cpu_manager_policy, "static");
    assert_eq!(read.reserved_cpus.unwrap().to_string(), "0-1,8");
}

#[test]
fn defaults_then_file_then_drop_ins_then_flags() {
    let file = "topologyManagerPolicy: best-effort";
    let (first, second) = ("topologyManagerPolicy: restricted", "topologyManagerPolicy: none");
    let flag = "--topology-manager-policy=single-numa-node";
    let policy =
        |config, drop_ins: &[&str], flags: &[&str]| read(config, drop_ins, flags).topology_manager_policy;
    assert_eq!(policy(Some(file), &[], &[]), "best-effort");
    assert_eq!(policy(Some(file), &[second, first], &[]), "restricted");
    assert_eq!(policy(Some(file), &[first, second], &[]), "none");
    assert_eq!(policy(None, &[first], &[]), "restricted");
    assert_eq!(policy(Some(file), &[first, second], &[flag]), "single-numa-node");
    assert_eq!(policy(None, &[], &[flag]), "single-numa-node");
    // What a drop-in takes away is the default again.
    assert_eq!(policy(Some(file), &["topologyManagerPolicy: null"], &[]), "none");
    let source = |drop_ins: &[&str], flags: &[&str]| read(Some(file), drop_ins, flags).source;
    assert_eq!(source(&[first], &[]), "/etc/kubelet.yaml and 1 drop-in");
    assert_eq!(source(&[first, second], &[flag, "--v=2"]), "/etc/kubelet.yaml, 2 drop-ins and 1 flag");
}

#[test]
fn a_drop_in_adds_to_a_map_and_a_flag_replaces_it() {
    let file = "kubeReserved: {cpu: '1', memory: 1Gi}\nevictionHard: {memory.available: 0%}";
    let cpu = "kubeReserved: {cpu: '2'}";
    let of = |drop_ins: &[&str], flags: &[&str]| {
        let read = read(Some(file), drop_ins, flags);
        (read.reserved_milli_cpus, read.reserved_memory_bytes)
    };
    assert_eq!(of(&[], &[]), (1000, GIB));
    assert_eq!(of(&[cpu], &[]), (2000, GIB));
    assert_eq!(of(&["kubeReserved: {memory: null}"], &[]), (1000, 0));
    assert_eq!(of(&["kubeReserved: null"], &[]), (0, 0));
    assert_eq!(of(&[cpu], &["--kube-reserved=memory=2Gi"]), (0, 2 * GIB));
    assert_eq!(
        of(&[], &["--kube-reserved", "memory=2Gi", "--kube_reserved=cpu=3,memory=3Gi"]),
        (3000, 3 * GIB)
    );
    assert_eq!(of(&[], &["--kube-reserved="]), (0, 0));
    // A list is replaced whole also by a drop-in.
    let lists = ["reservedMemory: [{numaNode: 1, limits: {memory: 1Gi}}]"];
    let file = "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]";
    assert_eq!(read(Some(file), &lists, &[]).reserved_memory.into_keys().collect::<Vec<_>>(), [1]);
}

#[test]
fn thresholds() {
    let kept = |config: Option<&str>, drop_ins: &[&str], flags: &[&str]| {
        read(config, drop_ins, flags).reserved_memory_bytes
    };
    let own = |value: &str| format!("evictionHard: {{{value}}}");
    for (value, expected) in [
        ("memory.available: 1Gi", GIB),
        ("memory.available: 25%", 16 * GIB),
        // As the kubelet reckons it: 0.1 is not a tenth in floating point of 32 bits.
        ("memory.available: 10%", 6_871_947_776),
        ("memory.available: 0.1%", 68_719_480),
        ("memory.available: 33.3%", 22_883_586_048),
        ("memory.available: 0%", 0),
        ("memory.available: 100%", 0),
        // Who names one threshold names them all.
        ("nodefs.available: 10%", 0),
        ("", 0),
    ] {
        assert_eq!(kept(Some(&own(value)), &[], &[]), expected, "{value}");
    }
    let filled = "evictionHard: {nodefs.available: 10%}\nmergeDefaultEvictionSettings: true";
    assert_eq!(kept(Some(filled), &[], &[]), 100 << 20);
    // The kubelet fills in its thresholds before it reads the drop-ins: they add to them, and can take them away.
    assert_eq!(kept(Some(""), &["evictionHard: {nodefs.available: 1%}"], &[]), 100 << 20);
    assert_eq!(kept(Some(""), &["evictionHard: null"], &[]), 0);
    assert_eq!(kept(None, &["cpuManagerPolicy: static"], &[]), 0);
    let flags = ["--eviction-hard=memory.available<2Gi,nodefs.available<10%"];
    assert_eq!(kept(Some(""), &[], &flags), 2 * GIB);
    assert_eq!(kept(Some(""), &[], &["--eviction-hard="]), 0);
    assert_eq!(kept(Some(""), &[], &["--experimental-allocatable-ignore-eviction"]), 0);
    assert_eq!(kept(Some(""), &[], &["--experimental-allocatable-ignore-eviction=false"]), 100 << 20);
}

#[test]
fn a_part_of_memory_needs_the_whole() {
    let files = files(Some("evictionHard: {memory.available: 5%}"), &[], &[]);
    let error = of_files(&files, None).unwrap_err();
    assert_eq!(error.reason(), "MemoryUnknown");
    assert!(chain(&error).contains("/proc/meminfo"), "{error}");
}

#[test]
fn cpus_reserved_by_number_stand_in_place_of_amounts() {
    let amounts = "kubeReserved: {cpu: '4', memory: 1Gi}\nsystemReserved: {cpu: '4'}\nevictionHard: {}\n";
    let read = of_config(&format!("{amounts}reservedSystemCPUs: 0-1,64"));
    assert_eq!((read.reserved_milli_cpus, read.reserved_memory_bytes), (3000, GIB));
    assert_eq!(read.reserved_cpus.unwrap().to_string(), "0-1,64");
    let one = of_config("reservedSystemCPUs: 0");
    assert_eq!((one.reserved_milli_cpus, one.reserved_cpus.unwrap().to_string()), (1000, "0".to_owned()));
    let none = of_config(&format!("{amounts}reservedSystemCPUs: ''"));
    assert_eq!((none.reserved_milli_cpus, none.reserved_cpus), (8000, None));
}

#[test]
fn every_flag() {
    let flags = [
        "--topology-manager-policy=restricted",
        "--topology-manager-scope",
        "pod",
        "--topology-manager-policy-options=max-allowable-numa-nodes=16,prefer-closest-numa-nodes=true",
        "--cpu-manager-policy=static",
        "--cpu-manager-policy-options=full-pcpus-only=true",
        "--cpu-manager-policy-options=distribute-cpus-across-numa=a,b",
        "--memory-manager-policy=Static",
        "--reserved-cpus=0,2",
        "--kube-reserved=cpu=200m, memory=1Gi",
        "--system-reserved=memory=1Gi,pid=1000",
        "--reserved-memory",
        "0:memory=1Gi,hugepages-1M=2Gi;1:memory=2Gi",
        "--reserved-memory=2:memory=512Mi",
        "--cgroup-driver=systemd",
        "--feature-gates=CPUManagerPolicyAlphaOptions=true",
        "--v=2",
        "-h",
    ];
    let read = read(None, &[], &flags);
    assert_eq!(read.topology_manager_policy, "restricted");
    assert_eq!(read.topology_manager_scope, "pod");
    assert_eq!(read.topology_manager_options.len(), 2);
    assert_eq!(read.cpu_manager_policy, "static");
    assert_eq!(read.cpu_manager_options["full-pcpus-only"], "true");
    // This flag takes one option at a time, commas included.
    assert_eq!(read.cpu_manager_options["distribute-cpus-across-numa"], "a,b");
    assert_eq!(read.memory_manager_policy, "Static");
    assert_eq!(read.reserved_cpus.unwrap().to_string(), "0,2");
    assert_eq!((read.reserved_milli_cpus, read.reserved_memory_bytes), (2000, 2 * GIB));
    assert_eq!(read.reserved_memory[&0]["hugepages-1M"], 2 * GIB);
    assert_eq!(read.reserved_memory[&1]["memory"], 2 * GIB);
    assert_eq!(read.reserved_memory[&2]["memory"], GIB / 2);
    assert_eq!(read.cgroup_driver, "systemd");
    assert_eq!(read.source, "the kubelet's defaults and 13 flags");
}

#[test]
fn flags_behind_the_end_of_flags_are_none() {
    assert_eq!(read(None, &[], &["--", "--cpu-manager-policy=static"]).cpu_manager_policy, "none");
    assert_eq!(read(None, &[], &["--cpu-manager-policy"]).cpu_manager_policy, "none");
}

#[test]
fn a_malformed_file_is_told_with_its_path() {
    for (bytes, word) in [
        (&b""[..], "empty"),
        (b" \n", "empty"),
        (b"\xff\xfe", "UTF-8"),
        (b"a: [1, 2\nb: }", "YAML"),
        (b"- 1\n- 2\n", "not `kubelet.config.k8s.io/v1beta1`"),
        (b"apiVersion: v1\nkind: Pod\n", "`v1 Pod`"),
        (b"topologyManagerPolicy: none\n", "not `kubelet.config.k8s.io/v1beta1`"),
        (b"apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\n", "v1beta1"),
    ] {
        let broken = KubeletFile { path: "/etc/broken.conf".to_owned(), bytes: bytes.to_vec() };
        let good = Some(file("/etc/kubelet.yaml", ""));
        for files in [
            KubeletFiles { config: Some(broken.clone()), ..KubeletFiles::default() },
            KubeletFiles { config: good, drop_ins: vec![broken], ..KubeletFiles::default() },
        ] {
            let error = of_files(&files, None).unwrap_err();
            assert_eq!(error.reason(), "MalformedFile");
            let text = chain(&error);
            assert!(text.contains("/etc/broken.conf") && text.contains(word), "{text}");
        }
    }
}

#[test]
fn a_malformed_field_is_told_with_its_value() {
    for (body, words) in [
        ("kubeReserved: {cpu: half}", "kubeReserved.cpu: `half`"),
        ("systemReserved: {memory: -1Gi}", "systemReserved.memory: `-1Gi`"),
        ("systemReserved: {memory: '1e99'}", "`1e99`"),
        ("kubeReserved: [1]", "kubeReserved: `[1]`"),
        ("kubeReserved: {cpu: [1]}", "kubeReserved.cpu: `[1]`"),
        ("reservedSystemCPUs: 0-", "reservedSystemCPUs: `0-`"),
        ("reservedSystemCPUs: [0, 1]", "reservedSystemCPUs: `[0,1]`"),
        ("evictionHard: {memory.available: lots}", "evictionHard.memory.available: `lots`"),
        ("evictionHard: {memory.available: 101%}", "`101%`"),
        ("evictionHard: {memory.available: -1%}", "`-1%`"),
        ("evictionHard: {memory.available: nan%}", "`nan%`"),
        ("topologyManagerPolicy: {a: b}", "topologyManagerPolicy: "),
        ("reservedMemory: {a: b}", "reservedMemory: "),
        ("reservedMemory: [1]", "reservedMemory: `1`"),
        ("reservedMemory: [{numaNode: zero, limits: {}}]", "reservedMemory.numaNode: `zero`"),
        ("reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]", "reservedMemory.limits: `cpu`"),
        (
            "reservedMemory: [{numaNode: 0, limits: {memory: 1}}, {numaNode: 0, limits: {memory: 1}}]",
            "reservedMemory.limits: `memory`",
        ),
    ] {
        let error = refused(Some(body), &[], &[]);
        assert_eq!(error.reason(), "MalformedField", "{body}");
        let text = chain(&error);
        assert!(text.contains(words) && text.contains("/etc/kubelet.yaml"), "{text}");
    }
}

#[test]
fn a_malformed_flag_is_told_with_its_value() {
    for (flag, words) in [
        ("--kube-reserved=cpu", "cpu=500m"),
        ("--eviction-hard=memory.available>1Gi", "memory.available<100Mi"),
        ("--reserved-memory=0", "0:memory=1Gi"),
        ("--reserved-memory=a:memory=1Gi", "0:memory=1Gi"),
        ("--reserved-memory=0:memory", "0:memory=1Gi"),
    ] {
        let error = refused(None, &[], &[flag]);
        assert_eq!(error.reason(), "MalformedFlag");
        let text = chain(&error);
        assert!(text.contains(flag) && text.contains(words), "{text}");
    }
    assert_eq!(refused(None, &[], &["--kube-reserved=cpu=half"]).reason(), "MalformedField");
}

#[test]
fn the_kubelets_own_account_is_the_merged_truth() {
    let body = br#"{"kubeletconfig": {"topologyManagerPolicy": "restricted", "topologyManagerScope": "pod",
        "evictionHard": {"memory.available": "1Gi"}, "reservedMemory": [{"numaNode": 1, "limits": {"memory": "1Gi"}}]}}"#;
    let read = of_configz(body, None, "https://127.0.0.1:10250/configz").unwrap();
    assert_eq!(
        (read.topology_manager_policy.as_str(), read.topology_manager_scope.as_str()),
        ("restricted", "pod")
    );
    assert_eq!((read.reserved_memory_bytes, read.reserved_memory[&1]["memory"]), (GIB, GIB));
    assert_eq!(read.source, "https://127.0.0.1:10250/configz");
    // Nothing is filled in: what is not in it does not hold.
    let bare = of_configz(br#"{"kubeletconfig": {}}"#, None, "there").unwrap();
    assert_eq!((bare.reserved_memory_bytes, bare.cpu_manager_policy.as_str()), (0, "none"));
    for body in ["", "[]", "{}", "<html>", r#"{"kubeletconfig": []}"#] {
        assert_eq!(of_configz(body.as_bytes(), None, "there").unwrap_err().reason(), "Garbled", "{body}");
    }
}

#[tokio::test]
async fn without_the_kubelets_account_the_files_have_the_last_word() {
    let good = files(Some("cpuManagerPolicy: static"), &[], &[]);
    assert_eq!(settings(Ok(&good), None, None).await.unwrap().cpu_manager_policy, "static");
    let broken = files(Some("kubeReserved: {cpu: half}"), &[], &[]);
    let error = settings(Ok(&broken), None, None).await.unwrap_err();
    assert_eq!(error.reason(), "SettingsUnknown");
    assert!(error.to_string().contains("kubeReserved.cpu"), "{error}");
    let error = settings(Err("no kubelet runs here"), None, None).await.unwrap_err();
    assert!(
        error.to_string().contains("no kubelet runs here") && error.to_string().contains("nodes/configz"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn no_file_makes_it_fail(
        body in "(kubeReserved|evictionHard|reservedMemory|reservedSystemCPUs|topologyManagerPolicy): [\\[\\]{}a-z0-9:%. ,-]{0,30}",
        drop_in in "[a-zA-Z: {}\\[\\]\n&*!|>-]{0,30}",
    ) {
        let _ = of_files(&files(Some(&body), &[&drop_in], &[]), Some(GIB));
        let _ = of_configz(body.as_bytes(), None, "there");
    }

    #[test]
    fn no_command_line_makes_it_fail(
        flags in proptest::collection::vec(
            "(--(kube-reserved|reserved-memory|reserved-cpus|eviction-hard|cpu-manager-policy-options))?=?[0-9a-zA-Z=,:;<%-]{0,16}",
            0..6,
        ),
    ) {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let _ = of_files(&files(None, &[], &flags), Some(GIB));
    }
}
