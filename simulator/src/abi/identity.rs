//! Which GPUs there are, and what each is.

use std::ffi::{c_char, c_int, c_uint, c_ulong};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlPciInfo_t, nvmlPciInfoExt_v1_t};

use super::call::{Gpu, Node};
use super::code::{Answer, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED};
use super::handle::Object;
use super::mig;
use super::out::{Array, Given, Out, Text, chars, version_word};
use crate::state::{GpuIdentity, GpuState};

pub(super) fn count(node: &Node, count: Out<c_uint>) -> Answer {
    count.set(numbered(node).count() as c_uint)
}

pub(super) fn by_index(node: &Node, index: c_uint, device: Out<nvmlDevice_t>) -> Answer {
    let gpu = numbered(node).nth(index as usize).ok_or(INVALID_ARGUMENT)?;
    device.set(node.open_gpu(gpu)?.pointer())
}

pub(super) fn by_uuid(node: &Node, uuid: Given, device: Out<nvmlDevice_t>) -> Answer {
    let uuid = uuid.get()?;
    if let Some(index) = find(node, |identity| identity.uuid.eq_ignore_ascii_case(&uuid)) {
        return device.set(node.open_gpu(index)?.pointer());
    }
    for (index, gpu) in (0..).zip(&node.state.gpus).filter(|(_, gpu)| gpu.bound) {
        let instances = gpu.mig.iter().filter(|mig| mig.mode.0).flat_map(|mig| &mig.instances);
        let mut computes = instances.flat_map(|gi| gi.compute.iter().map(move |ci| (gi.id, ci)));
        if let Some((gi, ci)) = computes.find(|(_, ci)| ci.uuid.eq_ignore_ascii_case(&uuid)) {
            node.open_gpu(index)?;
            return device.set(node.handle(Object::MigDevice(index, gi, ci.id)).pointer());
        }
    }
    Err(NOT_FOUND)
}

pub(super) fn by_serial(node: &Node, serial: Given, device: Out<nvmlDevice_t>) -> Answer {
    let serial = serial.get()?;
    let index = find(node, |identity| identity.serial.as_ref() == Some(&serial)).ok_or(NOT_FOUND)?;
    device.set(node.open_gpu(index)?.pointer())
}

pub(super) fn by_pci(node: &Node, bus_id: Given, device: Out<nvmlDevice_t>) -> Answer {
    let wanted = parse_bus_id(&bus_id.get()?).ok_or(INVALID_ARGUMENT)?;
    let index = find(node, |identity| (identity.pci_domain, identity.pci_bus, identity.pci_device) == wanted);
    device.set(node.open_gpu(index.ok_or(NOT_FOUND)?)?.pointer())
}

fn find(node: &Node, wanted: impl Fn(&GpuIdentity) -> bool) -> Option<u32> {
    let is_wanted = |(_, gpu): &(u32, &GpuState)| gpu.bound && wanted(&gpu.identity);
    (0..).zip(&node.state.gpus).find(is_wanted).map(|(index, _)| index)
}

/// The driver's GPUs in the order in which it numbers them, each by its place on the node.
fn numbered(node: &Node) -> impl Iterator<Item = u32> {
    (0..).zip(&node.state.gpus).filter(|(_, gpu)| gpu.bound).map(|(index, _)| index)
}

/// `domain:bus:device.function` in hexadecimal; the domain and the function can be left out.
fn parse_bus_id(text: &str) -> Option<(u32, u32, u32)> {
    let hexadecimal = |part: &str| u32::from_str_radix(part, 16).ok();
    let parts: Vec<&str> = text.split(':').collect();
    let (domain, bus, device) = match parts.as_slice() {
        [bus, device] => (0, bus, device),
        [domain, bus, device] => (hexadecimal(domain)?, bus, device),
        _ => return None,
    };
    let (device, function) = device.split_once('.').unwrap_or((device, "0"));
    (hexadecimal(function)? == 0).then_some((domain, hexadecimal(bus)?, hexadecimal(device)?))
}

/// Of a MIG device: its number within its GPU.
pub(super) fn index(gpu: &Gpu<'_>, index: Out<c_uint>) -> Answer {
    if let Some(device) = &gpu.device {
        return index.set(mig::device_index(gpu, device.instance, device.compute)?);
    }
    index.set(numbered(gpu.node).take_while(|before| *before < gpu.index).count() as c_uint)
}

pub(super) fn name(gpu: &Gpu<'_>, name: Text, length: c_uint) -> Answer {
    match gpu.device {
        None => name.set(length, &gpu.board().name),
        Some(device) => name.set(length, &format!("{} MIG {}", gpu.board().name, compute_name(device)?)),
    }
}

