//! What is declared is reached, or it is said why not; and everything is put back.

use crate::protocol::*;
use crate::reboot::Permission;

use super::world::{DCGM, PLUGIN, World};

#[test]
fn a_label_is_reached_by_pausing_who_uses_the_gpus() {
    let mut world = World::new();
    world.wish(Some("a"));
    world.rest();
    assert_eq!((world.layout.as_str(), world.state()), ("hash-a", Some("success")));
    assert_eq!(world.states_told(), ["pending", "success"]);
    assert!(world.is_restored());
    let status = world.status().unwrap();
    assert_eq!((status.config.as_str(), status.hash.as_deref()), ("a", Some("hash-a")));
    assert_eq!(status.gpus[0].result, "changed");
    assert_eq!(world.count(|command| matches!(command, Command::Care)), 1);
    // Labels that were absent or false are as they were.
    assert_eq!(world.node.labels.get("nvidia.com/gpu.deploy.dcgm-exporter").unwrap(), "false");
    assert!(!world.node.labels.contains_key("nvidia.com/gpu.deploy.nvsm"));
    assert_eq!(world.node.labels.get(PLUGIN).unwrap(), "true");
}

#[test]
fn that_it_has_begun_is_told_also_where_nobody_is_to_be_paused() {
    let mut world = World::new();
    world.node.labels.retain(|key, _| !key.starts_with("nvidia.com/gpu.deploy."));
    world.wish(Some("a"));
    world.rest();
    assert_eq!(world.states_told(), ["pending", "success"]);
}

#[test]
fn where_all_is_as_wanted_nothing_is_paused_and_it_is_told_once() {
    let mut world = World::new();
    world.layout = "hash-a".into();
    world.wish(Some("a"));
    world.rest();
    assert_eq!(world.states_told(), ["success"]);
    let writes = world.count(|command| matches!(command, Command::ChangeNode(_)));
    assert_eq!(writes, 1);
    world.restart();
    world.rest();
    assert_eq!(world.count(|command| matches!(command, Command::ChangeNode(_))), 1, "also after a restart");
    let happened = world.count(|command| matches!(command, Command::Happened(_)));
    assert_eq!(happened, 1);
}

#[test]
fn what_is_wrong_is_told_before_anything_is_paused() {
    let mut world = World::new();
    world.wish(Some("no-such"));
    world.rest();
    assert_eq!((world.states_told(), world.reason()), (vec!["failed"], "UnknownLayout".into()));
    assert!(world.disk.is_none(), "nothing was to be put back");
    world.wish(Some("a"));
    world.when_busy("perhaps");
    world.rest();
    assert_eq!(world.reason(), "BadLabel");
    assert!(world.status().unwrap().message.contains("perhaps"));
    world.when_busy("refuse");
    world.rest();
    assert_eq!(world.state(), Some("success"));
}

#[test]
fn an_edited_file_is_a_new_wish_and_back_to_a_is_a() {
    let mut world = World::new();
    world.wish(Some("a"));
    world.rest();
    world.file.insert("a".into(), "hash-a2".into());
    world.say(Event::File);
    world.rest();
    assert_eq!((world.layout.as_str(), world.state()), ("hash-a2", Some("success")));
    world.wish(Some("b"));
    world.rest();
    world.wish(Some("a"));
    world.rest();
    assert_eq!((world.layout.as_str(), world.state()), ("hash-a2", Some("success")));
}

#[test]
fn what_is_told_already_is_not_written_again() {
    let mut world = World::new();
    world.wish(Some("a"));
    world.rest();
    let writes = |world: &World| {
        world.count(|command| matches!(command, Command::ChangeNode(_) | Command::Journal(_)))
    };
    let before = writes(&world);
    for restart in [false, true] {
        world.say(Event::File);
        world.say(Event::Stirred(Stir::Gpus));
        world.run(std::time::Duration::from_secs(1000));
        assert_eq!(writes(&world), before);
        if !restart {
            world.restart();
        }
    }
    assert_eq!(world.status().unwrap().gpus[0].result, "changed");
}

