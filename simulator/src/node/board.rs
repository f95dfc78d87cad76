//! Boards: what a model of GPU is and can do.

use gpulet_inventory::pci::PciAddress;
use serde::Deserialize;

use super::problem::{Fault, Problem};
use super::units::Bytes;

/// A board as written in YAML.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Board {
    /// Product name, as the driver gives it.
    pub name: String,
    /// Brand.
    pub brand: Brand,
    /// Architecture.
    pub architecture: Architecture,
    /// CUDA compute capability, major and minor.
    pub compute_capability: (i32, i32),
    /// PCI ids.
    pub pci: PciIds,
    /// Firmware.
    pub firmware: Firmware,
    /// Whether boards have serial numbers and part numbers.
    #[serde(default = "yes")]
    pub serial: bool,
    /// Memory.
    pub memory: Memory,
    /// CUDA cores.
    pub cores: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// PCIe of the board.
    pub pcie: Pcie,
    /// Highest clocks: graphics, SM, memory, video, MHz.
    pub max_clocks_mhz: [u32; 4],
    /// What it does when nothing runs.
    pub idle: Idle,
    /// Power, watts.
    pub power: Power,
    /// Temperatures, °C.
    pub temperature: Temperature,
    /// Fans; none on passively cooled boards.
    #[serde(default)]
    pub fans: u32,
    /// JPEG engines.
    #[serde(default)]
    pub jpeg_engines: u32,
    /// Optical flow engines.
    #[serde(default)]
    pub ofa_engines: u32,
    /// Whether it has row remapping.
    #[serde(default)]
    pub row_remapping: bool,
    /// Whether it answers GPM.
    #[serde(default)]
    pub gpm: bool,
    /// Whether it registers at an NVLink fabric.
    #[serde(default)]
    pub fabric: bool,
    /// Whether it is made for displays too.
    #[serde(default)]
    pub display: bool,
    /// NVLink.
    pub nvlink: Option<NvLink>,
    /// NVLink chip-to-chip to the CPU (Grace).
    pub c2c: Option<C2c>,
    /// MIG.
    pub mig: Option<Mig>,
}

fn yes() -> bool {
    true
}

/// Brand (`nvmlBrandType_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Brand {
    /// Tesla: data-centre boards of old drivers.
    Tesla = 2,
    /// GeForce.
    Geforce = 5,
    /// NVIDIA RTX: workstation boards.
    NvidiaRtx = 13,
    /// NVIDIA: data-centre boards.
    Nvidia = 14,
    /// GeForce RTX.
    GeforceRtx = 15,
}

/// Architecture (`NVML_DEVICE_ARCH_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// Volta.
    Volta = 5,
    /// Turing.
    Turing = 6,
    /// Ampere.
    Ampere = 7,
    /// Ada.
    Ada = 8,
    /// Hopper.
    Hopper = 9,
    /// Blackwell.
    Blackwell = 10,
}

/// PCI ids; the vendor is NVIDIA.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PciIds {
    /// Device.
    pub device: u16,
    /// Subsystem device.
    pub subsystem: u16,
    /// Class, 24 bits: 0x030200 is a 3D controller, 0x030000 one with a display.
    #[serde(default = "controller_3d")]
    pub class: u32,
}

fn controller_3d() -> u32 {
    0x03_0200
}

/// Firmware versions.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Firmware {
    /// Video BIOS.
    pub vbios: String,
    /// InfoROM image; consumer boards have none.
    pub inforom: Option<String>,
    /// Board part number; consumer boards have none.
    pub part_number: Option<String>,
}

/// Memory of a board.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Memory {
    /// In all.
    pub total: Bytes,
    /// What driver and firmware keep.
    pub reserved: Bytes,
    /// BAR1 window.
    pub bar1: Bytes,
    /// Bus width, bits.
    pub bus_bits: u32,
    /// Whether it has ECC.
    pub ecc: bool,
    /// Whether ECC, if it has it, is on when the board leaves the factory.
    #[serde(default = "yes")]
    pub ecc_default: bool,
    /// Whether its temperature is told (HBM).
    #[serde(default)]
    pub temperature: bool,
}

