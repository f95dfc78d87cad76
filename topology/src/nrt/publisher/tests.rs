//! What each event leads to.

use std::time::Duration;

use super::super::observed::Observed;
use super::super::ownership::{FIELD_MANAGER, Publisher as Program};
use super::harness::{Harness, NFD, body};
use super::{Command, Event, Failure, State, Why};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const APPLIES: bool = true;
const UPDATES: bool = false;

#[test]
fn nothing_is_asked_before_there_is_something_to_publish() {
    let mut harness = Harness::new();
    harness.pass(seconds(3600));
    assert!(harness.reads.is_empty() && harness.writes.is_empty());
    assert_eq!(harness.publisher.next_wake(), None);
    assert_eq!(harness.publisher.state(), &State::Starting);
}

#[test]
fn the_first_write_comes_after_a_look() {
    let mut harness = Harness::new();
    harness.event(Event::Desired(body(8, 8)));
    assert_eq!((harness.reads.len(), harness.writes.len()), (1, 0));
    harness.pass(millis(300));
    assert_eq!(harness.whys(), [Why::Absent]);
    assert!(!harness.writes[0].1.force);
    assert_eq!(harness.told, [State::Published]);
    assert_eq!(harness.reads.len(), 1);
}

#[test]
fn what_is_there_already_is_not_written() {
    let mut harness = Harness::published(&body(8, 8));
    let mut anew = Harness::new();
    anew.object = harness.object.clone();
    anew.event(Event::Desired(body(8, 8)));
    anew.pass(seconds(599));
    assert!(anew.writes.is_empty(), "a new start finds it");
    assert_eq!(anew.told, [State::Published]);
    for _ in 0..100 {
        harness.event(Event::Desired(body(8, 8)));
        harness.pass(seconds(1));
    }
    assert!(harness.writes.is_empty() && harness.reads.is_empty(), "a second scan writes nothing");
}

#[test]
fn the_object_gets_the_node_that_was_made_anew_as_its_owner() {
    let mut harness = Harness::new();
    harness.node("old");
    harness.event(Event::Desired(body(8, 8)));
    harness.pass(seconds(61));
    assert_eq!(harness.whys(), [Why::Absent]);
    harness.node("new");
    harness.pass(seconds(5));
    assert_eq!(harness.whys(), [Why::Absent, Why::Changed]);
    assert_eq!(harness.object.as_ref().unwrap().owner_references[0].uid, "new");
    let mut anew = Harness::new();
    anew.object = harness.object.clone();
    anew.node("newer");
    anew.event(Event::Desired(body(8, 8)));
    anew.pass(seconds(61));
    assert_eq!(anew.whys(), [Why::Changed], "a new start sees to it, too");
    anew.pass(seconds(400));
    assert_eq!(anew.writes.len(), 1, "once");
}

#[test]
fn without_a_node_nothing_is_written() {
    let mut harness = Harness::published(&body(8, 8));
    harness.event(Event::NothingDesired);
    harness.delete();
    harness.pass(seconds(7200));
    assert!(harness.writes.is_empty() && harness.reads.is_empty(), "nobody would ever delete it");
    assert_eq!(harness.publisher.state(), &State::Starting);
    harness.event(Event::Desired(body(8, 8)));
    harness.pass(seconds(5));
    assert_eq!(harness.said(), Some(&*body(8, 8)));
    assert_eq!(harness.publisher.state(), &State::Published);
    assert_eq!(harness.whys(), [Why::Absent]);
}

#[test]
fn a_change_that_is_undone_before_it_is_written_is_not_written() {
    let mut harness = Harness::published(&body(8, 8));
    harness.event(Event::Desired(body(8, 7)));
    harness.pass(millis(100));
    harness.event(Event::Desired(body(8, 8)));
    harness.pass(seconds(60));
    assert!(harness.writes.is_empty());
}

