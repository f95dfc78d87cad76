//! Values that rarely move: read at the slow interval.

use gpulet_inventory::link::NvLink;
use gpulet_inventory::mig::MigState;
use gpulet_inventory::reading::{Cause, Reading};
use gpulet_inventory::sample::{Ecc, Fabric, RemappedRows};

use super::fields::{self, Batch, checked};
use super::links::LinksReader;
use super::mig::MigReader;
use super::{Asked, fabric};
use crate::plausible::narrow;
use crate::raw::symbol;

/// The slow part of a sample.
#[derive(Debug, Clone)]
pub(crate) struct Slow {
    pub(crate) nvlinks: Reading<Vec<NvLink>>,
    pub(crate) ecc: Ecc,
    pub(crate) remapped_rows: Reading<RemappedRows>,
    pub(crate) mig: Reading<MigState>,
    pub(crate) recovery_action: Reading<u32>,
    pub(crate) fabric: Reading<Fabric>,
}

/// Reads it, with buffers and what stays between two changes.
pub(crate) struct SlowReader {
    batch: Batch,
    ecc: [usize; 4],
    remapped: [usize; 4],
    recovery_action: usize,
    links: LinksReader,
    mig: MigReader,
}

impl SlowReader {
    /// Nothing known yet.
    pub(crate) fn new() -> Self {
        let mut batch = Batch::new();
        Self {
            ecc: [
                fields::ECC_VOLATILE_CORRECTED,
                fields::ECC_VOLATILE_UNCORRECTED,
                fields::ECC_AGGREGATE_CORRECTED,
                fields::ECC_AGGREGATE_UNCORRECTED,
            ]
            .map(|field| batch.add(field, 0)),
            remapped: [
                fields::REMAPPED_CORRECTABLE,
                fields::REMAPPED_UNCORRECTABLE,
                fields::REMAPPED_PENDING,
                fields::REMAPPED_FAILURE,
            ]
            .map(|field| batch.add(field, 0)),
            recovery_action: batch.add(fields::RECOVERY_ACTION, 0),
            batch,
            links: LinksReader::new(),
            mig: MigReader::new(),
        }
    }

    /// Reads all of it.
    pub(crate) fn read(&mut self, asked: &mut Asked<'_>) -> Slow {
        self.batch.read(asked);
        let recovery_action = self.batch.value(self.recovery_action);
        Slow {
            nvlinks: self.links.read(asked),
            ecc: self.ecc(asked),
            remapped_rows: self.remapped_rows(),
            mig: self.mig.read(asked),
            recovery_action: checked(recovery_action, fields::RECOVERY_ACTION.name, narrow),
            fabric: fabric::read(asked),
        }
    }

    /// The division of the GPU changed: what was learned about it no longer holds.
    pub(crate) fn forget_mig(&mut self) {
        self.mig = MigReader::new();
    }

    fn ecc(&self, asked: &mut Asked<'_>) -> Ecc {
        let [volatile_corrected, volatile_uncorrected, aggregate_corrected, aggregate_uncorrected] =
            self.ecc.map(|at| self.batch.value(at));
        Ecc {
            enabled: asked.first_of_two(&symbol::ECC_MODE, enabled),
            volatile_corrected,
            volatile_uncorrected,
            aggregate_corrected,
            aggregate_uncorrected,
        }
    }

    /// By fields: `nvmlDeviceGetRemappedRows` refuses while the GPU has MIG instances.
    fn remapped_rows(&self) -> Reading<RemappedRows> {
        let [correctable, uncorrectable, pending, failed] = self.remapped.map(|at| self.batch.value(at));
        let name = fields::REMAPPED_CORRECTABLE.name;
        let both = join(correctable, uncorrectable);
        let flags = join(pending, failed);
        checked_pair(join(both, flags), name)
    }
}

fn join<A, B>(a: Reading<A>, b: Reading<B>) -> Reading<(A, B)> {
    match (a, b) {
        (Reading::Supported(a), Reading::Supported(b)) => Reading::Supported((a, b)),
        (Reading::Unsupported(answer), _) | (Reading::Supported(_), Reading::Unsupported(answer)) => {
            Reading::Unsupported(answer)
        }
        (Reading::Failed(answer), _) | (Reading::Supported(_), Reading::Failed(answer)) => {
            Reading::Failed(answer)
        }
    }
}

fn checked_pair(reading: Reading<((u64, u64), (u64, u64))>, name: &'static str) -> Reading<RemappedRows> {
    let ((correctable, uncorrectable), (pending, failed)) = match reading {
        Reading::Supported(values) => values,
        Reading::Unsupported(answer) => return Reading::Unsupported(answer),
        Reading::Failed(answer) => return Reading::Failed(answer),
    };
    match (narrow(correctable), narrow(uncorrectable)) {
        (Ok(correctable), Ok(uncorrectable)) => Reading::Supported(RemappedRows {
            correctable,
            uncorrectable,
            pending: pending != 0,
            failed: failed != 0,
        }),
        (Err(cause), _) | (_, Err(cause)) => {
            Reading::Failed(gpulet_inventory::reading::Answer { call: name, cause })
        }
    }
}

/// `nvmlEnableState_t`
pub(crate) fn enabled(state: u32) -> Result<bool, Cause> {
    match state {
        0 => Ok(false),
        1 => Ok(true),
        u32::MAX => Err(Cause::Blank),
        _ => Err(Cause::Implausible),
    }
}
