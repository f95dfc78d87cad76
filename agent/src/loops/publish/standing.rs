//! How publishing gets on, as it is told: decided without I/O.

use gpulet_topology::nrt::publisher::State;

use super::super::kubernetes::{OwnNode, Standing};

/// What has to be known before there is anything to publish.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs<'a> {
    /// The object goes into a file, which needs no Node.
    pub(super) is_file: bool,
    /// Our Node.
    pub(super) node: &'a OwnNode,
    /// The kubelet was asked at least once, or there is none.
    pub(super) asked: bool,
    /// It has answered at least once.
    pub(super) answered: bool,
}

impl Needs<'_> {
    /// What is missing.
    pub(super) fn missing(self) -> Option<Standing> {
        let starting = Standing::Publisher(State::Starting);
        match self.node {
            OwnNode::Missing if !self.is_file => return Some(Standing::NoNode),
            OwnNode::Unknown if !self.is_file => return Some(starting),
            OwnNode::Missing | OwnNode::Unknown | OwnNode::Known(_) => {}
        }
        match (self.answered, self.asked) {
            (true, _) => None,
            (false, false) => Some(starting),
            // A machine without Kubernetes has no kubelet.
            (false, true) => (!self.is_file).then_some(Standing::NoKubelet),
        }
    }
}

/// How publishing gets on while `missing` is missing and the publisher is in `state`. What has been published stands while
/// something is missing, but not without its Node.
pub(super) fn standing(missing: Option<Standing>, state: &State, is_file: bool) -> Standing {
    match (missing, state) {
        (Some(missing), State::Starting) | (Some(missing @ Standing::NoNode), _) => missing,
        (_, State::Failing(_)) if is_file => Standing::Unwritable,
        (_, state) => Standing::Publisher(state.clone()),
    }
}

/// What that means and what a person can do. `refusal`: why the last request failed; `left_out`: what the object lacks.
pub(super) fn message(standing: &Standing, refusal: Option<&str>, left_out: &str) -> String {
    match (standing, refusal) {
        (Standing::Unwritable, Some(refusal)) => refusal.to_owned(),
        (Standing::Publisher(State::Published), _) => standing.message() + left_out,
        _ => standing.message(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use gpulet_cluster::api::Node;
    use gpulet_topology::nrt::publisher::Failure;

    use super::*;

    const STARTING: Standing = Standing::Publisher(State::Starting);

    fn missing(is_file: bool, node: &OwnNode, asked: bool, answered: bool) -> Option<Standing> {
        Needs { is_file, node, asked, answered }.missing()
    }

    #[test]
    fn an_object_at_the_api_server_needs_its_node_and_the_kubelets_word() {
        let known = OwnNode::Known(Arc::new(Node {
            name: "a".into(),
            uid: "1".into(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            unschedulable: false,
            conditions: Vec::new(),
        }));
        assert_eq!(missing(false, &OwnNode::Unknown, true, true), Some(STARTING));
        assert_eq!(missing(false, &OwnNode::Missing, true, true), Some(Standing::NoNode));
        assert_eq!(missing(false, &known, false, false), Some(STARTING));
        assert_eq!(missing(false, &known, true, false), Some(Standing::NoKubelet));
        assert_eq!(missing(false, &known, true, true), None);
    }

    #[test]
    fn a_file_needs_neither_once_the_kubelet_was_looked_for() {
        for node in [OwnNode::Unknown, OwnNode::Missing] {
            assert_eq!(missing(true, &node, false, false), Some(STARTING));
            assert_eq!(missing(true, &node, true, false), None);
            assert_eq!(missing(true, &node, true, true), None);
        }
    }

    #[test]
    fn what_was_published_stands_without_the_kubelet_and_not_without_its_node() {
        let published = Standing::Publisher(State::Published);
        assert_eq!(standing(Some(Standing::NoKubelet), &State::Starting, false), Standing::NoKubelet);
        assert_eq!(standing(Some(Standing::NoKubelet), &State::Published, false), published);
        assert_eq!(standing(Some(Standing::NoNode), &State::Published, false), Standing::NoNode);
        assert_eq!(standing(None, &State::Published, true), published);
    }

    #[test]
    fn a_file_that_fails_is_unwritable_and_says_why() {
        let failing = State::Failing(Failure::Other);
        assert_eq!(standing(None, &failing, false), Standing::Publisher(failing.clone()));
        assert_eq!(standing(None, &failing, true), Standing::Unwritable);
        assert_eq!(message(&Standing::Unwritable, Some("the disk is full"), ""), "the disk is full");
        assert_ne!(message(&Standing::Publisher(failing), Some("the disk is full"), ""), "the disk is full");
    }

    #[test]
    fn what_is_left_out_is_said_of_what_is_published() {
        let told = |state| message(&Standing::Publisher(state), None, " | no memory");
        assert!(told(State::Published).ends_with(" | no memory"));
        assert!(!told(State::Starting).ends_with(" | no memory"));
    }
}
