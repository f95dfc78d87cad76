//! Others that divide this node's GPUs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::OPERATOR;
use crate::world::{PLUGIN_KEY, STATE, World, pass};

fn manager(world: &World, name: &str, labels: &Value, environment: &Value) -> String {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": OPERATOR, "labels": labels },
        "spec": {
            "nodeName": world.name, "automountServiceAccountToken": false,
            "containers": [{ "name": "main", "image": "none", "env": environment }],
        },
    });
    world.plane.create_running(OPERATOR, &pod);
    name.to_owned()
}

/// Hands off while `pod` is there, and on with it when it is gone.
fn yields_to(world: &World, pod: &str) {
    let version = world.version();
    world.want("halves");
    let condition = world.wait_for("another manager is told of", || {
        let condition = world.condition();
        (condition["reason"] == "OtherManager").then_some(condition)
    });
    assert_eq!(condition["status"], "Unknown", "who manages it says how it is: {condition}");
    assert!(condition["message"].as_str().unwrap().contains(pod), "{condition}");
    assert!(world.wait_for_event("Normal", "OtherManager").contains(pod));
    assert_eq!(world.status()["reason"], "OtherManager");
    pass(Duration::from_secs(3));
    let history = world.since(&version);
    assert_eq!(history.label(STATE), [""], "that label is the other's");
    assert_eq!(history.label(PLUGIN_KEY), ["true"]);
    assert!(world.site.gpu(0).instances.is_empty() && !world.site.gpu(0).mode, "nothing was changed");

    world.plane.delete_pod(OPERATOR, pod);
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn hands_are_off_while_migmanager_is_on_the_node() {
    let world = World::new("managed", "60s");
    let pod =
        manager(&world, "nvidia-mig-manager-managed", &json!({ "app": "nvidia-mig-manager" }), &json!([]));
    let _agent = world.agent();
    yields_to(&world, &pod);
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn hands_are_off_while_claims_divide_gpus() {
    let world = World::new("claimed", "60s");
    let gates = json!([{ "name": "FEATURE_GATES", "value": "DynamicMIG=true" }]);
    let labels = json!({ "nvidia-dra-driver-gpu-component": "kubelet-plugin" });
    let pod = manager(&world, "nvidia-dra-driver-gpu-kubelet-plugin-claimed", &labels, &gates);
    let _agent = world.agent();
    yields_to(&world, &pod);
}
