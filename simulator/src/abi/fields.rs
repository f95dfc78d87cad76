//! Field values: many values in one call, each with a code of its own.
//!
//! The traps of the real driver are here on purpose: the memory temperature is tagged as a double and filled as an
//! integer, ECC counters are left as they were when ECC is off, some ids changed their meaning from driver to driver.

use std::ffi::c_int;

use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlValue_t};

use super::call::Gpu;
use super::code::{Answer, INVALID_ARGUMENT, NOT_SUPPORTED, SUCCESS};
use super::out::{Array, Out};
use super::{clocks, ecc, mig_profiles, nvlink, power, thermal};
use crate::state::NvLinkState;

/// `scopeId` that means all links.
const ALL_LINKS: u32 = u32::MAX;
/// How long the simulated driver says that reading a field took, µs.
const LATENCY_US: i64 = 5;
/// `NVML_DEVICE_ARCH_HOPPER`
const HOPPER: u32 = 9;

/// A value under the tag that the driver gives it.
enum Value {
    Int(u32),
    Signed(i32),
    Long(u64),
    /// Tagged as a double but filled as an integer (drivers from 545 on, field 82).
    Mistagged(u32),
    /// Said to be there but left as it was, and without a time (ECC counters when ECC is off).
    Untouched,
}

impl Value {
    fn parts(self) -> (u32, nvmlValue_t) {
        // The union as wide as it is, so that no byte of the caller's is left in it.
        let of = |whole: u64| nvmlValue_t { ullVal: whole };
        match self {
            Self::Int(value) => (1, of(value.into())),
            Self::Signed(value) => (5, of(u64::from(value.cast_unsigned()))),
            Self::Long(value) => (3, of(value)),
            Self::Mistagged(value) => (0, of(value.into())),
            Self::Untouched => (0, of(0)),
        }
    }
}

pub(super) fn get(gpu: &Gpu<'_>, count: c_int, values: Array<nvmlFieldValue_t>) -> Answer {
    each(count, values, |entry, asked| answer(gpu, entry, asked))
}

/// Clearing is possible for the NVLink counters only, and only for those who may change things; the simulated
/// hardware has none that can be cleared.
pub(super) fn clear(gpu: &Gpu<'_>, count: c_int, values: Array<nvmlFieldValue_t>) -> Answer {
    gpu.node.require_permission()?;
    each(count, values, |entry, asked| entry.set(nvmlFieldValue_t { nvmlReturn: NOT_SUPPORTED, ..asked }))
}

fn each(
    count: c_int,
    values: Array<nvmlFieldValue_t>,
    one: impl Fn(&Out<nvmlFieldValue_t>, nvmlFieldValue_t) -> Answer,
) -> Answer {
    let count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(INVALID_ARGUMENT)?;
    (0..count).map(|index| values.element(index)).try_for_each(|entry| one(&entry, entry.get()?))
}

fn answer(gpu: &Gpu<'_>, entry: &Out<nvmlFieldValue_t>, asked: nvmlFieldValue_t) -> Answer {
    let timestamp = gpu.node.state.clock_us.cast_signed();
    match field(gpu, asked.fieldId, asked.scopeId) {
        Ok(Value::Untouched) => entry.set(nvmlFieldValue_t {
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: SUCCESS,
            ..asked
        }),
        Ok(value) => {
            let (value_type, value) = value.parts();
            entry.set(nvmlFieldValue_t {
                timestamp,
                latencyUsec: LATENCY_US,
                valueType: value_type,
                nvmlReturn: SUCCESS,
                value,
                ..asked
            })
        }
        Err(code) => entry.set(nvmlFieldValue_t { timestamp, latencyUsec: 0, nvmlReturn: code, ..asked }),
    }
}

