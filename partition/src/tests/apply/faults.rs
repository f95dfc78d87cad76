//! Every step of every way fails in every way.

use super::world::{Fault, Way, World, all_ways};
use crate::apply::{Outcome, Policy};
use crate::layout::Need;
use crate::step::Step;

#[test]
fn every_way_is_gone_as_planned() {
    let ways = all_ways();
    assert!(ways.len() > 200);
    for way in ways {
        let mut world = way.world();
        assert_eq!(world.run(way.machine()), Some(Outcome::Reached));
        assert!(world.layout().is_same(&way.wanted()));
        assert_eq!(world.disk, None);
        let done: Vec<Step> = world
            .changes
            .iter()
            .map(|need| {
                let Need::Step(step) = need else { panic!("nothing has to be reset") };
                *step
            })
            .collect();
        assert_eq!(done.len(), way.plan.steps.len());
        assert!(done.iter().all(|step| way.plan.steps.contains(step)), "what was shown is what is done");
    }
}

#[test]
fn what_goes_wrong_once_is_tried_again() {
    each_step(|way, step, fault| {
        let mut world = way.world();
        world.fault = Some((step, fault, 1));
        assert_eq!(world.run(way.machine()), Some(Outcome::Reached), "{way:?} {step} {fault:?}");
        assert!(world.layout().is_same(&way.wanted()));
        assert_eq!(world.disk, None);
    });
}

#[test]
fn what_goes_wrong_again_and_again_is_undone() {
    let attempts = usize::try_from(Policy::default().attempts).unwrap();
    each_step(|way, step, fault| {
        let mut world = way.world();
        world.fault = Some((step, fault, attempts));
        let outcome = world.run(way.machine()).unwrap();
        if fault == Fault::Late {
            // It was done all the same.
            assert_eq!(outcome, Outcome::Reached);
            assert!(world.layout().is_same(&way.wanted()));
        } else {
            let Outcome::RolledBack { cause: Some((need, failure)) } = outcome else { panic!("{outcome:?}") };
            assert_eq!(need, world.changes[step], "the step is named that failed");
            let reason = if fault == Fault::Refused { "Refused" } else { "NoEffect" };
            assert_eq!(failure.reason, reason);
            assert!(world.layout().is_same(&way.former()), "{way:?} {step}");
        }
        assert_eq!(world.disk, None);
    });
}

/// From then on nothing can be changed any more. It is said what is missing, and the journal stays; when the driver is well
/// again, the next start puts the former layout back.
#[test]
fn what_cannot_be_undone_is_told_and_undone_later() {
    each_step(|way, step, fault| {
        if fault == Fault::Late {
            return;
        }
        let mut world = way.world();
        world.fault = Some((step, fault, usize::MAX >> 1));
        let outcome = world.run(way.machine()).unwrap();
        if step == 0 {
            assert!(matches!(outcome, Outcome::RolledBack { .. }), "nothing was done: {outcome:?}");
            assert_eq!(world.disk, None);
        } else {
            let Outcome::Stuck { cause: Some((need, _)), missing, .. } = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(need, world.changes[step]);
            let there =
                |at| world.layout().instances.iter().any(|one| one.at == at && !one.computes.is_empty());
            let former = way.former();
            let absent = former.instances.iter().map(|one| one.at).filter(|at| !there(*at));
            assert_eq!(missing, absent.collect::<Vec<_>>());
            world.fault = None;
            assert_eq!(world.restart(Policy::default()), Some(Outcome::RolledBack { cause: None }));
        }
        assert!(world.layout().is_same(&way.former()));
        assert_eq!(world.disk, None);
    });
}

fn each_step(check: impl Fn(&Way, usize, Fault)) {
    for way in all_ways() {
        for step in 0..way.plan.steps.len() {
            for fault in [Fault::Refused, Fault::Late, Fault::Silent] {
                check(&way, step, fault);
            }
        }
    }
}

/// Nothing is destroyed that could not be put back after a loss of power.
#[test]
fn without_a_journal_nothing_is_changed() {
    for way in all_ways() {
        let mut world = World { full_from: Some(0), ..way.world() };
        let outcome = world.run(way.machine()).unwrap();
        let Outcome::RolledBack { cause: Some((_, failure)) } = outcome else { panic!("{outcome:?}") };
        assert_eq!((failure.reason.as_str(), world.changes.len()), ("NoSpace", 0));
    }
}

/// The disk fills up underway: what is written before is enough to get back.
#[test]
fn a_full_disk_underway_leads_back() {
    for way in all_ways() {
        let mut world = way.world();
        world.run(way.machine()).unwrap();
        for from in 1..world.writes - 1 {
            let mut world = World { full_from: Some(from), ..way.world() };
            let outcome = world.run(way.machine()).unwrap();
            assert!(matches!(outcome, Outcome::RolledBack { cause: Some(_) }), "{outcome:?}");
            assert!(world.layout().is_same(&way.former()));
        }
    }
}

/// The driver stops answering: it is said whether anything was changed, and the next start goes on.
#[test]
fn a_driver_that_stops_answering_is_told() {
    for way in all_ways() {
        let mut world = way.world();
        world.run(way.machine()).unwrap();
        for from in 0..world.reads {
            let mut world = World { silent_from: Some(from), ..way.world() };
            let outcome = world.run(way.machine()).unwrap();
            let Outcome::Unreadable { failure, changed } = outcome else { panic!("{outcome:?}") };
            assert_eq!((failure.reason.as_str(), changed), ("TimedOut", from > 0));
            assert_eq!(world.disk.is_some(), changed);
            world.silent_from = None;
            if changed {
                assert_eq!(world.restart(Policy::default()), Some(Outcome::Reached));
                assert!(world.layout().is_same(&way.wanted()));
            }
        }
    }
}
