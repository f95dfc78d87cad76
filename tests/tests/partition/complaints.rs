//! What people have complained of in public about today's tools, each with the test that shows what gpulet does instead.
//!
//! | nr | complaint | shown by |
//! |---|---|---|
//! | 1 | a client that never stops leaves the node `pending` and its clients paused | `partition_api` |
//! | 2 | a running instance that is wanted too is "in use by another client" | [`what_runs_and_is_wanted_stays`] |
//! | 3 | a change of one GPU takes the instances of another | [`one_gpus_mode_costs_no_other_gpu`], `untouched` |
//! | 4 | GPUs of one node in different modes, or of different models, get each other's profile numbers | [`gpus_of_different_models_and_modes`] |
//! | 5, 6, 7 | a name that another driver or board rounds otherwise is unknown | [`names_that_are_rounded_otherwise`] |
//! | 8 | `success`, and no MIG devices | [`success_is_what_was_read_again`] |
//! | 9 | only `failed`, and Pods that were running | [`why_not_is_said`] |
//! | 10 | `nvidia_drm` prevents the reset, after everything was destroyed | [`nvidia_drm_is_named_before_anything_is_destroyed`] |
//! | 11 | persistence mode and nvidia-persistenced prevent the reset | [`persistence_mode_is_turned_off_and_on_again`] |
//! | 12 | the kubelet is stopped | [`the_kubelet_goes_on`] |
//! | 13 | MIG mode is pending in a virtual machine, and called a success | [`a_virtual_machine_has_to_be_started_anew`] |
//! | 14 | clients are restarted though nothing changes | [`counts_of_zero_and_gpus_that_no_entry_names_are_no_difference`] |
//! | 15 | resources that are gone stay in the node's status | `partition_node`, `partition_api` |
//! | 16 | the device plugin does not see new instances | `partition_api`, `partition_node` |
//! | 17 | capability files and the CDI specification are stale | [`capability_files_are_made_and_removed`], [`the_cdi_specification_names_the_instances_that_there_are`] |
//! | 18 | exit code 0, and nothing was created | [`an_unknown_profile_is_refused`] |
//! | 19 | the compute instance of a 7g is of the wrong kind | [`the_compute_instance_is_the_plain_one`] |
//! | 20 | enough slices are free, and none of them together | [`what_is_scattered_is_moved_together`], `traps` |
//! | 21 | a GPU instance without compute instance is in the way | [`instances_without_compute_instances`] |
//! | 22 | MIG mode without an instance breaks others | [`mig_mode_without_an_instance_is_told`] |
//! | 23 | instances that were made by hand are wiped by a default | `untouched` |
//! | 24 | a failed change of mode is swallowed | `faults` |
//! | 25 | a new GPU is missing in a table of models | `round_trips` |
//! | 26 | a file that was edited is not applied | [`an_edited_file_is_applied`] |
//! | 27 | profiles with a suffix are mistaken for others | [`suffixes_are_part_of_a_profile`] |
//! | 28 | whether a reset is needed is inverted between generations | [`a_reset_only_where_the_driver_needs_one`] |

use std::process::Command;

use gpulet_tests::{Gpu, Moment, Site, wait_until};

const H100: &str = "h100-sxm-80gb";
const A100: &str = "a100-sxm4-40gb";
const A30: &str = "a30";
const RTX: &str = "rtx-pro-6000-server";

fn on(profiles: &str) -> String {
    format!("{{devices: all, mig-enabled: true, mig-devices: {{{profiles}}}}}")
}

/// 2
#[test]
fn what_runs_and_is_wanted_stays() {
    let site = Site::of(&[Gpu::divided(A100, &[("1g.5gb", 0), ("3g.20gb", 4)])]);
    site.hold(0, 0, 900);
    let before = site.gpu(0);
    site.layouts(&[("small", &[&on("1g.5gb: 2, 2g.10gb: 1")])]);
    site.apply("small").expect(0);
    let after = site.gpu(0);
    assert_eq!(after.at(0), before.at(0), "it runs on");
    assert_eq!(after.profiles(), ["1g.5gb", "1g.5gb", "2g.10gb"]);
    let holders = site.node().state()["gpus"][0]["processes"].clone();
    assert_eq!(holders[0]["pid"], 900);
}