#[test]
fn what_is_declared_meanwhile_comes_when_the_gpu_is_done() {
    let mut world = World::new();
    world.wish(Some("a"));
    world.meanwhile = Some(Box::new(|node| drop(node.labels.insert(MIG_CONFIG.into(), "b".into()))));
    world.rest();
    assert_eq!((world.layout.as_str(), world.state()), ("hash-b", Some("success")));
    assert_eq!(world.count(|command| matches!(command, Command::StopSoon)), 1);
    let told = world.status().unwrap();
    assert_eq!(told.config, "b");
    assert!(world.is_restored());
    // The clients were not let in between.
    let pauses = world.count(|command| match command {
        Command::ChangeNode(change) => change.labels.get(PLUGIN) == Some(&Some(PAUSED.to_owned())),
        _ => false,
    });
    assert_eq!(pauses, 1);
}

#[test]
fn without_the_label_hands_are_off_and_nothing_of_ours_stays() {
    let mut world = World::new();
    world.rest();
    assert_eq!(world.count(|command| matches!(command, Command::ChangeNode(_) | Command::Look(_))), 0);
    world.wish(Some("a"));
    world.meanwhile = Some(Box::new(|node| drop(node.labels.remove(MIG_CONFIG))));
    world.rest();
    assert_eq!((world.state(), world.status()), (None, None));
    assert!(world.is_restored());
    assert_eq!(world.layout, "hash-a", "the GPUs stay as they are");
    assert_eq!(*world.machine.standing(), Standing::NotDeclared);
}

#[test]
fn what_another_program_wrote_stays_without_the_label() {
    let mut world = World::new();
    world.node.labels.insert(STATE.into(), "failed".into());
    world.rest();
    assert_eq!(world.state(), Some("failed"));
}

#[test]
fn a_change_that_fails_is_tried_again_ever_more_seldom() {
    let mut world = World::new();
    world.ends = [GpuEnd::RolledBack, GpuEnd::RolledBack, GpuEnd::Broken].into();
    world.wish(Some("a"));
    world.rest();
    assert_eq!((world.state(), world.reason()), (Some("failed"), "RolledBack".into()));
    assert!(world.is_restored(), "{:?}", world.journal());
    world.run(std::time::Duration::from_secs(15 + 30 + 60 - 6));
    assert_eq!(world.state(), Some("failed"));
    world.run(std::time::Duration::from_secs(120));
    assert_eq!((world.layout.as_str(), world.state()), ("hash-a", Some("success")));
}

#[test]
fn what_someone_else_changes_is_mended_or_told() {
    for (repair, layout, state) in [(true, "hash-a", "success"), (false, "hash-x", "failed")] {
        let mut world = World::new();
        world.wish(Some("a"));
        world.rest();
        world.say(Event::Policy(Policy { repair, ..super::world::policy() }));
        world.rest();
        world.layout = "hash-x".into();
        world.say(Event::Stirred(Stir::Gpus));
        world.rest();
        assert_eq!((world.layout.as_str(), world.state()), (layout, Some(state)));
        // Another wish is reached all the same.
        world.wish(Some("b"));
        world.rest();
        assert_eq!((world.layout.as_str(), world.state()), ("hash-b", Some("success")));
    }
}

#[test]
fn after_a_reboot_it_is_no_drift() {
    let mut world = World::new();
    world.policy.repair = false;
    world.restart();
    world.wish(Some("a"));
    world.rest();
    (world.layout, world.boot) = ("hash-none".into(), 1);
    world.restart();
    world.rest();
    assert_eq!((world.layout.as_str(), world.state()), ("hash-a", Some("success")));
}

#[test]
fn after_the_driver_was_loaded_anew_it_is_no_drift() {
    let mut world = World::new();
    world.policy.repair = false;
    world.restart();
    world.wish(Some("a"));
    world.rest();
    world.layout = "hash-none".into();
    world.say(Event::Reloaded);
    world.rest();
    assert_eq!((world.layout.as_str(), world.state()), ("hash-a", Some("success")));
}

#[test]
fn a_reboot_is_asked_for_once() {
    let mut world = World::new();
    world.policy.reboot = Permission::Once;
    world.restart();
    world.ends = [GpuEnd::RebootRequired, GpuEnd::RebootRequired].into();
    world.wish(Some("a"));
    world.rest();
    assert_eq!(world.state(), Some("rebooting"));
    assert_eq!(world.journal().reboot.unwrap().hash, "hash-a");
    world.boot = 1;
    world.restart();
    world.rest();
    assert_eq!((world.state(), world.reason()), (Some("failed"), "RebootDidNotHelp".into()));
    assert!(world.is_restored());
    assert_eq!(world.count(|command| matches!(command, Command::Reboot)), 1);
}

