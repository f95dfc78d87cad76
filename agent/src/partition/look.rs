//! Looks at the GPUs: fresh from the driver, with everyone who uses or may use them.

use std::time::{Duration, Instant};

use gpulet_host::hardware;
use gpulet_host::partition::preflight;
use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::holders::{Inputs, Instance as Part, Processes, Resolver, join};
use gpulet_inventory::mig::GpuInstance;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::snapshot::{Driver as DriverState, GpuState, NodeGpus, UnlistedGpu};
use gpulet_nvml::Classes;
use gpulet_partition::apply::{Failure, Seen};
use gpulet_partition::observed::{GpuDivision, Holder};

use super::holders::{self, Place};
use super::openers;
use super::pods::Given;
use super::{Looked, LookedGpu, Partitioner, UnreadGpu};

/// How long the driver may take to open.
const OPENS_WITHIN: Duration = Duration::from_secs(30);

/// How long it may be down while a GPU is being changed: after a reset it does not open at once.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// Why the driver is down while it is being opened.
const OPENING: [&str; 2] = ["NotOpen", "Unresponsive"];

/// How often it is asked meanwhile.
const ASKED_EVERY: Duration = Duration::from_millis(200);

/// A GPU to which everyone is added.
pub(super) struct Subject<'a> {
    pub(super) division: &'a mut GpuDivision,
    pub(super) persistence: Option<bool>,
    pub(super) resetless: bool,
}

impl Partitioner {
    /// Looks at all GPUs. One that does not answer costs a deadline, and is told with the reason.
    ///
    /// # Errors
    /// If the driver is down.
    pub(crate) async fn look(&self) -> Result<Looked, Failure> {
        let gpus = self.opened(Duration::ZERO).await?;
        let DriverState::Up(info) = &gpus.driver else { return Err(down(&gpus.driver)) };
        let mut looked =
            Looked { driver_version: info.driver_version.clone(), gpus: Vec::new(), unread: Vec::new() };
        for state in &gpus.gpus {
            match self.read(&state.gpu.uuid).await {
                Ok(Seen { division, persistence }) => {
                    let resetless = self.is_resetless(&division).await;
                    let model = hardware::model(&self.root, state.gpu.pci);
                    looked.gpus.push(LookedGpu {
                        gpu: state.gpu.clone(),
                        division,
                        persistence,
                        model,
                        resetless,
                    });
                }
                Err(failure) => looked.unread.push(UnreadGpu {
                    uuid: Some(state.gpu.uuid.clone()),
                    pci: Some(state.gpu.pci),
                    failure,
                }),
            }
        }
        looked.unread.extend(gpus.unlisted.iter().map(unlisted));
        let subjects = looked.gpus.iter_mut().map(Subject::of).collect();
        self.add_holders(&gpus, subjects).await;
        Ok(looked)
    }

    /// Looks at one GPU.
    ///
    /// # Errors
    /// If the driver is down or the GPU does not answer.
    pub(super) async fn look_at(&self, gpu: &GpuUuid) -> Result<Seen, Failure> {
        let gpus = self.opened(BACK_WITHIN).await?;
        let Seen { mut division, persistence } = self.read(gpu).await?;
        let resetless = self.is_resetless(&division).await;
        self.add_holders(&gpus, vec![Subject { division: &mut division, persistence, resetless }]).await;
        Ok(Seen { division, persistence })
    }

    /// Where a GPU sits.
    ///
    /// # Errors
    /// If the driver is down or does not list it.
    pub(super) async fn place_of(&self, gpu: &GpuUuid) -> Result<PciAddress, Failure> {
        let gpus = self.opened(BACK_WITHIN).await?;
        let state = gpus.gpus.iter().find(|state| state.gpu.uuid == *gpu);
        state.map(|state| state.gpu.pci).ok_or_else(|| Failure {
            reason: "NoSuchGpu".to_owned(),
            message: format!(
                "the driver does not list {gpu} any more; look for Xid errors in the kernel log"
            ),
        })
    }

    async fn read(&self, gpu: &GpuUuid) -> Result<Seen, Failure> {
        let division = self.driver.division(gpu).await?;
        let persistence = self.driver.persistence(gpu).await?;
        Ok(Seen { division, persistence })
    }

    /// Whether the mode of a GPU changes without a reset; not where that is not told.
    async fn is_resetless(&self, division: &GpuDivision) -> bool {
        division.mode.is_some() && matches!(self.driver.is_mig_resetless(&division.gpu).await, Ok(Some(true)))
    }

