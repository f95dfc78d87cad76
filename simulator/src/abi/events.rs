//! Event sets: waiting for XIDs and changes of MIG.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_ulonglong};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlEventData_t, nvmlEventSet_t};

use super::call::{Gpu, Node};
use super::code::{self, Answer, Code, GPU_IS_LOST, INVALID_ARGUMENT, NOT_SUPPORTED, TIMEOUT};
use super::faults;
use super::handle::{Handle, Object};
use super::out::Out;
use super::session::Session;
use crate::state::{Event, NodeState};

/// ECC errors: corrected and not.
const ECC: u64 = 0x1 | 0x2;
/// Performance state, XID, clock.
const ALWAYS: u64 = 0x4 | 0x8 | 0x10;
/// Change of MIG configuration.
const MIG: u64 = 0x100;
/// GPU unavailable, recovery action: drivers from 570 on.
const FROM_570: u64 = 0x4000 | 0x8000;
/// A wait looks after the server at least so often.
const SLICE: Duration = Duration::from_secs(1);

/// One event set of this process.
struct EventSet {
    /// Kinds of event by GPU index.
    registered: BTreeMap<u32, u64>,
    /// Sequence number of the next event to look at.
    next: u64,
}

/// All of them, by number, and the last number given out.
struct EventSets {
    last: u32,
    sets: BTreeMap<u32, EventSet>,
}

static EVENT_SETS: Mutex<EventSets> = Mutex::new(EventSets { last: 0, sets: BTreeMap::new() });

fn event_sets() -> MutexGuard<'static, EventSets> {
    EVENT_SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number behind a handle of the present session.
fn number(session: &Session, set: nvmlEventSet_t) -> Answer<u32> {
    match Handle::from(set).object(session.load())? {
        Object::EventSet(number) => Ok(number),
        _ => Err(INVALID_ARGUMENT),
    }
}

fn after_the_last(state: &NodeState) -> u64 {
    state.events.last().map_or(0, |event| event.sequence + 1)
}

pub(super) fn create(node: &Node, set: Out<nvmlEventSet_t>) -> Answer {
    let mut all = event_sets();
    // 24 bits fit into a handle; numbers of sets that were freed come back after 16 million.
    let number = (all.last + 1) & 0xFF_FFFF;
    set.set(node.handle(Object::EventSet(number)).pointer())?;
    all.last = number;
    all.sets.insert(number, EventSet { registered: BTreeMap::new(), next: after_the_last(&node.state) });
    Ok(())
}

/// Freeing works after the driver is gone, too.
pub(super) fn free(symbol: &'static str, set: nvmlEventSet_t) -> Code {
    let freed = || -> Answer {
        let number = number(&*faults::obey_while_served(symbol)?, set)?;
        event_sets().sets.remove(&number).map(drop).ok_or(INVALID_ARGUMENT)
    };
    code::of(freed())
}

fn supported(gpu: &Gpu<'_>) -> u64 {
    let ecc = if gpu.board().ecc { ECC } else { 0 };
    let mig = if gpu.state.mig.is_some() { MIG } else { 0 };
    let newer = if gpu.node.driver_branch() >= 570 { FROM_570 } else { 0 };
    ALWAYS | ecc | mig | newer
}

pub(super) fn supported_types(gpu: &Gpu<'_>, types: Out<c_ulonglong>) -> Answer {
    types.set(supported(gpu))
}

pub(super) fn register(gpu: &Gpu<'_>, types: c_ulonglong, set: nvmlEventSet_t) -> Answer {
    let number = number(&gpu.node.session, set)?;
    if types & !supported(gpu) != 0 {
        return Err(NOT_SUPPORTED);
    }
    let mut all = event_sets();
    let set = all.sets.get_mut(&number).ok_or(INVALID_ARGUMENT)?;
    *set.registered.entry(gpu.index).or_default() |= types;
    Ok(())
}

/// The next event of a set, for a caller that has a place for it.
fn next(node: &Node, set: nvmlEventSet_t, data: &Out<nvmlEventData_t>, timeout_ms: c_uint) -> Answer<Event> {
    let number = number(&node.session, set)?;
    if data.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    wait(&node.session, number, Duration::from_millis(timeout_ms.into()))
}

/// Waits for the next event. Instance ids are told to those only who may see them.
pub(super) fn wait_v2(
    node: &Node,
    set: nvmlEventSet_t,
    data: Out<nvmlEventData_t>,
    timeout_ms: c_uint,
) -> Answer {
    let event = next(node, set, &data, timeout_ms)?;
    let (gi, ci) = match node.require_permission() {
        Ok(()) => (event.gpu_instance, event.compute_instance),
        Err(_) => (u32::MAX, u32::MAX),
    };
    data.set(nvmlEventData_t {
        device: node.handle(Object::Gpu(event.gpu)).pointer(),
        eventType: event.kind,
        eventData: event.data,
        gpuInstanceId: gi,
        computeInstanceId: ci,
    })
}

/// The struct as it was before MIG: a program that asks for it has no room for more.
#[repr(C)]
pub(super) struct EventDataV1 {
    device: nvmlDevice_t,
    kind: c_ulonglong,
    data: c_ulonglong,
}

pub(super) fn wait_v1(
    node: &Node,
    set: nvmlEventSet_t,
    data: Out<nvmlEventData_t>,
    timeout_ms: c_uint,
) -> Answer {
    let event = next(node, set, &data, timeout_ms)?;
    data.cast().set(EventDataV1 {
        device: node.handle(Object::Gpu(event.gpu)).pointer(),
        kind: event.kind,
        data: event.data,
    })
}

fn wait(session: &Session, number: u32, timeout: Duration) -> Answer<Event> {
    let deadline = Instant::now() + timeout;
    loop {
        let seen = session.reader().wake_count();
        let state = session.state()?;
        if let Some(event) = take(&state, number)? {
            return Ok(event);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(TIMEOUT);
        }
        session.reader().wait(seen, left.min(SLICE));
        if session.closed() {
            return Err(code::UNINITIALIZED);
        }
    }
}

/// The next event that the set is registered for. When there is none and a GPU of the set has fallen off the bus, that
/// is what the driver says instead of waiting.
fn take(state: &NodeState, number: u32) -> Answer<Option<Event>> {
    let mut all = event_sets();
    let set = all.sets.get_mut(&number).ok_or(INVALID_ARGUMENT)?;
    let wanted = |event: &&Event| set.registered.get(&event.gpu).is_some_and(|kinds| kinds & event.kind != 0);
    let seen = state.events.partition_point(|event| event.sequence < set.next);
    if let Some(event) = state.events.iter().skip(seen).find(wanted) {
        set.next = event.sequence + 1;
        return Ok(Some(event.clone()));
    }
    let gone = |gpu: &u32| state.gpus.get(*gpu as usize).is_some_and(|gpu| !gpu.is_reachable());
    if set.registered.keys().any(gone) { Err(GPU_IS_LOST) } else { Ok(None) }
}
