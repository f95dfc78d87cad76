//! The text formats that Prometheus reads.

use gpulet_inventory::snapshot::Snapshot;

use crate::own::Own;

/// A format of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Prometheus text format 0.0.4.
    Text004,
    /// OpenMetrics 1.0.
    OpenMetrics100,
}

/// Writes every series of `snapshot` and `own` to the end of `out`. Allocates nothing once `out` has grown.
pub fn render(_snapshot: &Snapshot, _own: &Own, _format: Format, _out: &mut Vec<u8>) {}
