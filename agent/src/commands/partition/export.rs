//! `gpulet export`: how the GPUs are divided now, as a partition file.

use gpulet_partition::export as partition_file;

use super::super::{CommandError, exit, print};
use super::{PartitionError, Site};
use crate::cli::Global;
use crate::daemon;

/// Prints the file. A GPU that does not answer is said, and left out.
pub(crate) fn export(global: &Global) -> Result<u8, CommandError> {
    let site = Site::open(global, "export")?;
    let runtime = daemon::runtime()?;
    let looked = runtime.block_on(site.partitioner.look());
    runtime.shutdown_background();
    let looked = looked.map_err(PartitionError::Failed)?;
    print(partition_file::file(&looked.facts()).as_bytes())?;
    for unread in &looked.unread {
        eprintln!("gpulet: left out: {}", unread.failure);
    }
    Ok(if looked.unread.is_empty() { 0 } else { exit::FAILED })
}
