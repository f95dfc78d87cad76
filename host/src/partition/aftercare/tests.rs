use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use nix::sys::stat::makedev;
use proptest::prelude::*;

use super::specification::Specification;
use super::*;
use crate::partition::made_up::{MadeUp, is_root};

const LONG: Duration = Duration::from_secs(60);
const GPU: [&str; 2] =
    ["GPU-8f6d2c3a-0000-1111-2222-333344445555", "GPU-9a7e3d4b-0000-1111-2222-333344445555"];
const MIG: [&str; 2] =
    ["MIG-11111111-0000-1111-2222-333344445555", "MIG-22222222-0000-1111-2222-333344445555"];
const GONE: &str = "MIG-99999999-0000-1111-2222-333344445555";

/// The first GPU with two MIG devices in GPU instances 1 and 2, the second one whole.
fn expected() -> Vec<ExpectedGpu> {
    let mig = |(uuid, instance): (&&str, u32)| ExpectedMig {
        uuid: Some((*uuid).to_owned()),
        instance: GpuInstanceId(instance),
        compute: ComputeInstanceId(0),
    };
    let mig = Some(MIG.iter().zip(1..).map(mig).collect());
    vec![
        ExpectedGpu { gpu: GPU[0].parse().unwrap(), minor: 0, mig },
        ExpectedGpu { gpu: GPU[1].parse().unwrap(), minor: 1, mig: None },
    ]
}

fn capability(tree: &MadeUp, path: &str, minor: u32, more: &str) {
    let text = format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\n{more}");
    tree.file(&format!("proc/driver/nvidia/capabilities/{path}"), &text);
}

/// The driver's side of what is expected: instance N has the numbers N0 and N1; the one of 90 and 91 is gone.
fn driver() -> MadeUp {
    let tree = MadeUp::new();
    tree.file(
        "proc/devices",
        "Character devices:\n195 nvidia\n237 nvidia-caps\n\nBlock devices:\n259 blkext\n",
    );
    let minors = "config 1\nmonitor 2\ngpu0/gi1/access 10\ngpu0/gi1/ci0/access 11\ngpu0/gi2/access 20\n\
                  gpu0/gi2/ci0/access 21\ngpu0/gi9/access 90\ngpu0/gi9/ci0/access 91\n";
    tree.file("proc/driver/nvidia-caps/mig-minors", minors);
    capability(&tree, "mig/config", 1, "DeviceFileModify: 1\n");
    capability(&tree, "mig/monitor", 2, "DeviceFileModify: 1\n");
    for gi in [1, 2] {
        capability(&tree, &format!("gpu0/mig/gi{gi}/access"), gi * 10, "DeviceFileModify: 1\n");
        capability(&tree, &format!("gpu0/mig/gi{gi}/ci0/access"), gi * 10 + 1, "DeviceFileModify: 1\n");
    }
    tree
}

/// A tree in which plain files stand for devices, all of them there.
fn node() -> MadeUp {
    let tree = driver();
    for minor in [1, 2, 10, 11, 20, 21] {
        tree.file(&format!("dev/nvidia-caps/nvidia-cap{minor}"), "");
    }
    tree
}

fn told(tree: &MadeUp) -> Aftercare {
    care(&tree.root(), &expected(), LONG)
}

