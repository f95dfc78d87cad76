//! Whether the kubelet advertises the instances that there are after a change: a device plugin looks at them when it starts,
//! and not again.

use std::collections::BTreeSet;
use std::time::Duration;

use gpulet_inventory::kubelet::{Allocatable, KubeletDevice, NodeAllocation};
use gpulet_inventory::snapshot::Part;
use gpulet_partition::protocol::Happening;
use tokio::sync::watch;

/// How long after a change it is waited for. The plugin's Pod is made anew first.
const WITHIN: Duration = Duration::from_secs(300);

/// Whether a device plugin offers NVIDIA's devices here.
pub(super) fn is_any(allocatable: &Allocatable) -> bool {
    of_nvidia(allocatable).next().is_some()
}

fn of_nvidia(allocatable: &Allocatable) -> impl Iterator<Item = &KubeletDevice> {
    allocatable.devices.iter().filter(|device| device.resource.starts_with("nvidia.com/"))
}

/// Waits until what the kubelet advertises is what there is, and says what came of it.
pub(super) async fn verify(
    there: BTreeSet<String>,
    mut allocation: watch::Receiver<Option<Part<NodeAllocation>>>,
) -> Happening {
    let advertised = async {
        let is_right = |part: &Option<Part<NodeAllocation>>| {
            part.as_ref().is_some_and(|part| amiss(&there, &part.value.allocatable).is_none())
        };
        allocation.wait_for(is_right).await.is_ok()
    };
    if let Ok(true) = tokio::time::timeout(WITHIN, advertised).await {
        let message = format!("the kubelet advertises the MIG devices that there are ({})", there.len());
        return Happening { warning: false, reason: "DevicePluginRefreshed".to_owned(), message };
    }
    let told = allocation.borrow().as_ref().and_then(|part| amiss(&there, &part.value.allocatable));
    let message = format!(
        "{} after a change of MIG devices: {}; restart the device plugin, and see that its MIG strategy is not `none`",
        minutes(WITHIN),
        told.unwrap_or_else(|| "the kubelet does not answer".to_owned())
    );
    Happening { warning: true, reason: "DevicePluginNotRefreshed".to_owned(), message }
}

fn minutes(time: Duration) -> String {
    format!("{} minutes", time.as_secs() / 60)
}

/// How what is advertised differs from the MIG devices that are there; absent: not at all. A device may be offered in shares,
/// whose names go on after the device's.
fn amiss(there: &BTreeSet<String>, allocatable: &Allocatable) -> Option<String> {
    let advertised: BTreeSet<&str> = of_nvidia(allocatable)
        .map(|device| device.id.split("::").next().unwrap_or_default())
        .filter(|id| id.starts_with("MIG-"))
        .collect();
    let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
    let missing: Vec<&str> = there.difference(&advertised).copied().collect();
    let stale: Vec<&str> = advertised.difference(&there).copied().collect();
    let told = [("does not advertise", missing), ("advertises what is gone:", stale)];
    let told: Vec<String> = told
        .into_iter()
        .filter(|(_, ids)| !ids.is_empty())
        .map(|(what, ids)| format!("{what} {}", ids.join(", ")))
        .collect();
    (!told.is_empty()).then(|| format!("the kubelet {}", told.join(", and ")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;

    fn there(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    fn advertised(ids: &[&str]) -> Allocatable {
        let device = |id: &&str| KubeletDevice {
            resource: "nvidia.com/mig-1g.10gb".to_owned(),
            id: (*id).to_owned(),
            numa_nodes: None,
        };
        Allocatable { devices: ids.iter().map(device).collect(), ..Allocatable::default() }
    }

    fn told(ids: &[&str]) -> Option<Part<NodeAllocation>> {
        let value = NodeAllocation { allocatable: advertised(ids), ..NodeAllocation::default() };
        Some(Part { value: Arc::new(value), taken: Instant::now() })
    }

    #[test]
    fn every_device_and_no_other() {
        assert_eq!(amiss(&there(&["MIG-1", "MIG-2"]), &advertised(&["GPU-1", "MIG-1", "MIG-2"])), None);
        assert_eq!(amiss(&there(&["MIG-1"]), &advertised(&["MIG-1::0", "MIG-1::1"])), None, "in shares");
        assert_eq!(amiss(&there(&[]), &advertised(&["GPU-1"])), None);
        let message = amiss(&there(&["MIG-1", "MIG-2"]), &advertised(&["MIG-2", "MIG-3"])).unwrap();
        assert_eq!(message, "the kubelet does not advertise MIG-1, and advertises what is gone: MIG-3");
        let others = Allocatable {
            devices: vec![KubeletDevice {
                resource: "example.com/device".to_owned(),
                id: "MIG-9".to_owned(),
                numa_nodes: None,
            }],
            ..Allocatable::default()
        };
        assert_eq!(amiss(&there(&[]), &others), None, "another plugin's");
        assert!(!is_any(&others) && is_any(&advertised(&["GPU-1"])));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_waited_for_the_plugin() {
        let (sender, receiver) = watch::channel(told(&["MIG-1"]));
        let waiting = tokio::spawn(verify(there(&["MIG-2"]), receiver));
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert!(!waiting.is_finished());
        sender.send_replace(told(&["MIG-2"]));
        let happening = waiting.await.unwrap();
        assert!(!happening.warning, "{happening:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_does_not_look_again_is_told() {
        let (_sender, receiver) = watch::channel(told(&["MIG-1"]));
        let happening = verify(there(&["MIG-2"]), receiver).await;
        assert!(happening.warning && happening.message.contains("MIG-1"), "{happening:?}");
        assert_eq!(happening.reason, "DevicePluginNotRefreshed");
    }
}
