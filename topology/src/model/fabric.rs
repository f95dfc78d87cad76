//! NVLink fabric cliques, and why there are none.

use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::Fabric;
use gpulet_inventory::topology::{FabricAbsent, FabricPlace, PlacedGpu};

use super::GpuView;

/// What one GPU says (states: `NVML_GPU_FABRIC_STATE_*`).
pub(super) fn of_gpu(view: &GpuView<'_>) -> FabricPlace {
    let absent = match view.fabric {
        None => FabricAbsent::Unread { why: view.down.unwrap_or("NotReadYet").to_owned() },
        Some(Reading::Unsupported(_)) => FabricAbsent::NotSupported,
        Some(Reading::Failed(answer)) => FabricAbsent::Unread { why: answer.to_string() },
        Some(Reading::Supported(fabric)) => return registered(fabric),
    };
    FabricPlace::Absent(absent)
}

fn registered(fabric: &Fabric) -> FabricPlace {
    let domain = fabric.cluster_uuid.as_ref().filter(|uuid| uuid.bytes().any(|b| b != b'0' && b != b'-'));
    FabricPlace::Absent(match (fabric.state, fabric.status, domain, fabric.clique_id) {
        (0, ..) => FabricAbsent::NotSupported,
        (1, ..) => FabricAbsent::NotStarted,
        (2, ..) => FabricAbsent::InProgress,
        (_, 0, Some(uuid), Some(clique_id)) => {
            return FabricPlace::Clique { cluster_uuid: uuid.clone(), clique_id };
        }
        (_, 0, ..) => FabricAbsent::NoDomain,
        (_, status, ..) => FabricAbsent::Failed { status },
    })
}

/// For a GPU that the driver does not list.
pub(super) fn unlisted() -> FabricPlace {
    FabricPlace::Absent(FabricAbsent::Unread { why: "NotListedByDriver".to_owned() })
}

/// What all GPUs agree on. A GPU that was not read has no say, unless none was.
pub(super) fn of_node(gpus: &[PlacedGpu]) -> FabricPlace {
    let unread = |place: &FabricPlace| matches!(place, FabricPlace::Absent(FabricAbsent::Unread { .. }));
    let mut places = gpus.iter().map(|gpu| &gpu.fabric).filter(|place| !unread(place));
    match places.next() {
        None => gpus.first().map(|gpu| gpu.fabric.clone()).unwrap_or_default(),
        Some(first) if places.all(|place| place == first) => first.clone(),
        Some(_) => FabricPlace::Absent(FabricAbsent::Disagreeing),
    }
}

/// Whether NVSwitches may carry traffic between two GPUs: not when they are registered apart.
pub(super) fn may_switch(one: &FabricPlace, other: &FabricPlace) -> bool {
    match (one, other) {
        (FabricPlace::Clique { .. }, FabricPlace::Clique { .. }) => one == other,
        _ => true,
    }
}
