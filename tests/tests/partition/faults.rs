//! Something goes wrong at each call of a change: it is tried again, or what was there before is put back; and where neither
//! can be, it is said what is missing, and the next start goes on. No change of mode is left pending, none is called a
//! success.

use std::time::{Duration, Instant};

use gpulet_tests::{Gpu, Moment, Site, wait_until};

const H100: &str = "h100-sxm-80gb";
const A100: &str = "a100-sxm4-40gb";

const WANTED: &str = "{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 1, 2g.20gb: 1, 4g.40gb: 1}}";
const FORMER: &str =
    "{devices: all, mig-enabled: true, mig-devices: {2g.20gb: 2, 1c.3g.40gb: 1, 2c.3g.40gb: 1}}";
const WANTED_LAYOUT: &[&str] = &["4g.40gb@0", "2g.20gb@4", "1g.10gb@6"];
const FORMER_LAYOUT: &[&str] = &["2g.20gb@0", "2g.20gb@2", "3g.40gb@4 [2c.3g.40gb@0, 1c.3g.40gb@2]"];

/// Everything that exists goes, and all that is wanted comes; both layouts have no other places.
fn gpu() -> Gpu {
    Gpu::divided(H100, &[("2g.20gb", 0), ("2g.20gb", 2)]).with("3g.40gb", 4, &[1, 2])
}

fn site(gpus: &[Gpu]) -> Site {
    let site = Site::of(gpus);
    site.layouts(&[
        ("wanted", &[WANTED]),
        ("former", &[FORMER]),
        ("off", &["{devices: all, mig-enabled: false}"]),
        ("seven", &["{devices: all, mig-enabled: true, mig-devices: {7g.40gb: 1}}"]),
    ]);
    site
}

/// How many calls change something on the way from the one layout to the other.
fn steps(site: &Site) -> usize {
    let before = site.changes(0);
    site.apply("wanted").expect(0);
    assert_eq!(site.gpu(0).layout(), WANTED_LAYOUT);
    let steps = site.changes(0) - before;
    back(site);
    steps
}

fn back(site: &Site) {
    site.apply("former").expect(0);
    assert_eq!(site.gpu(0).layout(), FORMER_LAYOUT);
}

/// It is as wanted or as before, and nothing is left to go on with.
fn is_whole(site: &Site, wanted: bool, told: &str) {
    let expected = if wanted { WANTED_LAYOUT } else { FORMER_LAYOUT };
    assert_eq!(site.gpu(0).layout(), expected, "{told}");
    assert!(site.gpu(0).is_settled(), "{told}");
    assert!(site.journals().is_empty(), "{told}");
}

/// What drivers say where a change is not to be had.
const CODES: [&str; 4] = ["IN_USE", "INSUFFICIENT_RESOURCES", "INVALID_STATE", "UNKNOWN"];

/// At each step each of these codes; or, which takes a quarter of the time, one of them, another at each.
fn at_each_step(all: bool, check: impl Fn(&Site, usize, &str)) {
    let site = site(&[gpu()]);
    for step in 1..=steps(&site) {
        let codes = CODES.iter().enumerate().filter(|(at, _)| all || step % CODES.len() == *at);
        codes.for_each(|(_, code)| check(&site, step, code));
    }
}

fn fails_once(site: &Site, step: usize, code: &str) {
    site.fail_change(0, step, 1, code);
    site.apply("wanted").expect(0);
    is_whole(site, true, &format!("{code} at step {step}"));
    assert_eq!(site.clear_faults(), 0, "{code} at step {step}: it did fail");
    back(site);
}

fn goes_on_failing(site: &Site, step: usize, code: &str) {
    site.fail_change(0, step, 3, code);
    let ran = site.apply("wanted");
    let told = format!("{code} at step {step}: {ran}");
    assert!(matches!(ran.code, Some(1 | 4)), "{told}");
    is_whole(site, false, &told);
    ran.says(&[&site.uuid(0)]);
    assert_eq!(site.clear_faults(), 0, "{told}: it did fail");
}