#[test]
fn changes_wait_for_quiet_and_no_longer_than_a_second() {
    let mut harness = Harness::published(&body(8, 8));
    let begun = harness.elapsed();
    harness.event(Event::Desired(body(8, 7)));
    harness.pass(millis(199));
    assert!(harness.writes.is_empty());
    harness.pass(millis(1));
    assert_eq!(harness.writes[0].0 - begun, millis(200));

    let mut harness = Harness::published(&body(8, 8));
    let begun = harness.elapsed();
    for change in 0..20 {
        harness.event(Event::Desired(body(8, change % 7)));
        harness.pass(millis(100));
    }
    assert_eq!(harness.writes[0].0 - begun, seconds(1), "it is never quiet");
}

#[test]
fn a_hundred_pods_that_start_and_stop_within_ten_seconds_cost_at_most_twelve_writes() {
    let mut harness = Harness::published(&body(100, 100));
    let begun = harness.elapsed();
    for pod in 0..100 {
        harness.event(Event::Desired(body(100, 100 - pod % 9)));
        harness.pass(millis(100));
    }
    harness.event(Event::Desired(body(100, 100)));
    harness.pass(seconds(30));
    assert!((5..=12).contains(&harness.writes.len()), "{:?}", harness.whys());
    assert!(
        harness.writes.windows(2).all(|pair| pair[1].0 - pair[0].0 >= seconds(1)),
        "{:?}",
        harness.writes
    );
    assert!(harness.writes.last().unwrap().0 - begun < seconds(12));
    assert_eq!(harness.said(), Some(&*body(100, 100)));
    assert!(harness.reads.is_empty(), "what the watch tells of its own writes is no news");
}

#[test]
fn what_does_not_change_is_refreshed_every_ten_minutes_at_most() {
    let mut harness = Harness::published(&body(8, 8));
    harness.pass(seconds(6 * 3600));
    let writes = harness.writes.len();
    assert!((30..=36).contains(&writes), "{writes} in six hours");
    assert!(harness.whys().iter().all(|why| *why == Why::Refreshed));
    assert!(harness.writes.windows(2).all(|pair| pair[1].0 - pair[0].0 >= seconds(600)));
    let waits: std::collections::BTreeSet<Duration> =
        harness.writes.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(waits.len() > 20, "each at another time");
}

#[test]
fn after_a_restart_of_the_kubelet_nothing_vanishes_for_a_while() {
    let mut harness = Harness::published(&body(8, 3));
    harness.event(Event::KubeletUnsettled);
    harness.event(Event::Desired(body(0, 0)));
    harness.pass(seconds(30));
    assert!(harness.writes.is_empty(), "its plugins have not registered yet");
    harness.event(Event::Desired(body(8, 2)));
    harness.pass(seconds(1));
    assert_eq!(harness.said(), Some(&*body(8, 2)), "what vanishes not is written at once");
    harness.event(Event::Desired(body(0, 0)));
    harness.pass(seconds(28));
    assert_eq!(harness.said(), Some(&*body(8, 2)));
    harness.pass(seconds(2));
    assert_eq!(harness.said(), Some(&*body(0, 0)), "they do not come back");
}

#[test]
fn after_a_restart_of_the_kubelet_nothing_is_free_that_a_pod_has() {
    let mut harness = Harness::published(&body(8, 3));
    harness.event(Event::KubeletUnsettled);
    harness.event(Event::KubeletForgets(true));
    harness.event(Event::Desired(body(8, 8)));
    harness.pass(seconds(59));
    assert!(harness.writes.is_empty(), "the API server has not told it of its Pods yet");
    harness.event(Event::KubeletForgets(false));
    harness.event(Event::Desired(body(8, 4)));
    harness.pass(seconds(1));
    assert_eq!(harness.said(), Some(&*body(8, 4)), "it knows them, and one has ended");
    harness.event(Event::KubeletForgets(true));
    harness.event(Event::Desired(body(8, 8)));
    harness.pass(seconds(1));
    assert_eq!(harness.said(), Some(&*body(8, 8)), "long after a restart it is the API that is late");
}

