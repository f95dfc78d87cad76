//! The driver from one opening to the next: one library, its workers and its event thread.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::snapshot::DriverInfo;
use tokio::sync::oneshot;

use crate::events::{EventThread, Listen, Sinks};
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
    loaded: Loaded,
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
        host_root: &Path,
        stats: &Arc<Stats>,
        sinks: Sinks,
        now: Instant,
    ) -> io::Result<Self> {
        let version: Arc<str> = opened.driver_version.as_str().into();
        let members = (0..opened.gpus)
            .map(|index| Ok(Member::new(Worker::start(&opened.library, stats, index, &version)?, now)))
            .collect::<io::Result<Vec<Member>>>()?;
        Ok(Self {
            members,
            events: EventThread::start(&opened.library, stats, sinks)?,
            loaded: Loaded::now(&opened.path, host_root),
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

    /// Listens to the events of GPUs that have become known.
    pub(crate) fn listen(&mut self) {
        for member in self.members.iter_mut().filter(|member| !member.listened_to) {
            let (Some(uuid), Some(device)) = (member.uuid(), member.device) else { continue };
            let mig_generation = Arc::clone(&member.worker.mig_generation);
            self.events.listen(Listen { device, uuid: uuid.clone(), mig_generation });
            member.listened_to = true;
        }
    }

    /// Whether what is loaded now is not what was opened: the driver was upgraded or reloaded meanwhile.
    pub(crate) fn is_outdated(&self) -> bool {
        self.loaded.differs(&Loaded::now(&self.loaded.library, &self.loaded.host_root))
    }

    /// Whether the event thread is stuck, and in which call.
    pub(crate) fn stuck_events(&self, deadline: Duration) -> Option<Running> {
        self.events.tracker().overdue(deadline)
    }

    /// Ends the threads and shuts the library down, in that order. What has not ended by `end` is left behind: a
    /// thread that is in a call now, at once.
    pub(crate) async fn release(self, end: Instant) -> Vec<Abandoned> {
        let (mut abandoned, mut leaving) = (Vec::new(), Vec::new());
        for Member { worker, seen, .. } in self.members {
            let busy = worker.is_busy();
            let (thread, tracker) = worker.dismiss();
            if busy {
                let gpu = seen.gpu.map(|gpu| gpu.uuid.clone());
                abandoned.push(Abandoned { gpu, tracker, thread });
            } else {
                leaving.push(thread);
            }
        }
        let (events, events_tracker) = self.events.dismiss();
        leaving.push(events);
        // The last owner shuts the library down, which may hang as well.
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
        let Ok(thread) = closer else { return abandoned };
        let until = tokio::time::Instant::from_std(end);
        if tokio::time::timeout_at(until, ended).await.is_err() {
            let stuck = if tracker.running().is_some() { tracker } else { events_tracker };
            abandoned.push(Abandoned { gpu: None, tracker: stuck, thread });
        }
        abandoned
    }
}

/// What tells one loaded driver from another without asking it.
#[derive(Debug)]
struct Loaded {
    library: PathBuf,
    host_root: PathBuf,
    file: Option<(u64, u64, SystemTime)>,
    module: Option<String>,
}

impl Loaded {
    fn now(library: &Path, host_root: &Path) -> Self {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::metadata(library).ok();
        Self {
            library: library.to_path_buf(),
            host_root: host_root.to_path_buf(),
            file: file.and_then(|meta| Some((meta.dev(), meta.ino(), meta.modified().ok()?))),
            module: std::fs::read_to_string(host_root.join("sys/module/nvidia/version")).ok(),
        }
    }

    /// What cannot be read now tells nothing.
    fn differs(&self, now: &Self) -> bool {
        fn changed<T: PartialEq>(before: Option<&T>, now: Option<&T>) -> bool {
            before.is_some() && now.is_some() && before != now
        }
        changed(self.file.as_ref(), now.file.as_ref()) || changed(self.module.as_ref(), now.module.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kernel_module_or_library_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let library = root.path().join("libnvidia-ml.so.1");
        let module = root.path().join("sys/module/nvidia");
        std::fs::create_dir_all(&module).unwrap();
        let now = || Loaded::now(&library, root.path());
        let nothing = now();
        std::fs::write(&library, "a").unwrap();
        std::fs::write(module.join("version"), "580.82.07\n").unwrap();
        let before = now();
        assert!(!before.differs(&now()) && !nothing.differs(&before));
        std::fs::write(module.join("version"), "580.105.08\n").unwrap();
        assert!(before.differs(&now()));
        let upgraded = now();
        std::fs::remove_dir_all(&module).unwrap();
        assert!(!upgraded.differs(&now()), "a version that cannot be read tells nothing");
        let other = root.path().join("new");
        std::fs::write(&other, "b").unwrap();
        std::fs::rename(&other, &library).unwrap();
        assert!(upgraded.differs(&now()));
    }
}