/// 3
#[test]
fn one_gpus_mode_costs_no_other_gpu() {
    let site = Site::of(&[Gpu::divided(A100, &[("3g.20gb", 0), ("3g.20gb", 4)]), Gpu::whole(A100)]);
    site.hold(0, 4, 901);
    let before = site.gpu(0);
    site.layouts(&[("thirds", &[&on("3g.20gb: 2")])]);
    site.apply("thirds").expect(0);
    assert_eq!((site.changes(0), site.resets(0)), (0, 0));
    assert_eq!(site.gpu(0), before);
    assert_eq!(site.gpu(1).layout(), ["3g.20gb@0", "3g.20gb@4"]);
    assert_eq!(site.resets(1), 1, "this one alone was reset");
}

/// 4
#[test]
fn gpus_of_different_models_and_modes() {
    let site =
        Site::of(&[Gpu::whole(A30), Gpu::empty(A30), Gpu::divided(A100, &[("1g.5gb", 6)]), Gpu::whole(H100)]);
    site.layouts(&[(
        "mixed",
        &[
            "{device-filter: '0x20B710DE', devices: all, mig-enabled: true, mig-devices: {2g.12gb: 1, 1g.6gb: 2}}",
            "{device-filter: ['0x20B010DE'], devices: all, mig-enabled: true, mig-devices: {2g.10gb: 3}}",
            "{device-filter: '0x233010DE', devices: [3], mig-enabled: true, mig-devices: {1g.20gb: 4}}",
        ],
    )]);
    site.apply("mixed").expect(0);
    let profiles: Vec<Vec<String>> = site.gpus().iter().map(|gpu| gpu.profiles()).collect();
    for a30 in &profiles[..2] {
        assert_eq!(*a30, ["1g.6gb", "1g.6gb", "2g.12gb"]);
    }
    assert_eq!(profiles[2], ["2g.10gb"; 3]);
    assert_eq!(profiles[3], ["1g.20gb"; 4]);
}

/// 5, 6, 7
#[test]
fn names_that_are_rounded_otherwise() {
    for (board, asked, meant) in [
        ("gb200", "1g.24gb", "1g.23gb"),
        ("gb200", "4g.95gb", "4g.93gb"),
        ("gb200", "7g.189gb", "7g.186gb"),
        (H100, "3g.39gb", "3g.40gb"),
        (H100, "7g.79gb", "7g.80gb"),
        (A100, "7g.39gb", "7g.40gb"),
        (H100, "1c.3g.39gb", "3g.40gb [1c.3g.40gb@0]"),
    ] {
        let site = Site::of(&[Gpu::empty(board)]);
        site.layouts(&[("asked", &[&on(&format!("{asked}: 1"))])]);
        let ran = site.apply("asked").expect(0);
        assert_eq!(site.gpu(0).profiles(), [meant], "{ran}");
        // What is taken for what is said.
        ran.says(&[asked.trim_start_matches("1c."), meant.split(' ').next().unwrap()]);
        site.plan("asked").expect(0);
    }
    // What could be one or the other, or is too far off, is refused.
    let site = Site::of(&[Gpu::empty(A100)]);
    for asked in ["1g.7gb", "3g.30gb", "5g.20gb"] {
        site.layouts(&[("asked", &[&on(&format!("{asked}: 1"))])]);
        site.apply("asked").expect(3).says(&[asked]);
    }
    assert_eq!(site.changes(0), 0);
}

/// 8
#[test]
fn success_is_what_was_read_again() {
    // The profile is one of the model with twice the memory.
    let site = Site::of(&[Gpu::whole(A100)]);
    site.layouts(&[("all-1g.20gb", &[&on("1g.20gb: 4")]), ("all-7g", &[&on("7g.40gb: 1")])]);
    site.apply("all-1g.20gb").expect(3).says(&["1g.20gb", "1g.10gb"]);
    assert!(!site.gpu(0).mode);
    // The mode is pending, for a monitor has the GPU open.
    let monitor = site.observe(0);
    let ran = site.apply("all-7g");
    assert_ne!(ran.code, Some(0), "{ran}");
    ran.says(&[&monitor.to_string()]);
    assert!(!site.gpu(0).mode && site.gpu(0).is_settled());
}