#[test]
fn a_start_is_taken_for_a_restart_of_the_kubelet() {
    let object = Harness::published(&body(8, 3)).object;
    let mut harness = Harness::new();
    harness.object = object;
    harness.event(Event::Desired(body(4, 4)));
    harness.pass(seconds(59));
    assert!(harness.writes.is_empty());
    harness.pass(seconds(2));
    assert_eq!(harness.said(), Some(&*body(4, 4)));
}

#[test]
fn another_publishers_object_is_left_alone_and_looked_at_now_and_then() {
    let mut harness = Harness::new();
    harness.other_writes(&body(8, 1), NFD, APPLIES);
    harness.event(Event::Desired(body(8, 8)));
    harness.pass(seconds(3600));
    assert!(harness.writes.is_empty());
    let [State::OtherPublisher { contender, contested: false }] = &harness.told[..] else {
        panic!("{:?}", harness.told)
    };
    assert_eq!((contender.publisher, contender.manager.as_str()), (Program::NodeFeatureDiscovery, NFD));
    assert!(harness.told[0].message().contains(NFD), "{}", harness.told[0].message());
    assert!((10..=13).contains(&harness.reads.len()), "{} looks in an hour", harness.reads.len());

    let reads = harness.reads.len();
    for write in 0..60 {
        harness.other_writes(&body(8, write % 5), NFD, APPLIES);
        harness.pass(seconds(3));
    }
    assert!(harness.reads.len() <= reads + 1, "its writes are its own matter");

    harness.delete();
    harness.pass(seconds(2));
    assert_eq!(harness.whys(), [Why::Absent], "when it is gone, the place is free");
    assert_eq!(harness.publisher.state(), &State::Published);
}

#[test]
fn taking_over_moves_the_ownership() {
    let mut harness = Harness::new();
    harness.other_writes(&body(8, 1), "koordlet", UPDATES);
    harness.event(Event::TakeOver(true));
    harness.event(Event::Desired(body(8, 8)));
    harness.pass(seconds(2));
    assert_eq!(harness.whys(), [Why::TakenOver]);
    assert!(harness.writes[0].1.force);
    assert_eq!(harness.told, [State::Published]);
}

#[test]
fn taking_over_can_be_allowed_and_forbidden_while_it_runs() {
    let mut harness = Harness::new();
    harness.other_writes(&body(8, 1), NFD, APPLIES);
    harness.event(Event::Desired(body(8, 8)));
    harness.pass(seconds(10));
    assert!(harness.writes.is_empty());
    harness.event(Event::TakeOver(true));
    harness.pass(seconds(2));
    assert_eq!(harness.whys(), [Why::TakenOver]);
    harness.event(Event::TakeOver(false));
    harness.pass(seconds(2));
    harness.other_writes(&body(8, 1), NFD, APPLIES);
    harness.pass(seconds(600));
    assert_eq!(harness.whys(), [Why::TakenOver], "the other came back and is left alone");
    assert_eq!(harness.publisher.state().reason(), "OtherPublisher");
}

#[test]
fn two_that_take_over_do_not_fight() {
    let mut harness = Harness::new();
    harness.event(Event::TakeOver(true));
    harness.other_writes(&body(8, 1), NFD, APPLIES);
    harness.event(Event::Desired(body(8, 8)));
    for _ in 0..1200 {
        harness.other_writes(&body(8, 1), NFD, APPLIES);
        harness.pass(seconds(3));
    }
    assert!(harness.writes.len() <= 6, "{} writes in an hour", harness.writes.len());
    assert!(harness.reads.len() <= 40, "{} looks in an hour", harness.reads.len());
    let State::OtherPublisher { contested: true, .. } = harness.publisher.state() else {
        panic!("{:?}", harness.publisher.state())
    };
}

