//! After a change: device files and CDI specifications as containers need them.

use std::collections::BTreeSet;
use std::time::Duration;

use gpulet_host::partition::aftercare::{self, Aftercare, ExpectedGpu, ExpectedMig};
use gpulet_inventory::mig::{GpuInstance, MigState};
use gpulet_inventory::snapshot::GpuState;
use gpulet_partition::apply::Failure;

use super::Partitioner;
use super::execute::broken;

/// How long a program of the host may take to write a specification.
const WRITES_WITHIN: Duration = Duration::from_secs(60);

/// What was seen to after a change.
#[derive(Debug)]
pub(crate) struct Cared {
    /// What was found of device files and specifications.
    pub(crate) aftercare: Aftercare,
    /// UUIDs of the MIG devices that a device plugin offers: those that have their GPU instance for themselves.
    pub(crate) offered: BTreeSet<String>,
}

impl Partitioner {
    /// Brings device files and CDI specifications to what there is now, and tells what was found of each.
    ///
    /// # Errors
    /// If the driver is down, so that it is not known what there is.
    pub(crate) async fn care(&self) -> Result<Cared, Failure> {
        let gpus = self.opened(Duration::from_secs(10)).await?;
        let expected: Vec<ExpectedGpu> = gpus.gpus.iter().filter_map(expected).collect();
        let offered = offered(&gpus.gpus);
        let root = self.root.clone();
        let care = move || aftercare::care(&root, &expected, WRITES_WITHIN);
        let aftercare = tokio::task::spawn_blocking(care).await.map_err(|error| broken(&error))?;
        Ok(Cared { aftercare, offered })
    }
}

fn offered(gpus: &[GpuState]) -> BTreeSet<String> {
    let divided = gpus.iter().filter_map(|state| state.sample.as_ref()?.mig.value());
    let instances = divided.filter_map(|mig| mig.instances.value()).flatten();
    let alone = instances.filter_map(|instance| match instance.compute_instances.as_slice() {
        [compute] => compute.uuid.clone(),
        _ => None,
    });
    alone.collect()
}

/// Absent for a GPU that does not answer, which no container can use.
fn expected(state: &GpuState) -> Option<ExpectedGpu> {
    let mig = state.sample.as_ref()?.mig.value();
    let devices = mig.filter(|mig| mig.mode.current).map(devices);
    Some(ExpectedGpu { gpu: state.gpu.uuid.clone(), minor: *state.gpu.minor.value()?, mig: devices })
}

fn devices(mig: &MigState) -> Vec<ExpectedMig> {
    let instances = mig.instances.value().map(Vec::as_slice).unwrap_or_default();
    let of = |instance: &GpuInstance| {
        let computes = instance.compute_instances.iter();
        let devices = computes.map(|compute| ExpectedMig {
            uuid: compute.uuid.clone(),
            instance: instance.id,
            compute: compute.id,
        });
        devices.collect::<Vec<_>>()
    };
    instances.iter().flat_map(of).collect()
}