/// 9
#[test]
fn why_not_is_said() {
    let site = Site::of(&[Gpu::divided(H100, &[("3g.40gb", 4)])]);
    site.layouts(&[("seven", &[&on("7g.80gb: 1")])]);
    site.apply("absent").expect(64).says(&["absent", "seven"]);
    site.hold(0, 4, 902);
    // Which instance, where, and who uses it.
    let ran = site.apply("seven").expect(4).says(&[&site.uuid(0), "3g.40gb", "4:4", "902", "python3"]);
    assert_eq!(site.changes(0), 0, "{ran}");
}

/// 10
#[test]
fn nvidia_drm_is_named_before_anything_is_destroyed() {
    let site = Site::of(&[Gpu::divided(A100, &[("3g.20gb", 0), ("3g.20gb", 4)])]);
    site.layouts(&[("off", &["{devices: all, mig-enabled: false}"])]);
    site.modeset(true);
    let before = site.gpu(0);
    site.apply("off").expect(4).says(&["nvidia_drm"]);
    assert_eq!((site.changes(0), site.gpu(0)), (0, before));
    site.modeset(false);
    site.apply("off").expect(0);
    assert!(!site.gpu(0).mode);
}

/// 11
#[test]
fn persistence_mode_is_turned_off_and_on_again() {
    let site = Site::of(&[Gpu::whole(A100), Gpu::whole(A100)]);
    site.layouts(&[("seven", &[&on("7g.40gb: 1")])]);
    site.set_persistence(0, true);
    site.set_persistence(1, false);
    site.apply("seven").expect(0);
    assert_eq!([site.persistence(0), site.persistence(1)], [true, false]);
    assert_eq!(site.gpu(0).layout(), ["7g.40gb@0"]);

    // Also where it comes to nothing, and where it is killed on the way.
    let site = Site::of(&[Gpu::whole(A100)]);
    site.layouts(&[("seven", &[&on("7g.40gb: 1")])]);
    site.set_persistence(0, true);
    site.node().sim(&["fault", "call", "--symbol", "nvmlDeviceSetMigMode", "--return", "UNKNOWN"]);
    site.apply("seven").expect(1);
    assert!(site.persistence(0), "it is on again though the change failed");
    site.clear_faults();
    let before = site.changes(0);
    site.apply("seven").expect(0);
    let steps = site.changes(0) - before;
    for step in 1..=steps {
        let site = Site::of(&[Gpu::whole(A100)]);
        site.layouts(&[("seven", &[&on("7g.40gb: 1")])]);
        site.set_persistence(0, true);
        site.stop_at(0, Moment::After(step));
        let change = site.start_apply("seven");
        wait_until("it comes to the step", || site.is_stopped().then_some(()));
        change.kill();
        site.clear_faults();
        site.apply("seven").expect(0);
        assert!(site.persistence(0), "killed after step {step}");
    }
}

/// 12: neither it nor anything else is stopped that does not hold the GPU.
#[test]
fn the_kubelet_goes_on() {
    let site = Site::of(&[Gpu::divided(H100, &[("3g.40gb", 0)])]);
    site.layouts(&[("seven", &[&on("7g.80gb: 1")])]);
    let asked = site.record_systemctl();
    site.apply("seven").expect(0);
    let asked = std::fs::read_to_string(asked).unwrap_or_default();
    assert!(!asked.contains("kubelet"), "{asked}");
    assert!(!asked.lines().any(|line| line.split(' ').any(|word| word == "stop")), "{asked}");
}

/// 13
#[test]
fn a_virtual_machine_has_to_be_started_anew() {
    let site = Site::virtual_machine(&[Gpu::whole(A100)]);
    site.layouts(&[("seven", &[&on("7g.40gb: 1")])]);
    let asked = site.record_systemctl();
    // Not permitted: it is taken back, and why is said.
    let ran = site.apply("seven");
    assert!(matches!(ran.code, Some(1 | 4)), "{ran}");
    assert!(site.gpu(0).is_settled() && !site.gpu(0).mode, "{ran}");
    ran.says(&["reboot"]);
    assert!(!asked.exists(), "{}", std::fs::read_to_string(&asked).unwrap());
}

