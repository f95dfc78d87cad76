//! Asking the worker of one GPU for something besides sampling.

use std::time::{Duration, Instant};

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::reading::Answer;
use gpulet_inventory::snapshot::{Driver, DriverDown};

use super::Node;
use crate::Classes;
use crate::member::Status;
use crate::worker::Thread;
use crate::worker::task::{Limits, Task};

/// Why a worker cannot be asked for something.
#[derive(Debug)]
pub(crate) enum NotAsked {
    /// The driver is not open.
    Down(DriverDown),
    /// It has no such GPU.
    NoSuchGpu,
    /// The GPU does not say any more which it is.
    Refused(Answer),
    /// This call of an earlier task has not returned in time.
    Busy { call: &'static str, since: Duration },
}

impl Node {
    /// Has the worker of a GPU do something besides sampling, and opens the driver for that if need be. Absent: it has
    /// something else to do just now, or the driver is still being opened.
    ///
    /// # Errors
    /// Why it cannot be asked for now.
    pub(crate) async fn begin<T: Send + 'static>(
        &mut self,
        gpu: &GpuUuid,
        limits: Limits,
        work: impl FnOnce(&mut Thread) -> T + Send + 'static,
    ) -> Result<Option<Task<T>>, NotAsked> {
        self.forget_ended();
        let is_known = self.open().is_some_and(|epoch| epoch.member(gpu).is_some());
        if !self.leaving && (!is_known || self.is_outdated()) {
            // Which GPU is which is known once each has been read.
            let now = Instant::now();
            self.advance(Classes { fast: false, slow: false }, now).await;
            self.list(now);
        }
        if let Driver::Down(down) = self.driver() {
            return if self.opening.is_some() && !self.leaving {
                Ok(None)
            } else {
                Err(NotAsked::Down(down))
            };
        }
        // A GPU that was reset may take its time over the first call.
        let deadline = self.options.change_deadline;
        let Some(epoch) = &mut self.epoch else { return Ok(None) };
        let is_learning = epoch.members.iter().any(|member| member.is_unknown(deadline));
        let Some(member) = epoch.members.iter_mut().find(|member| member.uuid() == Some(gpu)) else {
            return if is_learning { Ok(None) } else { Err(self.not_there(gpu)) };
        };
        if let Some(running) = member.worker.overdue_task() {
            return Err(NotAsked::Busy { call: running.call, since: running.elapsed() });
        }
        Ok((!member.worker.in_task()).then(|| member.worker.begin(limits, work)))
    }

    /// Why a GPU cannot be asked that no worker says it has: one that was there before may not say any more what it is.
    fn not_there(&self, gpu: &GpuUuid) -> NotAsked {
        let before = self.gpus.iter().find(|state| state.gpu.uuid == *gpu);
        let members = self.epoch.iter().flat_map(|epoch| &epoch.members);
        let mut unknown = members.filter(|member| member.uuid().is_none());
        let same = before.and_then(|state| unknown.find(|member| member.seen.may_be(&state.gpu)));
        match same.map(|member| &member.seen.status) {
            Some(Status::Refused(answer)) => NotAsked::Refused(*answer),
            Some(Status::Stuck { call, since }) => NotAsked::Busy { call, since: *since },
            Some(Status::NotYet | Status::Up(_)) | None => NotAsked::NoSuchGpu,
        }
    }
}