/// The value of a field (ids: `NVML_FI_*`).
fn field(gpu: &Gpu<'_>, id: u32, scope: u32) -> Answer<Value> {
    let numbers = gpu.node.state.driver.fields;
    match id {
        0 => Err(INVALID_ARGUMENT),
        unknown if unknown > numbers.last => Err(INVALID_ARGUMENT),
        query if numbers.mig_query == Some(query) => {
            gpu.mig().map(|_| Value::Int(mig_profiles::are_told_with_mig_off(gpu.node).into()))
        }
        1..=31 | 142..=145 => memory_errors(gpu, id),
        38 | 45 | 52 | 59 | 90 | 91 | 138..=141 | 147 | 161..=166 | 201..=222 => nvlinks(gpu, id, scope),
        74..=79 | 251..=253 | 269..=271 => held(gpu, id),
        82 | 193..=196 => temperatures(gpu, id),
        83 | 185..=192 => power_and_energy(gpu, id, scope),
        94 | 95 | 169 | 173..=183 | 197 | 198 => pcie(gpu, id),
        170..=172 => chip_to_chip(gpu, id, scope),
        184 => gpu.mig().map(|_| Value::Int(gpu.board().resetless_mig.into())),
        // Whether a reset is needed, and whether after draining.
        226 => Ok(Value::Int((gpu.now().recovery_action == 1).into())),
        227 => Ok(Value::Int((gpu.now().recovery_action == 4).into())),
        230 => Ok(Value::Int(gpu.now().recovery_action)),
        _ => Err(NOT_SUPPORTED),
    }
}

fn memory_errors(gpu: &Gpu<'_>, id: u32) -> Answer<Value> {
    let counter = |uncorrected, aggregate| match ecc::count(gpu, uncorrected, aggregate) {
        Err(NOT_SUPPORTED) if gpu.board().ecc => Ok(Value::Untouched),
        answer => answer.map(Value::Long),
    };
    let remapped = |value: u32| ecc::require_row_remapping(gpu).map(|()| Value::Int(value));
    let rows = gpu.state.count.remapped_rows;
    match id {
        1 | 2 if gpu.board().ecc => {
            let (current, pending) = gpu.now().ecc_mode;
            Ok(Value::Int(if id == 1 { current } else { pending }.into()))
        }
        3 => counter(0, 0),
        4 => counter(1, 0),
        5 => counter(0, 1),
        6 => counter(1, 1),
        // Retired pages: for single bits, for double bits, pending.
        29..=31 => ecc::require_page_retirement(gpu).map(|()| Value::Int(0)),
        142 => remapped(rows.0),
        143 => remapped(rows.1),
        144 => remapped(gpu.now().row_remap.0.into()),
        145 => remapped(gpu.now().row_remap.1.into()),
        _ => Err(NOT_SUPPORTED),
    }
}

/// Nanoseconds held down, under the driver's numbers.
fn held(gpu: &Gpu<'_>, id: u32) -> Answer<Value> {
    let [_, _, software_thermal, hardware_thermal, power_brake] = gpu.state.count.clocks_held_ns;
    match (id, gpu.node.state.driver.fields.clocks_held) {
        (74..=79, _) => clocks::held_for(gpu, id - 74).map(Value::Long).ok_or(NOT_SUPPORTED),
        (id, Some(first)) if id == first => Ok(Value::Long(software_thermal)),
        (id, Some(first)) if id == first + 1 => Ok(Value::Long(hardware_thermal)),
        (id, Some(first)) if id == first + 2 => Ok(Value::Long(power_brake)),
        // Power smoothing.
        _ => Err(NOT_SUPPORTED),
    }
}

fn temperatures(gpu: &Gpu<'_>, id: u32) -> Answer<Value> {
    match id {
        82 if !gpu.board().memory_temperature => Err(NOT_SUPPORTED),
        82 if gpu.node.driver_branch() >= 545 => Ok(Value::Mistagged(gpu.now().memory_temperature_c)),
        82 => Ok(Value::Int(gpu.now().memory_temperature_c)),
        // Limits as a distance: how far the margin may shrink before it shuts down or slows down.
        193 | 194 => {
            gpu.require_architecture(thermal::ADA)?;
            let board = gpu.board();
            let at = if id == 193 { board.shutdown_c } else { board.slowdown_c };
            Ok(Value::Signed(board.slowdown_c.cast_signed() - at.cast_signed()))
        }
        _ => Err(NOT_SUPPORTED),
    }
}

