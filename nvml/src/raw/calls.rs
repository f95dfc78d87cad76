//! One method per shape of the driver's functions. Every call is tracked, counted, and not made at all once the
//! GPU has said that it will answer nothing.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_ulong};
use std::sync::Arc;

use gpulet_inventory::numa::CpuSet;
use gpulet_inventory::reading::{Answer, Cause};
use nvml_wrapper_sys::bindings as sys;

use super::handle::{ComputeInstance, Device, GpuInstance, Handle};
use super::library::Library;
use super::plain::{self, Plain};
use super::symbol::{self, Get, GetAt, GetTwo, List, ListAt, SetWithin, Symbol, Text};
use crate::code::{self, is_fatal};
use crate::stats::Stats;
use crate::tracker::Tracker;

/// Room for every text of the interface (`NVML_DEVICE_UUID_V2_BUFFER_SIZE` is the largest, 96).
const TEXT: usize = 128;
/// Entries that a list has room for at first, and that are added to what the driver says that it needs.
const LIST: usize = 16;
/// A list that grows between two calls is asked for again this often.
const LIST_ATTEMPTS: usize = 4;
/// CPUs that a mask has room for at first: the kernel's own limit (`NR_CPUS`).
const MASK: usize = 8192;
/// Most CPUs that a mask is given room for.
const LARGEST_MASK: usize = 65_536;

/// How one thread calls the driver.
#[derive(Debug)]
pub(crate) struct Calls {
    library: Arc<Library>,
    tracker: Arc<Tracker>,
    stats: Arc<Stats>,
    fatal: Cell<Option<Answer>>,
    failed: Cell<Option<Answer>>,
    answered: Cell<bool>,
}

impl Calls {
    /// For one thread, which is watched through `tracker`.
    pub(crate) fn new(library: Arc<Library>, tracker: Arc<Tracker>, stats: Arc<Stats>) -> Self {
        Self {
            library,
            tracker,
            stats,
            fatal: Cell::new(None),
            failed: Cell::new(None),
            answered: Cell::new(false),
        }
    }

    /// Starts a round: what an earlier one found fatal may have passed.
    pub(crate) fn begin(&self) {
        self.fatal.set(None);
        self.failed.set(None);
        self.answered.set(false);
    }

    /// What ended this round early.
    pub(crate) fn fatal(&self) -> Option<Answer> {
        self.fatal.get()
    }

    /// What the first call of this round got, if calls were made and none succeeded.
    pub(crate) fn nothing_but(&self) -> Option<Answer> {
        if self.answered.get() { None } else { self.failed.get() }
    }

    /// Counts a part of a call that did not succeed.
    pub(crate) fn count_failed(&self, call: &'static str, cause: Cause) {
        self.stats.failed(call, cause);
    }

    pub(super) fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// Makes one call, whatever its shape.
    pub(super) fn call<F>(&self, symbol: &Symbol<F>, invoke: impl FnOnce(F) -> u32) -> Result<(), Cause> {
        if let Some(fatal) = self.fatal.get() {
            return Err(fatal.cause);
        }
        let Some(function) = (symbol.find)(self.library.table()) else {
            self.stats.failed(symbol.name, Cause::NoSymbol);
            return Err(Cause::NoSymbol);
        };
        self.stats.made();
        self.tracker.enter(symbol.name);
        let code = invoke(function);
        self.tracker.leave();
        if code == code::SUCCESS {
            self.answered.set(true);
            return Ok(());
        }
        let cause = Cause::Code(code);
        let answer = Answer { call: symbol.name, cause };
        if symbol.ordinary != Some(code) {
            self.stats.failed(symbol.name, cause);
            self.failed.set(self.failed.get().or(Some(answer)));
        }
        if is_fatal(code) {
            self.fatal.set(Some(answer));
        }
        Err(cause)
    }

    /// One value.
    pub(crate) fn get<H: Handle, T: Plain>(
        &self,
        symbol: &Symbol<Get<H::Raw, T>>,
        handle: H,
    ) -> Result<T, Cause> {
        self.get_into(symbol, handle, T::zeroed())
    }

    /// One value, with what the driver reads before it writes, such as a version.
    pub(crate) fn get_into<H: Handle, T: Plain>(
        &self,
        symbol: &Symbol<Get<H::Raw, T>>,
        handle: H,
        mut value: T,
    ) -> Result<T, Cause> {
        // SAFETY: the handle came from this library, and the function writes one T to a valid pointer to T.
        self.call(symbol, |function| unsafe { function(handle.raw(), &mut value) })?;
        Ok(value)
    }

