//! Does at the edges what a state machine says, and tells it what came of it.

use std::time::{Duration, Instant};

use gpulet_host::partition::reset;
use gpulet_host::partition::store::{Store, StoreError};
use gpulet_inventory::gpu::GpuUuid;
use gpulet_nvml::{Change as DriverChange, ChangeError, Doing};
use gpulet_partition::apply::{Change, Command, Event, Failure, Machine, Outcome};
use gpulet_partition::layout::Need;
use gpulet_partition::observed::GpuDivision;

use super::Partitioner;
use crate::report;

/// How long calls to the driver that are under way may take before a reset.
const LETS_GO_WITHIN: Duration = Duration::from_secs(15);

/// How long NVIDIA's program may take to reset a GPU.
const RESETS_WITHIN: Duration = Duration::from_secs(120);

/// A GPU that is being changed.
pub(super) struct Way<'a> {
    pub(super) gpu: &'a GpuUuid,
    /// For the names of its profiles; absent after a crash.
    pub(super) division: Option<&'a GpuDivision>,
}

impl Partitioner {
    /// Runs a machine to its end.
    pub(super) async fn run(&self, way: &Way<'_>, mut machine: Machine) -> Outcome {
        let mut event = Event::Woken;
        loop {
            let commands = machine.step(event, Instant::now());
            if let Some(outcome) = machine.outcome() {
                return outcome.clone();
            }
            event = match commands.into_iter().next() {
                Some(command) => self.execute(way, command).await,
                None => {
                    let wake = machine.next_wake().unwrap_or_else(Instant::now);
                    tokio::time::sleep_until(wake.into()).await;
                    Event::Woken
                }
            };
        }
    }

    async fn execute(&self, way: &Way<'_>, command: Command) -> Event {
        match command {
            Command::Read => Event::Read(self.look_at(way.gpu).await),
            Command::Journal(journal) => {
                Event::Journalled(self.on_disk(move |store| store.write_journal(&journal)).await)
            }
            Command::ClearJournal => {
                let gpu = way.gpu.clone();
                Event::Journalled(self.on_disk(move |store| store.remove_journal(&gpu)).await)
            }
            Command::Change(change) => Event::Changed(self.change(way, change).await),
        }
    }

    async fn change(&self, way: &Way<'_>, change: Change) -> Result<(), Failure> {
        let told = told(change.need, way);
        let begun = Instant::now();
        tracing::debug!(gpu = %way.gpu, change = told, "changing a GPU");
        let changed = match change.need {
            Need::Step(step) => self.change_by_driver(way, DriverChange::Step(step)).await,
            Need::Persistence(on) => self.change_by_driver(way, DriverChange::Persistence(on)).await,
            Need::Reset => self.reset(way).await,
        };
        let seconds = begun.elapsed().as_secs_f64();
        match &changed {
            Ok(()) => tracing::info!(gpu = %way.gpu, change = told, seconds, "changed a GPU"),
            Err(failure) => {
                tracing::warn!(gpu = %way.gpu, change = told, seconds, reason = failure.reason, error = failure.message, "a change of a GPU failed");
            }
        }
        changed
    }

    async fn change_by_driver(&self, way: &Way<'_>, change: DriverChange) -> Result<(), Failure> {
        match self.driver.change(way.gpu, change).await {
            Ok(changed) => {
                if let Some(put_off) = changed.put_off {
                    tracing::info!(gpu = %way.gpu, "{put_off}");
                }
                Ok(())
            }
            Err(error) => Err(failure(&error)),
        }
    }

    /// Resets the GPU, with every handle and file of this process let go of meanwhile. It goes on to its end though nobody
    /// waits for it any more, for the driver is to be taken up again.
    async fn reset(&self, way: &Way<'_>) -> Result<(), Failure> {
        let pci = self.place_of(way.gpu).await?;
        let (driver, root) = (self.driver.clone(), self.root.clone());
        let resetting = tokio::spawn(async move {
            if let Err(error) = driver.quiesce(LETS_GO_WITHIN).await {
                return Err(Failure { reason: error.reason().to_owned(), message: report::chain(&error) });
            }
            let reset = tokio::task::spawn_blocking(move || reset::gpu(&root, pci, RESETS_WITHIN)).await;
            driver.resume().await;
            match reset {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => {
                    Err(Failure { reason: error.reason().to_owned(), message: report::chain(&error) })
                }
                Err(error) => Err(broken(&error)),
            }
        });
        resetting.await.unwrap_or_else(|error| Err(broken(&error)))
    }

    /// Does something with the journals, which are on a disk that may take its time.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        let store = Store::new(&self.state_dir);
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(unwritten(&error)),
            Err(error) => Err(broken(&error)),
        }
    }
}

/// What is to be done, in words.
fn told(need: Need, way: &Way<'_>) -> String {
    match (need, way.division) {
        (Need::Reset, _) => "reset".to_owned(),
        (Need::Persistence(true), _) => "turn persistence mode on again".to_owned(),
        (Need::Persistence(false), _) => "turn persistence mode off for the reset".to_owned(),
        (Need::Step(step), Some(division)) => step.told(division),
        (Need::Step(step), None) => Doing::Change(DriverChange::Step(step)).to_string(),
    }
}

fn failure(error: &ChangeError) -> Failure {
    Failure { reason: error.reason().to_owned(), message: report::chain(error) }
}

/// Why a journal is not as it should be.
pub(super) fn unwritten(error: &StoreError) -> Failure {
    Failure { reason: error.reason().to_owned(), message: report::chain(error) }
}

/// Something has panicked: a bug.
pub(super) fn broken(error: &tokio::task::JoinError) -> Failure {
    let message = format!("a part of gpulet broke off, which is a bug ({error}); the log says where");
    Failure { reason: "Broken".to_owned(), message }
}