    /// The node's GPUs by the driver, read now. Waits for it while it opens, and `patience` if it is down otherwise.
    pub(super) async fn opened(&self, patience: Duration) -> Result<NodeGpus, Failure> {
        let begun = Instant::now();
        loop {
            let gpus = self.driver.sample(Classes { fast: true, slow: true }, Instant::now()).await;
            let patience = match gpus.driver.down_reason() {
                None => return Ok(gpus),
                Some(reason) if OPENING.contains(&reason) => OPENS_WITHIN,
                Some(_) => patience,
            };
            if begun.elapsed() >= patience {
                return Err(down(&gpus.driver));
            }
            tokio::time::sleep(ASKED_EVERY).await;
        }
    }

    /// Adds everyone. The kubelet is asked last: what it has given away until now is known.
    async fn add_holders(&self, gpus: &NodeGpus, mut subjects: Vec<Subject<'_>>) {
        let root = self.root.clone();
        let seen = tokio::task::spawn_blocking(move || preflight::look(&root)).await;
        let unseen = seen.as_ref().err().map(|error| super::execute::broken(error).message);
        let preflight = seen.unwrap_or_default();
        let pods = self.pods.borrow().clone();
        let pods = pods.as_ref().map(|pods| pods.as_slice());
        let states: Vec<Option<&GpuState>> = subjects
            .iter()
            .map(|subject| gpus.gpus.iter().find(|state| state.gpu.uuid == subject.division.gpu))
            .collect();
        for (subject, state) in subjects.iter_mut().zip(&states) {
            holders::spread(subject.division);
            if let Some(state) = state {
                openers::add(subject, &state.gpu, &preflight);
            }
        }
        let pids = subjects.iter().flat_map(|subject| holders::pids(subject.division)).collect();
        let names = self.names(pids, &preflight.openers, pods.unwrap_or_default()).await;
        let given = self.given().await;
        let allocation = match &given {
            Given::Told(allocation) => Some(allocation),
            Given::NoPods | Given::Unknown { .. } => None,
        };
        let inputs = Inputs { gpus, processes: &Processes::default(), pods, allocation };
        let joined = join(&inputs, &mut Resolver::default());
        for (subject, state) in subjects.iter_mut().zip(states) {
            holders::name(subject.division, &names);
            let unnamed = unnamed(subject.division, state);
            holders::add_given(subject.division, &joined, &unnamed);
            let unknown = match &given {
                Given::Unknown { why } => Some(why),
                Given::Told(_) | Given::NoPods => None,
            };
            for why in unknown.into_iter().chain(&unseen) {
                holders::add(subject.division, Place::Anywhere, &Holder::Unknown { why: why.clone() });
            }
        }
    }
}

impl<'a> Subject<'a> {
    fn of(looked: &'a mut LookedGpu) -> Self {
        let LookedGpu { division, persistence, resetless, .. } = looked;
        Self { division, persistence: *persistence, resetless: *resetless }
    }
}

fn down(driver: &DriverState) -> Failure {
    match driver {
        DriverState::Down(down) => Failure {
            reason: down.reason.to_owned(),
            message: format!("the driver is down: {}; {}", down.message, down.remedy),
        },
        DriverState::Up(_) => Failure {
            reason: "DriverDown".to_owned(),
            message: "the driver went down while it was read; try again".to_owned(),
        },
    }
}

fn unlisted(gpu: &UnlistedGpu) -> UnreadGpu {
    let reason = gpu.reason.reason();
    let call = gpu.reason.call().map_or_else(String::new, |call| format!(": {call} hangs or was refused"));
    let message =
        format!("GPU {} does not even tell its UUID{call}; look for Xid errors in the kernel log", gpu.index);
    UnreadGpu { uuid: None, pci: gpu.pci, failure: Failure { reason: reason.to_owned(), message } }
}

/// Compute instances that the driver has told no UUID of. They may be the device that a Pod was given.
fn unnamed(division: &GpuDivision, state: Option<&GpuState>) -> Vec<Part> {
    let named: &[GpuInstance] = state
        .and_then(|state| state.sample.as_ref()?.mig.value()?.instances.value())
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_named = |part: &Part| {
        named.iter().filter(|instance| instance.id == part.gpu).any(|instance| {
            let mut computes = instance.compute_instances.iter();
            computes.any(|compute| Some(compute.id) == part.compute && compute.uuid.is_some())
        })
    };
    let parts = division.instances.iter().flat_map(|instance| {
        instance.computes.iter().map(|compute| Part { gpu: instance.id, compute: Some(compute.id) })
    });
    parts.filter(|part| !is_named(part)).collect()
}
