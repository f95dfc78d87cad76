//! `kill -9` at each step of a change, before it and after it, and then another start: what is there then is the former
//! layout or the wanted one, and nothing is left to go on with.
//!
//! The steps are counted first, by the simulator; so they are all of them, however many there are. A change that goes back,
//! because something on the way fails for good, counts like one that goes forward.

use gpulet_tests::{Agent, Finished, Gpu, Moment, Site, wait_until};

const H100: &str = "h100-sxm-80gb";
const A100: &str = "a100-sxm4-40gb";

/// A change: from what to what. Both have one layout only, so that it can be told which of the two is there.
struct Change {
    gpu: fn() -> Gpu,
    former: &'static str,
    former_layout: &'static [&'static str],
    wanted: &'static str,
    wanted_layout: &'static [&'static str],
    /// Whether its last step fails until it goes back.
    goes_back: bool,
}

fn whole_h100() -> Gpu {
    Gpu::whole(H100)
}

fn whole_a100() -> Gpu {
    Gpu::whole(A100)
}

fn shared() -> Gpu {
    Gpu::divided(H100, &[("2g.20gb", 0), ("2g.20gb", 2)]).with("3g.40gb", 4, &[1, 2])
}

fn halves() -> Gpu {
    Gpu::divided(H100, &[("4g.40gb", 0), ("3g.40gb", 4)])
}

const OFF: &str = "{devices: all, mig-enabled: false}";
const HALVES: &str = "{devices: all, mig-enabled: true, mig-devices: {4g.40gb: 1, 3g.40gb: 1}}";
const SHARED: &str =
    "{devices: all, mig-enabled: true, mig-devices: {2g.20gb: 2, 1c.3g.40gb: 1, 2c.3g.40gb: 1}}";
const STAIRS: &str = "{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 1, 2g.20gb: 1, 4g.40gb: 1}}";
const A100_HALVES: &str = "{devices: all, mig-enabled: true, mig-devices: {4g.20gb: 1, 3g.20gb: 1}}";

const SHARED_LAYOUT: &[&str] = &["2g.20gb@0", "2g.20gb@2", "3g.40gb@4 [2c.3g.40gb@0, 1c.3g.40gb@2]"];

const INSTANCES: Change = Change {
    gpu: shared,
    former: SHARED,
    former_layout: SHARED_LAYOUT,
    wanted: STAIRS,
    wanted_layout: &["4g.40gb@0", "2g.20gb@4", "1g.10gb@6"],
    goes_back: false,
};

impl Change {
    fn site(&self) -> Site {
        let site = Site::of(&[(self.gpu)()]);
        site.set_persistence(0, true);
        site.layouts(&[("former", &[self.former]), ("wanted", &[self.wanted])]);
        assert_eq!(site.gpu(0).layout(), self.former_layout);
        site
    }

    fn is_in_one_of_the_two(&self, site: &Site) -> bool {
        let layout = site.gpu(0).layout();
        layout == self.former_layout || layout == self.wanted_layout
    }

    /// Makes it to its end and tells how many steps that took; then it is as before.
    fn steps(&self, site: &Site, failing: Option<usize>) -> usize {
        let before = site.changes(0);
        fail(site, failing);
        let ran = site.apply("wanted");
        assert_eq!(ran.code == Some(0), failing.is_none(), "{ran}");
        let steps = site.changes(0) - before;
        site.clear_faults();
        self.take_back(site);
        steps
    }

    fn take_back(&self, site: &Site) {
        site.apply("former").expect(0);
        assert_eq!(site.gpu(0).layout(), self.former_layout);
    }

