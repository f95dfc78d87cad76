//! What agents cost an API server: two hundred of them, in one process, at a real one, whose own metrics and audit log are
//! read. `docs/scale.md` is made from what it prints.
//!
//! `GPULET_LOAD_NODES` sets another number of nodes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod agents;
mod churn;
mod figures;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use gpulet_tests::{Bound, ControlPlane, Node, Request, wait_within};
use serde_json::Value;

use agents::Agents;
use churn::{Churn, in_parallel};
use figures::{Mark, Phase};

const AGENT: &str = "system:serviceaccount:gpulet:gpulet";
const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";

/// Nodes on which Pods come and go, ten starts a minute each: as many as two cores bear, with the API server, etcd, the
/// agents and what plays the kubelets on them.
const BUSY: usize = 10;

/// All that may be asked, as the audit log tells it.
const ALLOWED: [(&str, &str); 13] = [
    ("list", "nodes"),
    ("watch", "nodes"),
    ("get", "nodes"),
    ("patch", "nodes/status"),
    ("list", "pods"),
    ("watch", "pods"),
    ("list", "resourceslices"),
    ("watch", "resourceslices"),
    ("list", "noderesourcetopologies"),
    ("watch", "noderesourcetopologies"),
    ("get", "noderesourcetopologies"),
    ("patch", "noderesourcetopologies"),
    ("create", "events"),
];

#[test]
#[ignore = "needs etcd and kube-apiserver, and minutes"]
fn agents_cost_an_api_server_what_is_told() {
    let nodes = nodes();
    let plane = cluster(&nodes);
    let simulated = Node::serve("dgx-h100");
    let busy = &nodes[..nodes.len().min(BUSY)];
    let churn_alone = alone(&plane, busy);

    let begun = Mark::now(&plane, None);
    let mut agents = Agents::start(&plane, &simulated, &nodes);
    agents.until_published(nodes.len());
    until_quiet(&plane);
    let started = Mark::now(&plane, Some(&mut agents));
    pass(Duration::from_secs(40));
    let rested = Mark::now(&plane, Some(&mut agents));
    in_parallel(&nodes, |node| plane.admin().report_node(node, 1));
    until_quiet(&plane);
    let reported = Mark::now(&plane, Some(&mut agents));
    let churn = {
        let churn = Churn::start(plane.admin(), busy, Duration::from_secs(90));
        pass(Duration::from_secs(25));
        let before = Mark::now(&plane, Some(&mut agents)).with(churn.done());
        pass(Duration::from_secs(60));
        Phase::between(&before, &Mark::now(&plane, Some(&mut agents)).with(churn.done()))
    };
    until_quiet(&plane);

    let start = Phase::between(&begun, &started);
    let idle = Phase::between(&started, &rested);
    let heartbeat = Phase::between(&rested, &reported);
    for (what, phase, nodes) in [
        ("Pods come and go, no agents", &churn_alone, busy),
        ("all agents start at once", &start, &nodes),
        ("idle", &idle, &nodes),
        ("one report of each kubelet", &heartbeat, &nodes),
        ("Pods come and go on some", &churn, busy),
    ] {
        println!("\n{what}: per node of {}\n{}", nodes.len(), phase.told(nodes.len()));
    }

    let requests: Vec<_> = plane.requests().into_iter().filter(|request| request.user == AGENT).collect();
    let kinds: BTreeSet<_> =
        requests.iter().map(|request| (request.verb.as_str(), request.resource.as_str())).collect();
    assert!(kinds.is_subset(&ALLOWED.into()), "{kinds:?}");
    // One that has too much to do says so (429), or does not come to it in time (5xx).
    let is_odd = |request: &&Request| match request.code {
        404 => request.resource != "noderesourcetopologies",
        code => (400..500).contains(&code) && code != 429,
    };
    assert_eq!(requests.iter().find(is_odd), None);

    // Four lists and watches, a look at the object, its first write, two conditions with their Events.
    // What was not answered is asked again, after a look where it was a write.
    let unanswered =
        |kind: &str| ["none", "429"].contains(&kind.rsplit(' ').next().unwrap()) || kind.contains(" 5");
    let count = |bad: bool| {
        let kinds = start.asked.iter().filter(|(kind, _)| unanswered(kind) == bad);
        kinds.map(|(_, [requests, ..])| requests).sum::<u64>()
    };
    assert!(count(false) <= 16 * nodes.len() as u64 + 2 * count(true), "{:?}", start.asked);
    for quiet in [&idle, &heartbeat] {
        assert!(quiet.asked.keys().all(|kind| kind.starts_with("watch ")), "{:?}", quiet.asked);
    }
    let verbs: BTreeSet<_> = churn.asked.keys().map(|kind| kind.split(' ').next().unwrap()).collect();
    assert!(verbs.is_subset(&["watch", "apply", "get"].into()), "{:?}", churn.asked);
    // A Pod is told of when it has its devices, when it runs, when it has ended and when it is gone. What began before
    // counts too.
    let (changes, writes) = (churn.started + churn.ended, churn.asked_of("apply"));
    assert!(writes > 0 && writes <= 2 * changes + busy.len() as u64, "{writes} writes of {changes} changes");
    assert!(churn.asked_of("get") * 10 <= writes, "it is hardly ever looked at: {:?}", churn.asked);
    everything_is_free_again(&plane, nodes.len());
}