/// PCIe of a board.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pcie {
    /// Highest generation.
    pub generation: u32,
    /// Lanes.
    pub width: u32,
}

/// A board at rest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Idle {
    /// Performance state, 0 to 15.
    pub performance_state: u32,
    /// PCIe generation to which the link falls.
    pub pcie_generation: u32,
    /// Clocks: graphics, SM, memory, video, MHz.
    pub clocks_mhz: [u32; 4],
}

/// Power of a board, watts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Power {
    /// At rest.
    pub idle: u32,
    /// What full work would draw if nothing limited it.
    pub peak: u32,
    /// Default limit.
    pub limit: u32,
    /// Lowest limit.
    pub min_limit: u32,
    /// Highest limit.
    pub max_limit: u32,
}

/// Temperatures of a board, °C.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Temperature {
    /// Where it settles at its default power limit and 25 °C around.
    pub full: u32,
    /// Where it slows down.
    pub slowdown: u32,
    /// Where it shuts down.
    pub shutdown: u32,
}

/// NVLink of a board.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NvLink {
    /// Generation.
    pub version: u32,
    /// Links.
    pub links: u32,
    /// What one link moves each way, MB/s.
    pub link_mbps: u32,
}

/// NVLink chip-to-chip of a board.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct C2c {
    /// Links.
    pub links: u32,
    /// What one link moves each way at most, MB/s.
    pub link_mbps: u32,
}

/// MIG of a board.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mig {
    /// Slices of the placement grid.
    pub slices: u32,
    /// Whether mode changes need no reset and do not outlive the driver (Hopper and later).
    pub resetless: bool,
    /// GPU instance profiles.
    pub profiles: Vec<Profile>,
}

/// A GPU instance profile.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    /// The id that creation takes.
    pub id: u32,
    /// `NVML_GPU_INSTANCE_PROFILE_*`.
    pub enumerator: u32,
    /// The driver's name.
    pub name: String,
    /// Compute slices.
    pub slices: u32,
    /// Memory.
    pub memory: Bytes,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Most on an empty GPU.
    pub max: u32,
    /// First slices possible.
    pub starts: Vec<u32>,
    /// Slices of the grid that one takes.
    pub size: u32,
    /// Copy engines, decoders, encoders, JPEG engines, optical flow engines.
    pub engines: [u32; 5],
    /// Driver branch that brought it; every one that knows the board unless given.
    #[serde(default)]
    pub since_driver: u32,
}

/// The boards that come with the simulator.
const SHIPPED: &[(&str, &str)] = &[
    ("a100-pcie-80gb", include_str!("../../boards/a100-pcie-80gb.yaml")),
    ("a100-sxm4-40gb", include_str!("../../boards/a100-sxm4-40gb.yaml")),
    ("a30", include_str!("../../boards/a30.yaml")),
    ("b200", include_str!("../../boards/b200.yaml")),
    ("gb200", include_str!("../../boards/gb200.yaml")),
    ("h100-sxm-80gb", include_str!("../../boards/h100-sxm-80gb.yaml")),
    ("h200-sxm-141gb", include_str!("../../boards/h200-sxm-141gb.yaml")),
    ("l40s", include_str!("../../boards/l40s.yaml")),
    ("rtx-4090", include_str!("../../boards/rtx-4090.yaml")),
    ("rtx-pro-6000-server", include_str!("../../boards/rtx-pro-6000-server.yaml")),
    ("t4", include_str!("../../boards/t4.yaml")),
    ("v100-sxm2-32gb", include_str!("../../boards/v100-sxm2-32gb.yaml")),
    ("v100-sxm3-32gb", include_str!("../../boards/v100-sxm3-32gb.yaml")),
];

/// Names of the boards that come with the simulator.
pub fn shipped() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

pub(super) fn shipped_text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

impl Board {
    /// `NVML_BRAND_*`.
    pub fn brand_number(&self) -> u32 {
        self.brand as u32
    }

    /// `NVML_DEVICE_ARCH_*`.
    pub fn architecture_number(&self) -> u32 {
        self.architecture as u32
    }

    /// Device id in the upper, vendor in the lower half.
    pub fn pci_device_id(&self) -> u32 {
        u32::from(self.pci.device) << 16 | u32::from(NVIDIA)
    }

