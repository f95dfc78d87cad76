//! Wishes that change while one of them is being fulfilled.

use crate::world::{PAUSED, PLUGIN_KEY, STATE, WANTED, World};

/// The device plugin, which takes its time to end: the change stands still until it does.
const PLUGIN: &str = "device-plugin";

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn there_and_back_again_while_it_waits_ends_where_it_was() {
    let world = World::new("flips", "120s");
    let _agent = world.agent();
    world.want("halves");
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
    let uuids = world.site.gpu(0).uuids();

    world.kubelet.let_cling(PLUGIN);
    world.want("sevenths");
    world.wait_for_state("sevenths", "pending");
    world.wait_for("the plugin is paused", || {
        (world.labelled(PLUGIN_KEY).as_deref() == Some(PAUSED)).then_some(())
    });
    world.want("halves");
    // What is wanted is there: the clients come back, whether or not they have ended.
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
    world.kubelet.let_go(PLUGIN);
    assert_eq!(world.site.gpu(0).uuids(), uuids, "nothing was destroyed on the way");

    // From here to there, and on to a third, before the first is reached.
    world.kubelet.let_cling(PLUGIN);
    world.want("sevenths");
    world.wait_for_state("sevenths", "pending");
    world.want("off");
    world.wait_for_state("off", "pending");
    world.kubelet.let_go(PLUGIN);
    world.wait_for_success("off", &[]);
    assert!(!world.site.gpu(0).mode);
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn there_and_back_again_in_the_midst_of_a_change_ends_where_it_was() {
    let world = World::new("midst", "120s");
    let _agent = world.agent();
    world.want("halves");
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);
    world.want_and_stop_half_way("sevenths");
    world.want("halves");
    world.site.node().sim(&["fault", "clear"]);
    // Seen or not, the flip is not lost: what counts is the label at last.
    world.wait_for_success("halves", &["3g.40gb@0", "3g.40gb@4"]);

    // As fast as one can write, and the last one counts.
    for _ in 0..5 {
        world.want("sevenths");
        world.want("halves");
    }
    world.want("sevenths");
    let seven: Vec<String> = (0..7).map(|start| format!("1g.10gb@{start}")).collect();
    world.wait_for_success("sevenths", &seven.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_label_that_is_taken_away_while_it_waits_gives_everybody_back() {
    let world = World::new("withdrawn", "120s");
    let _agent = world.agent();
    world.kubelet.let_cling(PLUGIN);
    world.want("halves");
    world.wait_for_state("halves", "pending");
    world.label(WANTED, None);
    world.wait_for("the clients are called back", || {
        (world.labelled(PLUGIN_KEY).as_deref() == Some("true")).then_some(())
    });
    world.kubelet.let_go(PLUGIN);
    world.wait_for("nothing is told any more", || {
        (world.labelled(STATE).is_none() && world.status().is_null()).then_some(())
    });
    world.assert_at_rest();
    assert!(!world.site.gpu(0).mode, "nothing was changed");
}