/// What fails once is tried again.
#[test]
fn a_call_that_fails_once_costs_nothing_but_time() {
    at_each_step(false, fails_once);
}

/// What goes on failing is given up, and what was there comes back, in its places. Why is said.
#[test]
fn a_call_that_goes_on_failing_is_taken_back() {
    at_each_step(false, goes_on_failing);
}

#[test]
#[ignore = "takes minutes: each code at each step, and waiting before what failed is tried again"]
fn each_call_that_fails_with_each_code() {
    at_each_step(true, fails_once);
    at_each_step(true, goes_on_failing);
}

/// The driver says "in use" between the compute instance, which is gone by then, and the GPU instance: the compute instance
/// comes back.
#[test]
fn in_use_between_compute_and_gpu_instance() {
    let site = site(&[gpu()]);
    site.node().sim(&["fault", "call", "--symbol", "nvmlGpuInstanceDestroy", "--return", "IN_USE"]);
    let ran = site.apply("wanted");
    assert!(matches!(ran.code, Some(1 | 4)), "{ran}");
    is_whole(&site, false, &ran.to_string());
    ran.says(&["IN_USE"]);
    site.clear_faults();
    site.apply("wanted").expect(0);
    is_whole(&site, true, "afterwards");
}

/// Where nothing can be created at all, the former layout cannot come back: what is missing is said, and the next start
/// goes on.
#[test]
fn no_resources_for_anything() {
    for symbol in ["nvmlDeviceCreateGpuInstance", "nvmlGpuInstanceCreateComputeInstance"] {
        let site = site(&[gpu()]);
        // Whichever form of the call is used.
        for symbol in [symbol, &format!("{symbol}WithPlacement")] {
            site.node().sim(&["fault", "call", "--symbol", symbol, "--return", "INSUFFICIENT_RESOURCES"]);
        }
        let ran = site.apply("wanted").expect(1).says(&["INSUFFICIENT_RESOURCES", "2g.20gb"]);
        assert!(site.journal(0).is_some(), "what was there is known to the next start: {ran}");
        assert!(site.gpu(0).is_settled());
        site.clear_faults();
        site.apply("wanted").expect(0);
        is_whole(&site, true, symbol);
    }
}

/// A GPU falls off the bus at each step. The other GPU gets there all the same.
#[test]
fn a_gpu_that_is_lost() {
    let steps = steps(&site(&[gpu()]));
    // Before the first, in the middle and before the last: each takes a node of its own.
    for step in [1, steps / 2, steps] {
        let site = site(&[gpu(), gpu()]);
        site.stop_at(0, Moment::Before(step));
        let change = site.start_apply("wanted");
        wait_until("the change comes to the step", || site.is_stopped().then_some(()));
        site.node().sim(&["fault", "lose", "0"]);
        site.clear_faults();
        let ran = change.ended().expect(1).says(&[&site.uuid(0), "lost"]);
        assert_eq!(site.gpu(1).layout(), WANTED_LAYOUT, "the other GPU gets there: {ran}");
        // It is back, freshly reset: nothing has survived that, and the mode neither.
        site.node().sim(&["fault", "restore", "0"]);
        site.apply("wanted").expect(0);
        is_whole(&site, true, &format!("lost at step {step}"));
        assert_eq!(site.gpu(1).layout(), WANTED_LAYOUT);
    }
}

/// One call does not return. It costs its GPU, and no other; what was begun is known to the next start.
#[test]
fn a_call_that_does_not_return() {
    hangs_at(2);
}

#[test]
#[ignore = "takes minutes: gpulet waits for each step until its deadline"]
fn each_call_that_does_not_return() {
    (1..=steps(&site(&[gpu()]))).for_each(hangs_at);
}

fn hangs_at(step: usize) {
    let site = site(&[gpu(), gpu()]);
    site.stop_at(0, Moment::Before(step));
    let begun = Instant::now();
    let ran = site.apply("wanted").expect(1).says(&[&site.uuid(0)]);
    assert!(begun.elapsed() < Duration::from_secs(200), "it has a deadline");
    assert!(site.journal(0).is_some(), "what was there is known to the next start: {ran}");
    assert_eq!(site.gpu(1).layout(), WANTED_LAYOUT, "the other GPU gets there: {ran}");
    site.clear_faults();
    site.apply("wanted").expect(0);
    is_whole(&site, true, &format!("hung at step {step}"));
}

