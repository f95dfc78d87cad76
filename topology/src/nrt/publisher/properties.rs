//! What holds whatever happens in whatever order.

use std::time::Duration;

use proptest::prelude::*;

use super::harness::{Harness, NFD, body};
use super::{Event, Failure, Timing, Why, Write};

/// Something that happens.
#[derive(Debug, Clone)]
enum Happening {
    Desire(u64, u64),
    Unsettle,
    Forget(bool),
    Pass(u64),
    Fail(Option<Failure>),
    ApiBack,
    Watch(bool),
    Delete,
    Edit(u64),
    Nfd(u64),
    TakeOver(bool),
    OldNews,
    Node(u8),
    NothingDesired,
}

fn happening() -> impl Strategy<Value = Happening> {
    let retry_after = prop::option::of((0u64..200).prop_map(Duration::from_secs));
    let failure = prop_oneof![
        Just(Failure::Conflict),
        Just(Failure::Unauthorized),
        Just(Failure::Forbidden),
        Just(Failure::NotInstalled),
        retry_after.prop_map(|retry_after| Failure::Throttled { retry_after }),
        Just(Failure::Unreachable),
        Just(Failure::Invalid),
        Just(Failure::Other),
    ];
    prop_oneof![
        8 => (0u64..4, 0u64..4).prop_map(|(gpus, free)| Happening::Desire(gpus, free.min(gpus))),
        8 => (0u64..3000).prop_map(Happening::Pass),
        1 => (0u64..3_000_000).prop_map(Happening::Pass),
        1 => Just(Happening::Unsettle),
        1 => any::<bool>().prop_map(Happening::Forget),
        2 => failure.prop_map(|failure| Happening::Fail(Some(failure))),
        3 => Just(Happening::Fail(None)),
        1 => Just(Happening::ApiBack),
        1 => any::<bool>().prop_map(Happening::Watch),
        1 => Just(Happening::Delete),
        1 => (0u64..4).prop_map(Happening::Edit),
        1 => (0u64..4).prop_map(Happening::Nfd),
        1 => any::<bool>().prop_map(Happening::TakeOver),
        1 => Just(Happening::OldNews),
        1 => (0u8..3).prop_map(Happening::Node),
        1 => Just(Happening::NothingDesired),
    ]
}

fn happen(harness: &mut Harness, happening: Happening) {
    match happening {
        Happening::Desire(gpus, free) => harness.event(Event::Desired(body(gpus, free))),
        Happening::Unsettle => harness.event(Event::KubeletUnsettled),
        Happening::Forget(forgets) => harness.event(Event::KubeletForgets(forgets)),
        Happening::Pass(millis) => harness.pass(Duration::from_millis(millis)),
        Happening::Fail(failure) => harness.fault = failure,
        Happening::ApiBack => harness.event(Event::ApiBack),
        Happening::Watch(watched) => harness.watched = watched,
        Happening::Delete => harness.delete(),
        Happening::Edit(gpus) => harness.other_writes(&body(gpus, gpus), "kubectl-edit", false),
        Happening::Nfd(gpus) => harness.other_writes(&body(gpus, gpus), NFD, true),
        Happening::TakeOver(take_over) => harness.event(Event::TakeOver(take_over)),
        Happening::Node(uid) => harness.node(&uid.to_string()),
        Happening::NothingDesired => harness.event(Event::NothingDesired),
        Happening::OldNews => {
            let object = harness.object.clone();
            harness.event(Event::Noticed(object));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn writes_keep_their_distance_and_their_reasons(
        seed in any::<u64>(),
        happenings in prop::collection::vec(happening(), 0..120),
    ) {
        let mut harness = Harness::with(Timing::default(), seed);
        for happening in happenings {
            // Without its watch it cannot know what is there.
            if !matches!(happening, Happening::Watch(_)) {
                happen(&mut harness, happening);
            }
        }
        // What a person has made is not ours, whatever it says.
        let due = |write: &Write| matches!(write.why, Why::Refreshed | Why::TakenOver);
        prop_assert!(harness.idle.iter().all(due), "{:?}", harness.idle);
        let apart = |times: &[Duration]| times.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(1));
        let writes: Vec<Duration> = harness.writes.iter().map(|(at, _)| *at).collect();
        prop_assert!(apart(&writes), "{:?}", writes);
        prop_assert!(apart(&harness.reads), "{:?}", harness.reads);
        let refreshed = harness.writes.iter().find(|(_, write)| write.why == Why::Refreshed);
        prop_assert!(refreshed.is_none_or(|(at, _)| *at >= Duration::from_secs(600)));
    }

    #[test]
    fn when_all_is_well_the_object_becomes_what_it_should_be(
        seed in any::<u64>(),
        happenings in prop::collection::vec(happening(), 0..120),
    ) {
        let mut harness = Harness::with(Timing::default(), seed);
        for happening in happenings {
            happen(&mut harness, happening);
        }
        harness.fault = None;
        harness.watched = true;
        harness.event(Event::TakeOver(true));
        harness.event(Event::Desired(body(5, 3)));
        // Longer than any wait, and than the time for which others were contested.
        harness.pass(Duration::from_secs(2 * 3600));
        prop_assert_eq!(harness.said(), Some(&*body(5, 3)));
        let owners = harness.object.iter().flat_map(|object| &object.owner_references);
        let owners: Vec<&str> = owners.map(|owner| owner.uid.as_str()).collect();
        prop_assert_eq!(owners, harness.node.as_deref().into_iter().collect::<Vec<_>>());
        prop_assert_eq!(harness.publisher.state().reason(), "Published");
        let writes = harness.writes.len();
        harness.pass(Duration::from_secs(3600));
        prop_assert!(harness.writes.len() <= writes + 6, "only refreshes are left");
        prop_assert!(harness.writes[writes..].iter().all(|(_, write)| write.why == Why::Refreshed));
    }

    #[test]
    fn another_publishers_object_is_never_written_without_being_told_to(
        seed in any::<u64>(),
        happenings in prop::collection::vec(happening(), 0..120),
    ) {
        let mut harness = Harness::with(Timing::default(), seed);
        harness.other_writes(&body(1, 1), NFD, true);
        for happening in happenings {
            let foreign = matches!(happening, Happening::TakeOver(_) | Happening::Delete);
            if !foreign {
                happen(&mut harness, happening);
            }
        }
        prop_assert!(harness.writes.is_empty() , "{:?}", harness.writes);
    }
}
