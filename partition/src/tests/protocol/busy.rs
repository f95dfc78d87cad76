//! What is in use is not touched: refused, waited for, or drained; and clients that do not go.

use std::time::Duration;

use gpulet_inventory::pod::{Keeper, Pod};

use crate::protocol::*;

use super::world::{PLUGIN, World, pod};

#[test]
fn in_use_is_refused_and_begun_as_soon_as_it_is_free() {
    let mut world = World::new();
    world.user("train");
    world.wish(Some("a"));
    world.rest();
    assert_eq!((world.states_told(), world.reason()), (vec!["failed"], "InUse".into()));
    assert!(world.disk.is_none());
    world.pods.retain(|pod| pod.name != "train");
    world.rest();
    assert_eq!(world.state(), Some("success"));
}

#[test]
fn it_is_waited_for_until_the_deadline() {
    let mut world = World::new();
    world.user("train");
    world.when_busy("wait");
    world.wish(Some("a"));
    world.rest();
    assert_eq!((world.state(), world.reason()), (Some("pending"), "Waiting".into()));
    assert!(world.is_restored() && !world.node.unschedulable, "nobody is paused for waiting");
    world.now += Duration::from_secs(61);
    world.rest();
    assert_eq!((world.state(), world.reason()), (Some("failed"), "InUse".into()));
    world.pods.retain(|pod| pod.name != "train");
    world.rest();
    assert_eq!(world.state(), Some("success"));
}

#[test]
fn draining_evicts_who_is_in_the_way_and_uncordons() {
    let mut world = World::new();
    world.user("train");
    world.pods.push(pod("bystander"));
    world.when_busy("drain");
    world.wish(Some("a"));
    world.rest();
    assert_eq!((world.layout.as_str(), world.state()), ("hash-a", Some("success")));
    assert!(world.is_restored() && !world.node.unschedulable);
    let evicted = |command: &Command| matches!(command, Command::Evict(pods) if pods.len() == 1 && pods[0].name == "train");
    assert_eq!(world.count(evicted), 1);
    assert!(world.pods.iter().any(|pod| pod.name == "bystander"));
}

#[test]
fn who_cordoned_it_uncordons_it() {
    let mut world = World::new();
    world.node.unschedulable = true;
    world.user("train");
    world.when_busy("drain");
    world.wish(Some("a"));
    world.rest();
    assert_eq!(world.state(), Some("success"));
    assert!(world.node.unschedulable, "someone else has cordoned it");
}

#[test]
fn a_budget_is_honoured_until_the_deadline() {
    let mut world = World::new();
    world.user("train");
    world.budget = true;
    world.when_busy("drain");
    world.wish(Some("a"));
    world.run(Duration::from_secs(62));
    assert_eq!((world.state(), world.reason()), (Some("failed"), "EvictionRefused".into()));
    let message = world.status().unwrap().message;
    assert!(message.contains("a/train") && message.contains("the budget forbids it"), "{message}");
    assert!(world.is_restored() && !world.node.unschedulable);
    let tries = world.count(|command| matches!(command, Command::Evict(_)));
    assert!((8..=14).contains(&tries), "{tries} tries in a minute");
    world.budget = false;
    world.run(Duration::from_secs(100));
    assert_eq!(world.state(), Some("success"));
}

#[test]
fn a_drain_in_vain_is_not_begun_anew_whenever_a_pod_comes_or_goes() {
    let mut world = World::new();
    world.user("train");
    world.budget = true;
    world.when_busy("drain");
    world.wish(Some("a"));
    world.run(Duration::from_secs(62));
    assert_eq!(world.reason(), "EvictionRefused");
    let tries = |world: &World| world.count(|command| matches!(command, Command::Evict(_)));
    let before = tries(&world);
    for name in ["x1", "x2", "x3", "x4"] {
        world.pods.push(pod(name));
        world.run(Duration::from_secs(2));
        assert!(!world.node.unschedulable, "{name}");
        assert_eq!((world.state(), world.reason()), (Some("failed"), "EvictionRefused".into()), "{name}");
    }
    assert_eq!(tries(&world), before);
    world.run(Duration::from_secs(40));
    assert!(tries(&world) > before, "later it is");
    world.pods.retain(|pod| pod.name != "train");
    world.rest();
    assert_eq!(world.state(), Some("success"));
}

