//! `gpulet collect`: everything that gpulet reads of this machine, in one file.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gpulet_host::bundle::BundleError;
use gpulet_host::{Bundle, hardware};
use gpulet_nvml::Driver;

use super::{CommandError, places, print};
use crate::cli::Global;
use crate::config::Settings;
use crate::daemon::{self, DaemonError};
use crate::{file, holders, logging, node, record};

/// Why nothing was collected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    /// The file cannot be written.
    #[error("cannot write {}", path.display())]
    Unwritable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// What the driver said cannot be put into words.
    #[error("cannot record what the driver said")]
    Record(#[source] serde_json::Error),
}

/// What can go wrong with writing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The file.
    #[error(transparent)]
    File(#[from] io::Error),
    /// What is packed into it.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

/// Reads the machine as `topo` and `metrics` do, and keeps all of it in `path`.
pub(super) fn collect(global: &Global, path: &Path) -> Result<(), CommandError> {
    let settings = global.source().read().map_err(DaemonError::from)?;
    logging::start(&settings.log);
    let places = places(global);
    let root = node::machine(&places.host_root, "collect")?.recorded();
    let driver = Driver::new(daemon::driver_options(&places, &settings));
    let runtime = daemon::runtime()?;
    let record = runtime.block_on(node::said(&driver));
    hardware::read(&root);
    holders::origins(&root, &record.gpus);
    let gpus = record.gpus.gpus.len();
    let attachments = record::attachments(record, Instant::now()).map_err(CollectError::Record)?;
    // Threads may hang in the driver: not waited for.
    runtime.shutdown_background();
    let bundle = Bundle { host: root.recording(), attachments }.scrubbed(&host_names(&settings));
    let failed = |source| CollectError::Unwritable { path: path.to_owned(), source };
    file::replace(path, |file| Ok(bundle.write(file)?)).map_err(failed)?;
    print(told(path, &bundle, gpus).as_bytes())
}

/// What this machine is called: in full, up to its first dot, and as its node.
fn host_names(settings: &Settings) -> Vec<String> {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let node = settings.node_name.as_ref().map(ToString::to_string);
    let mut names: Vec<String> = host.into_iter().chain(node).map(|name| name.trim().to_owned()).collect();
    let short = |name: &String| name.split_once('.').map(|(short, _)| short.to_owned());
    names.extend(names.iter().filter_map(short).collect::<Vec<_>>());
    // `localhost` and such are every machine's, and stand in many files.
    names.retain(|name| !name.is_empty() && !name.starts_with("localhost"));
    // The longest first, so that no part of a name is replaced before the whole.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names.dedup();
    names
}

fn told(path: &Path, bundle: &Bundle, gpus: usize) -> String {
    format!(
        "{}: {} files and directories, and what the driver said of {gpus} GPUs. Hardware addresses, GUIDs, serial \
         numbers and host names are replaced by stand-ins; look into it before you give it away (tar -tzf).\n\
         `gpulet --host-root {} topo` shows it.\n",
        path.display(),
        bundle.host.len(),
        path.display()
    )
}