/// The compute instance's own name, such as `1c.3g.40gb`, or `3g.40gb` where it fills its GPU instance.
fn compute_name(device: super::call::MigDevice<'_>) -> Answer<&str> {
    let profile = device.profile.compute.get(&device.compute.profile).ok_or(super::code::UNKNOWN)?;
    Ok(&profile.name)
}

pub(super) fn uuid(gpu: &Gpu<'_>, uuid: Text, length: c_uint) -> Answer {
    uuid.set(length, gpu.device.map_or(&gpu.state.identity.uuid, |device| &device.compute.uuid))
}

pub(super) fn serial(gpu: &Gpu<'_>, serial: Text, length: c_uint) -> Answer {
    serial.set(length, gpu.state.identity.serial.as_ref().ok_or(NOT_SUPPORTED)?)
}

pub(super) fn minor(gpu: &Gpu<'_>, minor: Out<c_uint>) -> Answer {
    minor.set(gpu.state.identity.minor)
}

pub(super) fn module_id(gpu: &Gpu<'_>, id: Out<c_uint>) -> Answer {
    id.set(gpu.state.identity.module_id.ok_or(NOT_SUPPORTED)?)
}

pub(super) fn board_id(gpu: &Gpu<'_>, id: Out<c_uint>) -> Answer {
    let pci = &gpu.state.identity;
    id.set(pci.pci_domain << 16 | pci.pci_bus << 8 | pci.pci_device << 3)
}

pub(super) fn multi_gpu_board(_gpu: &Gpu<'_>, multi: Out<c_uint>) -> Answer {
    multi.set(0)
}

pub(super) fn part_number(gpu: &Gpu<'_>, number: Text, length: c_uint) -> Answer {
    number.set(length, gpu.board().part_number.as_ref().ok_or(NOT_SUPPORTED)?)
}

pub(super) fn brand(gpu: &Gpu<'_>, brand: Out<c_uint>) -> Answer {
    brand.set(gpu.board().brand)
}

pub(super) fn architecture(gpu: &Gpu<'_>, architecture: Out<c_uint>) -> Answer {
    architecture.set(gpu.board().architecture)
}

pub(super) fn compute_capability(gpu: &Gpu<'_>, major: Out<c_int>, minor: Out<c_int>) -> Answer {
    let (first, second) = gpu.board().compute_capability;
    major.set(first)?;
    minor.set(second)
}

pub(super) fn cores(gpu: &Gpu<'_>, cores: Out<c_uint>) -> Answer {
    cores.set(gpu.board().cores)
}

pub(super) fn vbios(gpu: &Gpu<'_>, version: Text, length: c_uint) -> Answer {
    version.set(length, &gpu.board().vbios)
}

pub(super) fn inforom_image(gpu: &Gpu<'_>, version: Text, length: c_uint) -> Answer {
    version.set(length, gpu.board().inforom.as_ref().ok_or(NOT_SUPPORTED)?)
}

/// The firmware is part of the driver and has its version.
pub(super) fn gsp_version(gpu: &Gpu<'_>, version: Text) -> Answer {
    gpu.require_architecture(TURING)?;
    version.set(GSP_VERSION_ROOM, &gpu.node.state.driver.version)
}

/// First architecture with the GSP, `NVML_DEVICE_ARCH_TURING`.
const TURING: u32 = 6;
/// `NVML_GSP_FIRMWARE_VERSION_BUF_SIZE`: what the caller must have, since the call has no length.
const GSP_VERSION_ROOM: c_uint = 64;

pub(super) fn gsp_mode(gpu: &Gpu<'_>, enabled: Out<c_uint>, default: Out<c_uint>) -> Answer {
    gpu.require_architecture(TURING)?;
    enabled.set(1)?;
    default.set(1)
}

fn pci_info(of: &GpuIdentity) -> nvmlPciInfo_t {
    nvmlPciInfo_t {
        pciDeviceId: of.pci_device_id,
        pciSubSystemId: of.pci_subsystem_id,
        ..pci_address(of.pci_domain, of.pci_bus, of.pci_device)
    }
}

pub(super) fn pci(gpu: &Gpu<'_>, pci: Out<nvmlPciInfo_t>) -> Answer {
    pci.set(pci_info(&gpu.state.identity))
}

pub(super) fn pci_v2(gpu: &Gpu<'_>, pci: Out<nvmlPciInfo_t>) -> Answer {
    pci.cast().set(PciInfoV2::from(pci_info(&gpu.state.identity)))
}

/// The struct as it was before domains of eight digits, without the words that it reserved: a program that asks for it
/// has no room for more.
#[repr(C)]
pub(super) struct PciInfoV2 {
    bus_id: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
}

