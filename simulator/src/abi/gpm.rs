//! GPM: figures between two samples (Hopper and later).
//!
//! A sample keeps what the hardware showed when it was taken. The metrics are those that the simulated hardware knows:
//! how busy SMs, memory, decoders, JPEG and optical flow engines are, and PCIe and NVLink traffic. All others answer
//! `NOT_SUPPORTED` in their own entry.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nvml_wrapper_sys::bindings::{
    nvmlGpmMetric_t, nvmlGpmMetric_t__bindgen_ty_1, nvmlGpmMetricsGet_t, nvmlGpmSample_t, nvmlGpmSupport_t,
};

use super::call::{Gpu, Node};
use super::code::{
    self, ARGUMENT_VERSION_MISMATCH, Answer, Code, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, SUCCESS,
};
use super::faults;
use super::handle::{Handle, Object};
use super::out::{Array, Out};
use crate::state::GpuState;

/// `NVML_GPM_SUPPORT_VERSION`, `NVML_GPM_METRICS_GET_VERSION`: plain numbers, without a size.
const VERSION: c_uint = 1;
/// Bytes in a MiB, the unit of traffic.
const MIB: f64 = 1_048_576.0;

/// What the hardware showed.
#[derive(Clone, Default)]
struct Sample {
    /// Which GPU, and which of its instances; `None` for a sample that was not taken yet.
    of: Option<(u32, Option<u32>)>,
    clock_us: u64,
    /// Percent: SM, memory, decoder, JPEG, optical flow.
    busy: [u32; 5],
    /// Bytes sent and received over PCIe.
    pcie: (u64, u64),
    /// KiB sent and received, by link.
    nvlinks: Vec<(u64, u64)>,
}

impl Sample {
    fn of_gpu(gpu: &Gpu<'_>) -> Self {
        let [sm, memory, _, decoder, jpeg, ofa] = gpu.now().utilization;
        Self { busy: [sm, memory, decoder, jpeg, ofa], ..Self::traffic(gpu.node, gpu.state, gpu.index) }
    }

    /// An instance is as busy as its processes make it.
    fn of_instance(gpu: &Gpu<'_>, gi: u32) -> Self {
        let here =
            gpu.state.processes.iter().filter(|process| process.instance.is_some_and(|(of, _)| of == gi));
        let busy = here.fold([0; 5], |[sm, memory, decoder, ..], process| {
            let [more, more_memory, _, more_decoder] = process.utilization;
            [(sm + more).min(100), (memory + more_memory).min(100), (decoder + more_decoder).min(100), 0, 0]
        });
        let traffic = Self::traffic(gpu.node, gpu.state, gpu.index);
        Self { of: Some((gpu.index, Some(gi))), busy, ..traffic }
    }

    fn traffic(node: &Node, gpu: &GpuState, index: u32) -> Self {
        Self {
            of: Some((index, None)),
            clock_us: node.state.clock_us,
            busy: [0; 5],
            pcie: gpu.count.pcie_bytes,
            nvlinks: gpu.nvlinks.iter().map(|link| link.data_kib).collect(),
        }
    }
}

/// The samples of this process, by number, and the last number given out.
struct Samples {
    last: u32,
    samples: BTreeMap<u32, Sample>,
}

static SAMPLES: Mutex<Samples> = Mutex::new(Samples { last: 0, samples: BTreeMap::new() });

fn samples() -> MutexGuard<'static, Samples> {
    SAMPLES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(load: u64, sample: nvmlGpmSample_t) -> Answer<u32> {
    match Handle::from(sample).object(load)? {
        Object::GpmSample(number) => Ok(number),
        _ => Err(INVALID_ARGUMENT),
    }
}

fn require_gpm(gpu: &Gpu<'_>) -> Answer {
    if gpu.board().gpm { Ok(()) } else { Err(NOT_SUPPORTED) }
}

pub(super) fn support(gpu: &Gpu<'_>, support: Out<nvmlGpmSupport_t>) -> Answer {
    if support.version()? != VERSION {
        return Err(ARGUMENT_VERSION_MISMATCH);
    }
    support.set(nvmlGpmSupport_t { version: VERSION, isSupportedDevice: gpu.board().gpm.into() })
}

/// Streaming is off: samples are taken when they are asked for.
pub(super) fn streaming(gpu: &Gpu<'_>, state: Out<c_uint>) -> Answer {
    require_gpm(gpu)?;
    state.set(0)
}

pub(super) fn alloc(node: &Node, sample: Out<nvmlGpmSample_t>) -> Answer {
    let mut all = samples();
    // 24 bits fit into a handle.
    let number = (all.last + 1) & 0xFF_FFFF;
    sample.set(node.handle(Object::GpmSample(number)).pointer())?;
    all.last = number;
    all.samples.insert(number, Sample::default());
    Ok(())
}

/// Freeing works after the driver is gone, too.
pub(super) fn free(symbol: &'static str, sample: nvmlGpmSample_t) -> Code {
    let freed = || -> Answer {
        let number = number(faults::obey_while_served(symbol)?.load(), sample)?;
        samples().samples.remove(&number).map(drop).ok_or(INVALID_ARGUMENT)
    };
    code::of(freed())
}

/// Of a GPU, or of the GPU instance of a MIG device.
pub(super) fn get(gpu: &Gpu<'_>, sample: nvmlGpmSample_t) -> Answer {
    require_gpm(gpu)?;
    let taken = match gpu.device {
        None => Sample::of_gpu(gpu),
        Some(device) => Sample::of_instance(gpu, device.instance.id),
    };
    keep(gpu, sample, taken)
}