    /// Two values.
    pub(crate) fn get_two<H: Handle, A: Plain, B: Plain>(
        &self,
        symbol: &Symbol<GetTwo<H::Raw, A, B>>,
        handle: H,
    ) -> Result<(A, B), Cause> {
        let (mut a, mut b) = (A::zeroed(), B::zeroed());
        // SAFETY: the handle came from this library, and the function writes one A and one B to valid pointers.
        self.call(symbol, |function| unsafe { function(handle.raw(), &mut a, &mut b) })?;
        Ok((a, b))
    }

    /// One value about a numbered part.
    pub(crate) fn get_at<H: Handle, T: Plain>(
        &self,
        symbol: &Symbol<GetAt<H::Raw, T>>,
        handle: H,
        number: u32,
    ) -> Result<T, Cause> {
        let mut value = T::zeroed();
        // SAFETY: the handle came from this library, and the function writes one T to a valid pointer to T.
        self.call(symbol, |function| unsafe { function(handle.raw(), number, &mut value) })?;
        Ok(value)
    }

    /// Text.
    pub(crate) fn text<H: Handle>(&self, symbol: &Symbol<Text<H::Raw>>, handle: H) -> Result<String, Cause> {
        let mut buffer: [c_char; TEXT] = [0; TEXT];
        // SAFETY: the handle came from this library, and the function writes at most TEXT characters to the buffer.
        self.call(symbol, |function| unsafe { function(handle.raw(), buffer.as_mut_ptr(), TEXT as u32) })?;
        Ok(plain::text(&buffer))
    }

    /// Text about the driver as a whole.
    pub(crate) fn system_text(
        &self,
        symbol: &Symbol<unsafe extern "C" fn(*mut c_char, u32) -> u32>,
    ) -> Result<String, Cause> {
        let mut buffer: [c_char; TEXT] = [0; TEXT];
        // SAFETY: the function writes at most TEXT characters to the buffer.
        self.call(symbol, |function| unsafe { function(buffer.as_mut_ptr(), TEXT as u32) })?;
        Ok(plain::text(&buffer))
    }

    /// One value about the driver as a whole.
    pub(crate) fn system<T: Plain>(
        &self,
        symbol: &Symbol<unsafe extern "C" fn(*mut T) -> u32>,
    ) -> Result<T, Cause> {
        let mut value = T::zeroed();
        // SAFETY: the function writes one T to a valid pointer to T.
        self.call(symbol, |function| unsafe { function(&mut value) })?;
        Ok(value)
    }

    /// The GPU of that number.
    pub(crate) fn device(&self, index: u32) -> Result<Device, Cause> {
        let mut device = std::ptr::null_mut();
        // SAFETY: the function writes one handle to a valid pointer to one.
        self.call(&symbol::HANDLE, |function| unsafe { function(index, &mut device) })?;
        Ok(Device(device))
    }

    /// A list, into a buffer that grows as needed and is kept by the caller.
    pub(crate) fn list<H: Handle, T: Plain>(
        &self,
        symbol: &Symbol<List<H::Raw, T>>,
        handle: H,
        entries: &mut Vec<T>,
    ) -> Result<(), Cause> {
        fill(entries, T::zeroed(), |start, count| {
            // SAFETY: the handle came from this library, and the function writes at most `count` entries to
            // `start`, which has room for as many.
            self.call(symbol, |function| unsafe { function(handle.raw(), count, start) })
        })
    }

    /// A list about a numbered part.
    pub(crate) fn list_at<H: Handle, T: Plain>(
        &self,
        symbol: &Symbol<ListAt<H::Raw, T>>,
        handle: H,
        number: u32,
    ) -> Result<Vec<T>, Cause> {
        let mut entries = Vec::new();
        fill(&mut entries, T::zeroed(), |start, count| {
            // SAFETY: as in `list`.
            self.call(symbol, |function| unsafe { function(handle.raw(), number, start, count) })
        })?;
        Ok(entries)
    }

    /// A set of CPUs or NUMA nodes, within the scope of a NUMA node.
    pub(crate) fn set_within_node<H: Handle>(
        &self,
        symbol: &Symbol<SetWithin<H::Raw>>,
        handle: H,
    ) -> Result<CpuSet, Cause> {
        let scope = sys::NVML_AFFINITY_SCOPE_NODE;
        mask(|count, words| {
            // SAFETY: the handle came from this library, and the function writes at most `count` words to `words`,
            // which has as many.
            self.call(symbol, |function| unsafe { function(handle.raw(), count, words, scope) })
        })
    }