impl From<nvmlPciInfo_t> for PciInfoV2 {
    fn from(info: nvmlPciInfo_t) -> Self {
        Self {
            bus_id: info.busIdLegacy,
            domain: info.domain,
            bus: info.bus,
            device: info.device,
            device_id: info.pciDeviceId,
            subsystem_id: info.pciSubSystemId,
        }
    }
}

/// A PCI address in the driver's three forms.
pub(super) fn pci_address(domain: u32, bus: u32, device: u32) -> nvmlPciInfo_t {
    nvmlPciInfo_t {
        busIdLegacy: chars(&format!("{domain:04X}:{bus:02X}:{device:02X}.0")),
        domain,
        bus,
        device,
        pciDeviceId: 0,
        pciSubSystemId: 0,
        busId: bus_id(domain, bus, device),
    }
}

fn bus_id(domain: u32, bus: u32, device: u32) -> [c_char; 32] {
    chars(&format!("{domain:08X}:{bus:02X}:{device:02X}.0"))
}

pub(super) fn pci_ext(gpu: &Gpu<'_>, pci: Out<nvmlPciInfoExt_v1_t>) -> Answer {
    pci.check_version(1)?;
    let of = &gpu.state.identity;
    pci.set(nvmlPciInfoExt_v1_t {
        version: version_word::<nvmlPciInfoExt_v1_t>(1),
        domain: of.pci_domain,
        bus: of.pci_bus,
        device: of.pci_device,
        pciDeviceId: of.pci_device_id,
        pciSubSystemId: of.pci_subsystem_id,
        // A display controller: VGA where a display can be connected, 3D controller elsewhere (PCI class codes).
        baseClass: 3,
        subClass: if gpu.board().display { 0 } else { 2 },
        busId: bus_id(of.pci_domain, of.pci_bus, of.pci_device),
    })
}

pub(super) fn cpu_affinity(gpu: &Gpu<'_>, words: c_uint, set: Array<c_ulong>) -> Answer {
    mask(&gpu.state.identity.cpu_affinity, words, set)
}

pub(super) fn cpu_affinity_within(
    gpu: &Gpu<'_>,
    words: c_uint,
    set: Array<c_ulong>,
    scope: c_uint,
) -> Answer {
    within(scope)?;
    mask(&gpu.state.identity.cpu_affinity, words, set)
}

pub(super) fn memory_affinity(gpu: &Gpu<'_>, words: c_uint, set: Array<c_ulong>, scope: c_uint) -> Answer {
    within(scope)?;
    let nodes = &gpu.state.identity.memory_affinity;
    // Where the firmware names no node.
    if nodes.is_empty() {
        return Err(NOT_SUPPORTED);
    }
    mask(nodes, words, set)
}

/// NUMA node (0) or socket (1). The simulated firmware tells of one locality only, so both give the same.
fn within(scope: c_uint) -> Answer {
    if scope > 1 { Err(INVALID_ARGUMENT) } else { Ok(()) }
}

/// Hands a bit mask over in as many words as the caller has.
fn mask(bits: &[u64], words: c_uint, set: Array<c_ulong>) -> Answer {
    if words == 0 || set.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let words = words as usize;
    if bits.iter().skip(words).any(|word| *word != 0) {
        return Err(INSUFFICIENT_SIZE);
    }
    let padded: Vec<c_ulong> = bits.iter().copied().chain(std::iter::repeat(0)).take(words).collect();
    set.fill(&padded)
}

pub(super) fn numa_node(gpu: &Gpu<'_>, node: Out<c_uint>) -> Answer {
    node.set(gpu.state.identity.memory_numa_node.ok_or(NOT_SUPPORTED)?)
}

pub(super) fn display_mode(_gpu: &Gpu<'_>, display: Out<c_uint>) -> Answer {
    display.set(0)
}

pub(super) fn persistence(gpu: &Gpu<'_>, mode: Out<c_uint>) -> Answer {
    mode.set(gpu.now().persistence.into())
}

pub(super) fn compute_mode(gpu: &Gpu<'_>, mode: Out<c_uint>) -> Answer {
    mode.set(gpu.now().compute_mode)
}

/// None, or passed through to a virtual machine (1).
pub(super) fn virtualization_mode(gpu: &Gpu<'_>, mode: Out<c_uint>) -> Answer {
    mode.set(gpu.node.state.virtual_machine.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_come_in_several_forms() {
        for text in ["0000:3b:00.0", "00000000:3B:00.0", "3b:00.0", "3B:00"] {
            assert_eq!(parse_bus_id(text), Some((0, 0x3b, 0)), "{text}");
        }
        assert_eq!(parse_bus_id("000a:3b:1f.0"), Some((10, 0x3b, 0x1f)));
        for text in ["", "3b", "0000:3b:00.1", "x:y:z", "0:0:0:0"] {
            assert_eq!(parse_bus_id(text), None, "{text}");
        }
    }
}