#[test]
fn what_a_person_edits_is_restored_and_not_fought_over() {
    let mut harness = Harness::published(&body(8, 8));
    harness.other_writes(&body(99, 99), "kubectl-edit", UPDATES);
    harness.pass(seconds(2));
    assert_eq!(harness.whys(), [Why::Restored]);
    assert_eq!(harness.said(), Some(&*body(8, 8)));
    assert_eq!(harness.reads.len(), 1, "it is looked at first");
    for _ in 0..360 {
        harness.other_writes(&body(99, 99), "kubectl-edit", UPDATES);
        harness.pass(seconds(10));
    }
    assert!(harness.writes.len() <= 20, "{} writes in an hour", harness.writes.len());
    harness.pass(seconds(600));
    assert_eq!(harness.said(), Some(&*body(8, 8)), "in the end it is as it should be");
}

#[test]
fn what_is_deleted_by_hand_is_written_again() {
    let mut harness = Harness::published(&body(8, 8));
    harness.delete();
    harness.pass(seconds(2));
    assert_eq!((harness.whys(), harness.reads.len()), (vec![Why::Restored], 1));
    for _ in 0..360 {
        harness.delete();
        harness.pass(seconds(10));
    }
    assert!(harness.writes.len() <= 20, "{} writes in an hour", harness.writes.len());
}

#[test]
fn another_gpulet_under_the_same_node_name_is_told_as_contested_until_it_has_stopped() {
    let mut harness = Harness::published(&body(8, 8));
    for _ in 0..3 {
        harness.other_writes(&body(4, 4), FIELD_MANAGER, APPLIES);
        harness.pass(seconds(2));
    }
    assert_eq!(harness.whys(), [Why::Restored; 3]);
    assert_eq!(harness.reasons(), Vec::<&str>::new(), "it says what it should");
    harness.other_writes(&body(4, 4), FIELD_MANAGER, APPLIES);
    harness.pass(seconds(2));
    let State::Contested { by: Some(by) } = harness.publisher.state() else {
        panic!("{:?}", harness.publisher.state())
    };
    assert_eq!(by.publisher, Program::Gpulet);
    assert!(harness.publisher.state().message().contains("same node name"));
    // The other restores, too, each time that this one has: that it is right for a minute is no news.
    for _ in 0..6 {
        let writes = harness.writes.len();
        harness.pass(seconds(360));
        assert_eq!(harness.writes.len(), writes + 1, "restoring goes on");
        harness.other_writes(&body(4, 4), FIELD_MANAGER, APPLIES);
        harness.pass(seconds(2));
    }
    assert_eq!(harness.reasons(), ["Contested"]);
    harness.pass(seconds(3600));
    assert_eq!(harness.said(), Some(&*body(8, 8)));
    assert_eq!(harness.reasons(), ["Contested", "Published"]);
}

#[test]
fn one_who_edits_or_deletes_again_and_again_is_told_as_contesting() {
    for (deletes, by) in [(false, Some(Program::Person)), (true, None)] {
        let mut harness = Harness::published(&body(8, 8));
        for _ in 0..4 {
            match deletes {
                true => harness.delete(),
                false => harness.other_writes(&body(99, 99), "kubectl-edit", UPDATES),
            }
            harness.pass(seconds(2));
        }
        let State::Contested { by: told } = harness.publisher.state() else {
            panic!("{:?}", harness.publisher.state())
        };
        assert_eq!(told.as_ref().map(|told| told.publisher), by);
    }
}

#[test]
fn old_news_of_a_watch_cost_one_look_and_none_where_they_are_our_own() {
    let mut harness = Harness::published(&body(8, 8));
    let own = harness.object.clone();
    harness.event(Event::Desired(body(8, 7)));
    harness.pass(seconds(1));
    harness.event(Event::Noticed(own.clone()));
    harness.pass(seconds(60));
    assert_eq!((harness.whys(), harness.reads.len()), (vec![Why::Changed], 0));
    let others = own.map(|own| Observed { resource_version: "other".into(), ..own });
    harness.event(Event::Noticed(others));
    harness.pass(seconds(60));
    assert_eq!((harness.whys(), harness.reads.len()), (vec![Why::Changed], 1));
}

