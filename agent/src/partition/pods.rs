//! Who was given GPUs and instances by the kubelet, and whether that is all.

use gpulet_host::{Root, owner};
use gpulet_inventory::kubelet::NodeAllocation;
use gpulet_inventory::pod::Pod;

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
    /// without kubelet, or at boot before the kubelet is started, there is none. So it is where its answer lacks Pods.
    pub(super) async fn given(&self) -> Given {
        let known = self.pods.borrow().clone();
        let (told, doubt) = match self.kubelet.read().await {
            Ok(answer) => {
                let doubt = forgotten(&answer.allocation, known.as_deref().map(Vec::as_slice));
                let told = Given::Told(answer.allocation);
                let Some(doubt) = doubt else { return told };
                (told, doubt)
            }
            Err(error) => (Given::NoPods, report::chain(&error)),
        };
        let root = self.root.clone();
        // Reads /proc, which may take its time.
        let pods = tokio::task::spawn_blocking(move || pods(&root)).await;
        match pods.unwrap_or(Pods::NotSeen) {
            Pods::None => told,
            Pods::Some => Given::Unknown { why: format!("Pods run here, and {doubt}") },
            Pods::NotSeen => {
                let why = format!("/proc of the host does not tell whether Pods run here, and {doubt}");
                Given::Unknown { why }
            }
        }
    }
}

/// What the kubelet's answer is to tell and does not. Started anew, it answers before it knows its Pods.
fn forgotten(allocation: &NodeAllocation, pods: Option<&[Pod]>) -> Option<String> {
    match pods {
        Some(pods) => {
            let Pod { namespace, name, .. } = allocation.forgets(pods)?;
            Some(format!(
                "the kubelet does not list Pod {namespace}/{name}, which runs; it may have been started anew"
            ))
        }
        None => allocation.pods.is_empty().then(|| {
            "the kubelet lists none; it may have been started anew: try again in a minute".to_owned()
        }),
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

#[cfg(test)]
mod tests {
    use gpulet_inventory::kubelet::PodAllocation;
    use gpulet_inventory::pod::{Keeper, PodPhase, QosClass};

    use super::*;

    fn listed(names: &[&str]) -> NodeAllocation {
        let pod = |name: &&str| PodAllocation {
            namespace: "default".to_owned(),
            name: (*name).to_owned(),
            containers: Vec::new(),
        };
        NodeAllocation { pods: names.iter().map(pod).collect(), ..NodeAllocation::default() }
    }

    fn pod(name: &str, phase: PodPhase, deleting: bool) -> Pod {
        Pod {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            config_hash: None,
            phase,
            qos: QosClass::Burstable,
            deleting,
            keeper: Keeper::Other,
            deployed_by: Vec::new(),
            role: None,
            containers: Vec::new(),
        }
    }

    #[test]
    fn an_answer_that_lacks_pods_that_run_is_doubted() {
        let running = [pod("one", PodPhase::Running, false), pod("two", PodPhase::Running, false)];
        assert_eq!(forgotten(&listed(&["one", "two", "of-a-file"]), Some(&running)), None);
        let doubt = forgotten(&listed(&["one"]), Some(&running)).unwrap();
        assert!(doubt.contains("default/two"), "{doubt}");
        let over = [pod("ended", PodPhase::Succeeded, false), pod("goes", PodPhase::Running, true)];
        assert_eq!(forgotten(&listed(&[]), Some(&over)), None);
        let starts = [pod("starts", PodPhase::Pending, false)];
        assert_eq!(forgotten(&listed(&[]), Some(&starts)), None);
    }

    #[test]
    fn without_an_api_server_an_empty_answer_is_doubted() {
        assert!(forgotten(&listed(&[]), None).is_some());
        assert_eq!(forgotten(&listed(&["one"]), None), None);
    }
}
