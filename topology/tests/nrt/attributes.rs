//! What holds for the whole node.

use std::collections::BTreeMap;

use gpulet_inventory::pod::{Pod, PodPhase};
use gpulet_topology::nrt::{NoteReason, fingerprint};

use super::node::{Node, api_pod, attribute, reasons, two_sockets};

const FINGERPRINT: &str = "nodeTopologyPodsFingerprint";

fn of(node: &Node) -> Vec<(String, String)> {
    node.built().body.attributes.into_iter().map(|attribute| (attribute.name, attribute.value)).collect()
}

#[test]
fn all_of_them_by_name() {
    let mut node = Node::with_kubelet(&two_sockets());
    let expected = [
        ("cpuManagerPolicy", "static"),
        ("memoryManagerPolicy", "None"),
        (FINGERPRINT, "pfp0v001ef46db3751d8e999"),
        ("nodeTopologyPodsFingerprintMethod", "all"),
        ("topologyManagerMaxNUMANodes", "8"),
        ("topologyManagerPolicy", "single-numa-node"),
        ("topologyManagerScope", "container"),
    ];
    assert_eq!(of(&node), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let options = [("prefer-closest-numa-nodes", "true"), ("max-allowable-numa-nodes", "34")];
    node.settings().topology_manager_options =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let attributes = node.built().body.attributes;
    assert!(attributes.is_sorted());
    assert_eq!(attribute(&attributes, "topologyManagerMaxNUMANodes"), Some("34"));
    assert_eq!(attribute(&attributes, "topologyManagerOptionMaxAllowableNumaNodes"), Some("34"));
    assert_eq!(attribute(&attributes, "topologyManagerOptionPreferClosestNumaNodes"), Some("true"));
}

#[test]
fn a_number_of_numa_nodes_that_is_none_is_the_kubelets_default() {
    for odd in ["", "many", "-1", "0", "7", "99999999999"] {
        let mut node = Node::with_kubelet(&two_sockets());
        node.settings().topology_manager_options =
            BTreeMap::from([("max-allowable-numa-nodes".to_owned(), odd.to_owned())]);
        let attributes = node.built().body.attributes;
        assert_eq!(attribute(&attributes, "topologyManagerMaxNUMANodes"), Some("8"), "{odd}");
    }
}

#[test]
fn what_is_not_known_is_not_told() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.settings = None;
    assert_eq!((of(&node).len(), reasons(&node.built())), (2, vec![NoteReason::SettingsUnknown]));
    node.allocation = None;
    assert!(of(&node).is_empty() && reasons(&node.built()).is_empty(), "there may be no kubelet");
}

fn fingerprint_of(node: &Node) -> String {
    attribute(&node.built().body.attributes, FINGERPRINT).unwrap().to_owned()
}

/// What the scheduler plug-in computes with its own informer: all Pods bound to the node but the Pending ones.
fn expected(pods: &[Pod]) -> String {
    let counted = pods.iter().filter(|pod| pod.phase != PodPhase::Pending);
    fingerprint(counted.map(|pod| (pod.namespace.as_str(), pod.name.as_str())))
}

#[test]
fn the_fingerprint_is_that_of_the_scheduler_once_both_know_the_same() {
    let phases =
        [PodPhase::Running, PodPhase::Succeeded, PodPhase::Failed, PodPhase::Pending, PodPhase::Unknown];
    let pods: Vec<Pod> = phases
        .iter()
        .enumerate()
        .flat_map(|(at, phase)| {
            [api_pod("a", &format!("p{at}"), *phase), api_pod("b", &format!("p{at}"), *phase)]
        })
        .collect();
    // A kubelet before 1.34 lists Pods that have ended, a newer one does not.
    for lists_ended in [true, false] {
        let mut node = Node::with_kubelet(&two_sockets());
        for pod in pods.iter().filter(|pod| lists_ended || !pod.phase.is_terminal()) {
            node.pod(&pod.namespace, &pod.name);
        }
        node.pods = Some(pods.clone());
        assert_eq!(fingerprint_of(&node), expected(&pods));
    }
}

#[test]
fn a_pod_that_one_side_does_not_know_yet_makes_a_difference() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.pod("a", "old");
    let running = |name: &str| api_pod("a", name, PodPhase::Running);
    // Bound and running by the API, and not in what the kubelet gave: the object does not know of it.
    node.pods = Some(vec![running("old"), running("new")]);
    assert_eq!(fingerprint_of(&node), fingerprint([("a", "old")]));
    // Gone from the API, and the kubelet has not let go of it.
    node.pods = Some(vec![]);
    assert_eq!(fingerprint_of(&node), fingerprint([("a", "old")]));
    // Without the API, what the kubelet lists.
    node.pods = None;
    assert_eq!(fingerprint_of(&node), fingerprint([("a", "old")]));
}
