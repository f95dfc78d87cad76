//! GPUs that Pods, a service and processes of no known origin hold.

use gpulet_inventory::holders::{
    Allocated, DeviceId, HeldDevice, Holders, HostUnit, Instance, Owner, PodOwner, UnknownDevice,
};
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use gpulet_inventory::snapshot::NodeGpus;

fn allocated(replica: u32) -> Allocated {
    Allocated {
        namespace: "team \"a\"".to_owned(),
        pod: "trainer-0".to_owned(),
        container: "main".to_owned(),
        resource: "nvidia.com/gpu.shared".to_owned(),
        name: format!("GPU-…::{replica}"),
        replica: Some(replica),
    }
}

/// Of each GPU as a whole, and of the compute instance 0 of its GPU instance 7.
pub(crate) fn holders(gpus: &NodeGpus) -> Holders {
    let pod = Owner::Pod(PodOwner {
        uid: "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0".to_owned(),
        namespace: Some("team \"a\"".to_owned()),
        name: Some("trainer-0".to_owned()),
        container: Some("main".to_owned()),
    });
    let part = Instance { gpu: GpuInstanceId(7), compute: Some(ComputeInstanceId(0)) };
    let devices = gpus.gpus.iter().flat_map(|state| {
        let device = |instance, owners: Vec<Owner>| HeldDevice {
            id: DeviceId { gpu: state.gpu.uuid.clone(), instance },
            processes: Vec::new(),
            owners,
            allocated: vec![allocated(0), allocated(1)],
        };
        let unit = Owner::Host(HostUnit::new("nvidia-persistenced.service"));
        [device(None, vec![pod.clone(), unit, Owner::Unknown]), device(Some(part), vec![pod.clone()])]
    });
    let unknown = vec![UnknownDevice { allocated: allocated(2), is_news: true }];
    Holders { devices: devices.collect(), unknown, vanished: 1 }
}