    /// A set of CPUs, within the one scope that the function has.
    pub(crate) fn set<H: Handle>(
        &self,
        symbol: &Symbol<unsafe extern "C" fn(H::Raw, u32, *mut c_ulong) -> u32>,
        handle: H,
    ) -> Result<CpuSet, Cause> {
        mask(|count, words| {
            // SAFETY: as in `set_within_node`.
            self.call(symbol, |function| unsafe { function(handle.raw(), count, words) })
        })
    }

    /// How near two GPUs are, as `nvmlGpuTopologyLevel_t`.
    pub(crate) fn common_ancestor(&self, one: Device, other: Device) -> Result<u32, Cause> {
        let mut level = 0;
        // SAFETY: both handles came from this library, and the function writes one number to a valid pointer to one.
        self.call(&symbol::COMMON_ANCESTOR, |f| unsafe { f(one.raw(), other.raw(), &mut level) })?;
        Ok(level)
    }

    /// The GPU instances of one profile, of which there can be `most` by what the profile says.
    pub(crate) fn gpu_instances(
        &self,
        device: Device,
        profile_id: u32,
        most: u32,
    ) -> Result<Vec<GpuInstance>, Cause> {
        let mut entries = room(most);
        let mut count = 0;
        self.call(&symbol::GPU_INSTANCES, |function| {
            // SAFETY: the handle came from this library. The function is not told the size of the buffer: it writes
            // as many entries as exist, at most those that the profile admits, for which there is room.
            unsafe { function(device.raw(), profile_id, entries.as_mut_ptr(), &mut count) }
        })?;
        Ok(entries.into_iter().take(count as usize).map(GpuInstance).collect())
    }

    /// The compute instances of one profile in a GPU instance, of which there can be `most`.
    pub(crate) fn compute_instances(
        &self,
        instance: GpuInstance,
        profile_id: u32,
        most: u32,
    ) -> Result<Vec<ComputeInstance>, Cause> {
        let mut entries = room(most);
        let mut count = 0;
        self.call(&symbol::COMPUTE_INSTANCES, |function| {
            // SAFETY: as in `gpu_instances`.
            unsafe { function(instance.raw(), profile_id, entries.as_mut_ptr(), &mut count) }
        })?;
        Ok(entries.into_iter().take(count as usize).map(ComputeInstance).collect())
    }

    /// A compute instance, and the MIG device that it is.
    pub(crate) fn compute_instance(
        &self,
        instance: ComputeInstance,
    ) -> Result<(sys::nvmlComputeInstanceInfo_t, Device), Cause> {
        let info = self.get(&symbol::COMPUTE_INSTANCE, instance)?;
        Ok((info, Device(info.device)))
    }

    /// A compute instance profile of a GPU instance, with shared engines.
    pub(crate) fn compute_profile(
        &self,
        instance: GpuInstance,
        profile: u32,
    ) -> Result<sys::nvmlComputeInstanceProfileInfo_t, Cause> {
        let engines = sys::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED;
        let mut info = sys::nvmlComputeInstanceProfileInfo_t::zeroed();
        // SAFETY: the handle came from this library, and the function writes one struct to a valid pointer to one.
        self.call(&symbol::CI_PROFILE, |f| unsafe { f(instance.raw(), profile, engines, &mut info) })?;
        Ok(info)
    }

    /// A GPU instance profile in the form with name and capabilities (version 3).
    pub(crate) fn gpu_profile_v3(
        &self,
        device: Device,
        profile: u32,
    ) -> Result<sys::nvmlGpuInstanceProfileInfo_v3_t, Cause> {
        let mut info = sys::nvmlGpuInstanceProfileInfo_v3_t::zeroed();
        info.version = plain::version_of::<sys::nvmlGpuInstanceProfileInfo_v3_t>(3);
        // SAFETY: the function takes a pointer to any version of the struct and writes as much as the version word,
        // which is that of `info`, says.
        self.call(&symbol::GI_PROFILE_V, |f| unsafe { f(device.raw(), profile, (&raw mut info).cast()) })?;
        Ok(info)
    }

    /// A GPU instance profile in the form with name (version 2).
    pub(crate) fn gpu_profile_v2(
        &self,
        device: Device,
        profile: u32,
    ) -> Result<sys::nvmlGpuInstanceProfileInfo_v2_t, Cause> {
        let mut info = sys::nvmlGpuInstanceProfileInfo_v2_t::zeroed();
        info.version = plain::version_of::<sys::nvmlGpuInstanceProfileInfo_v2_t>(2);
        // SAFETY: as for version 3.
        self.call(&symbol::GI_PROFILE_V, |f| unsafe { f(device.raw(), profile, &raw mut info) })?;
        Ok(info)
    }