/// Scope 0 is the GPU; module (1) and memory (2) exist on other machines.
fn power_and_energy(gpu: &Gpu<'_>, id: u32, scope: u32) -> Answer<Value> {
    if scope != 0 && id != 83 {
        return Err(NOT_SUPPORTED);
    }
    let (board, now) = (gpu.board(), gpu.now());
    match id {
        83 | 191 => Ok(Value::Long(gpu.state.count.energy_mj)),
        185 if power::is_averaged(gpu) => Ok(Value::Int(now.power_average_mw)),
        186 => Ok(Value::Int(now.power_instant_mw)),
        187 => Ok(Value::Int(board.power_limit_range_mw.0)),
        188 => Ok(Value::Int(board.power_limit_range_mw.1)),
        189 => Ok(Value::Int(board.power_limit_mw)),
        190 | 192 => Ok(Value::Int(now.power_limit_mw)),
        _ => Err(NOT_SUPPORTED),
    }
}

fn pcie(gpu: &Gpu<'_>, id: u32) -> Answer<Value> {
    let (sent, received) = gpu.state.count.pcie_bytes;
    match id {
        94 => Ok(Value::Int(gpu.state.count.pcie_replays)),
        95 => Ok(Value::Int(0)),
        // Error counters of the link: the simulated link has replays only.
        169 | 173..=183 => gpu.require_architecture(HOPPER).map(|()| Value::Int(0)),
        197 => gpu.require_architecture(HOPPER).map(|()| Value::Long(sent)),
        198 => gpu.require_architecture(HOPPER).map(|()| Value::Long(received)),
        _ => Err(NOT_SUPPORTED),
    }
}

/// Links to the CPU on the same module: how many, and by number whether one is up and what it moves, MB/s.
fn chip_to_chip(gpu: &Gpu<'_>, id: u32, scope: u32) -> Answer<Value> {
    let board = gpu.board();
    match id {
        170 => Ok(Value::Int(board.c2c_links)),
        _ if board.c2c_links == 0 => Err(NOT_SUPPORTED),
        _ if scope >= board.c2c_links => Err(INVALID_ARGUMENT),
        171 => Ok(Value::Int(1)),
        _ => Ok(Value::Int(board.c2c_link_mbps)),
    }
}

fn nvlinks(gpu: &Gpu<'_>, id: u32, scope: u32) -> Answer<Value> {
    let links = &gpu.state.nvlinks;
    if links.is_empty() {
        return Err(NOT_SUPPORTED);
    }
    let newer = gpu.board().nvlink_version >= nvlink::NVLINK_5;
    let total =
        |of: fn(&NvLinkState) -> u64| Ok(Value::Long(links.iter().map(of).fold(0, u64::wrapping_add)));
    let scoped = |of: fn(&NvLinkState) -> u64| match scope {
        ALL_LINKS => total(of),
        link => nvlink::link(gpu, link).map(|link| Value::Long(of(link))),
    };
    let one = |of: fn(&NvLinkState) -> u64| nvlink::link(gpu, scope).map(|link| Value::Long(of(link)));
    match id {
        // Error counters of the data link, in all. Blackwell tells them by 201 to 222.
        38 if !newer => total(|link| link.errors[2]),
        45 if !newer => total(|link| link.errors[3]),
        52 if !newer => total(|link| link.errors[0]),
        59 if !newer => total(|link| link.errors[1]),
        90 => Ok(Value::Int(gpu.board().nvlink_link_mbps)),
        91 => Ok(Value::Int(links.len() as u32)),
        138 | 140 => scoped(|link| link.data_kib.0),
        139 | 141 => scoped(|link| link.data_kib.1),
        147 => Ok(Value::Int(links.iter().filter(|link| link.up && link.remote_type == 2).count() as u32)),
        161 if !newer => one(|link| link.errors[0]),
        162 if !newer => one(|link| link.errors[1]),
        163 if !newer => one(|link| link.errors[2]),
        164 => nvlink::link(gpu, scope)
            .map(|link| Value::Int(if link.up { gpu.board().nvlink_link_mbps } else { 0 })),
        165 => nvlink::link(gpu, scope).map(|link| Value::Int(link.up.into())),
        166 => nvlink::link(gpu, scope).map(|_| Value::Int(nvlink::version_number(gpu))),
        202 if newer => one(|link| link.data_kib.0.wrapping_mul(1024)),
        204 if newer => one(|link| link.data_kib.1.wrapping_mul(1024)),
        206 | 208 | 211 if newer => one(|_| 0),
        215 if newer => one(|link| link.errors[1]),
        213 | 214 | 219 | 221 if newer => one(|_| 0),
        _ => Err(NOT_SUPPORTED),
    }
}