fn words(aftercare: &Aftercare) -> String {
    aftercare.findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn without_driver_and_specification_there_is_nothing_to_do() {
    let aftercare = care(&MadeUp::new().root(), &[], LONG);
    assert!(aftercare.wrong().is_none() && !aftercare.has_mended(), "{aftercare:?}");
    assert!(words(&aftercare).contains("no CDI specification of NVIDIA's devices, so none is made"));
}

#[test]
fn an_instance_without_capability_is_told() {
    let tree = node();
    fs::remove_dir_all(tree.at("proc/driver/nvidia/capabilities/gpu0/mig/gi2/ci0")).unwrap();
    let (reason, message) =
        told(&tree).wrong().map(|(reason, message)| (reason, message.to_owned())).unwrap();
    assert_eq!(reason, "CapabilityMissing");
    assert!(message.contains("compute instance 0 of GPU instance 2 of /dev/nvidia0"), "{message}");
}

#[test]
fn device_files_are_made_and_removed_as_the_driver_tells() {
    if !is_root() {
        return;
    }
    let tree = driver();
    tree.device("dev/null", 1, 3).directory("dev/char");
    // One is right, one has the number of before the driver was loaded anew, one is gone, one is another part's.
    tree.device("dev/nvidia-caps/nvidia-cap1", 237, 1).device("dev/nvidia-caps/nvidia-cap10", 238, 10);
    tree.device("dev/nvidia-caps/nvidia-cap90", 237, 90).device("dev/nvidia-caps/nvidia-cap500", 237, 500);
    tree.link("dev/char/237:90", "../nvidia-caps/nvidia-cap90");
    let aftercare = told(&tree);
    assert!(aftercare.wrong().is_none(), "{aftercare:?}");
    let text = words(&aftercare);
    // The first one's rights and link were wrong.
    assert!(text.contains("of all 6 capabilities: made 2, 11, 20, 21; mended 1, 10; removed 90"), "{text}");
    for minor in [1, 2, 10, 11, 20, 21] {
        let file = fs::symlink_metadata(tree.at(&format!("dev/nvidia-caps/nvidia-cap{minor}"))).unwrap();
        assert!(file.file_type().is_char_device() && file.rdev() == makedev(237, minor), "{minor}");
        assert_eq!((file.mode() & 0o777, file.uid(), file.gid()), (0o444, 0, 0), "{minor}");
        let link = fs::read_link(tree.at(&format!("dev/char/237:{minor}"))).unwrap();
        assert_eq!(link, PathBuf::from(format!("../nvidia-caps/nvidia-cap{minor}")));
    }
    let names: Vec<_> = fs::read_dir(tree.at("dev/nvidia-caps")).unwrap().collect();
    assert_eq!(names.len(), 7, "{names:?}");
    assert!(tree.at("dev/nvidia-caps/nvidia-cap500").symlink_metadata().is_ok(), "it is another part's");
    assert!(tree.at("dev/char/237:90").symlink_metadata().is_err());
    let again = told(&tree);
    assert!(!again.has_mended() && again.wrong().is_none(), "{again:?}");
}

#[test]
fn a_file_that_only_the_administrator_makes_is_his() {
    if !is_root() {
        return;
    }
    let tree = driver();
    tree.device("dev/null", 1, 3);
    capability(&tree, "gpu0/mig/gi1/access", 10, "DeviceFileModify: 0\n");
    let aftercare = told(&tree);
    let (reason, message) = aftercare.wrong().unwrap();
    assert_eq!(reason, "DeviceFileMissing");
    assert!(message.contains("mknod -m 444 /dev/nvidia-caps/nvidia-cap10 c 237 10"), "{message}");
    assert!(!tree.at("dev/nvidia-caps/nvidia-cap10").exists());
    assert!(tree.at("dev/nvidia-caps/nvidia-cap11").exists(), "the others are made");
}

#[test]
fn a_link_in_place_of_a_device_is_replaced_and_leads_nowhere() {
    if !is_root() {
        return;
    }
    let tree = driver();
    let victim = tree.outside().join("victim");
    fs::write(&victim, "precious").unwrap();
    tree.device("dev/null", 1, 3).link("dev/nvidia-caps/nvidia-cap10", &victim);
    assert!(told(&tree).wrong().is_none());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(
        fs::symlink_metadata(tree.at("dev/nvidia-caps/nvidia-cap10")).unwrap().file_type().is_char_device()
    );
    // The directory itself leads out: it is not there for the node.
    fs::remove_dir_all(tree.at("dev/nvidia-caps")).unwrap();
    tree.link("dev/nvidia-caps", tree.outside());
    assert_eq!(told(&tree).wrong().unwrap().0, "DevicesUnavailable");
    assert_eq!(fs::read_dir(tree.outside()).unwrap().count(), 1);
}

#[test]
fn a_driver_container_has_device_files_of_its_own() {
    let tree = node();
    tree.file("run/nvidia/driver/dev/nvidiactl", "");
    let aftercare = told(&tree);
    let text = words(&aftercare);
    assert!(aftercare.wrong().is_none() && aftercare.has_mended(), "{text}");
    assert!(text.contains("/dev/nvidia-caps has the device files of all 6 capabilities\n"), "{text}");
    assert!(
        text.contains("/run/nvidia/driver/dev/nvidia-caps has the device files of all 6 capabilities: made"),
        "{text}"
    );
    assert!(tree.at("run/nvidia/driver/dev/nvidia-caps/nvidia-cap21").is_file());
}

#[test]
fn a_root_without_devices_is_told() {
    let tree = driver();
    let aftercare = told(&tree);
    let (reason, message) = aftercare.wrong().unwrap();
    assert_eq!(reason, "DevicesUnavailable");
    assert!(message.contains("/dev mounted below its root"), "{message}");
    tree.directory("dev").file("proc/devices", "Character devices:\n195 nvidia\n\n");
    assert_eq!(told(&tree).wrong().unwrap().0, "DeviceNumberUnknown");
}

/// A device in a specification.
fn device(name: &str, minor: u32, capabilities: &[u32]) -> String {
    let capabilities = capabilities.iter().map(|minor| format!("/dev/nvidia-caps/nvidia-cap{minor}"));
    let paths = [format!("/dev/nvidia{minor}")].into_iter().chain(capabilities);
    let nodes: String = paths.map(|path| format!("    - path: {path}\n")).collect();
    format!("- name: \"{name}\"\n  containerEdits:\n    deviceNodes:\n{nodes}")
}

fn specification(kind: &str, devices: &[String], edits: &str) -> String {
    format!(
        "---\ncdiVersion: 0.5.0\nkind: {kind}\ndevices:\n{}containerEdits:\n  env: [NVIDIA_VISIBLE_DEVICES=void]\n{edits}",
        devices.concat()
    )
}

fn by_uuid() -> [String; 3] {
    [device(MIG[0], 0, &[10, 11]), device(MIG[1], 0, &[20, 21]), device(GPU[1], 1, &[])]
}

fn current(kind: &str) -> String {
    specification(kind, &by_uuid(), "")
}

fn before(kind: &str) -> String {
    specification(
        kind,
        &[device(GONE, 0, &[90, 91]), device(MIG[0], 0, &[10, 11]), device("all", 0, &[90])],
        "",
    )
}

/// A toolkit that makes what lies at `made`, and writes down how it was called.
fn toolkit(tree: &MadeUp) -> String {
    let (made, calls) = (tree.at("made"), tree.at("calls"));
    format!(
        "echo \"$@\" >> {}\nfor word; do case $word in --output=*) output=${{word#--output=}};; esac; done\ncp {} \"$output\"",
        calls.display(),
        made.display()
    )
}

#[test]
fn one_that_agrees_is_left_alone() {
    for devices in [
        by_uuid().to_vec(),
        vec![device("0:0", 0, &[10, 11]), device("0:1", 0, &[20, 21]), device("1", 1, &[])],
        [by_uuid().to_vec(), vec![device("0:0", 0, &[10, 11]), device("all", 0, &[10, 11, 20, 21])]].concat(),
    ] {
        let tree = node();
        let text = specification("nvidia.com/gpu", &devices, "");
        tree.file("etc/cdi/nvidia.yaml", &text).file("etc/cdi/other.yaml", "kind: example.com/net\n");
        tree.program("usr/bin/nvidia-ctk", &toolkit(&tree));
        let aftercare = told(&tree);
        assert!(aftercare.wrong().is_none() && !aftercare.has_mended(), "{aftercare:?}");
        assert!(
            words(&aftercare).ends_with("/etc/cdi/nvidia.yaml agrees with what there is"),
            "{aftercare:?}"
        );
        assert!(!tree.at("calls").exists(), "nothing is run");
        assert_eq!(tree.text("etc/cdi/nvidia.yaml"), text);
    }
}

#[test]
fn one_that_is_old_is_made_anew_as_it_was_and_looked_at() {
    let tree = node();
    tree.file("etc/cdi/nvidia.yaml", &before("nvidia.com/gpu")).file("made", &current("nvidia.com/gpu"));
    tree.program("usr/bin/nvidia-ctk", &toolkit(&tree));
    let aftercare = told(&tree);
    assert!(aftercare.wrong().is_none() && aftercare.has_mended(), "{aftercare:?}");
    assert_eq!(tree.text("etc/cdi/nvidia.yaml"), current("nvidia.com/gpu"));
    let names: Vec<_> =
        fs::read_dir(tree.at("etc/cdi")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["nvidia.yaml"], "nothing else is left");
    let calls = tree.text("calls");
    assert!(calls.starts_with("cdi generate --output="), "{calls}");
    assert!(
        calls.ends_with("/nvidia.yaml --vendor=nvidia.com --class=gpu --device-name-strategy=uuid\n"),
        "{calls}"
    );
}

#[test]
fn what_is_stale_is_told_exactly_where_nobody_makes_it_anew() {
    let tree = node();
    tree.file("etc/cdi/nvidia.yaml", &before("nvidia.com/gpu"));
    let aftercare = told(&tree);
    let (reason, message) = aftercare.wrong().unwrap();
    assert_eq!(reason, "CdiStale");
    for part in [
        "/etc/cdi/nvidia.yaml has nvidia-cap90, which is gone; has nvidia-cap91, which is gone",
        &format!("names {GONE}, which is gone"),
        &format!("does not name {}", MIG[1]),
        &format!("does not name {}", GPU[1]),
        "there is no program nvidia-ctk",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(tree.text("etc/cdi/nvidia.yaml"), before("nvidia.com/gpu"), "it is as it was");
}

#[test]
fn a_toolkit_that_fails_or_makes_an_old_one_replaces_nothing() {
    let old = before("nvidia.com/gpu");
    for (does, made, problem) in [
        ("echo 'failed to initialize NVML' >&2; exit 1".to_owned(), "", "failed to initialize NVML"),
        ("exit 0".to_owned(), "", "No such file"),
        (String::new(), old.as_str(), "what nvidia-ctk makes has nvidia-cap90, which is gone"),
        (String::new(), "half a", "cannot be understood"),
        (String::new(), "kind: example.com/net\n", "about other devices"),
    ] {
        let tree = node();
        tree.file("etc/cdi/nvidia.yaml", &old).file("made", made);
        let does = if does.is_empty() { toolkit(&tree) } else { does };
        tree.program("usr/bin/nvidia-ctk", &does);
        let aftercare = told(&tree);
        let (reason, message) = aftercare.wrong().unwrap();
        assert_eq!(reason, "CdiStale");
        assert!(message.contains(problem), "{problem}: {message}");
        assert_eq!(tree.text("etc/cdi/nvidia.yaml"), old);
        assert_eq!(fs::read_dir(tree.at("etc/cdi")).unwrap().count(), 1, "nothing is left beside it");
    }
}

#[test]
fn a_toolkit_that_hangs_costs_the_deadline() {
    let tree = node();
    tree.file("etc/cdi/nvidia.yaml", &before("nvidia.com/gpu"));
    tree.program("usr/bin/nvidia-ctk", "exec sleep 1000");
    let aftercare = care(&tree.root(), &expected(), Duration::from_millis(300));
    assert!(aftercare.wrong().unwrap().1.contains("did not end within"), "{aftercare:?}");
}

#[test]
fn the_toolkits_service_makes_the_file_that_is_its_own() {
    let tree = node();
    tree.file("run/cdi/nvidia.yaml", &before("nvidia.com/gpu")).link("var/run", "/run");
    tree.file("made", &current("nvidia.com/gpu"))
        .file("usr/lib/systemd/system/nvidia-cdi-refresh.service", "[Unit]\n");
    let (made, own) = (tree.at("made"), tree.at("run/cdi/nvidia.yaml"));
    tree.program(
        "usr/bin/systemctl",
        &format!("echo \"$@\" >> {}; cp {} {}", tree.at("calls").display(), made.display(), own.display()),
    );
    tree.program("usr/bin/nvidia-ctk", "exit 1");
    let aftercare = told(&tree);
    assert!(aftercare.wrong().is_none() && aftercare.has_mended(), "{aftercare:?}");
    assert_eq!(tree.text("calls"), "restart nvidia-cdi-refresh.service\n");
    let text = words(&aftercare);
    assert!(text.contains("/var/run/cdi/nvidia.yaml: made anew by nvidia-cdi-refresh.service"), "{text}");
    assert_eq!(text.matches("cdi/nvidia.yaml").count(), 1, "/run and /var/run are one directory: {text}");
    // It is told to write elsewhere, so this file is none of its own.
    tree.file(
        "etc/nvidia-container-toolkit/cdi-refresh.env",
        "# x\nNVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/etc/cdi/x.yaml\n",
    );
    tree.file("run/cdi/nvidia.yaml", &before("nvidia.com/gpu"));
    assert!(told(&tree).wrong().unwrap().1.contains("/usr/bin/nvidia-ctk"));
}

#[test]
fn a_service_that_has_no_effect_is_told() {
    let tree = node();
    tree.file("var/run/cdi/nvidia.yaml", &before("nvidia.com/gpu"));
    tree.file("etc/systemd/system/nvidia-cdi-refresh.service", "[Unit]\n")
        .program("usr/bin/systemctl", "exit 0");
    let aftercare = told(&tree);
    let (reason, message) = aftercare.wrong().unwrap();
    assert_eq!(reason, "CdiStale");
    assert!(
        message.contains("nvidia-cdi-refresh.service made it anew, and it still has nvidia-cap90"),
        "{message}"
    );
}

#[test]
fn what_others_write_is_theirs_to_write_anew() {
    let tree = node();
    tree.file(
        "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json",
        "{\"kind\": \"k8s.device-plugin.nvidia.com/gpu\", \"devices\": []}",
    );
    tree.file("var/run/cdi/k8s.gpu.nvidia.com.yaml", &before("k8s.gpu.nvidia.com/claim"));
    tree.program("usr/bin/nvidia-ctk", &toolkit(&tree));
    let aftercare = told(&tree);
    assert!(aftercare.wrong().is_none() && !aftercare.has_mended(), "{aftercare:?}");
    let others = aftercare.findings.iter().filter(|finding| matches!(finding, Finding::Others(_))).count();
    assert_eq!(others, 2, "{aftercare:?}");
    let text = words(&aftercare);
    assert!(
        text.contains(&format!("does not name {}", MIG[0])) && text.contains("when its Pod is started again"),
        "{text}"
    );
    assert!(!tree.at("calls").exists());
}

#[test]
fn managers_of_gpus_get_all_device_files() {
    let tree = node();
    let whole = |capabilities: &[u32]| {
        specification("management.nvidia.com/gpu", &[device("all", 0, capabilities)], "")
    };
    tree.file("var/run/cdi/management.nvidia.com-gpu.yaml", &whole(&[1, 2, 10, 11, 90]));
    tree.file("made", &whole(&[1, 2, 10, 11, 20, 21]))
        .program("usr/local/nvidia/toolkit/nvidia-ctk", &toolkit(&tree));
    let aftercare = told(&tree);
    assert!(aftercare.wrong().is_none() && aftercare.has_mended(), "{aftercare:?}");
    let calls = tree.text("calls");
    assert!(calls.ends_with("--vendor=management.nvidia.com --class=gpu --mode=management\n"), "{calls}");
}

#[test]
fn some_devices_have_a_file_of_their_own_that_is_made_with_that_of_all() {
    let tree = node();
    tree.file("etc/cdi/nvidia.yaml", &before("nvidia.com/gpu")).file("made", &current("nvidia.com/gpu"));
    tree.file("etc/cdi/nvidia.coherent.yaml", &before("nvidia.com/gpu.coherent"));
    tree.file("part", &specification("nvidia.com/gpu.coherent", &by_uuid()[..1], ""));
    let part = format!("\ncp {} \"${{output%.yaml}}.coherent.yaml\"", tree.at("part").display());
    tree.program("usr/bin/nvidia-ctk", &(toolkit(&tree) + &part));
    let aftercare = told(&tree);
    assert!(aftercare.wrong().is_none(), "{aftercare:?}");
    assert_eq!(tree.text("etc/cdi/nvidia.coherent.yaml"), tree.text("part"));
    assert_eq!(tree.text("calls").lines().count(), 1, "once makes both");
}

#[test]
fn it_is_made_with_the_roots_and_the_hook_that_it_had() {
    let old = "kind: nvidia.com/gpu\ndevices:\n\
        - name: \"0\"\n  containerEdits:\n    deviceNodes:\n    - {path: /dev/nvidia0, hostPath: /run/nvidia/driver/dev/nvidia0}\n\
        - name: gpu0\n- name: GPU-8f6d2c3a-0000-1111-2222-333344445555\n\
        containerEdits:\n  hooks:\n  - {hookName: createContainer, path: /usr/local/nvidia/toolkit/nvidia-cdi-hook}\n\
        \x20 mounts:\n  - {hostPath: /run/nvidia/driver/usr/lib/libcuda.so.1, containerPath: /usr/lib/libcuda.so.1}\n";
    let options = Specification::parse(old).unwrap().options();
    let expected = [
        "--vendor=nvidia.com",
        "--class=gpu",
        "--device-name-strategy=index",
        "--device-name-strategy=type-index",
        "--device-name-strategy=uuid",
        "--driver-root=/run/nvidia/driver",
        "--nvidia-ctk-path=/usr/local/nvidia/toolkit/nvidia-cdi-hook",
    ];
    assert_eq!(options, expected);
    let on_the_host = old.replace(", hostPath: /run/nvidia/driver/dev/nvidia0", "");
    assert!(Specification::parse(&on_the_host).unwrap().options().contains(&"--dev-root=/".to_owned()));
}

#[test]
fn numbers_of_before_the_driver_was_loaded_anew_are_old() {
    let tree = node();
    let text = current("nvidia.com/gpu")
        .replace("nvidia-cap10\n", "nvidia-cap10\n      major: 238\n      minor: 10\n");
    tree.file("etc/cdi/nvidia.yaml", &text);
    let aftercare = told(&tree);
    assert!(
        aftercare.wrong().unwrap().1.contains("nvidia-caps has the number 238, which is 237 now"),
        "{aftercare:?}"
    );
}

#[test]
fn a_uuid_with_the_files_of_another_instance_is_wrong() {
    let tree = node();
    let devices = [device(MIG[0], 0, &[20, 21]), device(MIG[1], 0, &[20, 21]), device(GPU[1], 1, &[])];
    tree.file("etc/cdi/nvidia.yaml", &specification("nvidia.com/gpu", &devices, ""));
    let aftercare = told(&tree);
    let without = format!("names {} without nvidia-cap10 and nvidia-cap11", MIG[0]);
    assert!(aftercare.wrong().unwrap().1.contains(&without), "{aftercare:?}");
}

#[test]
fn one_that_cannot_be_understood_is_told_if_it_is_about_nvidia() {
    let tree = node();
    tree.file("etc/cdi/nvidia.yaml", "kind: [").file("etc/cdi/other.yaml", "kind: [");
    let aftercare = told(&tree);
    let (reason, message) = aftercare.wrong().unwrap();
    assert_eq!(reason, "CdiUnreadable");
    assert!(message.starts_with("/etc/cdi/nvidia.yaml cannot be understood"), "{message}");
}

#[test]
fn a_directory_that_leads_out_of_the_root_is_none() {
    let tree = node();
    fs::write(tree.outside().join("nvidia.yaml"), before("nvidia.com/gpu")).unwrap();
    tree.link("etc/cdi", tree.outside()).link("run/cdi/nvidia.yaml", tree.outside().join("nvidia.yaml"));
    tree.file("made", &current("nvidia.com/gpu")).program("usr/bin/nvidia-ctk", &toolkit(&tree));
    let aftercare = told(&tree);
    assert!(words(&aftercare).contains("so none is made"), "{aftercare:?}");
    assert!(!tree.at("calls").exists());
}

proptest! {
    #[test]
    fn any_specification_is_understood_or_told(
        text in "(kind: ?(management\\.)?nvidia.com/gpu(\\.x)?\n)?(devices:\n)?(- name: ?\"?[-:0-9A-Za-z]{0,8}\"?\n(  containerEdits:\n    deviceNodes:\n    - path: [/a-z0-9-]{0,30}\n)?){0,3}|.{0,60}",
    ) {
        let tree = driver();
        let capabilities = capabilities::read(&Reader::new(&tree.root()));
        if let Ok(specification) = Specification::parse(&text) {
            let _ = (specification.differences(&expected(), &capabilities), specification.options());
        }
    }
}
