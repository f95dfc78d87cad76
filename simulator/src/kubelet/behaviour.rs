//! How the kubelet behaves towards those who ask it.

use serde::{Deserialize, Serialize};

/// How PodResources is served.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Behaviour {
    /// What goes wrong.
    pub fault: Option<Fault>,
    /// Whether one can ask for a single Pod.
    pub get: GetOffer,
    /// `List` tells of Pods that have ended, with what they had, as before Kubernetes 1.34.
    pub lists_ended: bool,
    /// Calls are not counted: without it the kubelet answers 100 calls a second and 10 more at once.
    pub unlimited: bool,
}

/// Whether `Get` is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GetOffer {
    /// As from Kubernetes 1.34.
    #[default]
    Offered,
    /// Behind a feature gate that is off.
    Disabled,
    /// The kubelet knows no such call.
    Unknown,
}

/// What goes wrong with PodResources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Calls are taken, but not answered until the fault is over.
    Hang,
    /// Connections are answered with bytes that mean nothing, and closed.
    Garbage,
    /// `List` is filled up to this many bytes with Pods that have nothing.
    Large {
        /// Bytes of the message.
        bytes: usize,
    },
    /// Every call is refused for want of tokens.
    Exhausted,
    /// Every call ends with an error of the kubelet's own (code `Unknown`).
    Broken,
}
