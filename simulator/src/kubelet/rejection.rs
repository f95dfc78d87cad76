//! Why a Pod was not admitted.

/// A refusal, in the words that the kubelet puts into the Pod's status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Rejection {
    /// `status.reason`, such as `TopologyAffinityError`.
    pub reason: String,
    /// `status.message`, without the kubelet's prefix.
    pub message: String,
}

impl Rejection {
    pub(super) fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }

    /// Nothing lies as the topology manager's policy demands.
    pub(super) fn topology() -> Self {
        Self::new("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
    }

    /// A manager failed after the topology manager agreed.
    pub(super) fn unexpected(cause: impl std::fmt::Display) -> Self {
        Self::new("UnexpectedAdmissionError", format!("Allocate failed due to {cause}, which is unexpected"))
    }
}