#[test]
fn looks_at_what_comes_and_goes_grow_apart() {
    let mut world = World::new();
    world.user("train");
    world.wish(Some("a"));
    world.rest();
    let looks = |world: &World| world.count(|command| matches!(command, Command::Look(_)));
    let before = looks(&world);
    for _ in 0..600 {
        world.say(Event::Stirred(Stir::Holders));
        world.run(Duration::from_secs(1));
    }
    let looks = looks(&world) - before;
    assert!((10..40).contains(&looks), "{looks} looks in ten minutes");
    world.run(Duration::from_secs(100));
    world.pods.retain(|pod| pod.name != "train");
    world.rest();
    assert_eq!(world.state(), Some("success"), "at once again, when it was calm");
}

#[test]
fn who_cannot_be_drained_is_named_before_anything_is_cordoned() {
    for (keeper, word) in [(Keeper::DaemonSet, "DaemonSet"), (Keeper::File, "static Pod")] {
        let mut world = World::new();
        world.pods.push(Pod { keeper, ..pod("agent") });
        world.users.insert("agent".into());
        world.when_busy("drain");
        world.wish(Some("a"));
        world.rest();
        assert_eq!((world.state(), world.reason()), (Some("failed"), "InUse".into()));
        let message = world.status().unwrap().message;
        assert!(message.contains("a/agent") && message.contains(word), "{message}");
        assert!(!world.node.unschedulable && world.disk.is_none());
    }
}

#[test]
fn a_pod_that_does_not_end_is_named() {
    let mut world = World::new();
    world.user("train");
    world.stubborn.insert("train".into());
    world.when_busy("drain");
    world.wish(Some("a"));
    world.run(Duration::from_secs(62));
    assert_eq!((world.state(), world.reason()), (Some("failed"), "PodsStay".into()));
    assert!(world.is_restored() && !world.node.unschedulable);
}

#[test]
fn a_client_that_stays_is_named_and_the_others_are_let_in_again() {
    let mut world = World::new();
    world.stubborn.insert("device-plugin".into());
    world.wish(Some("a"));
    world.run(Duration::from_secs(10));
    assert_eq!(world.state(), Some("pending"));
    world.run(Duration::from_secs(55));
    assert_eq!((world.state(), world.reason()), (Some("failed"), "ClientStays".into()));
    assert!(world.is_restored());
    world.stubborn.clear();
    world.run(Duration::from_secs(301));
    assert_eq!((world.layout.as_str(), world.state()), ("hash-a", Some("success")));
    let stayed = world.count(|command| match command {
        Command::Happened(happening) => {
            happening.reason == "ClientStays" && happening.message.contains("a/device-plugin")
        }
        _ => false,
    });
    assert!(stayed >= 1);
    assert!(world.is_restored());
}

#[test]
fn clients_in_the_way_are_paused_whatever_is_said_of_busy_gpus() {
    let mut world = World::new();
    world.users.insert("device-plugin".into());
    world.wish(Some("a"));
    world.rest();
    assert_eq!(world.state(), Some("success"));
}

#[test]
fn a_service_of_the_host_is_stopped_for_as_long_as_it_takes() {
    let mut world = World::new();
    world.service = Some(true);
    world.wish(Some("a"));
    world.rest();
    assert_eq!((world.state(), world.service), (Some("success"), Some(true)));
    assert!(world.is_restored());
}

#[test]
fn a_label_that_another_program_left_paused_becomes_true() {
    let mut world = World::new();
    world.node.labels.insert(PLUGIN.into(), PAUSED.into());
    world.layout = "hash-a".into();
    world.wish(Some("a"));
    world.rest();
    assert_eq!(
        (world.state(), world.node.labels.get(PLUGIN).map(String::as_str)),
        (Some("success"), Some("true"))
    );
}
