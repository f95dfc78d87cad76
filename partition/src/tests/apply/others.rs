//! Others who use or change the GPU meanwhile.

use super::super::tables::{FOUR, ONE, SEVEN, THREE, TWO, a100, divided, instance, used, wanted};
use super::world::{Crash, Way, World};
use crate::apply::{Outcome, Policy};
use crate::desired::Wanted;
use crate::layout::Need;
use crate::observed::Instance;
use crate::step::Step;

fn way(from: &[(u32, u32)], to: &[u32]) -> Way {
    Way::new(divided(a100(), from), &Wanted::On(wanted(&a100(), to)))
}

/// Between plan and step: nothing is destroyed before it either.
#[test]
fn what_came_into_use_is_not_destroyed() {
    let way = way(&[(THREE, 0), (THREE, 4)], &[SEVEN]);
    for at in [0, 1] {
        let mut world = World { division: used(way.from.clone(), &[at]), ..way.world() };
        let outcome = world.run(way.machine());
        let Some(Outcome::RolledBack { cause: Some((_, failure)) }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(failure.reason, "InUse");
        assert!(failure.message.contains(&format!("process {} (python) of Pod", 100 + at)), "{failure}");
        assert!(world.changes.is_empty() && world.disk.is_none());
    }
}

/// The compute instance is gone, and the driver says of the GPU instance: in use by another client.
#[test]
fn a_gpu_instance_that_does_not_go_gets_its_compute_instance_back() {
    let way = way(&[(THREE, 0)], &[FOUR]);
    let mut world = way.world();
    world.fault = Some((1, super::world::Fault::Refused, 3));
    let outcome = world.run(way.machine()).unwrap();
    assert_eq!(outcome.reason(), "RolledBack");
    assert!(
        matches!(
            world.changes[..],
            [
                Need::Step(Step::DestroyCompute { .. }),
                Need::Step(Step::DestroyInstance(_)),
                Need::Step(Step::DestroyInstance(_)),
                Need::Step(Step::DestroyInstance(_)),
                Need::Step(Step::CreateCompute { .. }),
            ]
        ),
        "{:?}",
        world.changes
    );
}

/// What is there is not what was planned for.
#[test]
fn a_plan_that_is_out_of_date_is_not_carried_out() {
    let way = way(&[(THREE, 0)], &[FOUR]);
    for now in [&[(THREE, 4)][..], &[(THREE, 0), (ONE, 4)], &[]] {
        let mut world = World { division: divided(a100(), now), ..way.world() };
        assert_eq!(world.run(way.machine()), Some(Outcome::Overtaken));
        assert!(world.changes.is_empty() && world.writes == 0);
    }
}

/// After a crash someone else has divided the GPU, or is about to: neither layout is forced upon it.
#[test]
fn what_someone_else_has_made_is_left() {
    let way = way(&[(THREE, 0), (THREE, 4)], &[FOUR, TWO]);
    let whole = instance(&a100(), 9, ONE, 0);
    let orphan = Instance { computes: Vec::new(), ..whole.clone() };
    let mut with_another_compute = way.from.instances[0].clone();
    with_another_compute.computes[0].profile = 0;
    for theirs in [whole, orphan, with_another_compute] {
        let mut world = World { crash: Some(Crash { at: 5, after: true }), ..way.world() };
        assert_eq!(world.run(way.machine()), None);
        world.crash = None;
        world.division.instances = vec![theirs];
        let (changes, before) = (world.changes.len(), world.layout());
        assert_eq!(world.restart(Policy::default()), Some(Outcome::Overtaken));
        assert_eq!((world.layout(), world.changes.len(), world.disk.as_ref()), (before, changes, None));
    }
}

/// What stays is in use all the while.
#[test]
fn what_stays_is_never_touched() {
    let from = used(divided(a100(), &[(ONE, 0), (THREE, 4)]), &[0]);
    let way = Way::new(from, &Wanted::On(wanted(&a100(), &[ONE, TWO, TWO])));
    let mut world = way.world();
    assert_eq!(world.run(way.machine()), Some(Outcome::Reached));
    let stays = world.division.instances.iter().find(|instance| instance.profile == ONE).unwrap();
    assert_eq!(stays, &way.from.instances[0]);
}