#[test]
fn a_watch_that_lags_behind_many_writes_costs_nothing() {
    let mut harness = Harness::published(&body(8, 8));
    harness.watched = false;
    let mut told = Vec::new();
    for used in 1..8 {
        harness.event(Event::Desired(body(8, 8 - used)));
        harness.pass(seconds(2));
        told.push(harness.object.clone());
    }
    // The last write is under way while the watch tells of the first ones.
    harness.held = Some(Vec::new());
    harness.event(Event::Desired(body(8, 8)));
    harness.pass(seconds(2));
    for object in told {
        harness.event(Event::Noticed(object));
    }
    harness.held = None;
    harness.event(Event::Written("last".into()));
    harness.pass(seconds(60));
    assert_eq!((harness.writes.len(), harness.reads.len()), (8, 0));
}

#[test]
fn news_that_come_before_an_answer_are_not_lost() {
    let mut harness = Harness::published(&body(8, 8));
    harness.held = Some(Vec::new());
    harness.event(Event::Desired(body(8, 7)));
    harness.pass(millis(200));
    assert_eq!(harness.writes.len(), 1);
    // The write is taken, then another's; the watch tells of that one before the answer to the first is here.
    harness.held = None;
    harness.other_writes(&body(8, 7), FIELD_MANAGER, APPLIES);
    let version = harness.version();
    harness.other_writes(&body(1, 1), NFD, APPLIES);
    harness.event(Event::Written(version));
    harness.pass(seconds(2));
    assert_eq!(harness.publisher.state().reason(), "OtherPublisher");
}

#[test]
fn an_api_server_that_is_away_is_asked_ever_more_seldom_and_one_write_catches_up() {
    let mut harness = Harness::published(&body(8, 8));
    harness.fault = Some(Failure::Unreachable);
    for change in 0..3600 {
        harness.event(Event::Desired(body(8, change % 8)));
        harness.pass(seconds(1));
    }
    let requests = harness.reads.len() + harness.writes.len();
    assert!((10..=32).contains(&requests), "{requests} requests in an hour");
    assert_eq!(harness.reasons(), ["Unreachable"]);
    harness.fault = None;
    harness.event(Event::ApiBack);
    let (reads, writes) = (harness.reads.len(), harness.writes.len());
    harness.pass(seconds(12));
    assert_eq!((harness.reads.len() - reads, harness.writes.len() - writes), (1, 1), "one catches up");
    assert_eq!(harness.said(), Some(&*body(8, 7)));
    assert_eq!(harness.reasons(), ["Unreachable", "Published"]);
}

#[test]
fn without_news_of_its_return_it_is_found_back_within_five_minutes() {
    let mut harness = Harness::published(&body(8, 8));
    harness.fault = Some(Failure::Unreachable);
    harness.event(Event::Desired(body(8, 1)));
    harness.pass(seconds(7200));
    harness.fault = None;
    harness.pass(seconds(301));
    assert_eq!(harness.said(), Some(&*body(8, 1)));
}

#[test]
fn a_write_that_was_taken_without_answer_is_not_repeated() {
    let mut harness = Harness::published(&body(8, 8));
    harness.held = Some(Vec::new());
    harness.event(Event::Desired(body(8, 7)));
    harness.pass(millis(200));
    harness.held = None;
    harness.watched = false;
    harness.other_writes(&body(8, 7), FIELD_MANAGER, APPLIES);
    harness.event(Event::Failed(Failure::Unreachable));
    harness.pass(seconds(60));
    assert_eq!((harness.writes.len(), harness.reads.len()), (1, 1));
    assert_eq!(harness.publisher.state(), &State::Published);
}