    /// Subsystem ids likewise.
    pub fn pci_subsystem_id(&self) -> u32 {
        u32::from(self.pci.subsystem) << 16 | u32::from(NVIDIA)
    }

    /// What contradicts itself in the board, each with its place.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut refuse = |sound: bool, place: &str, fault: Fault| {
            if !sound {
                problems.push(Problem { place: place.to_owned(), fault });
            }
        };
        let Memory { total, reserved, .. } = self.memory;
        refuse(reserved < total, "memory.reserved", Fault::ReservedMemory { total });
        let Power { idle, peak, limit, min_limit, max_limit } = self.power;
        let ordered = idle < min_limit && min_limit <= limit && limit <= max_limit && idle < peak;
        refuse(ordered, "power", Fault::PowerOrder);
        let Temperature { full, slowdown, shutdown } = self.temperature;
        refuse(25 < full && full < slowdown && slowdown < shutdown, "temperature", Fault::TemperatureOrder);
        let slower =
            self.idle.clocks_mhz.iter().zip(&self.max_clocks_mhz).all(|(idle, max)| idle <= max && *max > 0);
        refuse(slower, "idle.clocks-mhz", Fault::IdleClocks);
        let Pcie { generation, width } = self.pcie;
        refuse((1..=7).contains(&generation), "pcie.generation", Fault::PcieGeneration { generation });
        refuse(PCIE_WIDTHS.contains(&width), "pcie.width", Fault::PcieWidth { width });
        let falls = (1..=generation).contains(&self.idle.pcie_generation);
        refuse(
            falls,
            "idle.pcie-generation",
            Fault::PcieGeneration { generation: self.idle.pcie_generation },
        );
        if let Some(number) = self.nvlink.as_ref().map(|nvlink| nvlink.links) {
            let fault = Fault::Count { what: "links", number, least: 1, most: MAX_LINKS };
            refuse((1..=MAX_LINKS).contains(&number), "nvlink.links", fault);
        }
        if let Some(number) = self.c2c.as_ref().map(|c2c| c2c.links) {
            let fault = Fault::Count { what: "links", number, least: 1, most: MAX_C2C_LINKS };
            refuse((1..=MAX_C2C_LINKS).contains(&number), "c2c.links", fault);
        }
        for (index, profile) in self.mig.iter().flat_map(|mig| mig.profiles.iter().enumerate()) {
            let place = format!("mig.profiles[{index}]");
            let grid = self.mig.as_ref().map_or(0, |mig| mig.slices);
            let fits = |start: &u32| start.checked_add(profile.size).is_some_and(|end| end <= grid);
            let sound = profile.size > 0 && !profile.starts.is_empty() && profile.starts.iter().all(fits);
            refuse(sound, &place, Fault::Grid { profile: profile.name.clone(), slices: grid });
            let fault =
                Fault::Count { what: "compute slices", number: profile.slices, least: 1, most: MAX_SLICES };
            refuse((1..=MAX_SLICES).contains(&profile.slices), &place, fault);
            let twin = |other: &&Profile| other.id == profile.id || other.enumerator == profile.enumerator;
            let twins = self.mig.iter().flat_map(|mig| &mig.profiles).filter(twin).count();
            refuse(twins == 1, &place, Fault::TwinProfiles { profile: profile.name.clone() });
        }
        problems
    }
}

/// NVIDIA's PCI vendor id.
pub(crate) const NVIDIA: u16 = 0x10de;

/// Most NVLinks of a GPU (`NVML_NVLINK_MAX_LINKS` of the newest header).
const MAX_LINKS: u32 = 36;

/// More chip-to-chip links than any board has.
const MAX_C2C_LINKS: u32 = 32;

/// Most compute slices of a GPU instance.
const MAX_SLICES: u32 = 8;

/// Numbers of lanes that a link can have.
pub(super) const PCIE_WIDTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Serial number of the board at an address: made up, but the same each time.
pub(crate) fn serial_number(seed: u64, at: PciAddress) -> String {
    format!("165{:010}", (seed ^ u64::from(at.bus) << 8 ^ u64::from(at.device)) % 10_000_000_000)
}