pub(super) fn get_instance(gpu: &Gpu<'_>, gi: c_uint, sample: nvmlGpmSample_t) -> Answer {
    require_gpm(gpu)?;
    let instance = gpu.instance(gi).map_err(|_| NOT_FOUND)?;
    keep(gpu, sample, Sample::of_instance(gpu, instance.id))
}

fn keep(gpu: &Gpu<'_>, sample: nvmlGpmSample_t, taken: Sample) -> Answer {
    let number = number(gpu.node.session.load(), sample)?;
    *samples().samples.get_mut(&number).ok_or(INVALID_ARGUMENT)? = taken;
    Ok(())
}

/// Fills in as many entries as the caller says that there are; each has a code of its own.
pub(super) fn metrics(node: &Node, metrics: Out<nvmlGpmMetricsGet_t>) -> Answer {
    let head = metrics.cast::<Head>().get()?;
    if head.version != VERSION {
        return Err(ARGUMENT_VERSION_MISMATCH);
    }
    let (first, second) = {
        let all = samples();
        let find =
            |sample| all.samples.get(&number(node.session.load(), sample)?).cloned().ok_or(INVALID_ARGUMENT);
        (find(head.first)?, find(head.second)?)
    };
    if first.of.is_none() || first.of != second.of || first.clock_us >= second.clock_us {
        return Err(INVALID_ARGUMENT);
    }
    let entries: Array<nvmlGpmMetric_t> = metrics.field(std::mem::offset_of!(nvmlGpmMetricsGet_t, metrics));
    (0..head.count as usize).map(|index| entries.element(index)).try_for_each(|entry| {
        let asked = entry.get()?;
        entry.set(match metric(asked.metricId, &first, &second) {
            Ok((value, info)) => {
                nvmlGpmMetric_t { nvmlReturn: SUCCESS, value, metricInfo: info.strings(), ..asked }
            }
            Err(code) => nvmlGpmMetric_t { nvmlReturn: code, ..asked },
        })
    })
}

/// The struct without its entries: callers have room for as many as they say, which may be fewer or more than the
/// bindings' 210.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    version: c_uint,
    count: c_uint,
    first: nvmlGpmSample_t,
    second: nvmlGpmSample_t,
}

/// Name and unit of a metric.
struct Info(&'static CStr, &'static CStr);

impl Info {
    fn strings(&self) -> nvmlGpmMetric_t__bindgen_ty_1 {
        nvmlGpmMetric_t__bindgen_ty_1 {
            shortName: self.0.as_ptr().cast_mut(),
            longName: self.0.as_ptr().cast_mut(),
            unit: self.1.as_ptr().cast_mut(),
        }
    }
}

/// A metric between two samples of the same (ids: `NVML_GPM_METRIC_*`).
fn metric(id: u32, first: &Sample, second: &Sample) -> Answer<(f64, Info)> {
    let seconds = second.clock_us.saturating_sub(first.clock_us) as f64 / 1e6;
    let mean = |place: usize| {
        let [before, after] = [first, second].map(|sample| sample.busy.get(place).copied().unwrap_or(0));
        f64::from(before + after) / 2.0
    };
    let rate = |before: u64, after: u64, unit: f64| after.wrapping_sub(before) as f64 * unit / seconds / MIB;
    let links = |of: fn(&(u64, u64)) -> u64, range: std::ops::Range<usize>| {
        let sum = |sample: &Sample| {
            let there = sample.nvlinks.get(range.clone())?;
            Some(there.iter().map(of).fold(0, u64::wrapping_add))
        };
        let (before, after) = sum(first).zip(sum(second)).ok_or(NOT_SUPPORTED)?;
        if second.nvlinks.is_empty() { Err(NOT_SUPPORTED) } else { Ok(rate(before, after, 1024.0)) }
    };
    let all = 0..second.nvlinks.len();
    let link = |from: u32| {
        let link = ((id - from) / 2) as usize;
        link..link + 1
    };
    let percent = |name, place| Ok((mean(place), Info(name, c"%")));
    let traffic = |name, value| Ok((value, Info(name, c"MiB/s")));
    // What crosses PCIe and NVLink is not known by instance.
    let whole = second.of.is_some_and(|(_, instance)| instance.is_none());
    match id {
        1 => percent(c"GRAPHICS_UTIL", 0),
        2 => percent(c"SM_UTIL", 0),
        10 => percent(c"DRAM_BW_UTIL", 1),
        30 => percent(c"NVDEC_0_UTIL", 2),
        40 => percent(c"NVJPG_0_UTIL", 3),
        50 => percent(c"NVOFA_0_UTIL", 4),
        20 if whole => traffic(c"PCIE_TX_PER_SEC", rate(first.pcie.0, second.pcie.0, 1.0)),
        21 if whole => traffic(c"PCIE_RX_PER_SEC", rate(first.pcie.1, second.pcie.1, 1.0)),
        60 if whole => traffic(c"NVLINK_TOTAL_RX_PER_SEC", links(|link| link.1, all)?),
        61 if whole => traffic(c"NVLINK_TOTAL_TX_PER_SEC", links(|link| link.0, all)?),
        62..=97 if whole && id.is_multiple_of(2) => {
            traffic(c"NVLINK_RX_PER_SEC", links(|link| link.1, link(62))?)
        }
        62..=97 if whole => traffic(c"NVLINK_TX_PER_SEC", links(|link| link.0, link(62))?),
        _ => Err(NOT_SUPPORTED),
    }
}