#[test]
fn what_the_api_server_asks_for_is_kept_to() {
    let mut harness = Harness::published(&body(8, 8));
    harness.fault = Some(Failure::Throttled { retry_after: Some(seconds(120)) });
    harness.event(Event::Desired(body(8, 7)));
    harness.pass(millis(200));
    harness.fault = None;
    harness.event(Event::ApiBack);
    let begun = harness.elapsed();
    harness.pass(seconds(120));
    assert_eq!(harness.writes.len(), 1, "not before");
    harness.pass(seconds(2));
    assert_eq!(harness.writes.len(), 2);
    assert!(harness.writes[1].0 - begun >= seconds(120));
    assert!(harness.reads.is_empty(), "a write that was turned away has changed nothing");
    assert_eq!(harness.reasons(), ["Throttled", "Published"]);
}

#[test]
fn a_definition_that_comes_later_is_waited_for() {
    let mut harness = Harness::new();
    harness.fault = Some(Failure::NotInstalled);
    harness.event(Event::Desired(body(8, 8)));
    harness.pass(seconds(3600));
    let requests = harness.reads.len() + harness.writes.len();
    assert!((10..=30).contains(&requests), "{requests} requests in an hour");
    assert_eq!(harness.reasons(), ["NotInstalled"]);
    let mut told = Harness::new();
    told.fault = harness.fault.take();
    told.event(Event::Desired(body(8, 8)));
    told.pass(seconds(3600));
    told.fault = None;
    told.event(Event::ApiBack);
    told.pass(seconds(12));
    assert_eq!(told.said(), Some(&*body(8, 8)), "a watch tells that it is there");
    harness.pass(seconds(302));
    assert_eq!(harness.said(), Some(&*body(8, 8)), "it is found without being told");
}

#[test]
fn what_is_refused_is_tried_again_when_it_changes() {
    let mut harness = Harness::published(&body(8, 8));
    harness.fault = Some(Failure::Invalid);
    harness.event(Event::Desired(body(8, 7)));
    harness.pass(seconds(100));
    assert_eq!(harness.writes.len(), 1);
    harness.fault = None;
    harness.event(Event::Desired(body(8, 6)));
    harness.pass(seconds(1));
    assert_eq!(harness.said(), Some(&*body(8, 6)));
    assert_eq!(harness.reasons(), ["Invalid", "Published"]);
}

#[test]
fn after_a_conflict_it_is_looked_at_whose_the_object_is() {
    // The watch is away, so that the publisher does not know of the other.
    for (manager, applies, expected) in [(NFD, APPLIES, "OtherPublisher"), ("kubectl", APPLIES, "Published")]
    {
        let mut harness = Harness::published(&body(8, 8));
        harness.watched = false;
        harness.other_writes(&body(1, 1), manager, applies);
        harness.event(Event::Desired(body(8, 7)));
        harness.pass(seconds(10));
        assert!(!harness.writes[0].1.force);
        assert_eq!(harness.reads.len(), 1, "{manager}");
        assert_eq!(harness.publisher.state().reason(), expected, "{manager}");
        assert!(!harness.reasons().contains(&"Conflict"), "whose it is, is what counts");
        assert_eq!(harness.writes.len(), if expected == "Published" { 2 } else { 1 });
    }
}

#[test]
fn one_request_is_under_way_at_any_time() {
    let mut harness = Harness::published(&body(8, 8));
    harness.held = Some(Vec::new());
    for change in 0..50 {
        harness.event(Event::Desired(body(8, change % 8)));
        harness.event(Event::Noticed(None));
        harness.pass(millis(100));
    }
    assert_eq!(harness.held.as_ref().map(Vec::len), Some(1));
    assert!(matches!(harness.held.as_ref().unwrap()[0], Command::Read | Command::Write(_)));
    assert_eq!(harness.publisher.next_wake(), None, "only the answer brings anything new");
}

#[test]
fn every_state_has_its_word() {
    for state in
        [State::Starting, State::Published, State::Contested { by: None }, State::Failing(Failure::Other)]
    {
        assert!(State::REASONS.contains(&state.reason()) && !state.message().is_empty());
    }
}
