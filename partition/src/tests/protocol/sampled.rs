//! Whatever happens, in whatever order: when it is calm again, everything is put back and a final word is said.

use std::time::Duration;

use gpulet_inventory::pod::{Pod, Role};
use proptest::prelude::*;

use crate::protocol::*;

use super::world::{World, pod};

#[derive(Debug, Clone)]
enum Act {
    Wish(Option<&'static str>),
    WhenBusy(&'static str),
    ApiUp(bool),
    Budget(bool),
    DiskFull(bool),
    Forbidden(bool),
    User(bool),
    Stubborn(bool),
    Manager(bool),
    Ends(GpuEnd),
    CareFails(bool),
    Edit(&'static str),
    Drift,
    Kill(usize),
    Cordon(bool),
    Pass(u64),
}

fn acts() -> impl Strategy<Value = Act> {
    use Act::*;
    prop_oneof![
        4 => prop::sample::select(vec![Some("a"), Some("b"), Some("c"), Some("no-such"), None]).prop_map(Wish),
        2 => prop::sample::select(vec!["refuse", "wait", "drain", "perhaps"]).prop_map(WhenBusy),
        2 => any::<bool>().prop_map(ApiUp),
        1 => any::<bool>().prop_map(Budget),
        1 => any::<bool>().prop_map(DiskFull),
        1 => any::<bool>().prop_map(Forbidden),
        2 => any::<bool>().prop_map(User),
        1 => any::<bool>().prop_map(Stubborn),
        1 => any::<bool>().prop_map(Manager),
        2 => prop::sample::select(vec![
            GpuEnd::Reached, GpuEnd::RolledBack, GpuEnd::Broken, GpuEnd::NotBegun, GpuEnd::RebootRequired,
        ]).prop_map(Ends),
        1 => any::<bool>().prop_map(CareFails),
        1 => prop::sample::select(vec!["x", "y"]).prop_map(Edit),
        1 => Just(Drift),
        3 => (0usize..12).prop_map(Kill),
        1 => any::<bool>().prop_map(Cordon),
        4 => prop::sample::select(vec![0u64, 1, 5, 30, 100, 400]).prop_map(Pass),
    ]
}

fn act(world: &mut World, act: &Act) {
    match act {
        Act::Wish(name) => world.wish(*name),
        Act::WhenBusy(word) => world.when_busy(word),
        Act::ApiUp(up) => world.api_up = *up,
        Act::Budget(budget) => world.budget = *budget,
        Act::DiskFull(full) => world.disk_full = *full,
        Act::Forbidden(forbidden) => world.forbidden = *forbidden,
        Act::User(true) if world.users.is_empty() => world.user("train"),
        Act::User(true) => {}
        Act::User(false) => world.pods.retain(|pod| pod.name != "train"),
        Act::Stubborn(stubborn) => {
            world.stubborn.clear();
            if *stubborn {
                world.stubborn.extend(["train".to_owned(), "dcgm".to_owned()]);
            }
        }
        Act::Manager(there) => {
            world.pods.retain(|pod| pod.role != Some(Role::MigManager));
            if *there {
                world.pods.push(Pod { role: Some(Role::MigManager), ..pod("manager") });
            }
        }
        Act::Ends(end) => world.ends.push_back(*end),
        Act::CareFails(fails) => world.care_fails = *fails,
        Act::Edit(hash) => {
            world.file.insert("a".into(), format!("hash-{hash}"));
            world.say(Event::File);
        }
        Act::Drift => {
            world.layout = "hash-drifted".into();
            world.say(Event::Stirred(Stir::Gpus));
        }
        Act::Kill(after) => world.fuse = Some(*after),
        Act::Cordon(on) if !world.node.annotations.contains_key(CORDONED) => {
            world.node.unschedulable = *on;
            world.touch();
        }
        Act::Cordon(_) => {}
        Act::Pass(seconds) => world.run(Duration::from_secs(*seconds)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn it_ends_with_everything_put_back_and_a_final_word(script in prop::collection::vec(acts(), 1..25)) {
        let mut world = World::new();
        let mut cordoned = false;
        for step in &script {
            act(&mut world, step);
            if !world.node.annotations.contains_key(CORDONED) {
                cordoned = world.node.unschedulable;
            }
        }
        // Calm.
        (world.api_up, world.budget, world.disk_full, world.forbidden) = (true, false, false, false);
        (world.care_fails, world.fuse) = (false, None);
        world.ends.clear();
        world.stubborn.clear();
        world.run(Duration::from_secs(2 * 3600));
        prop_assert!(world.is_restored(), "{:?} {:?}", world.node, world.journal());
        prop_assert_eq!(world.node.unschedulable, cordoned);
        for key in ["nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.dcgm", "nvidia.com/gpu.deploy.driver"] {
            prop_assert_eq!(world.node.labels.get(key).map(String::as_str), Some("true"));
        }
        prop_assert_eq!(world.node.labels.get("nvidia.com/gpu.deploy.dcgm-exporter").map(String::as_str), Some("false"));
        let managed = world.pods.iter().any(|pod| pod.role.is_some());
        let wish = world.node.labels.get(MIG_CONFIG).cloned();
        match (wish, managed) {
            (None, _) => prop_assert_eq!(world.status(), None),
            (Some(_), true) => prop_assert_eq!(world.status().map(|status| status.state), Some(State::HandsOff)),
            (Some(name), false) => {
                let state = world.state().unwrap_or_default().to_owned();
                let reached = world.file.get(&name) == Some(&world.layout);
                let word = world.node.labels.get(WHEN_BUSY).map(String::as_str) == Some("perhaps");
                let excused = !world.file.contains_key(&name) || word || !world.users.is_empty();
                prop_assert!(
                    (reached && (state == "success" || word)) || (state == "failed" && excused),
                    "{} {:?} {:?}", state, world.status(), world.layout
                );
                prop_assert!(!world.reason().is_empty());
            }
        }
    }
}
