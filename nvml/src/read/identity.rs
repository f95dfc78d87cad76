//! What a GPU is: read once per epoch.

use std::sync::OnceLock;

use gpulet_inventory::gpu::{Architecture, Gpu, GpuUuid, MaxClocks, PcieMax};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::{Answer, Cause, Reading};
use nvml_wrapper_sys::bindings as sys;

use super::Asked;
use crate::plausible::number;
use crate::raw::symbol;

/// Reads all of it. The address goes to `place` as soon as it is known: it is all that can be told of a GPU that then
/// hangs.
///
/// # Errors
/// The refusal, when the GPU does not tell its UUID or its PCI address: without them it cannot be named.
pub(crate) fn read(asked: &mut Asked<'_>, index: u32, place: &OnceLock<PciAddress>) -> Result<Gpu, Answer> {
    let pci = asked.get(&symbol::PCI, |info| pci_address(&info));
    if let Some(pci) = pci.value() {
        // One that is known from an earlier try is the same: the number's GPU stays while the driver is open.
        let _ = place.set(*pci);
    }
    let uuid = required(asked.ask(symbol::UUID.name, 0, |calls, device| {
        calls.text(&symbol::UUID, device)?.parse::<GpuUuid>().map_err(|_| Cause::Implausible)
    }))?;
    let pci = required(pci)?;
    Ok(Gpu {
        index,
        uuid,
        pci,
        minor: asked.get(&symbol::MINOR, number),
        name: asked.text(&symbol::NAME),
        serial: asked.text(&symbol::SERIAL),
        vbios: asked.text(&symbol::VBIOS),
        architecture: asked.get(&symbol::ARCHITECTURE, |code| number(code).map(Architecture::from_number)),
        compute_capability: asked.ask(symbol::COMPUTE_CAPABILITY.name, 0, |calls, device| {
            let (major, minor) = calls.get_two(&symbol::COMPUTE_CAPABILITY, device)?;
            let plain = |value| u32::try_from(value).map_err(|_| Cause::Blank);
            Ok((plain(major)?, plain(minor)?))
        }),
        pcie_max: PcieMax {
            generation: asked.get(&symbol::PCIE_MAX_GENERATION, number),
            width: asked.get(&symbol::PCIE_MAX_WIDTH, number),
        },
        max_clock: MaxClocks {
            graphics: max_clock(asked, "nvmlDeviceGetMaxClockInfo[NVML_CLOCK_GRAPHICS]", 0),
            sm: max_clock(asked, "nvmlDeviceGetMaxClockInfo[NVML_CLOCK_SM]", 1),
            memory: max_clock(asked, "nvmlDeviceGetMaxClockInfo[NVML_CLOCK_MEM]", 2),
            video: max_clock(asked, "nvmlDeviceGetMaxClockInfo[NVML_CLOCK_VIDEO]", 3),
        },
    })
}

/// Whether a part of it failed and deserves another try.
pub(crate) fn is_incomplete(gpu: &Gpu) -> bool {
    fn failed<T>(reading: &Reading<T>) -> bool {
        matches!(reading, Reading::Failed(_))
    }
    let Gpu {
        index: _, uuid: _, pci: _, minor, name, serial, vbios, architecture, compute_capability, ..
    } = gpu;
    let MaxClocks { graphics, sm, memory, video } = &gpu.max_clock;
    [minor, &gpu.pcie_max.generation, &gpu.pcie_max.width, graphics, sm, memory, video]
        .into_iter()
        .any(failed)
        || [name, serial, vbios].into_iter().any(failed)
        || failed(architecture)
        || failed(compute_capability)
}

fn max_clock(asked: &mut Asked<'_>, name: &'static str, clock: u32) -> Reading<u32> {
    asked.get_at(&symbol::MAX_CLOCK, name, clock, number)
}

fn required<T>(reading: Reading<T>) -> Result<T, Answer> {
    match reading {
        Reading::Supported(value) => Ok(value),
        Reading::Unsupported(answer) | Reading::Failed(answer) => Err(answer),
    }
}

/// The address in the driver's struct. All ones mean that there is none.
pub(crate) fn pci_address(info: &sys::nvmlPciInfo_t) -> Result<PciAddress, Cause> {
    let part = |value: u32| u8::try_from(value).map_err(|_| Cause::Blank);
    // A GPU is function 0, and the struct has no number for another; only the text does.
    let function = text_function(info).unwrap_or(0);
    Ok(PciAddress {
        domain: number(info.domain)?,
        bus: part(info.bus)?,
        device: part(info.device)?,
        function,
    })
}

fn text_function(info: &sys::nvmlPciInfo_t) -> Option<u8> {
    crate::raw::plain::text(&info.busId).parse::<PciAddress>().ok().map(|address| address.function)
}