    /// Kills it at each step, and lets `restart` come after.
    fn killed_at_each_step(&self, restart: fn(&Self, &Site)) {
        let site = self.site();
        let forward = self.steps(&site, None);
        assert!(forward > 0);
        // The last step, the creation of a compute instance, fails until it is given up.
        let failing = self.goes_back.then_some(forward);
        let steps = failing.map_or(forward, |_| self.steps(&site, failing));
        for moment in (1..=steps).flat_map(|step| [Moment::Before(step), Moment::After(step)]) {
            if let Err(ran) = self.kill_at(&site, moment, failing) {
                // Not every call succeeds, so there are fewer moments after one.
                assert!(self.goes_back && matches!(moment, Moment::After(_)), "{moment:?} never came: {ran}");
                self.take_back(&site);
                continue;
            }
            restart(self, &site);
            assert!(self.is_in_one_of_the_two(&site), "{moment:?}: {:?}", site.gpu(0).layout());
            assert!(site.gpu(0).is_settled(), "{moment:?}: a change of mode is pending");
            assert!(site.persistence(0), "{moment:?}: persistence mode is on again");
            assert_eq!(site.journals(), Vec::<std::path::PathBuf>::new(), "{moment:?}");
            // Where it began, for the next.
            self.take_back(&site);
        }
    }

    /// Kills it at that moment.
    ///
    /// # Errors
    /// It has come to its end, and not to that moment.
    fn kill_at(&self, site: &Site, moment: Moment, failing: Option<usize>) -> Result<(), Finished> {
        site.stop_at(0, moment);
        fail(site, failing);
        let mut change = site.start_apply("wanted");
        let is_stopped = wait_until(&format!("the change comes to {moment:?}"), || {
            let ended = change.has_ended();
            site.is_stopped().then_some(true).or(ended.then_some(false))
        });
        if !is_stopped {
            site.clear_faults();
            return Err(change.ended());
        }
        assert!(
            site.journal(0).is_some(),
            "{moment:?}: what was there is written down before anything is done"
        );
        change.kill();
        site.clear_faults();
        Ok(())
    }
}

/// From this step on, as many calls fail as one is tried.
fn fail(site: &Site, step: Option<usize>) {
    if let Some(step) = step {
        site.fail_change(0, step, 3, "INSUFFICIENT_RESOURCES");
    }
}

/// The same is asked for again: it is finished.
fn applied_again(change: &Change, site: &Site) {
    site.apply("wanted").expect(0);
    assert_eq!(site.gpu(0).layout(), change.wanted_layout);
}

/// The opposite is asked for: it is there.
fn taken_back(change: &Change, site: &Site) {
    site.apply("former").expect(0);
    assert_eq!(site.gpu(0).layout(), change.former_layout);
}

/// Nothing is asked for: the daemon finishes or takes back what was begun, and says which.
fn observed_only(change: &Change, site: &Site) {
    site.configure("");
    let mut daemon = site.daemon();
    wait_until("the daemon has recovered", || {
        let said = daemon.log().iter().any(|line| line.contains("a change that had been cut off"));
        (said && is_cared_for(site, &daemon) && change.is_in_one_of_the_two(site)).then_some(())
    });
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    daemon.ended();
}

/// Device files were looked at after the change, and nothing is left to do.
fn is_cared_for(site: &Site, daemon: &Agent) -> bool {
    daemon.log().iter().any(|line| line.contains("nvidia-caps has")) && site.journals().is_empty()
}

/// The configuration file asks for it: the daemon gets there.
fn declared(change: &Change, site: &Site) {
    let file = site.path("partition.yaml");
    site.configure(&format!(
        "labels: {{nvidia.com/mig.config: wanted}}\npartition: {{file: {}}}\n",
        file.display()
    ));
    let mut daemon = site.daemon();
    wait_until("the daemon has got there", || {
        (site.gpu(0).layout() == change.wanted_layout && is_cared_for(site, &daemon)).then_some(())
    });
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    daemon.ended();
    site.configure("");
}

#[test]
fn a_change_of_instances_is_finished() {
    INSTANCES.killed_at_each_step(applied_again);
}

#[test]
#[ignore = "takes minutes: it is killed and started anew at each step"]
fn a_change_of_instances_is_taken_back() {
    INSTANCES.killed_at_each_step(taken_back);
}

