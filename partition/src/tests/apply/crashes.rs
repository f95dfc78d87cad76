//! The agent dies at every command of every way, before and after it has an effect, and once more on the way on.

use super::world::{Crash, Fault, Way, World, all_ways};
use crate::apply::{Outcome, Policy};

/// Runs until it ends, starting again after each death. At the end it is in one of the two layouts, and says which.
fn to_the_end(way: &Way, world: &mut World, died: &Option<Outcome>) {
    assert_eq!(*died, None, "it died");
    world.crash = None;
    settle(way, world);
}

fn settle(way: &Way, world: &mut World) {
    let outcome = world.restart(Policy::default());
    assert_eq!(world.disk, None, "{outcome:?}");
    match outcome {
        // Nothing is on disk: either nothing was begun, or it was ended.
        None => {
            let is = |layout| world.layout().is_same(&layout);
            assert!(is(way.former()) || is(way.wanted()));
        }
        Some(Outcome::Reached) => assert!(world.layout().is_same(&way.wanted())),
        Some(Outcome::RolledBack { .. }) => assert!(world.layout().is_same(&way.former())),
        other => panic!("{other:?}"),
    }
}

fn commands(way: &Way) -> usize {
    let mut world = way.world();
    world.run(way.machine()).unwrap();
    world.commands
}

fn each_crash(way: &Way, check: impl Fn(Crash)) {
    for at in 0..commands(way) {
        for after in [false, true] {
            check(Crash { at, after });
        }
    }
}

#[test]
fn it_ends_in_one_of_the_two_layouts() {
    let mut crashes = 0;
    for way in all_ways() {
        each_crash(&way, |crash| {
            let mut world = World { crash: Some(crash), ..way.world() };
            let died = world.run(way.machine());
            to_the_end(&way, &mut world, &died);
        });
        crashes += 2 * commands(&way);
    }
    assert!(crashes > 5000, "{crashes}");
}

/// It dies again while it recovers, at every command.
#[test]
fn it_dies_twice() {
    for way in all_ways().into_iter().step_by(5) {
        each_crash(&way, |crash| {
            for again in 0.. {
                let mut world = World { crash: Some(crash), ..way.world() };
                world.run(way.machine());
                let at = world.commands + again / 2;
                world.crash = Some(Crash { at, after: again % 2 == 1 });
                let finished = world.restart(Policy::default()).is_some();
                world.crash = None;
                settle(&way, &mut world);
                if finished || world.commands <= at {
                    break;
                }
            }
        });
    }
}

/// It dies, and afterwards each step fails in turn for good measure.
#[test]
fn it_dies_and_then_a_step_fails() {
    let attempts = usize::try_from(Policy::default().attempts).unwrap();
    for way in all_ways().into_iter().step_by(5) {
        each_crash(&way, |crash| {
            for step in 0..way.plan.steps.len() {
                for fault in [Fault::Refused, Fault::Late, Fault::Silent] {
                    let mut world = World { crash: Some(crash), ..way.world() };
                    world.run(way.machine());
                    world.crash = None;
                    world.fault = Some((world.changes.len() + step, fault, attempts));
                    settle(&way, &mut world);
                }
            }
        });
    }
}

/// It goes back because a step fails, and dies at every command of that.
#[test]
fn it_dies_on_the_way_back() {
    let attempts = usize::try_from(Policy::default().attempts).unwrap();
    for way in all_ways().into_iter().step_by(5) {
        for step in 0..way.plan.steps.len() {
            let fault = Some((step, Fault::Refused, attempts));
            let mut whole = World { fault, ..way.world() };
            whole.run(way.machine()).unwrap();
            for at in 0..whole.commands {
                for after in [false, true] {
                    let mut world = World { fault, crash: Some(Crash { at, after }), ..way.world() };
                    let died = world.run(way.machine());
                    to_the_end(&way, &mut world, &died);
                }
            }
        }
    }
}