/// 13: permitted, it is asked for once, and after it the change goes on.
#[test]
fn a_reboot_that_is_permitted_is_asked_for_once() {
    let site = Site::virtual_machine(&[Gpu::whole(A100)]);
    site.layouts(&[("seven", &[&on("7g.40gb: 1")])]);
    site.configure("partition: {reboot: once}\n");
    let record = site.record_systemctl();
    let asked = || std::fs::read_to_string(&record).unwrap_or_default();
    // It is not done yet, and that is no success. As long as the machine has not gone down, asking again makes no second one.
    for _ in 0..2 {
        let ran = site.apply("seven").says(&["reboot"]);
        assert_ne!(ran.code, Some(0), "{ran}");
    }
    let before = asked();
    assert!(before.lines().count() > 0 && before.lines().all(|line| line.starts_with("reboot")), "{before}");
    site.node().sim(&["reboot"]);
    site.apply("seven").expect(0);
    assert_eq!(site.gpu(0).layout(), ["7g.40gb@0"]);
    assert_eq!(asked(), before, "no second one");
    assert!(site.journals().is_empty(), "{:?}", site.journals());
}

/// 13: permitted, it would still end what runs on the other GPUs.
#[test]
fn no_reboot_is_asked_for_while_another_gpu_is_in_use() {
    let site = Site::virtual_machine(&[Gpu::whole(A100), Gpu::whole(A100)]);
    site.layouts(&[("seven", &["{devices: [0], mig-enabled: true, mig-devices: {7g.40gb: 1}}"])]);
    site.configure("partition: {reboot: once}\n");
    let record = site.record_systemctl();
    site.node().sim(&["hold", "1", "--pid", "905", "--memory", "1GiB"]);
    let ran = site.apply("seven").says(&["in use", "905"]);
    assert_ne!(ran.code, Some(0), "{ran}");
    assert!(!record.exists(), "{}", std::fs::read_to_string(&record).unwrap());
    assert!(site.gpu(0).is_settled() && !site.gpu(0).mode, "{ran}");
    assert!(site.journals().is_empty(), "{:?}", site.journals());
    site.node().sim(&["release", "--pid", "905"]);
    site.apply("seven").says(&["reboots now"]);
    assert!(record.exists());
}

/// 13: it was rebooted, and the mode is still pending: it does not reboot again and again.
#[test]
fn a_reboot_that_did_not_help_is_not_asked_for_again() {
    let site = Site::virtual_machine(&[Gpu::whole(A100)]);
    site.layouts(&[("seven", &[&on("7g.40gb: 1")])]);
    site.configure("partition: {reboot: once}\n");
    let record = site.record_systemctl();
    let asked = || std::fs::read_to_string(&record).unwrap_or_default();
    site.apply("seven").says(&["reboot"]);
    // Someone has set the mode back before the machine went down.
    let smi = site.node().host_root().join("usr/bin/nvidia-smi");
    assert!(Command::new(smi).args(["-mig", "0"]).status().unwrap().success());
    site.node().sim(&["reboot"]);
    let before = asked();
    let ran = site.apply("seven");
    assert_ne!(ran.code, Some(0), "{ran}");
    assert_eq!(asked(), before, "{ran}");
    ran.says(&["did not help"]);
}

/// 14
#[test]
fn counts_of_zero_and_gpus_that_no_entry_names_are_no_difference() {
    let site = Site::of(&[
        Gpu::divided(H100, &[("3g.40gb", 0), ("3g.40gb", 4)]),
        Gpu::divided(H100, &[("1g.10gb", 1)]),
    ]);
    site.layouts(&[(
        "zeros",
        &["{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 0, 3g.40gb: 2, 7g.80gb: 0}}"],
    )]);
    site.plan("zeros").expect(0);
    site.apply("zeros").expect(0);
    assert_eq!((site.changes(0), site.changes(1)), (0, 0));
}

/// 17
#[test]
fn capability_files_are_made_and_removed() {
    let site = Site::of(&[Gpu::divided(H100, &[("3g.40gb", 4)])]);
    site.layouts(&[("four", &[&on("4g.40gb: 1, 1g.10gb: 2")]), ("none", &[&on("")])]);
    for layout in ["four", "none", "four"] {
        site.apply(layout).expect(0);
        let (wanted, there) = (site.capabilities(), site.capability_devices());
        // One for each GPU instance and one for each compute instance.
        assert_eq!(wanted.len(), 2 * site.gpu(0).instances.len(), "{layout}");
        assert_eq!(there, wanted, "{layout}");
    }
    // Whoever changed it may have been killed before the files were made: it is looked at though all else is as wanted.
    std::fs::remove_dir_all(site.node().host_root().join("dev/nvidia-caps")).unwrap();
    let before = site.changes(0);
    site.apply("four").expect(0);
    assert_eq!(site.capability_devices(), site.capabilities());
    assert_eq!(site.changes(0), before);
}

