//! Who changes GPUs, and is asked to end meanwhile.

use gpulet_tests::{Agent, Gpu, Moment, Running, Site, wait_until};
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

/// `gpulet apply`, held up in the first change of the first of two GPUs.
fn command_held_up() -> (Site, Running) {
    let site = Site::of(&[Gpu::divided("h100-sxm-80gb", HALVES), Gpu::divided("h100-sxm-80gb", HALVES)]);
    site.layouts(&[("stairs", &[STAIRS])]);
    site.stop_at(0, Moment::Before(1));
    let command = site.start_apply("stairs");
    wait_until("the first change", || site.is_stopped().then_some(()));
    (site, command)
}

#[test]
fn a_command_ends_the_gpu_that_it_is_at() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let (site, command) = command_held_up();
        command.ask_to_end(signal);
        site.go_on();
        command.ended().expect(1).says(&["given up before its turn"]);
        assert_eq!(site.gpu(0).profiles(), ["1g.10gb", "2g.20gb", "3g.40gb"]);
        assert_eq!(site.gpu(1).layout(), HALVES_LAYOUT);
        assert!(site.journals().is_empty(), "{:?}", site.journals());
    }
}

#[test]
fn a_command_that_is_asked_twice_ends_at_once() {
    let (site, command) = command_held_up();
    command.ask_to_end(Signal::SIGTERM);
    command.ask_to_end(Signal::SIGTERM);
    command.ended().expect(1);
    assert!(site.journal(0).is_some(), "the next start knows");
    site.clear_faults();
    site.apply("stairs").expect(0);
}