fn nodes() -> Vec<String> {
    let count = std::env::var("GPULET_LOAD_NODES").map_or(200, |count| count.parse().unwrap());
    (0..count).map(|number| format!("load-{number:03}")).collect()
}

/// A control plane with everything that is shipped, and these nodes.
fn cluster(nodes: &[String]) -> ControlPlane {
    let plane = ControlPlane::start();
    for manifests in ["daemonset/crd", "daemonset"] {
        plane.apply(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(manifests));
    }
    in_parallel(nodes, |node| {
        plane.create_node(node);
        plane.admin().report_node(node, 0);
        plane.account("gpulet", "gpulet", Bound::Node(node));
    });
    let list = format!("{TOPOLOGIES}?resourceVersion=0");
    wait_within(Duration::from_secs(60), "the kind is served", || {
        plane.admin().get(&list).is_ok().then_some(())
    });
    plane
}

/// What Pods cost the API server where there are no agents.
fn alone(plane: &ControlPlane, nodes: &[String]) -> Phase {
    let churn = Churn::start(plane.admin(), nodes, Duration::from_secs(35));
    pass(Duration::from_secs(15));
    let before = Mark::now(plane, None).with(churn.done());
    pass(Duration::from_secs(20));
    Phase::between(&before, &Mark::now(plane, None).with(churn.done()))
}

/// Waits until the agents ask for nothing for some seconds.
fn until_quiet(plane: &ControlPlane) {
    let asked = || plane.requests().iter().filter(|request| request.user == AGENT).count();
    let mut last = asked();
    wait_within(Duration::from_secs(120), "nothing is asked", || {
        pass(Duration::from_secs(4));
        let before = std::mem::replace(&mut last, asked());
        (before == last).then_some(())
    });
}

/// Each node's object is there and says that it has all its GPUs.
fn everything_is_free_again(plane: &ControlPlane, nodes: usize) {
    let list = plane.admin().get(TOPOLOGIES).ok();
    let objects = list["items"].as_array().unwrap();
    assert_eq!(objects.len(), nodes);
    for object in objects {
        let zones = object["zones"].as_array().unwrap().iter().filter(|zone| zone["type"] == "Node");
        let resources = zones.flat_map(|zone| zone["resources"].as_array().unwrap());
        let gpus = resources.filter(|resource| resource["name"] == "nvidia.com/gpu");
        let free: u64 = gpus.map(|gpus| gpus["available"].as_str().unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(free, 8, "{}", Value::to_string(object));
    }
}

/// Waits for some time to pass: what happens in it is what is measured.
fn pass(time: Duration) {
    std::thread::sleep(time);
}
