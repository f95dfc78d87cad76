//! What an administrator asks for by labels and files, and what comes of it.

use std::time::Duration;

use serde_json::json;

use crate::kubelet::allocatable;
use crate::world::{EXPORTER_KEY, FILE, OFF_KEY, PAUSED, PLUGIN_KEY, STATE, WANTED, World, pass};

/// How often gpulet has changed labels, annotations or the specification of the Node.
fn of_node(world: &World) -> usize {
    world.writes().iter().filter(|request| request.resource == "nodes").count()
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_label_becomes_a_layout_and_everything_tells_of_it() {
    let world = World::new("plain", "60s");
    let before = world.other_gpu();
    world.start_pod("beside", 1);
    let agent = world.agent();
    let clients = world.clients();
    let version = world.version();
    world.want("halves");
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);

    // How it went.
    let history = world.since(&version);
    assert_eq!(history.label(STATE), ["", "pending", "success"]);
    for key in [PLUGIN_KEY, EXPORTER_KEY] {
        assert_eq!(history.label(key), ["true", PAUSED, "true"], "{key}");
    }
    assert_eq!(history.label(OFF_KEY), ["false"]);
    assert_eq!(history.cordoned(), [false], "nobody was in the way");
    // NVIDIA's Pods are others, and the device plugin has seen what there is now.
    world.wait_for("new Pods of NVIDIA's", || {
        let now = world.clients();
        (now.len() == 2 && now.iter().all(|pod| !clients.contains(pod))).then_some(())
    });
    let advertised = allocatable(&world.node());
    assert_eq!((advertised["nvidia.com/gpu"], advertised["nvidia.com/mig-3g.40gb"]), (1, 2));
    // Nobody else has noticed.
    assert_eq!(world.other_gpu(), before);
    assert!(world.runs("beside"));

    // What is said.
    let status = world.status();
    assert_eq!((&status["config"], &status["state"]), (&json!("halves"), &json!("success")), "{status:#}");
    assert!(status["hash"].as_str().is_some_and(|hash| hash.len() == 16), "{status:#}");
    assert!(world.events().iter().all(|(kind, ..)| kind == "Normal"), "{:#?}", world.events());
    world.wait_for_event("Normal", "AsWanted");

    // What is there already is not done again, and nothing is written when nothing happens.
    drop(agent);
    let (writes, uuids) = (world.writes(), world.site.gpu(0).uuids());
    let agent = world.agent();
    agent.scrape_until("it has looked", |scrape| scrape.gpus("gpulet_gpu_power_watts") > 0);
    pass(Duration::from_secs(10));
    assert_eq!(world.site.gpu(0).uuids(), uuids);
    assert_eq!(world.since(&version).label(PLUGIN_KEY), ["true", PAUSED, "true"]);
    let new: Vec<_> = world.writes().split_off(writes.len());
    assert!(new.is_empty(), "{new:#?}");
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_name_that_nobody_has_defined_is_refused_and_named() {
    let world = World::new("unknown", "60s");
    let _agent = world.agent();
    let version = world.version();
    world.want("thirds");
    let status = world.wait_for_reason("thirds", "failed", "UnknownLayout");
    let message = status["message"].as_str().unwrap();
    for name in ["thirds", "halves", "sevenths", "off"] {
        assert!(message.contains(name), "{message}");
    }
    assert_eq!(world.condition()["status"], "False");
    assert_eq!(world.condition()["message"], message);
    assert!(world.wait_for_event("Warning", "UnknownLayout").contains("thirds"));
    assert_eq!(world.since(&version).label(PLUGIN_KEY), ["true"], "nobody was paused for it");
    assert!(world.site.gpu(0).instances.is_empty() && !world.site.gpu(0).mode);

    world.want("halves");
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
    // A name that is wrong does not cost what is there.
    let uuids = world.site.gpu(0).uuids();
    world.want("thirds");
    world.wait_for_reason("thirds", "failed", "UnknownLayout");
    assert_eq!(world.site.gpu(0).uuids(), uuids);
    world.assert_at_rest();
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_file_with_other_content_is_applied_under_the_same_name() {
    let world = World::new("edited", "60s");
    let _agent = world.agent();
    world.want("halves");
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
    let first = world.status()["hash"].clone();
    let kept = world.site.gpu(0).at(4).clone();

    // As the kubelet does when the ConfigMap was edited.
    let edited = FILE.replace("{3g.40gb: 2}", "{3g.40gb: 1, 2g.20gb: 1}");
    world.mount(&edited);
    let status = world.wait_for("the new content", || {
        let status = world.status();
        (status["state"] == "success" && status["hash"] != first).then_some(status)
    });
    assert_eq!(status["config"], "halves");
    world.wait_for_success("halves", &["2g.20gb@0", "3g.40gb@4"]);
    assert_eq!(world.site.gpu(0).at(4), &kept, "what is wanted as before is not made anew");

    // Another layout of the file is none of this node's affair: it is looked at, and what was told stands.
    let writes = of_node(&world);
    world.mount(&edited.replace("1g.10gb: 7", "1g.10gb: 6"));
    pass(Duration::from_secs(8));
    assert_eq!(of_node(&world), writes, "the Node was not written");
    assert_eq!(world.status()["gpus"][0]["result"], "changed");

    // A file that cannot be read costs nothing, and is said.
    world.mount("version: v1\nmig-configs: {halves: [{devices: [0], mig-enabled: maybe}]}\n");
    let status = world.wait_for_reason("halves", "failed", "PartitionFileInvalid");
    assert!(status["message"].as_str().unwrap().contains("mig-enabled"), "{status:#}");
    assert_eq!(world.site.gpu(0).layout(), ["2g.20gb@0", "3g.40gb@4"]);
    world.assert_at_rest();
    world.mount(FILE);
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn without_a_label_nothing_is_touched() {
    let world = World::new("removed", "60s");
    let _agent = world.agent();
    pass(Duration::from_secs(3));
    assert_eq!(world.labelled(STATE), None, "nobody has asked for anything");
    assert_eq!(world.status(), json!(null));
    world.want("halves");
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
    let uuids = world.site.gpu(0).uuids();

    world.label(WANTED, None);
    world.wait_for("hands off", || (world.condition()["reason"] == "NotDeclared").then_some(()));
    assert_eq!(world.condition()["status"], "Unknown");
    let writes = of_node(&world);
    world.mount(&FILE.replace("{3g.40gb: 2}", "{3g.40gb: 1}"));
    pass(Duration::from_secs(8));
    assert_eq!(world.site.gpu(0).uuids(), uuids, "what is there stays");
    assert_eq!(of_node(&world), writes, "the Node was not written");
    world.assert_at_rest();
}
