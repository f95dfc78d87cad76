//! The Node, between what the API says and what the machine knows.

use std::collections::BTreeMap;

use gpulet_cluster::api::{self, ApiError, MetadataChange, Node};
use gpulet_partition::apply::Failure;
use gpulet_partition::protocol::{
    ApiFailure, ApiFailureKind, Eviction, NodeChange, NodeView, STATE, STATUS, StatusChange,
};

use crate::report;

/// What concerns the machine.
pub(super) fn view(node: &Node) -> NodeView {
    NodeView {
        labels: node.labels.clone(),
        annotations: node.annotations.clone(),
        unschedulable: node.unschedulable,
    }
}

/// What the configuration declares.
pub(super) fn declared(labels: &BTreeMap<String, String>) -> NodeView {
    NodeView { labels: labels.clone(), ..NodeView::default() }
}

/// The change as the API server is asked for it.
pub(super) fn change(change: NodeChange, now: &str) -> api::NodeChange {
    let NodeChange { mut labels, mut annotations, unschedulable, status, version } = change;
    match status {
        Some(StatusChange::Write(status)) => {
            // Where the label is another's it is left to it.
            if let Some(label) = status.state.label() {
                labels.insert(STATE.to_owned(), Some(label.to_owned()));
            }
            annotations.insert(STATUS.to_owned(), Some(status.annotation(now)));
        }
        Some(StatusChange::Remove) => {
            labels.insert(STATE.to_owned(), None);
            annotations.insert(STATUS.to_owned(), None);
        }
        None => {}
    }
    api::NodeChange { metadata: MetadataChange { labels, annotations, version }, unschedulable }
}

pub(super) fn failed(error: &ApiError) -> ApiFailure {
    let kind = match error {
        ApiError::Conflict { .. } => ApiFailureKind::Conflict,
        ApiError::NotFound { .. } => ApiFailureKind::NotFound,
        ApiError::Forbidden { .. } | ApiError::Invalid { .. } | ApiError::Rejected { .. } => {
            ApiFailureKind::Refused
        }
        _ => ApiFailureKind::Later(error.retry_after()),
    };
    ApiFailure { failure: failure(error), kind }
}

fn failure(error: &ApiError) -> Failure {
    Failure { reason: error.reason().to_owned(), message: report::chain(error) }
}

/// What became of an eviction. `is_gone`: the Pods' watch does not have the Pod any more.
pub(super) fn evicted(result: Result<(), ApiError>, is_gone: bool) -> Eviction {
    let Err(error) = result else { return Eviction::Accepted };
    match &error {
        // It is gone, or another has its name by now.
        ApiError::NotFound { .. } | ApiError::Conflict { .. } => Eviction::Accepted,
        // Nothing can be made there any more, evictions neither; it ends without one.
        ApiError::Forbidden { namespace_ends: true, .. } => {
            Eviction::Later("its namespace is being deleted, and it with that".to_owned())
        }
        // An admission policy does not find the Pod whose node it asks for, and refuses.
        ApiError::Forbidden { .. } if is_gone => {
            Eviction::Later("the API server does not have it any more".to_owned())
        }
        ApiError::Forbidden { .. } | ApiError::Invalid { .. } | ApiError::Rejected { .. } => {
            Eviction::Failed(failure(&error))
        }
        _ => Eviction::Later(error.budget().unwrap_or_else(|| report::chain(&error))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gpulet_partition::protocol::{GpuStatus, State, Status};

    use super::*;

    fn status(state: State) -> Status {
        let gpus = vec![GpuStatus { gpu: None, result: "changed".into(), message: String::new() }];
        let (config, reason, message) = ("a".into(), "AsWanted".into(), "m".into());
        Status { state, config, hash: Some("h".into()), reason, message, gpus }
    }

    #[test]
    fn a_status_becomes_a_label_and_an_annotation() {
        let told =
            NodeChange { status: Some(StatusChange::Write(status(State::Success))), ..NodeChange::default() };
        let asked = change(told, "2026-01-01T00:00:00Z").metadata;
        assert_eq!(asked.labels[STATE].as_deref(), Some("success"));
        let annotation = asked.annotations[STATUS].as_deref().unwrap();
        assert_eq!(
            annotation,
            r#"{"state":"success","config":"a","hash":"h","reason":"AsWanted","message":"m","gpus":[{"result":"changed"}],"time":"2026-01-01T00:00:00Z"}"#
        );
        assert_eq!(Status::read(annotation), Some(status(State::Success)));
        let hands_off = NodeChange {
            status: Some(StatusChange::Write(status(State::HandsOff))),
            ..NodeChange::default()
        };
        assert!(change(hands_off, "").metadata.labels.is_empty(), "another program's label is left alone");
        let removal =
            change(NodeChange { status: Some(StatusChange::Remove), ..NodeChange::default() }, "").metadata;
        assert_eq!((removal.labels[STATE].clone(), removal.annotations[STATUS].clone()), (None, None));
    }

    #[test]
    fn what_an_api_server_says_of_evictions_is_understood() {
        let what = || "create pods/eviction a/b".to_owned();
        let throttled = |message: &str, causes: Vec<String>| {
            let retry_after = Duration::from_secs(1);
            evicted(
                Err(ApiError::Throttled {
                    what: what(),
                    code: 429,
                    retry_after,
                    message: message.into(),
                    causes,
                }),
                false,
            )
        };
        let budget = throttled("Cannot evict pod", vec!["DisruptionBudget: it needs 1".into()]);
        assert_eq!(budget, Eviction::Later("it needs 1".into()));
        assert!(matches!(throttled("Too many requests", Vec::new()), Eviction::Later(_)));
        assert_eq!(evicted(Err(ApiError::NotFound { what: what() }), false), Eviction::Accepted);
        let forbidden = |namespace_ends, is_gone| {
            evicted(Err(ApiError::Forbidden { what: what(), message: "no".into(), namespace_ends }), is_gone)
        };
        assert!(
            matches!(forbidden(false, false), Eviction::Failed(failure) if failure.reason == "Forbidden")
        );
        for (namespace_ends, is_gone) in [(true, false), (false, true), (true, true)] {
            assert!(matches!(forbidden(namespace_ends, is_gone), Eviction::Later(_)));
        }
    }
}
