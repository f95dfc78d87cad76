//! A GPU that is not concerned sees no call that changes anything.

use gpulet_tests::{Gpu, Scrape, Site, wait_until};

const A100: &str = "a100-sxm4-40gb";
const H100: &str = "h100-sxm-80gb";

#[test]
fn what_is_as_wanted_is_left_alone_while_others_change() {
    let equal = || Gpu::divided(H100, &[("3g.40gb", 0), ("3g.40gb", 4)]);
    let site = Site::of(&[equal(), Gpu::empty(H100), equal(), Gpu::whole(H100)]);
    site.hold(0, 0, 5000);
    let before = site.gpus();
    site.layouts(&[("thirds", &["{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}"])]);
    site.plan("thirds").expect(2);
    site.apply("thirds").expect(0);
    for same in [0, 2] {
        assert_eq!(site.changes(same), 0);
        assert_eq!(site.gpu(same), before[same], "down to the UUIDs");
    }
    for changed in [1, 3] {
        assert_eq!(site.gpu(changed).layout(), ["3g.40gb@0", "3g.40gb@4"]);
    }
}

#[test]
fn a_layout_that_is_there_changes_nothing_however_often_it_is_applied() {
    // Places of one's own choice, which gpulet would not have chosen.
    let site = Site::of(&[Gpu::divided(H100, &[("1g.10gb", 1), ("1g.10gb", 3), ("2g.20gb", 4)])]);
    let before = site.gpu(0);
    site.layouts(&[("same", &["{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 2, 2g.20gb: 1}}"])]);
    for _ in 0..3 {
        site.plan("same").expect(0);
        site.apply("same").expect(0);
    }
    assert_eq!((site.changes(0), site.gpu(0)), (0, before));
}

#[test]
fn a_gpu_that_no_entry_names_is_left_alone() {
    let site = Site::of(&[
        Gpu::divided(H100, &[("1g.10gb", 0)]),
        Gpu::divided(A100, &[("1g.5gb", 2)]),
        Gpu::whole("l40s"),
    ]);
    let before = site.gpus();
    site.layouts(&[
        ("first", &["{devices: [0], mig-enabled: true, mig-devices: {7g.80gb: 1}}"]),
        (
            "by-model",
            &["{device-filter: \"0x233010DE\", devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}"],
        ),
    ]);
    site.apply("first").expect(0);
    assert_eq!((site.changes(1), site.changes(2)), (0, 0));
    // Again and again there is nothing to do: that others are not named is no difference.
    for layout in ["first", "by-model"] {
        site.plan(layout).expect(0);
        site.apply(layout).expect(0);
    }
    assert_eq!(site.gpu(1), before[1]);
    assert_eq!(site.gpu(0).layout(), ["7g.80gb@0"]);
}

/// Neither to look at what would be nor to tell what is changes anything.
#[test]
fn to_plan_and_to_export_changes_nothing() {
    let site = Site::of(&[Gpu::divided(H100, &[("1g.10gb", 0)]), Gpu::whole(A100)]);
    let before = site.gpus();
    for layout in ["all-disabled", "all-enabled", "all-balanced", "no-such-layout"] {
        site.plan(layout);
    }
    site.run(&["export"]).expect(0);
    assert_eq!(site.gpus(), before);
    assert_eq!((site.changes(0), site.changes(1)), (0, 0));
    assert!(site.journals().is_empty());
}

/// What cannot be is refused before anything is touched, also of those GPUs where it could be.
#[test]
fn what_is_infeasible_on_one_gpu_touches_none() {
    let site = Site::of(&[Gpu::divided(H100, &[("1g.10gb", 0)]), Gpu::divided(A100, &[("1g.5gb", 0)])]);
    let before = site.gpus();
    site.layouts(&[("thirds", &["{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}"])]);
    site.apply("thirds").expect(3).says(&["3g.40gb", &site.uuid(1)]);
    assert_eq!(site.gpus(), before);
    assert_eq!((site.changes(0), site.changes(1)), (0, 0));
}

/// Without a label gpulet observes only, whatever there is.
#[test]
fn a_daemon_that_is_asked_for_nothing_changes_nothing() {
    let site = Site::of(&[Gpu::divided(H100, &[("1g.10gb", 3)]), Gpu::empty(H100).with("3g.40gb", 4, &[])]);
    let before = site.gpus();
    let file = site.layouts(&[("all-disabled", &["{devices: all, mig-enabled: false}"])]);
    site.configure(&format!("partition: {{file: {}}}\n", file.display()));
    let daemon = site.daemon();
    let ticks = |scrape: &Scrape| scrape.value("gpulet_sampling_ticks_total", &[]).unwrap();
    wait_until("twenty ticks", || (ticks(&daemon.scrape()) >= 20.0).then_some(()));
    assert_eq!(site.gpus(), before);
    assert_eq!((site.changes(0), site.changes(1)), (0, 0));
}
