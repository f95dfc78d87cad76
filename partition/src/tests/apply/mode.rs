//! Changes of mode that the driver puts off, resets and reboots.

use gpulet_inventory::mig::MigMode;

use super::super::tables::{FOUR, THREE, a100, divided, holder, wanted};
use super::world::{Crash, Fault, Way, World};
use crate::apply::{Machine, Outcome, Policy};
use crate::desired::Wanted;
use crate::layout::Need;
use crate::observed::GpuDivision;

fn off() -> GpuDivision {
    GpuDivision { mode: Some(MigMode { current: false, pending: false }), ..a100() }
}

fn into_mig() -> Way {
    Way::new(off(), &Wanted::On(wanted(&a100(), &[THREE, FOUR])))
}

fn out_of_mig() -> Way {
    Way::new(divided(a100(), &[(FOUR, 0), (THREE, 4)]), &Wanted::Off)
}

#[test]
fn what_is_put_off_is_done_by_a_reset() {
    for way in [into_mig(), out_of_mig()] {
        let mut world = World { puts_off: true, ..way.world() };
        assert_eq!(world.run(way.machine()), Some(Outcome::Reached));
        assert_eq!(world.changes.iter().filter(|need| **need == Need::Reset).count(), 1);
        assert!(world.layout().is_same(&way.wanted()));
        let mut world = way.world();
        assert_eq!(world.run(way.machine()), Some(Outcome::Reached));
        assert!(!world.changes.contains(&Need::Reset), "only where the driver asks for it");
    }
}

#[test]
fn where_no_reset_is_to_be_had_it_is_undone() {
    for way in [into_mig(), out_of_mig()] {
        let forbidden = Policy { reset: false, ..Policy::default() };
        let mut world = World { puts_off: true, ..way.world() };
        let outcome = world.run(Machine::new(&way.from, &way.plan, forbidden));
        let Some(Outcome::RolledBack { cause: Some((Need::Reset, failure)) }) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(failure.reason, "ResetRequired");
        assert!(!world.changes.contains(&Need::Reset));
        assert_former(&way, &world);

        let mut world = World { puts_off: true, no_reset: true, ..way.world() };
        let outcome = world.run(way.machine());
        let Some(Outcome::RolledBack { cause: Some((Need::Reset, failure)) }) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(failure.reason, "ResetFailed");
        assert_former(&way, &world);
    }
}

/// Nothing waits for the next reset either.
fn assert_former(way: &Way, world: &World) {
    assert!(world.layout().is_same(&way.former()));
    let mode = world.division.mode.unwrap();
    assert_eq!(mode.current, mode.pending);
    assert_eq!(world.disk, None);
}

#[test]
fn after_a_reboot_it_goes_on() {
    let policy = Policy { reboot: true, ..Policy::default() };
    for way in [into_mig(), out_of_mig()] {
        let mut world = World { puts_off: true, no_reset: true, ..way.world() };
        let outcome = world.run(Machine::new(&way.from, &way.plan, policy)).unwrap();
        assert_eq!(outcome.reason(), "RebootRequired");
        assert!(world.disk.is_some());
        world.reset();
        assert_eq!(world.restart(policy), Some(Outcome::Reached));
        assert!(world.layout().is_same(&way.wanted()));
        assert_eq!(world.disk, None);
    }
}

/// From Hopper on the mode itself is lost with a reboot.
#[test]
fn a_mode_that_is_lost_is_set_again() {
    let way = Way::new(divided(a100(), &[(THREE, 0)]), &Wanted::On(wanted(&a100(), &[THREE, FOUR])));
    let mut world = World { fault: Some((2, Fault::Refused, 1000)), ..way.world() };
    assert_eq!(world.run(way.machine()).unwrap().reason(), "Stuck");
    world.division.mode = Some(MigMode { current: false, pending: false });
    world.division.instances.clear();
    world.fault = None;
    assert_eq!(world.restart(Policy::default()), Some(Outcome::RolledBack { cause: None }));
    assert!(world.layout().is_same(&way.former()));
}

/// Who watches the GPU stands in the way of a change of mode only.
#[test]
fn whoever_came_meanwhile_keeps_the_mode() {
    let way = into_mig();
    let mut world = way.world();
    world.division.holders = vec![holder(5)];
    let outcome = world.run(way.machine());
    let Some(Outcome::RolledBack { cause: Some((_, failure)) }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.reason, "InUse");
    assert!(world.changes.is_empty() && failure.message.contains("process 5 (python) of Pod ml/train-5"));
}

/// A GPU that tells of no mode any more is not taken for one that is as wanted.
#[test]
fn a_gpu_without_a_mode_is_not_as_wanted() {
    let way = into_mig();
    let mut world = World { crash: Some(Crash { at: 4, after: true }), ..way.world() };
    assert_eq!(world.run(way.machine()), None);
    world.crash = None;
    world.division.mode = None;
    world.division.instances.clear();
    let outcome = world.restart(Policy::default());
    let Some(Outcome::RolledBack { cause: Some((_, failure)) }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.reason, "no such mode");
}
