//! NVIDIA's Pods that do not do as they are told.

use crate::world::{EXPORTER_KEY, PAUSED, PLUGIN_KEY, World};

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_client_that_never_stops_is_named_and_everybody_is_called_back() {
    let world = World::new("clings", "15s");
    let exporter = world.clients().into_iter().find(|name| name.starts_with("dcgm-exporter")).unwrap();
    world.kubelet.let_cling(&exporter);
    let _agent = world.agent();
    let version = world.version();
    world.want("halves");
    world.wait_for_state("halves", "pending");
    let status = world.wait_for_reason("halves", "failed", "ClientStays");
    assert!(status["message"].as_str().unwrap().contains(&exporter), "{status:#}");
    assert!(world.wait_for_event("Warning", "ClientStays").contains(&exporter));
    assert_eq!(world.condition()["status"], "False");
    let history = world.since(&version);
    for key in [PLUGIN_KEY, EXPORTER_KEY] {
        assert_eq!(history.label(key)[..3], ["true", PAUSED, "true"], "{key}");
    }
    assert!(world.site.gpu(0).instances.is_empty() && !world.site.gpu(0).mode, "nothing was changed");

    // It ends at last: what is wanted is tried again by itself.
    world.kubelet.let_go(&exporter);
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
}
