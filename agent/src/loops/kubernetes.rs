//! What the loops tell each other of Kubernetes.

use std::sync::Arc;

use gpulet_cluster::api::{Api, Node};
use gpulet_inventory::dra::PublishedDevice;
use gpulet_inventory::kubelet::{KubeletSettings, NodeAllocation};
use gpulet_inventory::pod::Pod;
use gpulet_inventory::snapshot::Part;
use gpulet_inventory::word::Word;
use gpulet_topology::nrt::publisher::State;
use tokio::sync::watch;

/// The latest of each; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kubernetes {
    /// Who has what, as the kubelet last told; written by the kubelet loop.
    pub(crate) allocation: Arc<watch::Sender<Option<Part<NodeAllocation>>>>,
    /// How the kubelet decides; written by the kubelet loop.
    pub(crate) settings: Arc<watch::Sender<Option<Arc<KubeletSettings>>>>,
    /// How the kubelet is; written by the kubelet loop.
    pub(crate) kubelet: Arc<watch::Sender<KubeletState>>,
    /// Whether there is an API server to talk to; written by the cluster loop.
    pub(crate) api: Arc<watch::Sender<Access>>,
    /// Our Node; written by the cluster loop.
    pub(crate) node: Arc<watch::Sender<OwnNode>>,
    /// The Pods of this node by the API; absent where it has not told. Written by the cluster loop.
    pub(crate) pods: Arc<watch::Sender<Option<Arc<Vec<Pod>>>>>,
    /// Devices that claims may give; written by the cluster loop.
    pub(crate) devices: Arc<watch::Sender<Arc<Vec<PublishedDevice>>>>,
    /// How dividing the GPUs gets on; written by the partitioning loop.
    pub(crate) partition: Arc<watch::Sender<gpulet_partition::protocol::Standing>>,
    /// How publishing gets on; written by the publishing loop.
    pub(crate) publication: Arc<watch::Sender<Option<Publication>>>,
}

/// How the kubelet is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KubeletState {
    /// It was asked at least once, or there is none.
    pub(crate) asked: bool,
    /// How often it has been started anew or was found not to run.
    pub(crate) unsettled: u64,
}

/// Whether there is an API server to talk to.
#[derive(Debug, Clone, Default)]
pub(crate) enum Access {
    /// Not known yet.
    #[default]
    Unknown,
    /// There is none, or none is wanted.
    None,
    /// This.
    Api(Api),
}

/// Our Node in the API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum OwnNode {
    /// Not known yet.
    #[default]
    Unknown,
    /// There is none of our name.
    Missing,
    /// This.
    Known(Arc<Node>),
}

/// How publishing gets on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Publication {
    /// In short.
    pub(crate) standing: Standing,
    /// What that means and what a person can do.
    pub(crate) message: String,
}

/// How publishing gets on, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There are no credentials for an API server, and no file is wanted.
    NoAccess,
    /// The API server has no Node for the object to be of.
    NoNode,
    /// The kubelet has not answered yet.
    NoKubelet,
    /// The file cannot be written.
    Unwritable,
    /// As the publisher says.
    Publisher(State),
}

impl Standing {
    /// The stable word for the condition and the metric.
    pub(crate) fn reason(&self) -> Word {
        match self {
            Self::NoAccess => "NoAccess",
            Self::NoNode => "NoNode",
            Self::NoKubelet => "NoKubelet",
            Self::Unwritable => "Unwritable",
            Self::Publisher(state) => state.reason(),
        }
    }

    /// What that means and what a person can do.
    pub(crate) fn message(&self) -> String {
        let message = match self {
            Self::NoAccess => "no credentials for an API server; the log names every place that was tried",
            Self::NoNode => "the API server has no Node of this name; set node-name to the Node's name",
            Self::NoKubelet => {
                "the kubelet has not answered yet, so that nobody knows what Pods have; does it run, and is kubelet.root \
                 its root directory?"
            }
            Self::Unwritable => "the file cannot be written; the log says why",
            Self::Publisher(state) => return state.message(),
        };
        message.to_owned()
    }
}
