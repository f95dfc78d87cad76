//! A daemon that is killed, and an API server that goes away, in the midst of it.

use std::sync::Arc;
use std::time::Duration;

use gpulet_tests::Agent;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::cluster;
use crate::world::{EXPORTER_KEY, PAUSED, PLUGIN_KEY, STATE, WANTED, WHEN_BUSY, World, pass};

const PLUGIN: &str = "device-plugin";

fn kill(mut agent: Agent) {
    agent.signal(Signal::SIGKILL);
    agent.ended();
}

/// Asks for a layout, and waits until clients are paused for it and one does not end.
fn pause(world: &World, layout: &str) {
    world.kubelet.let_cling(PLUGIN);
    world.want(layout);
    world.wait_for("clients are paused", || {
        let paused = |key: &str| world.labelled(key).as_deref() == Some(PAUSED);
        (paused(PLUGIN_KEY) && paused(EXPORTER_KEY)).then_some(())
    });
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_daemon_that_was_killed_with_clients_paused_goes_on_or_calls_them_back() {
    let world = World::new("killed", "120s");
    let agent = world.agent();
    pause(&world, "halves");
    kill(agent);
    pass(Duration::from_secs(1));
    assert_eq!(world.labelled(PLUGIN_KEY).as_deref(), Some(PAUSED));
    let agent = world.agent();
    world.kubelet.let_go(PLUGIN);
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);

    // What was asked for is asked for no more when it comes back.
    pause(&world, "sevenths");
    kill(agent);
    world.label(WANTED, None);
    let agent = world.agent();
    world.wait_for("they are called back", || {
        (world.labelled(PLUGIN_KEY).as_deref() == Some("true")).then_some(())
    });
    world.kubelet.let_go(PLUGIN);
    world.wait_for("all are back", || (world.clients().len() == 2).then_some(()));
    world.assert_at_rest();
    assert_eq!(world.site.gpu(0).layout(), ["3g.40gb@0", "3g.40gb@4"]);

    // Something else is asked for, and what is there is just that.
    pause(&world, "sevenths");
    kill(agent);
    world.want("halves");
    let _agent = world.agent();
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
    world.kubelet.let_go(PLUGIN);
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_daemon_that_was_killed_while_it_drained_opens_the_node_again() {
    let world = World::new("killed-draining", "120s");
    world.start_pod("killed-draining-train", 0);
    world.kubelet.let_cling("killed-draining-train");
    world.label(WHEN_BUSY, Some("drain"));
    let agent = world.agent();
    world.want("halves");
    world.wait_for("it is asked to end", || (!world.runs("killed-draining-train")).then_some(()));
    assert_eq!(world.node()["spec"]["unschedulable"], true);
    kill(agent);
    world.label(WANTED, None);
    let agent = world.agent();
    world.wait_for("the Node is open", || (world.node()["spec"]["unschedulable"] != true).then_some(()));
    world.kubelet.let_go("killed-draining-train");
    world.assert_at_rest();
    drop(agent);
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_daemon_that_was_killed_in_the_midst_of_the_change_finishes_it() {
    let world = World::new("killed-midst", "120s");
    let agent = world.agent();
    world.want("halves");
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
    world.want_and_stop_half_way("sevenths");
    kill(agent);
    world.site.node().sim(&["fault", "clear"]);
    assert_eq!(world.labelled(STATE).as_deref(), Some("pending"));
    let _agent = world.agent();
    let seven: Vec<String> = (0..7).map(|start| format!("1g.10gb@{start}")).collect();
    world.wait_for_success("sevenths", &seven.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn an_api_server_that_goes_away_in_the_middle_is_waited_for() {
    let plane = cluster::own();
    let world = World::on(Arc::clone(&plane), "away", "300s");
    let agent = world.agent();
    pause(&world, "halves");
    plane.stop_api_server();
    // The plugin would end now, and nobody can tell.
    world.kubelet.let_go(PLUGIN);
    pass(Duration::from_secs(10));
    assert!(!world.site.gpu(0).mode, "it is not known whether they have ended");
    agent.scrape_until("it still answers", |scrape| scrape.gpus("gpulet_gpu_power_watts") > 0);
    plane.start_api_server();
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);

    // It goes away while the GPU is changed, and a wish changes while it is away.
    world.want_and_stop_half_way("sevenths");
    plane.stop_api_server();
    world.site.node().sim(&["fault", "clear"]);
    world.wait_for_hardware(7);
    // Nobody can be told, and the daemon may even be killed meanwhile.
    kill(agent);
    plane.start_api_server();
    assert_eq!(world.labelled(PLUGIN_KEY).as_deref(), Some(PAUSED));
    assert_eq!(world.labelled(STATE).as_deref(), Some("pending"));
    let _agent = world.agent();
    let seven: Vec<String> = (0..7).map(|start| format!("1g.10gb@{start}")).collect();
    world.wait_for_success("sevenths", &seven.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(world.status()["state"], json!("success"));
}
