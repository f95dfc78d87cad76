//! Persistence mode keeps a GPU from being reset: off for that alone, and on again whatever happens.

use gpulet_inventory::mig::MigMode;

use super::super::tables::{FOUR, THREE, a100, divided, wanted};
use super::world::{Crash, Fault, Way, World};
use crate::apply::{Machine, Outcome, Policy};
use crate::desired::Wanted;
use crate::layout::Need;
use crate::observed::GpuDivision;

const OFF: Need = Need::Persistence(false);
const ON: Need = Need::Persistence(true);

fn into_mig() -> Way {
    let off = GpuDivision { mode: Some(MigMode { current: false, pending: false }), ..a100() };
    Way::new(off, &Wanted::On(wanted(&a100(), &[THREE, FOUR])))
}

fn out_of_mig() -> Way {
    Way::new(divided(a100(), &[(FOUR, 0), (THREE, 4)]), &Wanted::Off)
}

fn world(way: &Way) -> World {
    World { puts_off: true, persistence: Some(true), ..way.world() }
}

fn position(world: &World, need: Need) -> usize {
    world.changes.iter().position(|done| *done == need).unwrap()
}

#[test]
fn it_is_off_for_the_reset_and_on_afterwards() {
    for way in [into_mig(), out_of_mig()] {
        let mut world = world(&way);
        assert_eq!(world.run(way.machine()), Some(Outcome::Reached));
        assert!(position(&world, OFF) + 1 == position(&world, Need::Reset));
        assert_eq!(world.changes.last(), Some(&ON));
        assert_eq!((world.persistence, world.disk.as_ref()), (Some(true), None));
    }
}

#[test]
fn it_is_left_alone_where_nothing_is_reset_or_it_is_off_or_there_is_none() {
    let way = into_mig();
    let forbidden = Policy { reset: false, ..Policy::default() };
    for (puts_off, persistence, policy) in [
        (false, Some(true), Policy::default()),
        (true, Some(false), Policy::default()),
        (true, None, Policy::default()),
        (true, Some(true), forbidden),
    ] {
        let mut world = World { puts_off, persistence, ..way.world() };
        world.run(Machine::new(&way.from, &way.plan, policy)).unwrap();
        assert!(!world.changes.contains(&OFF) && !world.changes.contains(&ON));
        assert_eq!(world.persistence, persistence);
    }
}

#[test]
fn it_is_on_again_though_no_reset_is_to_be_had() {
    let reboot = Policy { reboot: true, ..Policy::default() };
    for (policy, reason) in [(Policy::default(), "RolledBack"), (reboot, "RebootRequired")] {
        let way = into_mig();
        let mut world = World { no_reset: true, ..world(&way) };
        let outcome = world.run(Machine::new(&way.from, &way.plan, policy)).unwrap();
        assert_eq!(outcome.reason(), reason);
        assert_eq!(world.persistence, Some(true));
        assert!(world.changes.contains(&OFF), "it was tried");
    }
}

/// Every change fails, once or to the end, in every way.
#[test]
fn it_is_on_again_whatever_fails() {
    let attempts = usize::try_from(Policy::default().attempts).unwrap();
    for way in [into_mig(), out_of_mig()] {
        let mut whole = world(&way);
        whole.run(way.machine()).unwrap();
        for at in 0..whole.changes.len() {
            for fault in [Fault::Refused, Fault::Late, Fault::Silent] {
                for times in [1, attempts] {
                    let mut world = World { fault: Some((at, fault, times)), ..world(&way) };
                    let outcome = world.run(way.machine()).unwrap();
                    if outcome.reason() == "Stuck" {
                        // It is what could not be done, and it is said; the next start has it to do.
                        assert!(matches!(outcome, Outcome::Stuck { need: ON, .. }), "{outcome:?}");
                        world.fault = None;
                        world.restart(Policy::default()).unwrap();
                    }
                    assert_eq!(
                        (world.persistence, world.disk.as_ref()),
                        (Some(true), None),
                        "{at} {fault:?}"
                    );
                }
            }
        }
    }
}

/// It dies at every command, before and after it has an effect.
#[test]
fn it_is_on_again_after_a_crash() {
    for way in [into_mig(), out_of_mig()] {
        let mut whole = world(&way);
        whole.run(way.machine()).unwrap();
        for at in 0..whole.commands {
            for after in [false, true] {
                let mut world = World { crash: Some(Crash { at, after }), ..world(&way) };
                assert_eq!(world.run(way.machine()), None);
                world.crash = None;
                world.restart(Policy::default());
                assert_eq!((world.persistence, world.disk.as_ref()), (Some(true), None), "{at} {after}");
            }
        }
    }
}

/// Someone else has divided the GPU after a crash: it is left, but for persistence mode.
#[test]
fn it_is_on_again_on_a_gpu_that_is_someone_elses_now() {
    let way = into_mig();
    let mut whole = world(&way);
    whole.run(way.machine()).unwrap();
    // Then come: on again, read, journal gone.
    let before = whole.commands - 4;
    let mut world = World { crash: Some(Crash { at: before, after: true }), ..world(&way) };
    assert_eq!(world.run(way.machine()), None);
    assert_eq!(world.persistence, Some(false));
    world.crash = None;
    world.division.instances = divided(a100(), &[(THREE, 0)]).instances;
    // Refused at first: the journal stays, and with it what is owed.
    world.fault = Some((world.changes.len(), Fault::Refused, 1));
    assert_eq!(world.restart(Policy::default()), Some(Outcome::Overtaken));
    assert!(world.disk.is_some());
    assert_eq!(world.restart(Policy::default()), Some(Outcome::Overtaken));
    assert_eq!((world.persistence, world.disk.as_ref()), (Some(true), None));
}
