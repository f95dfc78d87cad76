//! GPUs that Pods use: refused, waited for, or freed by evictions within budgets.

use std::time::Duration;

use gpulet_tests::Request;
use serde_json::json;

use crate::world::{PAUSED, PLUGIN_KEY, STATE, WHEN_BUSY, World, pass};

/// A budget that lets nobody go.
fn forbid(world: &World, job: &str) -> String {
    let budgets = "/apis/policy/v1/namespaces/ml/poddisruptionbudgets";
    let name = format!("{job}-stays");
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name, "namespace": "ml" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "job": job } } },
    });
    world.plane.admin().create(budgets, &budget).ok();
    let path = format!("{budgets}/{name}");
    world.wait_for("the budget counts its Pod", || {
        let status = &world.plane.admin().get(&path).ok()["status"];
        (status["currentHealthy"] == 1 && status["disruptionsAllowed"] == 0).then_some(())
    });
    path
}

fn evictions(world: &World) -> Vec<Request> {
    let mut writes = world.writes();
    writes.retain(|request| request.resource == "pods/eviction");
    writes
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_pod_in_the_way_is_named_and_kept() {
    let world = World::new("refuse", "60s");
    world.start_pod("refuse-train", 0);
    let _agent = world.agent();
    let version = world.version();
    world.want("halves");
    let status = world.wait_for_reason("halves", "failed", "InUse");
    assert!(status["message"].as_str().unwrap().contains("ml/refuse-train"), "{status:#}");
    assert!(world.wait_for_event("Warning", "InUse").contains("ml/refuse-train"));
    assert_eq!(world.condition()["status"], "False");
    pass(Duration::from_secs(3));
    let history = world.since(&version);
    assert_eq!(history.label(PLUGIN_KEY), ["true"], "nobody is paused for what cannot be");
    assert_eq!(history.cordoned(), [false]);
    assert!(world.runs("refuse-train") && evictions(&world).is_empty());

    // It is tried again as soon as nothing is in the way, not at the next label.
    world.delete_pod("refuse-train");
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_pod_in_the_way_is_waited_for_as_long_as_is_said() {
    let world = World::new("waits", "15s");
    world.start_pod("waits-train", 0);
    world.label(WHEN_BUSY, Some("wait"));
    let _agent = world.agent();
    world.want("halves");
    world.wait_for_state("halves", "pending");
    let status = world.wait_for_reason("halves", "failed", "InUse");
    assert!(status["message"].as_str().unwrap().contains("ml/waits-train"), "{status:#}");
    assert!(world.runs("waits-train") && evictions(&world).is_empty());
    world.assert_at_rest();
    world.delete_pod("waits-train");
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);

    // One that ends in time.
    let device = world.site.gpu(0).uuids()[0].clone();
    world.start_pod_on("waits-short", "nvidia.com/mig-3g.40gb", &device);
    world.want("sevenths");
    world.wait_for_state("sevenths", "pending");
    world.delete_pod("waits-short");
    world.wait_for_state("sevenths", "success");
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn only_pods_in_the_way_are_evicted_and_the_node_is_opened_again() {
    let world = World::new("drains", "60s");
    world.start_pod("drains-train", 0);
    world.start_pod("drains-beside", 1);
    world.label(WHEN_BUSY, Some("drain"));
    let _agent = world.agent();
    let version = world.version();
    world.want("halves");
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
    assert_eq!(world.since(&version).cordoned(), [false, true, false]);
    assert_eq!(world.since(&version).label(STATE), ["", "pending", "success"]);
    assert!(world.pod("drains-train").is_none() && world.runs("drains-beside"));
    let evicted = evictions(&world);
    assert!(
        evicted.iter().all(|request| request.uri.contains("/pods/drains-train/eviction")),
        "{evicted:#?}"
    );
    assert_eq!(evicted.len(), 1, "once is enough: {evicted:#?}");
    assert!(world.wait_for_event("Normal", "Draining").contains("ml/drains-train"));

    // Within a divided GPU too: the instance that stays keeps its Pod.
    let uuids = world.site.gpu(0).uuids();
    world.start_pod_on("drains-first", "nvidia.com/mig-3g.40gb", &uuids[0]);
    world.start_pod_on("drains-second", "nvidia.com/mig-3g.40gb", &uuids[1]);
    world.mount(&crate::world::FILE.replace("{3g.40gb: 2}", "{3g.40gb: 1, 1g.10gb: 3}"));
    world.wait_for("the new content", || {
        (world.site.gpu(0).instances.len() == 4 && world.labelled(STATE).as_deref() == Some("success"))
            .then_some(())
    });
    let left = [world.runs("drains-first"), world.runs("drains-second")];
    assert_eq!(left.iter().filter(|runs| **runs).count(), 1, "one 3g.40gb stays, with its Pod: {left:?}");
    world.assert_at_rest();
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_budget_that_forbids_it_is_kept_and_named() {
    let world = World::new("budget", "20s");
    world.start_pod("budget-train", 0);
    let budget = forbid(&world, "budget-train");
    world.label(WHEN_BUSY, Some("drain"));
    let _agent = world.agent();
    let version = world.version();
    world.want("halves");
    world.wait_for("the Node is cordoned", || (world.node()["spec"]["unschedulable"] == true).then_some(()));
    world.wait_for("an eviction is refused", || {
        evictions(&world).iter().any(|it| it.code == 429).then_some(())
    });
    let status = world.wait_for_reason("halves", "failed", "EvictionRefused");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("ml/budget-train") && message.contains("budget-train-stays"), "{message}");
    world.assert_at_rest();
    assert!(world.runs("budget-train"));
    assert!(world.site.gpu(0).instances.is_empty() && !world.site.gpu(0).mode, "nothing was changed");
    assert_eq!(world.since(&version).cordoned()[..3], [false, true, false]);
    assert!(world.wait_for_event("Warning", "EvictionRefused").contains("budget-train-stays"));
    let asked = evictions(&world);
    assert!((1..=30).contains(&asked.len()), "{} requests in 20 s", asked.len());

    world.plane.admin().delete(&budget).ok();
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
    assert!(world.pod("budget-train").is_none());
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_node_that_another_has_cordoned_stays_so() {
    let world = World::new("cordoned", "60s");
    world.start_pod("cordoned-train", 0);
    world.label(WHEN_BUSY, Some("drain"));
    let node = format!("/api/v1/nodes/{}", world.name);
    world.plane.admin().merge(&node, &json!({ "spec": { "unschedulable": true } })).ok();
    let _agent = world.agent();
    let version = world.version();
    world.want("halves");
    world.wait_for_state("halves", "success");
    assert_eq!(world.site.gpu(0).layout(), ["3g.40gb@0", "3g.40gb@4"]);
    assert_eq!(world.since(&version).cordoned(), [true]);
    assert_eq!(world.since(&version).label(PLUGIN_KEY), ["true", PAUSED, "true"]);
}