/// 17
#[test]
fn the_cdi_specification_names_the_instances_that_there_are() {
    let site = Site::of(&[Gpu::divided(H100, &[("3g.40gb", 4)])]);
    site.layouts(&[("four", &[&on("4g.40gb: 1, 1g.10gb: 2")]), ("none", &[&on("")])]);
    // The toolkit has made one on this node.
    let made = Command::new(site.node().host_root().join("usr/bin/systemctl"))
        .args(["restart", "nvidia-cdi-refresh.service"])
        .status();
    assert!(made.unwrap().success());
    let specification = site.node().host_root().join("var/run/cdi/nvidia.yaml");
    let stale = site.gpu(0).uuids();
    for layout in ["four", "none", "four"] {
        site.apply(layout).expect(0);
        let text = std::fs::read_to_string(&specification).unwrap();
        for uuid in site.gpu(0).uuids() {
            assert!(text.contains(&uuid), "{layout}: {text}");
        }
        assert!(!text.contains(&stale[0]), "{layout}: {text}");
    }
    // A container that is given an instance gets its capability files: they were made first.
    let tree: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&specification).unwrap()).unwrap();
    let instance = &site.gpu(0).uuids()[0];
    let device = tree["devices"].as_array().unwrap().iter().find(|device| device["name"] == **instance);
    let files = device.unwrap()["containerEdits"]["deviceNodes"].to_string();
    assert_eq!(files.matches("/dev/nvidia-caps/").count(), 2, "{files}");
}

/// 18
#[test]
fn an_unknown_profile_is_refused() {
    let site = Site::of(&[Gpu::divided(H100, &[("1g.10gb", 0)])]);
    site.layouts(&[("unknown", &[&on("1g.10gb: 1, 6g.60gb: 1")])]);
    // With those that there are.
    site.apply("unknown").expect(3).says(&["6g.60gb", "7g.80gb"]);
    assert_eq!(site.changes(0), 0);
    site.layouts(&[("nonsense", &[&on("big: 1")])]);
    site.apply("nonsense").expect(64).says(&["big"]);
}

/// 19
#[test]
fn the_compute_instance_is_the_plain_one() {
    let site = Site::of(&[Gpu::empty(H100)]);
    site.layouts(&[("seven", &[&on("7g.80gb: 1")]), ("media", &[&on("1g.10gb+me: 1")])]);
    for (layout, kind) in [("seven", 4), ("media", 0)] {
        site.apply(layout).expect(0);
        let instance = &site.node().state()["gpus"][0]["mig"]["instances"][0];
        assert_eq!(instance["compute"][0]["profile"], kind, "{instance}");
    }
}

/// 20
#[test]
fn what_is_scattered_is_moved_together() {
    let site = Site::of(&[Gpu::divided(H100, &[("1g.10gb", 0), ("1g.10gb", 4)])]);
    site.hold(0, 4, 903);
    let before = site.gpu(0);
    site.layouts(&[("large", &[&on("4g.40gb: 1, 1g.10gb: 2")])]);
    site.apply("large").expect(0);
    let after = site.gpu(0);
    assert_eq!(after.at(0).profile, "4g.40gb");
    assert_eq!(after.at(4), before.at(4), "the one that runs is where it was");
    // Where it cannot be moved, it is told what is in the way.
    let site = Site::of(&[Gpu::divided(H100, &[("1g.10gb", 0), ("1g.10gb", 4)])]);
    site.hold(0, 0, 904);
    site.layouts(&[("large", &[&on("4g.40gb: 1, 1g.10gb: 2")])]);
    site.apply("large").expect(4).says(&["1g.10gb at 0:1", "904"]);
    assert_eq!(site.changes(0), 0);
}