#[test]
fn a_machine_that_does_not_go_down_is_told() {
    let mut world = World::new();
    world.policy.reboot = Permission::Once;
    world.restart();
    world.ends = [GpuEnd::RebootRequired].into();
    world.wish(Some("a"));
    world.run(std::time::Duration::from_secs(601));
    assert_eq!((world.state(), world.reason()), (Some("failed"), "RebootFailed".into()));
    world.run(std::time::Duration::from_secs(60));
    assert!(world.is_restored());
    // Tried again, it did not need one.
    assert_eq!(world.state(), Some("success"));
}

#[test]
fn killed_before_the_reboot_was_asked_for_it_is_asked_for() {
    let mut world = World::new();
    world.policy.reboot = Permission::Once;
    let marker = RebootMarker { boot_id: "boot-0".into(), hash: "hash-a".into() };
    world.disk = Some(NodeEntry { reboot: Some(marker), ..NodeEntry::default() }.into());
    world.waits = true;
    world.restart();
    world.wish(Some("a"));
    world.rest();
    assert_eq!(world.state(), Some("rebooting"));
    assert_eq!(world.count(|command| *command == Command::Reboot), 1);
    world.boot += 1;
    world.restart();
    world.rest();
    assert_eq!((world.state(), world.reason()), (Some("failed"), "RebootRequired".into()));
    assert_eq!(world.count(|command| *command == Command::Reboot), 1, "once");
}

#[test]
fn without_permission_a_reboot_is_told() {
    let mut world = World::new();
    world.ends = [GpuEnd::RebootRequired].into();
    world.wish(Some("a"));
    world.rest();
    assert_eq!((world.state(), world.reason()), (Some("failed"), "RebootRequired".into()));
    assert!(world.is_restored());
}

#[test]
fn what_is_not_seen_to_afterwards_is_no_success() {
    let mut world = World::new();
    world.care_fails = true;
    world.wish(Some("a"));
    world.rest();
    assert_eq!((world.state(), world.reason()), (Some("failed"), "CdiStale".into()));
    assert!(!world.node.labels.values().any(|value| value == PAUSED), "the clients are back all the same");
    world.care_fails = false;
    world.run(std::time::Duration::from_secs(100));
    assert_eq!(world.state(), Some("success"));
    assert!(world.is_restored());
}

#[test]
fn what_others_write_over_ours_is_set_right_and_not_fought_over() {
    let mut world = World::new();
    world.wish(Some("a"));
    world.rest();
    for _ in 0..3 {
        world.node.labels.insert(STATE.into(), "pending".into());
        world.touch();
        world.run(std::time::Duration::from_secs(60));
        assert_eq!(world.state(), Some("success"));
    }
    assert_eq!(world.count(|command| matches!(command, Command::Apply { .. })), 1);
}

#[test]
fn a_value_that_was_changed_meanwhile_stays() {
    let mut world = World::new();
    world.wish(Some("a"));
    world.meanwhile = Some(Box::new(|node| drop(node.labels.insert(DCGM.into(), "false".into()))));
    world.rest();
    assert_eq!(world.state(), Some("success"));
    assert_eq!(world.node.labels.get(DCGM).unwrap(), "false");
    assert_eq!(world.node.labels.get(PLUGIN).unwrap(), "true");
}

#[test]
fn without_an_api_server_the_configuration_declares() {
    let mut world = World::new();
    world.kubernetes = false;
    world.restart();
    world.node.labels = [(MIG_CONFIG.to_owned(), "a".to_owned())].into();
    world.pods.clear();
    world.rest();
    assert_eq!(world.layout, "hash-a");
    let api =
        |command: &Command| matches!(command, Command::ReadNode | Command::ChangeNode(_) | Command::Evict(_));
    assert_eq!(world.count(api), 0);
    assert!(matches!(world.machine.standing(), Standing::Of(status) if status.state == State::Success));
}

#[test]
fn a_gpu_that_does_not_answer_keeps_no_other_from_being_changed() {
    let mut world = World::new();
    world.lost = true;
    world.wish(Some("a"));
    world.rest();
    assert_eq!(
        (world.layout.as_str(), world.state(), world.reason()),
        ("hash-a", Some("failed"), "Lost".into())
    );
    assert!(world.is_restored());
    world.lost = false;
    world.run(std::time::Duration::from_secs(100));
    assert_eq!(world.state(), Some("success"));
}
