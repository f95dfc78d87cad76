//! The driver from one opening to the next: one library, its workers and its event thread.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::snapshot::DriverInfo;
use tokio::sync::oneshot;

use crate::Options;
use crate::events::{EventThread, Listen, Sinks};
use crate::kernel::{Change, Kernel};
use crate::library::Opened;
use crate::member::Member;
use crate::raw::library::Library;
use crate::raw::symbol;
use crate::stats::Stats;
use crate::tracker::{Running, Tracker};
use crate::worker::Worker;

/// The driver, open.
#[derive(Debug)]
pub(crate) struct Epoch {
    pub(crate) info: DriverInfo,
    pub(crate) members: Vec<Member>,
    library: Arc<Library>,
    events: EventThread,
    kernel: Kernel,
    /// Whether a GPU was changed so that handles and numbers may be others now.
    outdated: Arc<AtomicBool>,
    /// How many GPUs the driver has now, once it has said.
    counting: Option<oneshot::Receiver<u32>>,
}

/// A thread that was left behind in a call that had not returned.
#[derive(Debug)]
pub(crate) struct Abandoned {
    /// The GPU that it was for.
    pub(crate) gpu: Option<GpuUuid>,
    /// The call that it is in.
    pub(crate) tracker: Arc<Tracker>,
    thread: JoinHandle<()>,
}

impl Abandoned {
    /// Whether its call returned at last.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

impl Epoch {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(
        opened: Opened,
        options: &Options,
        stats: &Arc<Stats>,
        sinks: Sinks,
        now: Instant,
    ) -> io::Result<Self> {
        let version: Arc<str> = opened.driver_version.as_str().into();
        let outdated = Arc::new(AtomicBool::new(false));
        let worker = |index| Worker::start(&opened.library, stats, index, &version, &outdated);
        let members = (0..opened.gpus)
            .map(|index| Ok(Member::new(worker(index)?, now)))
            .collect::<io::Result<Vec<Member>>>()?;
        Ok(Self {
            members,
            events: EventThread::start(&opened.library, stats, sinks, options.deadline)?,
            kernel: opened.kernel,
            outdated,
            counting: None,
            info: DriverInfo {
                driver_version: opened.driver_version,
                nvml_version: opened.nvml_version,
                cuda_version: opened.cuda_version,
                library: opened.path.display().to_string(),
                epoch: stats.opened(),
            },
            library: opened.library,
        })
    }

    /// Listens to the events of GPUs that have become known, and waits until that is so or it is `end`: what happens
    /// before is told to no one.
    pub(crate) async fn listen(&mut self, end: Instant) {
        let mut gpus = Vec::new();
        for member in self.members.iter_mut().filter(|member| !member.listened_to) {
            let (Some(uuid), Some(device)) = (member.uuid(), member.device) else { continue };
            let mig_generation = Arc::clone(&member.worker.mig_generation);
            gpus.push(Listen { device, uuid: uuid.clone(), mig_generation });
            member.listened_to = true;
        }
        if gpus.is_empty() {
            return;
        }
        let listening = self.events.listen(gpus);
        let _ = tokio::time::timeout_at(tokio::time::Instant::from_std(end), listening).await;
    }

    /// The GPU of that identity.
    pub(crate) fn member(&self, gpu: &GpuUuid) -> Option<&Member> {
        self.members.iter().find(|member| member.uuid() == Some(gpu))
    }

    /// Whether handles and numbers may be others now than when it was opened.
    pub(crate) fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Acquire)
    }

    /// Whether a GPU is being changed or read for that, and each call returns in time.
    pub(crate) fn is_being_changed(&self) -> bool {
        self.members.iter().any(|member| member.worker.in_task() && member.worker.overdue_task().is_none())
    }

    /// Why the driver must be opened anew, as far as the kernel tells.
    pub(crate) fn change(&self, host_root: &Path) -> Option<Change> {
        self.kernel.change(&Kernel::read(host_root))
    }

    /// Has the GPUs counted, on the event thread: that may hang, too, and no GPU is to blame for it.
    pub(crate) fn count(&mut self) {
        if self.counting.is_none() {
            self.counting = Some(self.events.count());
        }
    }

    /// Whether the driver has come to count more or fewer GPUs than when it was opened.
    pub(crate) fn counts_differently(&mut self) -> bool {
        match self.counting.as_mut().map(oneshot::Receiver::try_recv) {
            None | Some(Err(oneshot::error::TryRecvError::Empty)) => false,
            Some(counted) => {
                self.counting = None;
                counted.is_ok_and(|gpus| gpus as usize != self.members.len())
            }
        }
    }

    /// Whether the event thread is stuck, and in which call.
    pub(crate) fn stuck_events(&self, deadline: Duration) -> Option<Running> {
        self.events.tracker().overdue(deadline)
    }

    /// Ends the threads and then shuts the library down, on a thread of its own, since that may hang as well. Threads
    /// that are in a round now are left behind at once.
    pub(crate) fn release(self) -> Release {
        let (mut busy, mut leaving) = (Vec::new(), Vec::new());
        for Member { worker, seen, .. } in self.members {
            let in_round = worker.is_busy();
            let (thread, tracker) = worker.dismiss();
            if in_round {
                let gpu = seen.gpu.map(|gpu| gpu.uuid.clone());
                busy.push(Abandoned { gpu, tracker, thread });
            } else {
                leaving.push(thread);
            }
        }
        leaving.push(self.events.dismiss());
        let tracker = Arc::new(Tracker::default());
        let (watched, library) = (Arc::clone(&tracker), self.library);
        let (done, ended) = oneshot::channel();
        let closer = thread::Builder::new().name("gpu-close".into()).spawn(move || {
            for thread in leaving {
                // A thread that panicked has ended, too.
                let _ = thread.join();
            }
            watched.enter(symbol::SHUTDOWN.name);
            drop(library);
            watched.leave();
            let _ = done.send(());
        });
        // Without a thread for it, the library was let go of when the closure was dropped.
        let closer = closer.ok().map(|thread| (Abandoned { gpu: None, tracker, thread }, ended));
        Release { busy, closer }
    }
}

/// An epoch that is ending.
pub(crate) struct Release {
    /// Threads that are in a round.
    pub(crate) busy: Vec<Abandoned>,
    /// The thread that ends the others and shuts the library down, and what resolves when it has.
    pub(crate) closer: Option<(Abandoned, oneshot::Receiver<()>)>,
}
