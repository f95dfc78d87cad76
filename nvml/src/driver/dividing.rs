//! What is read and changed about one GPU on request: how it is divided.

use std::time::{Duration, Instant};

use gpulet_inventory::gpu::GpuUuid;
use gpulet_partition::observed::GpuDivision;
use gpulet_partition::step::Step;

use super::{Driver, LOOK_AGAIN};
use crate::change::{self, Change, ChangeError, Changed, Changing, Doing};
use crate::node::NotAsked;
use crate::read::division;
use crate::worker::Thread;
use crate::worker::task::{Limits, Task};

/// What keeps a GPU busy that is in no call of which more is known.
const OTHER: &str = "another change, or the opening of the driver,";

impl Driver {
    /// How a GPU is divided and who uses it, read fresh from the driver: nothing that was learned before is used. Holders
    /// are the processes that the driver lists, without their programs and Pods. Opens the driver when that is due.
    ///
    /// Compute instance profiles are told by the number of their kind (`NVML_COMPUTE_INSTANCE_PROFILE_*`). Of a GPU instance
    /// profile of which no instance exists they follow from its slices, and their places are not known.
    ///
    /// # Errors
    /// When the driver is not open, has no such GPU, refuses, or does not answer within the deadline for changes.
    pub async fn division(&self, gpu: &GpuUuid) -> Result<GpuDivision, ChangeError> {
        let read = |changing: Changing<'_>| {
            let device = changing.device()?;
            division::read(changing.calls, device, changing.gpu).map_err(|answer| changing.answered(answer))
        };
        self.ask(gpu, Doing::ReadDivision, self.change_deadline, read).await
    }

    /// Changes a GPU, by one call that changes something, and by none where all is as wanted. That the driver reports success is no
    /// proof: read the division afterwards. After a change of MIG mode the driver is opened anew, as soon as no GPU is being
    /// changed.
    ///
    /// The GPU is not sampled meanwhile: its values are those of the last time. Changes of one GPU are made one after the
    /// other, those of several GPUs side by side. Dropped, a change that has not begun is not made, and one that has
    /// goes on.
    ///
    /// # Errors
    /// When the driver is not open, has no such GPU or instance, refuses, or does not answer within the deadline for changes
    /// or for changes of the mode. Only where [`ChangeError::is_unchanged`] says so the GPU is as it was for certain.
    pub async fn change(&self, gpu: &GpuUuid, change: Change) -> Result<Changed, ChangeError> {
        let deadline = match change {
            Change::Step(Step::SetMode(_)) => self.mode_deadline,
            Change::Step(_) | Change::Persistence(_) => self.change_deadline,
        };
        let perform = move |changing: Changing<'_>| change::perform(changing, change);
        self.ask(gpu, Doing::Change(change), deadline, perform).await
    }

    /// Whether persistence mode is on, read fresh from the driver; absent where the GPU has none.
    ///
    /// # Errors
    /// As for [`Driver::division`].
    pub async fn persistence(&self, gpu: &GpuUuid) -> Result<Option<bool>, ChangeError> {
        let read = |changing: Changing<'_>| change::persistence(changing, changing.device()?);
        self.ask(gpu, Doing::ReadPersistence, self.change_deadline, read).await
    }

    /// Whether MIG mode of a GPU changes without a reset (source: `NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED`); absent where
    /// this driver does not tell.
    ///
    /// # Errors
    /// As for [`Driver::division`].
    pub async fn is_mig_resetless(&self, gpu: &GpuUuid) -> Result<Option<bool>, ChangeError> {
        let read = |changing: Changing<'_>| change::is_resetless(changing, changing.device()?);
        self.ask(gpu, Doing::ReadResetless, self.change_deadline, read).await
    }

    /// Has the worker of a GPU do something besides sampling, and waits for it; `deadline` is for one call.
    async fn ask<T: Send + 'static>(
        &self,
        gpu: &GpuUuid,
        doing: Doing,
        deadline: Duration,
        work: impl Fn(Changing<'_>) -> Result<T, ChangeError> + Copy + Send + 'static,
    ) -> Result<T, ChangeError> {
        let whole = deadline.max(self.change_deadline);
        let limits = Limits { before: self.deadline, call: deadline, whole };
        let begun = Instant::now();
        loop {
            if let Some(task) = self.begin(gpu, doing, limits, work).await? {
                return task.wait().await.unwrap_or_else(|not_done| Err(not_done.told(gpu, doing)));
            }
            let since = begun.elapsed();
            if since >= limits.whole {
                return Err(ChangeError::Busy { gpu: gpu.clone(), doing, call: OTHER, since });
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Absent: not just now.
    async fn begin<T: Send + 'static>(
        &self,
        gpu: &GpuUuid,
        doing: Doing,
        limits: Limits,
        work: impl Fn(Changing<'_>) -> Result<T, ChangeError> + Send + 'static,
    ) -> Result<Option<Task<Result<T, ChangeError>>>, ChangeError> {
        let mut node = self.node.lock().await;
        if self.leaving.try_lock().is_ok() {
            // Whoever was letting go of it was dropped meanwhile.
            node.stop_leaving();
        }
        let own = gpu.clone();
        let work = move |thread: &mut Thread| thread.change(&own, doing, work);
        node.begin(gpu, limits, work).await.map_err(|not_asked| match not_asked {
            NotAsked::Down(down) => ChangeError::DriverDown { gpu: gpu.clone(), doing, down },
            NotAsked::NoSuchGpu => ChangeError::NoSuchGpu { gpu: gpu.clone(), doing },
            NotAsked::Refused(answer) => ChangeError::answered(gpu, doing, answer),
            NotAsked::Busy { call, since } => ChangeError::Busy { gpu: gpu.clone(), doing, call, since },
        })
    }
}