    /// Fabric registration in the form with health (version 2).
    pub(crate) fn fabric_v2(&self, device: Device) -> Result<sys::nvmlGpuFabricInfo_v2_t, Cause> {
        let mut info = sys::nvmlGpuFabricInfo_v2_t::zeroed();
        info.version = plain::version_of::<sys::nvmlGpuFabricInfo_v2_t>(2);
        // SAFETY: the function takes a pointer to any version of the struct and writes as much as the version word,
        // which is that of `info`, says.
        self.call(&symbol::FABRIC_V, |f| unsafe { f(device.raw(), (&raw mut info).cast()) })?;
        Ok(info)
    }

    /// Field values; each entry says itself whether it was had.
    pub(crate) fn fields(&self, device: Device, values: &mut [sys::nvmlFieldValue_t]) -> Result<(), Cause> {
        let count = c_int::try_from(values.len()).map_err(|_| Cause::Code(code::INVALID_ARGUMENT))?;
        // SAFETY: the handle came from this library, and the function reads and writes `count` entries.
        self.call(&symbol::FIELDS, |function| unsafe { function(device.raw(), count, values.as_mut_ptr()) })
    }
}

/// Room for so many handles, and some more.
fn room<T>(most: u32) -> Vec<*mut T> {
    vec![std::ptr::null_mut(); (most as usize).max(LIST)]
}

/// Asks for a bit mask in words of the machine, with more room if it does not fit.
fn mask(mut call: impl FnMut(u32, *mut c_ulong) -> Result<(), Cause>) -> Result<CpuSet, Cause> {
    let mut room = MASK;
    loop {
        let mut words = vec![0; room / c_ulong::BITS as usize];
        let count = u32::try_from(words.len()).map_err(|_| Cause::Code(code::INVALID_ARGUMENT))?;
        match call(count, words.as_mut_ptr()) {
            Ok(()) => return Ok(plain::members(&words)),
            Err(Cause::Code(code::INSUFFICIENT_SIZE)) if room < LARGEST_MASK => room *= 2,
            Err(cause) => return Err(cause),
        }
    }
}

/// Calls until the list fits, since it may grow between two calls.
fn fill<T: Copy>(
    entries: &mut Vec<T>,
    zero: T,
    mut call: impl FnMut(*mut T, &mut u32) -> Result<(), Cause>,
) -> Result<(), Cause> {
    let mut room = entries.capacity().max(LIST);
    for _ in 0..LIST_ATTEMPTS {
        entries.clear();
        entries.resize(room, zero);
        let mut count = u32::try_from(room).unwrap_or(u32::MAX);
        match call(entries.as_mut_ptr(), &mut count) {
            Ok(()) => {
                entries.truncate(count as usize);
                return Ok(());
            }
            Err(Cause::Code(code::INSUFFICIENT_SIZE)) => {
                room = (count as usize).max(room).saturating_add(LIST)
            }
            Err(cause) => {
                entries.clear();
                return Err(cause);
            }
        }
    }
    entries.clear();
    Err(Cause::Code(code::INSUFFICIENT_SIZE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_grows_meanwhile_is_asked_for_again() {
        let mut entries: Vec<u32> = Vec::new();
        let mut there = 100;
        let mut calls = 0;
        let outcome = fill(&mut entries, 0, |_, count| {
            calls += 1;
            let fits = *count as usize >= there;
            *count = there as u32;
            there += 10;
            if fits { Ok(()) } else { Err(Cause::Code(code::INSUFFICIENT_SIZE)) }
        });
        assert_eq!((outcome, calls, entries.len()), (Ok(()), 2, 110));
    }

    #[test]
    fn a_mask_that_does_not_fit_is_asked_for_again_until_it_is_absurd() {
        let mut asked = Vec::new();
        let refused = mask(|words, _| {
            asked.push(words * c_ulong::BITS);
            Err(Cause::Code(code::INSUFFICIENT_SIZE))
        });
        assert_eq!(refused, Err(Cause::Code(code::INSUFFICIENT_SIZE)));
        assert_eq!(asked, [8192, 16_384, 32_768, 65_536]);
        assert_eq!(mask(|_, _| Ok(())).unwrap().len(), 0);
    }

    #[test]
    fn a_list_that_never_fits_is_a_failure() {
        let mut entries: Vec<u32> = Vec::new();
        let outcome = fill(&mut entries, 0, |_, _| Err(Cause::Code(code::INSUFFICIENT_SIZE)));
        assert_eq!(outcome, Err(Cause::Code(code::INSUFFICIENT_SIZE)));
        assert!(entries.is_empty());
    }
}
