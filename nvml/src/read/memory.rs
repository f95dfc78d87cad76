//! GPU memory and the BAR1 window.

use gpulet_inventory::reading::{Cause, Reading};
use gpulet_inventory::sample::{Bar1, Memory};
use nvml_wrapper_sys::bindings as sys;

use super::{Asked, or};
use crate::plausible::wide;
use crate::raw::plain::{Plain, version_of};
use crate::raw::symbol;

/// GPU memory; with a driver that has no second version of the call (before 510), by the first.
pub(crate) fn read(asked: &mut Asked<'_>) -> Reading<Memory> {
    let second = asked.ask(symbol::MEMORY_V2.name, 0, |calls, device| {
        let mut info = sys::nvmlMemory_v2_t::zeroed();
        info.version = version_of::<sys::nvmlMemory_v2_t>(2);
        let info = calls.get_into(&symbol::MEMORY_V2, device, info)?;
        memory(info.total, info.used, info.free, Some(wide(info.reserved)?))
    });
    or(second, || asked.get(&symbol::MEMORY, |info| memory(info.total, info.used, info.free, None)))
}

fn memory(total: u64, used: u64, free: u64, reserved: Option<u64>) -> Result<Memory, Cause> {
    let memory = Memory { total: wide(total)?, used: wide(used)?, free: wide(free)?, reserved };
    if memory.used <= memory.total && memory.free <= memory.total {
        Ok(memory)
    } else {
        Err(Cause::Implausible)
    }
}

/// The BAR1 window.
pub(crate) fn bar1(asked: &mut Asked<'_>) -> Reading<Bar1> {
    asked.get(&symbol::BAR1, |info| Ok(Bar1 { total: wide(info.bar1Total)?, used: wide(info.bar1Used)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_all_is_implausible() {
        assert_eq!(memory(100, 101, 0, None), Err(Cause::Implausible));
        assert_eq!(memory(u64::MAX, 1, 0, None), Err(Cause::Blank));
        assert!(memory(100, 60, 30, Some(10)).is_ok());
    }
}
