//! Who was given GPUs and instances by the kubelet, and whether that is all.

use gpulet_host::{Root, owner};
use gpulet_inventory::kubelet::NodeAllocation;

use super::Partitioner;
use crate::report;

/// Who was given what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Given {
    /// By the kubelet's word.
    Told(NodeAllocation),
    /// Nobody anything: no Pod runs here.
    NoPods,
    /// It cannot be known: any Pod may have anything.
    Unknown {
        /// Why not, and what can be done.
        why: String,
    },
}

impl Partitioner {
    /// Asks the kubelet. Where it does not answer, it is told by the processes whether there is a Pod at all: on a node
    /// without kubelet, or at boot before the kubelet is started, there is none.
    pub(super) async fn given(&self) -> Given {
        let error = match self.kubelet.read().await {
            Ok(answer) => return Given::Told(answer.allocation),
            Err(error) => report::chain(&error),
        };
        let root = self.root.clone();
        // Reads /proc, which may take its time.
        let pods = tokio::task::spawn_blocking(move || pods(&root)).await;
        match pods.unwrap_or(Pods::NotSeen) {
            Pods::None => Given::NoPods,
            Pods::Some => Given::Unknown { why: format!("Pods run here, and {error}") },
            Pods::NotSeen => {
                let why = format!("/proc of the host does not tell whether Pods run here, and {error}");
                Given::Unknown { why }
            }
        }
    }
}

/// Whether Pods run.
enum Pods {
    None,
    Some,
    NotSeen,
}

fn pods(root: &Root) -> Pods {
    match owner::is_any_of_a_pod(root) {
        Some(true) => Pods::Some,
        Some(false) => Pods::None,
        None => Pods::NotSeen,
    }
}
