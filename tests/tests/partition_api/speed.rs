//! How soon a change begins.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpulet_tests::{Agent, wait_until};
use serde_json::Value;

use crate::world::{EXPORTER_KEY, PLUGIN_KEY, World};

/// How often the label is changed.
const CHANGES: usize = 20;

/// Two layouts with one instance between them, so that each change is one of few steps.
const FILE: &str = "\
version: v1
mig-configs:
  one:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 1}}
  two:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 2}}
";

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn how_soon_a_change_of_the_label_is_begun_with() {
    let world = World::new("soon", "60s");
    // Nobody is to be paused: an administrator has switched both off.
    for key in [PLUGIN_KEY, EXPORTER_KEY] {
        world.label(key, Some("false"));
    }
    world.wait_for("NVIDIA's Pods have gone", || world.clients().is_empty().then_some(()));
    world.mount(FILE);
    let agent = world.agent_with(&["--log-level", "info,gpulet=debug"]);
    let reach = |layout: &str| {
        let status = world.wait_for_state(layout, "success");
        let result = &status["gpus"][0]["result"];
        assert_eq!(result, "changed", "{status:#}");
    };
    world.want("one");
    reach("one");

    let mut took = Vec::new();
    for (layout, instances) in [("two", 2), ("one", 1)].into_iter().cycle().take(CHANGES) {
        let before = begun(&agent).len();
        world.want(layout);
        let answered = SystemTime::now();
        let first = wait_until("the first step", || begun(&agent).get(before).copied());
        took.push(since(answered, first));
        reach(layout);
        assert_eq!(world.site.gpu(0).instances.len(), instances);
    }
    took.sort();
    println!(
        "{CHANGES} changes of the label: the first step after {:.0?} in the median, {:.0?} at the most; all: {took:.0?}",
        took[CHANGES / 2],
        took[CHANGES - 1]
    );
}

/// When each changing call of the driver was begun, as time of the day (UTC).
fn begun(agent: &Agent) -> Vec<Duration> {
    let lines = agent.log();
    let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let changes = lines.filter(|line| line["fields"]["message"] == "changing a GPU");
    changes.map(|line| time_of_day(line["timestamp"].as_str().unwrap())).collect()
}

/// Of `2026-01-31T23:59:59.123456Z`.
fn time_of_day(timestamp: &str) -> Duration {
    let time = timestamp.split_once('T').unwrap().1.trim_end_matches('Z');
    let parts: Vec<f64> = time.split(':').map(|part| part.parse().unwrap()).collect();
    Duration::from_secs_f64(parts[0] * 3600.0 + parts[1] * 60.0 + parts[2])
}

/// From `earlier` until a `later` time of the day; nothing where the step was there before the answer was.
fn since(earlier: SystemTime, later: Duration) -> Duration {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let earlier = earlier.duration_since(UNIX_EPOCH).unwrap();
    let earlier = Duration::new(earlier.as_secs() % DAY.as_secs(), earlier.subsec_nanos());
    let apart = (later + DAY).abs_diff(earlier);
    let apart = if apart >= DAY { apart - DAY } else { apart };
    // Midnight is far away: what is longer than half a day was before.
    if apart > DAY / 2 { Duration::ZERO } else { apart }
}