#[test]
fn a_daemon_that_is_asked_for_nothing_leaves_no_change_half_done() {
    INSTANCES.killed_at_each_step(observed_only);
}

#[test]
#[ignore = "takes minutes: it is killed and started anew at each step"]
fn a_daemon_gets_to_what_is_declared() {
    INSTANCES.killed_at_each_step(declared);
}

#[test]
#[ignore = "takes minutes: it is killed and started anew at each step"]
fn a_way_back_is_gone_to_its_end() {
    let change = Change { goes_back: true, ..INSTANCES };
    change.killed_at_each_step(applied_again);
}

#[test]
#[ignore = "takes minutes: it is killed and started anew at each step"]
fn a_way_back_is_gone_to_its_end_by_a_daemon_that_is_asked_for_nothing() {
    let change = Change { goes_back: true, ..INSTANCES };
    change.killed_at_each_step(observed_only);
}

#[test]
#[ignore = "takes minutes: it is killed and started anew at each step"]
fn turning_mig_mode_on() {
    let change = Change {
        gpu: whole_h100,
        former: OFF,
        former_layout: &[],
        wanted: HALVES,
        wanted_layout: &["4g.40gb@0", "3g.40gb@4"],
        goes_back: false,
    };
    change.killed_at_each_step(applied_again);
    change.killed_at_each_step(observed_only);
}

#[test]
#[ignore = "takes minutes: it is killed and started anew at each step"]
fn turning_mig_mode_off() {
    let change = Change {
        gpu: halves,
        former: HALVES,
        former_layout: &["4g.40gb@0", "3g.40gb@4"],
        wanted: OFF,
        wanted_layout: &[],
        goes_back: false,
    };
    change.killed_at_each_step(applied_again);
    change.killed_at_each_step(taken_back);
}

/// Here the mode changes with a reset.
#[test]
fn turning_mig_mode_on_where_that_takes_a_reset() {
    let change = Change {
        gpu: whole_a100,
        former: OFF,
        former_layout: &[],
        wanted: A100_HALVES,
        wanted_layout: &["4g.20gb@0", "3g.20gb@4"],
        goes_back: false,
    };
    change.killed_at_each_step(applied_again);
    change.killed_at_each_step(observed_only);
}

/// What cannot be read was written by another version or is damaged: it is told, and neither removed nor written over, and
/// its GPU is not changed; the others are.
#[test]
fn a_journal_that_cannot_be_read_is_left_and_told() {
    let site = Site::of(&[shared(), shared()]);
    site.layouts(&[("wanted", &[STAIRS])]);
    std::fs::create_dir_all(site.journal_path(0).parent().unwrap()).unwrap();
    for text in ["", "{", "{\"version\":\"2\",\"gpu\":\"x\"}", "\u{0}\u{0}\u{0}"] {
        let path = site.journal_path(0);
        std::fs::write(&path, text).unwrap();
        let before = site.gpu(0);
        let ran = site.apply("wanted");
        assert!(matches!(ran.code, Some(1 | 4)), "{text:?}: {ran}");
        ran.says(&[path.to_str().unwrap()]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_eq!((site.changes(0), site.gpu(0)), (0, before), "{text:?}");
    }
}

/// One changer at a time: whoever comes second is told who is there.
#[test]
fn a_second_change_at_the_same_time_is_refused() {
    let site = INSTANCES.site();
    site.stop_at(0, Moment::Before(2));
    let first = site.start_apply("wanted");
    wait_until("the first is under way", || site.is_stopped().then_some(()));
    let before = site.changes(0);
    site.apply("former").expect(4).says(&[&first.pid().to_string()]);
    assert_eq!(site.changes(0), before);
    // To look is not to change.
    site.plan("wanted").expect(2);
    site.clear_faults();
    first.ended().expect(0);
    assert_eq!(site.gpu(0).layout(), INSTANCES.wanted_layout);
}