/// The GPU cannot be read: before anything is done nothing is done, and afterwards the next start goes on.
#[test]
fn what_cannot_be_read() {
    let reads = [
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetGpuInstances",
        "nvmlGpuInstanceGetInfo",
        "nvmlGpuInstanceGetComputeInstances",
        "nvmlComputeInstanceGetInfo_v2",
    ];
    let site = site(&[gpu()]);
    for symbol in reads {
        for code in ["UNKNOWN", "GPU_IS_LOST"] {
            let fault = ["fault", "call", "--gpu", "0", "--symbol", symbol, "--return", code];
            site.node().sim(&fault);
            let before = site.changes(0);
            let ran = site.apply("wanted");
            assert!(ran.code.is_some_and(|code| code != 0), "{symbol} {code}: {ran}");
            assert_eq!(site.changes(0), before, "{symbol} {code}: nothing is changed blindly");
            is_whole(&site, false, symbol);
            site.clear_faults();

            site.stop_at(0, Moment::After(4));
            let change = site.start_apply("wanted");
            wait_until("the change is under way", || site.is_stopped().then_some(()));
            site.node().sim(&fault);
            site.go_on();
            let ran = change.ended();
            assert!(ran.code.is_some_and(|code| code != 0), "{symbol} {code}: {ran}");
            assert!(site.journal(0).is_some(), "{symbol} {code}: {ran}");
            site.clear_faults();
            site.apply("wanted").expect(0);
            is_whole(&site, true, symbol);
            back(&site);
        }
    }
}

/// The call is answered with success and has done nothing, or with an error and has done it: what there is counts.
#[test]
fn what_the_driver_says_does_not_count() {
    let site = site(&[gpu()]);
    for step in 1..=steps(&site) {
        site.lie_at(0, step);
        let ran = site.apply("wanted");
        let told = format!("step {step}: {ran}");
        assert_eq!(ran.code == Some(0), site.gpu(0).layout() == WANTED_LAYOUT, "{told}");
        assert!(ran.code == Some(0) || site.gpu(0).layout() == FORMER_LAYOUT, "{told}");
        assert!(site.journals().is_empty(), "{told}");
        site.clear_faults();
        back(&site);
    }
}

/// Someone who is no process on the GPU has its device file open, so the driver puts the change of mode off: it is taken back
/// rather than left pending, and who it is is said.
#[test]
fn a_change_of_mode_that_is_put_off() {
    let site = site(&[Gpu::whole(A100), Gpu::whole(A100)]);
    // The other GPU's mode can change.
    let monitor = site.observe(0);
    let ran = site.apply("seven");
    assert!(matches!(ran.code, Some(1 | 4)), "{ran}");
    assert!(site.gpu(0).is_settled() && !site.gpu(0).mode, "{ran}");
    assert!(site.journals().is_empty(), "{ran}");
    assert_eq!(site.gpu(1).layout(), ["7g.40gb@0"], "{ran}");
    ran.says(&[&monitor.to_string()]);
}

/// The call that changes the mode fails: nothing after it is tried, and the reason is kept. The other GPU gets there.
#[test]
fn a_change_of_mode_that_fails() {
    let site = site(&[Gpu::whole(A100), Gpu::whole(A100)]);
    site.node().sim(&[
        "fault",
        "call",
        "--gpu",
        "0",
        "--symbol",
        "nvmlDeviceSetMigMode",
        "--return",
        "NOT_SUPPORTED",
    ]);
    let ran = site.apply("seven").expect(1).says(&["NOT_SUPPORTED", &site.uuid(0)]);
    assert!(!site.gpu(0).mode && site.gpu(0).is_settled());
    assert!(site.journals().is_empty());
    assert_eq!(site.gpu(1).layout(), ["7g.40gb@0"], "{ran}");
}
