//! The API server, other programs and the disk.

use std::time::Duration;

use gpulet_inventory::pod::{Pod, Role};

use crate::protocol::*;

use super::world::{World, pod};

#[test]
fn another_manager_is_left_to_it() {
    let mut world = World::new();
    world.pods.push(Pod { role: Some(Role::MigManager), ..pod("nvidia-mig-manager-x") });
    world.wish(Some("a"));
    world.rest();
    assert_eq!((world.state(), world.reason()), (None, "OtherManager".into()));
    assert_eq!(world.status().unwrap().state, State::HandsOff);
    assert!(world.status().unwrap().message.contains("a/nvidia-mig-manager-x"));
    assert_eq!(world.count(|command| matches!(command, Command::Look(_) | Command::Apply { .. })), 0);
    world.pods.retain(|pod| pod.role.is_none());
    world.rest();
    assert_eq!(world.state(), Some("success"));
}

#[test]
fn hami_is_another_manager_only_where_it_divides() {
    for (mode, state) in [("hami-core", Some("success")), ("mig", None)] {
        let mut world = World::new();
        world.pods.push(Pod { role: Some(Role::Hami), ..pod("hami") });
        let registered = format!(r#"[{{"id":"GPU-1", "mode": "{mode}"}}]"#);
        world.node.annotations.insert("hami.io/node-nvidia-register".into(), registered);
        world.wish(Some("a"));
        world.rest();
        assert_eq!(world.state(), state, "{mode}");
    }
}

#[test]
fn no_change_is_begun_while_the_api_server_is_away() {
    let mut world = World::new();
    world.layout = "hash-a".into();
    world.wish(Some("a"));
    world.rest();
    world.api_up = false;
    world.layout = "hash-x".into();
    world.say(Event::Stirred(Stir::Gpus));
    world.rest();
    assert_eq!(world.count(|command| matches!(command, Command::Apply { .. })), 0);
    world.api_up = true;
    world.run(Duration::from_secs(40));
    assert_eq!((world.layout.as_str(), world.state()), ("hash-a", Some("success")));
}

#[test]
fn clients_come_back_when_the_api_server_does() {
    let mut world = World::new();
    world.wish(Some("a"));
    world.fuse = None;
    // It goes away when the GPUs are being changed.
    while world.count(|command| matches!(command, Command::Apply { .. })) == 0 {
        world.say(Event::Node(Some(world.node.clone())));
        world.say(Event::Pods(world.pods.clone().into()));
        world.control();
        let paused = world.node.labels.values().any(|value| value == PAUSED);
        world.api_up = !paused;
        world.say(Event::Woken);
    }
    world.api_up = false;
    world.run(Duration::from_secs(5));
    assert_eq!(world.layout, "hash-a", "what was begun is gone on with");
    world.api_up = true;
    world.run(Duration::from_secs(40));
    assert_eq!(world.state(), Some("success"));
    assert!(world.is_restored());
}

#[test]
fn what_may_not_be_done_is_told_where_it_can_be() {
    let mut world = World::new();
    world.forbidden = true;
    world.wish(Some("a"));
    world.rest();
    assert!(matches!(world.machine.standing(), Standing::Of(status) if status.reason == "Forbidden"));
    assert_eq!(world.count(|command| matches!(command, Command::Apply { .. })), 0);
    world.forbidden = false;
    world.run(Duration::from_secs(100));
    assert_eq!(world.state(), Some("success"));
}

#[test]
fn nothing_is_begun_that_cannot_be_written_down() {
    let mut world = World::new();
    world.disk_full = true;
    world.wish(Some("a"));
    world.rest();
    assert_eq!((world.state(), world.reason()), (Some("failed"), "JournalUnavailable".into()));
    assert!(!world.node.labels.values().any(|value| value == PAUSED));
    world.disk_full = false;
    world.run(Duration::from_secs(100));
    assert_eq!(world.state(), Some("success"));
}

#[test]
fn a_label_is_looked_at_without_any_wait() {
    let mut world = World::new();
    world.wish(Some("a"));
    world.rest();
    let begun = world.now;
    world.wish(Some("b"));
    let node = world.node.clone();
    world.say(Event::Node(Some(node)));
    assert_eq!(world.now, begun);
    let looked = |command: &Command| matches!(command, Command::Look(declared) if declared.name == "b");
    assert!(world.count(looked) > 0);
    assert_eq!(world.state(), Some("pending"), "it has begun, and no time has passed");
}

#[test]
fn a_node_that_is_deleted_is_no_end() {
    let mut world = World::new();
    world.wish(Some("a"));
    world.rest();
    world.say(Event::Node(None));
    world.wish(Some("b"));
    world.rest();
    assert_eq!(world.state(), Some("success"));
}

#[test]
fn device_plugins_that_no_label_pauses_are_started_anew() {
    let mut world = World::new();
    let keeper = gpulet_inventory::pod::Keeper::DaemonSet;
    world.pods.push(Pod { role: Some(Role::DevicePlugin), keeper, ..pod("own-plugin") });
    world.wish(Some("a"));
    world.rest();
    let evicted = |command: &Command| matches!(command, Command::Evict(pods) if pods[0].name == "own-plugin");
    assert_eq!(world.count(evicted), 1);
    world.restart();
    world.rest();
    assert_eq!(world.count(evicted), 1, "only after a change");
    let cordoned = |command: &Command| matches!(command, Command::ChangeNode(change) if change.unschedulable == Some(true));
    assert_eq!(world.count(cordoned), 1, "while it offers what is about to go");
    assert!(world.is_restored() && !world.node.unschedulable);
    let of = |is_it: &dyn Fn(&Command) -> bool| world.log.iter().position(is_it).unwrap();
    let uncordoned = |command: &Command| matches!(command, Command::ChangeNode(change) if change.unschedulable == Some(false));
    assert!(of(&evicted) < of(&uncordoned));
}

#[test]
fn a_device_plugin_that_ran_while_a_cut_off_change_was_ended_is_started_anew() {
    let mut world = World::new();
    let keeper = gpulet_inventory::pod::Keeper::DaemonSet;
    let deployed_by = vec!["nvidia.com/gpu.deploy.device-plugin".to_owned()];
    world.pods.retain(|pod| pod.name != "device-plugin");
    world.pods.push(Pod { role: Some(Role::DevicePlugin), keeper, deployed_by, ..pod("device-plugin") });
    world.layout = "hash-a".into();
    world.wish(Some("a"));
    world.rest();
    let evicted = |command: &Command| matches!(command, Command::Evict(_));
    assert_eq!(world.count(evicted), 0);
    world.recovers = true;
    world.say(Event::File);
    world.rest();
    assert_eq!((world.count(evicted), world.state()), (1, Some("success")));
    assert!(world.count(|command| *command == Command::Care) > 0);
    world.say(Event::File);
    world.rest();
    assert_eq!(world.count(evicted), 1, "once");
}

#[test]
fn what_a_command_wrote_down_meanwhile_is_kept() {
    let mut world = World::new();
    world.layout = "hash-a".into();
    world.rest();
    let marker = RebootMarker { boot_id: "boot-0".into(), hash: "hash-b".into() };
    let entry = NodeEntry { reboot: Some(marker.clone()), aftercare: true, ..NodeEntry::default() };
    world.disk = Some(entry.into());
    world.ends = [GpuEnd::RolledBack].into();
    world.wish(Some("b"));
    world.rest();
    assert_eq!(world.reason(), "RolledBack");
    assert_eq!(world.journal().reboot, Some(marker), "it is rebooted for this once");
    assert!(world.count(|command| *command == Command::Care) > 0 && world.is_restored());
}

#[test]
fn statuses_survive_the_annotation() {
    let mut world = World::new();
    world.wish(Some("a"));
    world.rest();
    let text = world.node.annotations.get(STATUS).unwrap();
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    for key in ["state", "config", "hash", "reason", "message", "gpus", "time"] {
        assert!(json.get(key).is_some(), "{key}: {text}");
    }
    assert_eq!(Status::read(text), world.status());
    assert_eq!(Status::read("{"), None);
}
