//! The commands that look at how the GPUs are divided, and change it.

mod apply;
mod ending;
mod export;
mod plan;

use std::path::Path;

use gpulet_host::partition::lock::LockError;
use gpulet_host::root::EscapesRoot;
use gpulet_nvml::Driver;
use gpulet_partition::apply::Failure;
use gpulet_partition::overrides::Overrides;
use gpulet_partition::plan::{self as planning, NodePlan};
use gpulet_partition::protocol::MIG_CONFIG;
use gpulet_partition::resolve::Desired;
use tokio::sync::watch;

use super::{CommandError, exit};
use crate::cli::Global;
use crate::config::Settings;
use crate::daemon::{self, DaemonError};
use crate::kubelet::Kubelet;
use crate::partition::report::Verdict;
use crate::partition::{Layouts, Looked, Origin, Partitioner, WantedError};
use crate::text_file::TextReader;
use crate::{logging, node};

pub(super) use apply::apply;
pub(super) use export::export;
pub(super) use plan::plan;

/// Why GPUs were not looked at or not divided.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PartitionError {
    /// It is not known what is wanted.
    #[error(transparent)]
    Wanted(#[from] WantedError),
    /// Someone else changes the GPUs.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A path of the kubelet's leads elsewhere.
    #[error(transparent)]
    Kubelet(#[from] EscapesRoot),
    /// The GPUs cannot be looked at, or what was begun is not known.
    #[error("{0}")]
    Failed(Failure),
}

impl PartitionError {
    /// The program's exit code.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Wanted(error) if error.is_infeasible() => exit::INFEASIBLE,
            Self::Wanted(_) | Self::Kubelet(_) => exit::USAGE,
            Self::Lock(LockError::Held { .. }) => exit::BLOCKED,
            Self::Lock(LockError::Unavailable { .. }) | Self::Failed(_) => exit::FAILED,
        }
    }
}

/// What flags say of what is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The partition file.
    pub(crate) file: Option<&'a Path>,
    /// The name of the layout.
    pub(crate) name: Option<&'a str>,
}

/// What a command works with.
struct Site {
    settings: Settings,
    partitioner: Partitioner,
}

impl Site {
    /// The machine at the host's root, for `command`.
    fn open(global: &Global, command: &'static str) -> Result<Self, CommandError> {
        let settings = global.source().read().map_err(DaemonError::from)?;
        logging::start(&settings.log);
        let root = node::machine(&global.host_root, command)?;
        let places = super::places(global);
        let partitioner = Partitioner {
            kubelet: Kubelet::new(&root, &settings.kubelet).map_err(PartitionError::from)?,
            driver: Driver::new(daemon::driver_options(&places, &settings)),
            root,
            state_dir: places.state_dir,
            // The API server is not asked.
            pods: watch::Sender::new(None).subscribe(),
        };
        Ok(Self { settings, partitioner })
    }

    /// The layouts, and the name of the one that is wanted; without a name there is to be only one.
    fn layouts(&self, asked: Asked<'_>) -> Result<(Layouts, Option<String>), PartitionError> {
        let origin = Origin::of(asked.file, self.settings.partition.file.as_deref());
        let layouts = origin.read(&TextReader::default())?;
        Ok((layouts, self.name(asked)))
    }

    /// The name by the flag, else what the configuration declares; not for a file that is named on the command line.
    fn name(&self, asked: Asked<'_>) -> Option<String> {
        let declared = self.settings.labels.get(MIG_CONFIG).filter(|_| asked.file.is_none());
        asked.name.map(str::to_owned).or_else(|| declared.cloned())
    }
}

/// What was looked at, what is wanted of it, and how it gets there.
struct Planned {
    looked: Looked,
    desired: Desired,
    plan: NodePlan,
}

impl Planned {
    fn of(looked: Looked, layouts: &Layouts, name: Option<&str>) -> Result<Self, WantedError> {
        let desired = layouts.resolve(name, &looked, &Overrides::default())?;
        let plan = planning::plan(&desired.wanted(), &looked.divisions());
        Ok(Self { looked, desired, plan })
    }
}

/// The exit code of a plan that comes to this.
fn code(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::LeftAlone | Verdict::AsWanted => 0,
        Verdict::Changes => exit::CHANGES,
        Verdict::Unreadable => exit::FAILED,
        Verdict::Blocked => exit::BLOCKED,
        Verdict::Infeasible => exit::INFEASIBLE,
        Verdict::Invalid => exit::USAGE,
    }
}
