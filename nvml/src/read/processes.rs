//! Processes that hold a GPU.

use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use gpulet_inventory::process::{GpuProcess, ProcessKind};
use gpulet_inventory::reading::Reading;
use nvml_wrapper_sys::bindings as sys;

use super::{Asked, Gpu, or};
use crate::plausible;
use crate::raw::symbol::{self, List, Symbol};

/// Reads all kinds into one list; `buffer` is kept from tick to tick.
///
/// A kind that the driver does not list is left out; a kind that failed makes the whole list fail, since a list that
/// lacks some would look as if they had ended.
pub(crate) fn read(
    asked: &mut Asked<'_>,
    buffer: &mut Vec<sys::nvmlProcessInfo_t>,
) -> Reading<Vec<GpuProcess>> {
    let kinds = [
        (ProcessKind::Compute, &symbol::COMPUTE_PROCESSES, &symbol::COMPUTE_PROCESSES_V2),
        (ProcessKind::Graphics, &symbol::GRAPHICS_PROCESSES, &symbol::GRAPHICS_PROCESSES_V2),
        (ProcessKind::Mps, &symbol::MPS_PROCESSES, &symbol::MPS_PROCESSES_V2),
    ];
    let mut processes = Vec::new();
    let mut refusal = None;
    let mut supported = false;
    for (kind, symbol, older) in kinds {
        match or(list(asked, symbol, buffer), || list(asked, older, buffer)) {
            Reading::Supported(()) => {
                supported = true;
                processes.extend(buffer.iter().map(|info| process(info, kind)));
            }
            Reading::Unsupported(answer) => refusal = refusal.or(Some(answer)),
            Reading::Failed(answer) => return Reading::Failed(answer),
        }
    }
    match refusal {
        Some(answer) if !supported => Reading::Unsupported(answer),
        _ => Reading::Supported(processes),
    }
}

fn list(
    asked: &mut Asked<'_>,
    symbol: &Symbol<List<Gpu, sys::nvmlProcessInfo_t>>,
    buffer: &mut Vec<sys::nvmlProcessInfo_t>,
) -> Reading<()> {
    asked.ask(symbol.name, 0, |calls, device| calls.list(symbol, device, buffer))
}

fn process(info: &sys::nvmlProcessInfo_t, kind: ProcessKind) -> GpuProcess {
    GpuProcess {
        pid: info.pid,
        kind,
        memory_bytes: plausible::wide(info.usedGpuMemory).ok(),
        gpu_instance: plausible::id(info.gpuInstanceId).map(GpuInstanceId),
        compute_instance: plausible::id(info.computeInstanceId).map(ComputeInstanceId),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_available_is_absent() {
        let info = sys::nvmlProcessInfo_t {
            pid: 7,
            usedGpuMemory: u64::MAX,
            gpuInstanceId: u32::MAX,
            computeInstanceId: u32::MAX,
        };
        let expected = GpuProcess {
            pid: 7,
            kind: ProcessKind::Compute,
            memory_bytes: None,
            gpu_instance: None,
            compute_instance: None,
        };
        assert_eq!(process(&info, ProcessKind::Compute), expected);
    }
}
