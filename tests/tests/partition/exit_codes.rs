//! What the commands tell a script by their exit codes.

use gpulet_tests::{Gpu, Site, wait_until};

const H100: &str = "h100-sxm-80gb";

fn site() -> Site {
    let site = Site::of(&[Gpu::divided(H100, &[("3g.40gb", 4)]), Gpu::whole("l40s")]);
    site.layouts(&[
        ("same", &["{devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 1}}"]),
        ("more", &["{devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 2}}"]),
        ("other", &["{devices: [0], mig-enabled: true, mig-devices: {7g.80gb: 1}}"]),
        ("too-many", &["{devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 3}}"]),
        (
            "too-much",
            &["{devices: [0], mig-enabled: true, mig-devices: {4g.40gb: 1, 3g.40gb: 1, 1g.10gb: 1}}"],
        ),
        ("no-profile", &["{devices: [0], mig-enabled: true, mig-devices: {3g.20gb: 1}}"]),
        ("no-mig", &["{devices: [1], mig-enabled: true, mig-devices: {3g.40gb: 1}}"]),
        ("off", &["{devices: all, mig-enabled: false}"]),
    ]);
    site
}

#[test]
fn plan_tells_whether_something_would_change() {
    let site = site();
    site.plan("same").expect(0);
    site.plan("more").expect(2);
    site.plan("other").expect(2);
    for impossible in ["too-many", "too-much", "no-profile", "no-mig"] {
        site.plan(impossible).expect(3).says(&["GPU-"]);
    }
    site.hold(0, 4, 777);
    site.plan("same").expect(0);
    site.plan("more").expect(2);
    site.plan("other").expect(4).says(&["777"]);
    site.plan("off").expect(4).says(&["777"]);
}

#[test]
fn apply_tells_what_came_of_it() {
    let site = site();
    site.apply("same").expect(0);
    for impossible in ["too-many", "too-much", "no-profile", "no-mig"] {
        site.apply(impossible).expect(3).says(&["GPU-"]);
    }
    site.apply("more").expect(0);
    site.hold(0, 0, 777);
    site.apply("other").expect(4).says(&["777"]);
    assert_eq!(site.gpu(0).layout(), ["3g.40gb@0", "3g.40gb@4"]);
    site.node().sim(&["release", "--pid", "777"]);
    // A GPU that has no MIG mode is one that is not in it.
    site.apply("off").expect(0);
    assert!(!site.gpu(0).mode);
    site.node().sim(&[
        "fault",
        "call",
        "--gpu",
        "0",
        "--symbol",
        "nvmlDeviceSetMigMode",
        "--return",
        "UNKNOWN",
    ]);
    site.apply("more").expect(1).says(&["UNKNOWN"]);
}

/// Every mistake of a file at once, each with its line, and nothing is looked at.
#[test]
fn a_file_with_mistakes_is_a_matter_of_usage() {
    let site = site();
    site.partition_file(
        "version: v1\nmig-configs:\n  one:\n  - devices: all\n    mig-enabled: maybe\n    mig-devices: {}\n  \
         - devices: [0, -1]\n    mig-enabled: true\n    mig-devices: {1g.10gb: -3}\n    surplus: 1\n",
    );
    for command in ["plan", "apply"] {
        let ran =
            site.run(&[command, "-f", site.path("partition.yaml").to_str().unwrap(), "--mig-config", "one"]);
        ran.expect(64).says(&["partition.yaml", "5", "mig-enabled", "7", "9", "10", "surplus"]);
    }
    site.partition_file("version: v2\nmig-configs: {}\n");
    site.plan("one").expect(64).says(&["version"]);
    site.partition_file("{{{");
    site.plan("one").expect(64).says(&["partition.yaml"]);
    assert_eq!(site.changes(0), 0);
}

#[test]
fn a_layout_or_a_file_that_is_not_there_is_a_matter_of_usage() {
    let site = site();
    // What there is, is named.
    site.plan("absent").expect(64).says(&["absent", "too-many", "same"]);
    site.apply("absent").expect(64).says(&["absent", "too-many", "same"]);
    let nowhere = site.path("nowhere.yaml");
    for command in ["plan", "apply"] {
        site.run(&[command, "-f", nowhere.to_str().unwrap(), "--mig-config", "same"])
            .expect(64)
            .says(&["nowhere.yaml"]);
    }
    site.run(&["plan", "--no-such-flag"]).expect(64);
    site.run(&["apply", "-o", "xml"]).expect(64);
}

/// A GPU or a model that the node does not have is a mistake in the file, said before anything is touched.
#[test]
fn devices_that_are_not_there_are_named() {
    let site = site();
    for (entry, named) in [
        ("{devices: [7], mig-enabled: false}", "7"),
        ("{devices: [GPU-00000000-0000-0000-0000-00000000dead], mig-enabled: false}", "dead"),
        ("{devices: ['0000:99:00.0'], mig-enabled: false}", "99:00.0"),
        ("{device-filter: nonsense, devices: all, mig-enabled: false}", "nonsense"),
    ] {
        site.layouts(&[("lost", &[entry])]);
        let ran = site.apply("lost");
        assert!(matches!(ran.code, Some(3 | 64)), "{entry}: {ran}");
        ran.says(&[named]);
    }
    // Two entries for one GPU contradict each other.
    site.layouts(&[(
        "twice",
        &[
            "{devices: all, mig-enabled: false}",
            "{devices: [0], mig-enabled: true, mig-devices: {7g.80gb: 1}}",
        ],
    )]);
    let ran = site.apply("twice");
    assert!(matches!(ran.code, Some(3 | 64)), "{ran}");
    assert_eq!(site.changes(0), 0);
}

