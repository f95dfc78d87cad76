//! Processes on a GPU.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlProcessInfo_t, nvmlProcessInfo_v1_t, nvmlProcessUtilizationInfo_v1_t, nvmlProcessUtilizationSample_t,
    nvmlProcessesUtilizationInfo_v1_t,
};

use super::call::Gpu;
use super::code::{Answer, INSUFFICIENT_SIZE, NOT_FOUND, NOT_SUPPORTED};
use super::out::{Array, Out};
use crate::state::{ProcessKind, ProcessState};

/// `NVML_VALUE_NOT_AVAILABLE` as memory, and "no instance" as an id.
const MEMORY_NOT_AVAILABLE: u64 = u64::MAX;
const NO_INSTANCE: u32 = u32::MAX;

pub(super) fn compute(gpu: &Gpu<'_>, count: Out<c_uint>, infos: Array<nvmlProcessInfo_t>) -> Answer {
    list(gpu, ProcessKind::Compute, &count, &infos)
}

pub(super) fn graphics(gpu: &Gpu<'_>, count: Out<c_uint>, infos: Array<nvmlProcessInfo_t>) -> Answer {
    list(gpu, ProcessKind::Graphics, &count, &infos)
}

pub(super) fn mps(gpu: &Gpu<'_>, count: Out<c_uint>, infos: Array<nvmlProcessInfo_t>) -> Answer {
    list(gpu, ProcessKind::Mps, &count, &infos)
}

pub(super) fn compute_v1(gpu: &Gpu<'_>, count: Out<c_uint>, infos: Array<nvmlProcessInfo_v1_t>) -> Answer {
    list_v1(gpu, ProcessKind::Compute, &count, &infos)
}

pub(super) fn graphics_v1(gpu: &Gpu<'_>, count: Out<c_uint>, infos: Array<nvmlProcessInfo_v1_t>) -> Answer {
    list_v1(gpu, ProcessKind::Graphics, &count, &infos)
}

pub(super) fn mps_v1(gpu: &Gpu<'_>, count: Out<c_uint>, infos: Array<nvmlProcessInfo_v1_t>) -> Answer {
    list_v1(gpu, ProcessKind::Mps, &count, &infos)
}

/// On a GPU all its processes; on a MIG device those of its instances.
fn of_kind<'a>(gpu: &Gpu<'a>, kind: ProcessKind) -> impl Iterator<Item = &'a ProcessState> + use<'a> {
    let instance = gpu.device.map(|device| (device.instance.id, device.compute.id));
    let here = move |process: &&ProcessState| instance.is_none() || process.instance == instance;
    gpu.state.processes.iter().filter(move |process| process.kind == kind).filter(here)
}

fn list(gpu: &Gpu<'_>, kind: ProcessKind, count: &Out<c_uint>, infos: &Array<nvmlProcessInfo_t>) -> Answer {
    let info = |process: &ProcessState| {
        let (gi, ci) = process.instance.unwrap_or((NO_INSTANCE, NO_INSTANCE));
        nvmlProcessInfo_t {
            pid: process.pid,
            usedGpuMemory: process.memory_bytes.unwrap_or(MEMORY_NOT_AVAILABLE),
            gpuInstanceId: gi,
            computeInstanceId: ci,
        }
    };
    infos.list(count, &of_kind(gpu, kind).map(info).collect::<Vec<_>>())
}

fn list_v1(
    gpu: &Gpu<'_>,
    kind: ProcessKind,
    count: &Out<c_uint>,
    infos: &Array<nvmlProcessInfo_v1_t>,
) -> Answer {
    let info = |process: &ProcessState| nvmlProcessInfo_v1_t {
        pid: process.pid,
        usedGpuMemory: process.memory_bytes.unwrap_or(MEMORY_NOT_AVAILABLE),
    };
    infos.list(count, &of_kind(gpu, kind).map(info).collect::<Vec<_>>())
}

/// Processes that did something since `last_seen_us`. None is `NOT_FOUND`, which is how the driver says idle.
fn busy<'a>(gpu: &Gpu<'a>, last_seen_us: u64) -> Answer<Vec<&'a ProcessState>> {
    gpu.require_undivided()?;
    let works = |process: &&ProcessState| process.utilization.iter().any(|percent| *percent > 0);
    let busy: Vec<_> = gpu.state.processes.iter().filter(works).collect();
    if busy.is_empty() || gpu.node.state.clock_us <= last_seen_us { Err(NOT_FOUND) } else { Ok(busy) }
}

pub(super) fn utilization(
    gpu: &Gpu<'_>,
    samples: Array<nvmlProcessUtilizationSample_t>,
    count: Out<c_uint>,
    last_seen_us: c_ulonglong,
) -> Answer {
    let sample = |process: &&ProcessState| {
        let [sm, memory, encoder, decoder] = process.utilization;
        nvmlProcessUtilizationSample_t {
            pid: process.pid,
            timeStamp: gpu.node.state.clock_us,
            smUtil: sm,
            memUtil: memory,
            encUtil: encoder,
            decUtil: decoder,
        }
    };
    samples.list(&count, &busy(gpu, last_seen_us)?.iter().map(sample).collect::<Vec<_>>())
}

pub(super) fn utilization_info(gpu: &Gpu<'_>, info: Out<nvmlProcessesUtilizationInfo_v1_t>) -> Answer {
    // The call came with driver 550.
    if gpu.node.driver_branch() < 550 {
        return Err(NOT_SUPPORTED);
    }
    info.check_version(1)?;
    let asked = info.get()?;
    let busy = busy(gpu, asked.lastSeenTimeStamp)?;
    let count = busy.len() as c_uint;
    info.set(nvmlProcessesUtilizationInfo_v1_t { processSamplesCount: count, ..asked })?;
    let array = Array::from(asked.procUtilArray);
    if array.is_null() || asked.processSamplesCount < count {
        return Err(INSUFFICIENT_SIZE);
    }
    let sample = |process: &&ProcessState| {
        let [sm, memory, encoder, decoder] = process.utilization;
        nvmlProcessUtilizationInfo_v1_t {
            timeStamp: gpu.node.state.clock_us,
            pid: process.pid,
            smUtil: sm,
            memUtil: memory,
            encUtil: encoder,
            decUtil: decoder,
            jpgUtil: 0,
            ofaUtil: 0,
        }
    };
    array.fill(&busy.iter().map(sample).collect::<Vec<_>>())
}

/// Accounting is off until somebody turns it on, which this driver does not let anybody do.
pub(super) fn accounting_mode(_gpu: &Gpu<'_>, mode: Out<c_uint>) -> Answer {
    mode.set(0)
}

/// Refused while accounting is off, as the size of its buffer is.
pub(super) fn accounting_pids(_gpu: &Gpu<'_>, _count: Out<c_uint>, _pids: Array<c_uint>) -> Answer {
    Err(NOT_SUPPORTED)
}

pub(super) fn accounting_buffer(_gpu: &Gpu<'_>, _size: Out<c_uint>) -> Answer {
    Err(NOT_SUPPORTED)
}
