//! Ways with compute instances and media extensions, with deaths and faults wherever they come: sampled, since there are too
//! many.

use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::layouts::Layouts;
use super::super::properties::{as_wanted, busy, there, wishes};
use super::super::tables::a100;
use super::world::{Crash, Fault, Way, World};
use crate::apply::{Outcome, Policy};
use crate::desired::Wanted;
use crate::plan::plan_gpu;

thread_local! {
    static LAYOUTS: Rc<Layouts> = Rc::new(Layouts::of(&a100()));
}

fn fault() -> impl Strategy<Value = Option<(usize, Fault, usize)>> {
    let kind = prop_oneof![Just(Fault::Refused), Just(Fault::Late), Just(Fault::Silent)];
    prop::option::of((0_usize..12, kind, 1_usize..5))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_global_rejects: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn it_ends_in_one_of_the_two_layouts(
        from in wishes(),
        to in wishes(),
        mut crashes in vec((0_usize..20, any::<bool>()), 0..5),
        fault in fault(),
    ) {
        let (from, goal) = (there(&from), Wanted::On(as_wanted(&there(&to))));
        prop_assume!(plan_gpu(&from, &goal).is_ok());
        let way = LAYOUTS.with(|layouts| Way::with(from, &goal, Rc::clone(layouts)));
        let mut world = World { fault, ..way.world() };
        let mut next_crash = |from: usize| crashes.pop().map(|(at, after)| Crash { at: from + at, after });
        world.crash = next_crash(0);
        let mut outcome = world.run(way.machine());
        for _ in 0..10 {
            if world.disk.is_none() {
                break;
            }
            world.crash = next_crash(world.commands);
            outcome = world.restart(Policy::default());
        }
        prop_assert_eq!(&world.disk, &None);
        let is = |layout: crate::layout::Layout| world.layout().is_same(&layout);
        match outcome {
            // It died before the first change, or after the last.
            None => prop_assert!(is(way.former()) || is(way.wanted())),
            Some(Outcome::Reached) => prop_assert!(is(way.wanted())),
            Some(Outcome::RolledBack { .. }) => prop_assert!(is(way.former())),
            Some(other) => prop_assert!(false, "{:?}", other),
        }
        prop_assert_eq!(busy(&world.division), busy(&way.from));
    }
}
