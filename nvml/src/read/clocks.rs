//! Clocks, and what holds them down.

use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::{Clocks, ClocksHeld};

use super::{Asked, or};
use crate::plausible::{number, wide};
use crate::raw::symbol;

/// Reads them; the times held come from the batch of fields.
pub(crate) fn read(asked: &mut Asked<'_>, held: ClocksHeld) -> Clocks {
    Clocks {
        graphics: clock(asked, "nvmlDeviceGetClockInfo[NVML_CLOCK_GRAPHICS]", 0),
        sm: clock(asked, "nvmlDeviceGetClockInfo[NVML_CLOCK_SM]", 1),
        memory: clock(asked, "nvmlDeviceGetClockInfo[NVML_CLOCK_MEM]", 2),
        video: clock(asked, "nvmlDeviceGetClockInfo[NVML_CLOCK_VIDEO]", 3),
        event_reasons: event_reasons(asked),
        held,
    }
}

fn clock(asked: &mut Asked<'_>, name: &'static str, clock: u32) -> Reading<u32> {
    asked.get_at(&symbol::CLOCK, name, clock, number)
}

/// Drivers before 535 know them as throttle reasons, with the same bits.
fn event_reasons(asked: &mut Asked<'_>) -> Reading<u64> {
    let reasons = asked.get(&symbol::CLOCKS_EVENT_REASONS, wide);
    or(reasons, || asked.get(&symbol::CLOCKS_THROTTLE_REASONS, wide))
}