#[test]
fn without_a_driver_it_has_failed_and_says_so() {
    let site = site();
    site.node().sim(&["fault", "driver", "unload", "--force"]);
    for command in ["plan", "apply"] {
        let file = site.path("partition.yaml");
        let ran = site.run(&[command, "-f", file.to_str().unwrap(), "--mig-config", "same"]);
        ran.expect(1).says(&["driver"]);
    }
    site.run(&["export"]).expect(1).says(&["driver"]);
}

#[test]
fn access_that_is_denied_is_said() {
    let site = site();
    site.node().sim(&["fault", "permission", "denied"]);
    let ran = site.apply("more");
    assert!(matches!(ran.code, Some(1 | 4)), "{ran}");
    ran.says(&["permission"]);
    assert_eq!(site.gpu(0).layout(), ["3g.40gb@4"]);
}

#[test]
fn plans_can_be_read_by_programs() {
    let site = site();
    let file = site.path("partition.yaml");
    let json = |layout: &str| {
        site.run(&["plan", "-f", file.to_str().unwrap(), "--mig-config", layout, "-o", "json"]).json()
    };
    let more = json("more");
    let (gpu, other) = (&more["gpus"][0], &more["gpus"][1]);
    assert_eq!(
        (&more["verdict"], &gpu["verdict"], &other["verdict"]),
        (&"changes".into(), &"changes".into(), &"left-alone".into())
    );
    assert_eq!(gpu["uuid"], site.uuid(0));
    assert_eq!((&gpu["create"][0]["profile"], &gpu["create"][0]["start"]), (&"3g.40gb".into(), &0.into()));
    assert_eq!((&gpu["keep"][0]["profile"], &gpu["keep"][0]["start"]), (&"3g.40gb".into(), &4.into()));
    assert_eq!(gpu["destroy"], serde_json::json!([]), "what is there is kept");
    assert_eq!(json("other")["gpus"][0]["destroy"][0]["start"], 4);
    assert_eq!(json("same")["verdict"], "as-wanted");
    let too_much = json("too-much");
    assert!(too_much["problems"].as_array().is_some_and(|problems| !problems.is_empty()), "{too_much}");
    site.hold(0, 4, 777);
    let blocked = json("other");
    assert_eq!((&blocked["verdict"], &blocked["gpus"][0]["reason"]), (&"blocked".into(), &"Blocked".into()));
    assert!(blocked["gpus"][0]["disruptions"].to_string().contains("777"), "{blocked}");
}

/// While a daemon may change GPUs, nobody else does.
#[test]
fn a_daemon_that_is_asked_for_something_is_the_only_one() {
    let site = site();
    let file = site.path("partition.yaml");
    site.configure(&format!(
        "labels: {{nvidia.com/mig.config: same}}\npartition: {{file: {}}}\n",
        file.display()
    ));
    let daemon = site.daemon();
    let pid = daemon.pid().to_string();
    let ran = wait_until("the daemon has taken the lock", || {
        let ran = site.apply("more");
        (ran.code == Some(4)).then_some(ran)
    });
    ran.says(&[&pid]);
    site.plan("other").expect(2);
}

/// A daemon that observes has the GPUs open, which keeps them from being reset. It lets go when it is asked to.
#[test]
fn a_daemon_that_observes_lets_go_of_a_gpu_that_is_to_be_reset() {
    let site = Site::of(&[Gpu::whole("a100-sxm4-40gb")]);
    site.layouts(&[("seven", &["{devices: all, mig-enabled: true, mig-devices: {7g.40gb: 1}}"])]);
    let daemon = site.daemon();
    site.run(&["quiesce"]).expect(0);
    site.apply("seven").expect(0);
    site.run(&["resume"]).expect(0);
    assert_eq!(site.gpu(0).layout(), ["7g.40gb@0"]);
    daemon.scrape_until("the daemon sees it", |scrape| {
        scrape.value("gpulet_gpu_mig_instances", &[("gpu", "0"), ("profile", "7g.40gb")]) == Some(1.0)
    });
}

/// It is known to be there by its number only. What the layout says of the others is done.
#[test]
fn a_gpu_that_has_fallen_off_the_bus_keeps_no_other_from_being_divided() {
    let site = Site::of(&[Gpu::whole(H100), Gpu::whole(H100)]);
    site.layouts(&[("seven", &["{devices: [0, 1], mig-enabled: true, mig-devices: {1g.10gb: 7}}"])]);
    site.node().sim(&["fault", "lose", "1"]);
    site.apply("seven").expect(1).says(&["GPU 1: it is named, and not among those that answer"]);
    assert_eq!(site.gpu(0).layout().len(), 7);
    site.node().sim(&["fault", "restore", "1"]);
    site.apply("seven").expect(0);
    assert_eq!(site.gpu(1).layout().len(), 7);
}

#[test]
fn what_was_cut_off_and_cannot_be_understood_is_no_success_though_the_gpus_are_as_wanted() {
    let site = site();
    site.apply("same").expect(0);
    let journal = site.journal_path(0);
    std::fs::create_dir_all(journal.parent().unwrap()).unwrap();
    std::fs::write(&journal, r#"{"version": "2"}"#).unwrap();
    site.apply("same").expect(1).says(&["cannot be understood"]);
    std::fs::remove_file(&journal).unwrap();
    site.apply("same").expect(0);
}
