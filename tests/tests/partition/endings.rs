//! A daemon that is asked to end while it changes GPUs.

use gpulet_tests::{Agent, Gpu, Moment, Site, wait_until};
use nix::sys::signal::Signal;

const HALVES: &[(&str, u32)] = &[("4g.40gb", 0), ("3g.40gb", 4)];
const HALVES_LAYOUT: &[&str] = &["4g.40gb@0", "3g.40gb@4"];
const STAIRS: &str = "{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 1, 2g.20gb: 1, 3g.40gb: 1}}";

/// Two GPUs, and a daemon that is held up in the first change of the first one.
fn held_up() -> (Site, Agent) {
    let site = Site::of(&[Gpu::divided("h100-sxm-80gb", HALVES), Gpu::divided("h100-sxm-80gb", HALVES)]);
    let file = site.layouts(&[("stairs", &[STAIRS])]);
    site.configure(&format!(
        "labels: {{nvidia.com/mig.config: stairs}}\npartition: {{file: {}}}\n",
        file.display()
    ));
    site.stop_at(0, Moment::Before(1));
    let daemon = site.daemon();
    wait_until("the first change", || site.is_stopped().then_some(()));
    daemon.signal(Signal::SIGTERM);
    let heard = || daemon.log().iter().any(|line| line.contains("that is ended first"));
    wait_until("it is to end", || heard().then_some(()));
    (site, daemon)
}

#[test]
fn the_gpu_that_is_being_changed_is_done_first_and_no_other_is_begun() {
    let (site, mut daemon) = held_up();
    site.go_on();
    assert!(daemon.ended().success());
    assert_ne!(site.gpu(0).layout(), HALVES_LAYOUT);
    assert_eq!(site.gpu(0).profiles(), ["1g.10gb", "2g.20gb", "3g.40gb"]);
    assert_eq!(site.gpu(1).layout(), HALVES_LAYOUT);
    assert!(site.journal(0).is_none() && site.journal(1).is_none());
}

#[test]
fn a_driver_that_hangs_does_not_keep_it() {
    let (site, mut daemon) = held_up();
    daemon.ended();
    assert!(daemon.log().iter().any(|line| line.contains("the next start goes on")), "{:?}", daemon.log());
    assert!(site.journal(0).is_some(), "the next start knows");
    site.clear_faults();
    site.apply("stairs").expect(0);
}
