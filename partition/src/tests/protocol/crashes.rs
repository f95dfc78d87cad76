//! Killed before each of its commands, and started again.

use std::time::Duration;

use super::world::World;

#[test]
fn wherever_it_is_killed_it_gets_there_and_puts_everything_back() {
    let total = {
        let mut world = busy();
        world.rest();
        world.log.len()
    };
    assert!(total > 15, "{total} commands");
    for at in 0..total {
        let mut world = busy();
        world.fuse = Some(at);
        world.run(Duration::from_secs(29));
        world.run(Duration::from_secs(200));
        assert_eq!((world.layout.as_str(), world.state()), ("hash-a", Some("success")), "killed at {at}");
        assert!(world.is_restored() && !world.node.unschedulable, "killed at {at}");
        assert_eq!(world.service, Some(true), "killed at {at}");
    }
}

#[test]
fn killed_and_the_label_gone_it_puts_everything_back() {
    let total = {
        let mut world = busy();
        world.rest();
        world.log.len()
    };
    for at in 0..total {
        let mut world = busy();
        world.fuse = Some(at);
        // Until it is killed.
        for _ in 0..100 {
            if world.fuse.is_none() {
                break;
            }
            world.run(Duration::ZERO);
        }
        world.wish(None);
        world.restart();
        world.run(Duration::from_secs(70));
        assert!(world.is_restored() && !world.node.unschedulable, "killed at {at}");
        assert_eq!(
            (world.state(), world.status(), world.service),
            (None, None, Some(true)),
            "killed at {at}"
        );
    }
}

/// Someone is drained, clients are paused, a service is stopped.
fn busy() -> World {
    let mut world = World::new();
    world.user("train");
    world.service = Some(true);
    world.when_busy("drain");
    world.wish(Some("a"));
    world
}