/// 21
#[test]
fn instances_without_compute_instances() {
    let orphans = || Gpu::empty(H100).with("3g.40gb", 0, &[]).with("3g.40gb", 4, &[]);
    let site = Site::of(&[orphans()]);
    site.layouts(&[("both", &[&on("3g.40gb: 2")]), ("seven", &[&on("7g.80gb: 1")]), ("empty", &[&on("")])]);
    site.plan("empty").expect(2);
    site.apply("both").expect(0);
    assert_eq!(site.gpu(0).layout(), ["3g.40gb@0", "3g.40gb@4"]);
    assert_eq!(site.changes(0), 2, "they are made use of");
    for (layout, reached) in [("seven", &["7g.80gb@0"][..]), ("empty", &[])] {
        let site = Site::of(&[orphans()]);
        site.layouts(&[("seven", &[&on("7g.80gb: 1")]), ("empty", &[&on("")])]);
        site.apply(layout).expect(0);
        assert_eq!(site.gpu(0).layout(), reached);
    }
}

/// 22
#[test]
fn mig_mode_without_an_instance_is_told() {
    let site = Site::of(&[Gpu::empty(H100)]);
    site.layouts(&[("empty", &[&on("")])]);
    site.plan("empty").expect(0).says(&["no instance"]);
}

/// 26
#[test]
fn an_edited_file_is_applied() {
    let site = Site::of(&[Gpu::empty(H100)]);
    let file = site.layouts(&[("mine", &[&on("1g.10gb: 1")]), ("other", &[&on("7g.80gb: 1")])]);
    let declare = |name: &str| {
        site.configure(&format!(
            "labels: {{nvidia.com/mig.config: {name}}}\npartition: {{file: {}}}\n",
            file.display()
        ));
    };
    declare("mine");
    let daemon = site.daemon();
    let reached = |profiles: &[&str]| {
        wait_until(&format!("the GPU has {profiles:?}"), || {
            (site.gpu(0).profiles() == profiles).then_some(())
        });
    };
    reached(&["1g.10gb"]);
    // The same name with new content.
    site.layouts(&[("mine", &[&on("2g.20gb: 1, 3g.40gb: 1")]), ("other", &[&on("7g.80gb: 1")])]);
    reached(&["2g.20gb", "3g.40gb"]);
    // There and back.
    for (name, profiles) in [("other", &["7g.80gb"][..]), ("mine", &["2g.20gb", "3g.40gb"])] {
        declare(name);
        daemon.signal(nix::sys::signal::Signal::SIGHUP);
        reached(profiles);
    }
}

/// 27
#[test]
fn suffixes_are_part_of_a_profile() {
    let site = Site::of(&[Gpu::empty(RTX)]);
    for profiles in [
        &["1g.24gb", "1g.24gb+me", "2g.48gb"][..],
        &["1g.24gb+gfx", "1g.24gb-me", "2g.48gb-me"],
        &["1g.24gb+me.all", "1g.24gb-me", "2g.48gb-me"],
        &["4g.96gb+gfx"],
    ] {
        let counts: Vec<String> = profiles.iter().map(|profile| format!("{profile}: 1")).collect();
        site.layouts(&[("suffixes", &[&on(&counts.join(", "))])]);
        site.apply("suffixes").expect(0);
        assert_eq!(site.gpu(0).profiles(), profiles);
    }
    // All media engines are in one instance, or they are not.
    let before = site.gpu(0);
    for excluded in ["1g.24gb+me.all: 1, 1g.24gb: 1", "1g.24gb+me.all: 1, 2g.48gb+gfx: 1", "1g.24gb+me: 2"] {
        site.layouts(&[("excluded", &[&on(excluded)])]);
        site.apply("excluded").expect(3);
    }
    assert_eq!(site.gpu(0), before);
}

/// 28
#[test]
fn a_reset_only_where_the_driver_needs_one() {
    let site = Site::of(&[Gpu::whole(A100), Gpu::whole(H100), Gpu::whole(A30), Gpu::whole(RTX)]);
    site.layouts(&[("on", &[&on("")]), ("off", &["{devices: all, mig-enabled: false}"])]);
    site.apply("on").expect(0);
    assert!(site.gpus().iter().all(|gpu| gpu.mode && gpu.is_settled()));
    let resets: Vec<u64> = (0..4).map(|gpu| site.resets(gpu)).collect();
    assert_eq!(resets[1], 0, "Hopper changes its mode without");
    assert_eq!(resets[3], 0, "Blackwell too");
    site.apply("off").expect(0);
    assert!(site.gpus().iter().all(|gpu| !gpu.mode && gpu.is_settled()));
    assert_eq!([site.resets(1), site.resets(3)], [0, 0]);
}
