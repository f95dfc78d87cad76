//! What can be wrong with a description.

use std::fmt;

use gpulet_inventory::pci::PciAddress;

use super::units::{Bytes, RootBus};

/// Something wrong at one place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, as a path of keys such as `pci[2].devices[0].gpu`.
    pub place: String,
    /// What.
    pub fault: Fault,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)
    }
}

/// What is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No such board.
    #[error("there is no board `{board}`: name one of {known}, or the path of a board's YAML file")]
    UnknownBoard {
        /// As written.
        board: String,
        /// Those that are shipped.
        known: String,
    },
    /// The board's own file is wrong.
    #[error("board `{board}`: {problem}")]
    Board {
        /// As written.
        board: String,
        /// What is wrong with it, and where.
        problem: String,
    },
    /// No such NUMA node.
    #[error("there is no NUMA node {numa}: name one of the `numa` list, or leave it out")]
    UnknownNumaNode {
        /// As written.
        numa: u32,
    },
    /// A GPU's memory node that is something else already.
    #[error(
        "NUMA node {numa} cannot be this GPU's memory: it has CPUs or is another GPU's; name one of its own"
    )]
    NoMemoryNode {
        /// As written.
        numa: u32,
    },
    /// Two NUMA nodes of one number.
    #[error("NUMA node {numa} is there twice: number each once")]
    TwinNumaNodes {
        /// The number.
        numa: u32,
    },
    /// No NUMA node at all.
    #[error("there is no NUMA node: every machine has at least one")]
    NoNumaNode,
    /// The number of distances.
    #[error(
        "there are {given} distances for {expected} NUMA nodes: give one for each, in the order of their numbers"
    )]
    DistanceCount {
        /// As written.
        given: usize,
        /// NUMA nodes.
        expected: usize,
    },
    /// A distance that no kernel reports.
    #[error("distance {distance} to node {to} is impossible: 10 to the node itself, 11 to 255 to others")]
    Distance {
        /// As written.
        distance: u32,
        /// To which node.
        to: u32,
    },
    /// A CPU of two nodes.
    #[error("CPUs {cpus} belong to NUMA node {other} too: give each to one node")]
    OverlappingCpus {
        /// Which.
        cpus: String,
        /// Where else they are.
        other: u32,
    },
    /// A CPU that the processors do not have.
    #[error("CPUs {cpus} do not exist: the processors have {count}, numbered from 0")]
    NoSuchCpus {
        /// Which.
        cpus: String,
        /// How many there are.
        count: u32,
    },
    /// CPUs of no node.
    #[error("CPUs {cpus} belong to no NUMA node: give them to one")]
    HomelessCpus {
        /// Which.
        cpus: String,
    },
    /// No processors, or too many.
    #[error("{count} CPUs are impossible: packages × cores × threads must be 1 to 8192")]
    CpuCount {
        /// The product.
        count: u64,
    },
    /// One address twice.
    #[error("{at} is the address of {other} too: give each device its own")]
    SharedAddress {
        /// The address.
        at: PciAddress,
        /// Place of the other.
        other: String,
    },
    /// One root bus twice.
    #[error("{root} is there twice: give each hierarchy its own root bus")]
    TwinRoots {
        /// The bus.
        root: RootBus,
    },
    /// A device whose bus is not where it hangs.
    #[error("{at} is not on the bus of {root}: devices directly on a root bus have its number")]
    NotOnRootBus {
        /// The address.
        at: PciAddress,
        /// The bus.
        root: RootBus,
    },
    /// Devices of one bridge on several buses.
    #[error(
        "{at} is not on bus {domain:04x}:{bus:02x} as the first device behind the same bridge: a bridge has one bus behind it"
    )]
    NotOnBridgeBus {
        /// The address.
        at: PciAddress,
        /// The bus's domain.
        domain: u32,
        /// The bus.
        bus: u8,
    },
    /// A bus number that does not grow downwards.
    #[error(
        "{at} is behind a bridge on bus {above:02x}: a bus behind a bridge has a higher number, in the same domain"
    )]
    BusOrder {
        /// The address.
        at: PciAddress,
        /// The bridge's bus.
        above: u8,
    },
    /// One bus at two places.
    #[error("bus {domain:04x}:{bus:02x} is at {other} too: number each bus once")]
    SharedBus {
        /// The bus's domain.
        domain: u32,
        /// The bus.
        bus: u8,
        /// Where else it is.
        other: String,
    },
    /// No such PCIe generation.
    #[error(
        "PCIe generation {generation} is impossible: expected 1 to 7, and no more than the most of device and port"
    )]
    PcieGeneration {
        /// As written.
        generation: u32,
    },
    /// No such number of lanes.
    #[error("{width} PCIe lanes are impossible: expected 1, 2, 4, 8, 16 or 32, and no more than the most")]
    PcieWidth {
        /// As written.
        width: u32,
    },
    /// A PCI class of more than 24 bits.
    #[error("PCI class {class:#x} is impossible: expected 24 bits, such as 0x020700")]
    PciClass {
        /// As written.
        class: u32,
    },
    /// GPUs without a driver version.
    #[error("the node has GPUs, whose state needs a driver: give `driver`, such as 580.105.08")]
    NoDriver,
    /// One minor number twice.
    #[error("/dev/nvidia{minor} is GPU {other} too: number each once, or leave `minor` out everywhere")]
    SharedMinor {
        /// The number.
        minor: u32,
        /// The other's index.
        other: u32,
    },
    /// A wiring or load that names a GPU which is not there.
    #[error("there is no GPU {gpu}: this node has {count}, numbered from 0 in the order of their addresses")]
    NoSuchGpu {
        /// As written.
        gpu: u32,
        /// How many there are.
        count: usize,
    },
    /// A GPU linked with itself.
    #[error("GPU {gpu} is linked with itself: name two GPUs")]
    LinkToItself {
        /// As written.
        gpu: u32,
    },
    /// More links than the board has.
    #[error("GPU {gpu} has {wired} links wired of {links} that its board has: wire fewer")]
    TooManyLinks {
        /// GPU index.
        gpu: usize,
        /// As written.
        wired: u32,
        /// What the board has.
        links: u32,
    },
    /// An NVLink that the board does not have.
    #[error("there is no NVLink {link}: the board has {links}, numbered from 0")]
    NoSuchLink {
        /// As written.
        link: u32,
        /// What the board has.
        links: u32,
    },
    /// A level that says nothing about two GPUs.
    #[error("level X is that of a GPU and itself: expected PIX, PXB, PHB, NODE or SYS")]
    OwnLevel,
    /// A level of fewer than two GPUs.
    #[error("a level is about two GPUs at least: name more of them")]
    LonelyLevel,
    /// Not as many link counts as NVSwitches.
    #[error(
        "there are {given} link counts for {switches} NVSwitches: give one for each, or describe the switches"
    )]
    SwitchCount {
        /// As written.
        given: usize,
        /// NVSwitches described.
        switches: usize,
    },
    /// A fabric without a board that registers.
    #[error("no board of this node registers at a fabric: leave `fabric` out")]
    NoFabricBoard,
    /// A board that cannot be divided.
    #[error("board `{board}` has no MIG: leave `mig` out")]
    NoMig {
        /// As written.
        board: String,
    },
    /// No such profile.
    #[error("board `{board}` has no profile `{profile}`: it has {known}")]
    UnknownProfile {
        /// The board.
        board: String,
        /// As written.
        profile: String,
        /// What it has.
        known: String,
    },
    /// Not a place for the profile.
    #[error("`{profile}` cannot start at slice {start}: it can at {starts}")]
    Placement {
        /// The profile.
        profile: String,
        /// As written.
        start: u32,
        /// Where it can.
        starts: String,
    },
    /// Instances that overlap.
    #[error("`{profile}` at slice {start} overlaps the instance of {other}: place them apart")]
    OverlappingInstances {
        /// The profile.
        profile: String,
        /// As written.
        start: u32,
        /// Place of the other.
        other: String,
    },
    /// More instances than the profile allows.
    #[error("there are {count} instances of `{profile}`, of which a GPU can have {max}: leave some out")]
    TooManyInstances {
        /// The profile.
        profile: String,
        /// As written.
        count: usize,
        /// The most.
        max: u32,
    },
    /// Two instances that both want the media extensions.
    #[error(
        "`{profile}` and `{other}` both want the media engines, which one instance can have: leave one out"
    )]
    MediaEngines {
        /// The profile.
        profile: String,
        /// The other's profile.
        other: String,
    },
    /// Compute instances that do not fit into the GPU instance.
    #[error("compute instances of {slices:?} slices do not fit into `{profile}`: it takes {known}")]
    ComputeInstances {
        /// As written.
        slices: Vec<u32>,
        /// The GPU instance's profile.
        profile: String,
        /// Sizes that it takes.
        known: String,
    },
    /// A load that cannot be.
    #[error("{problem}")]
    Load {
        /// Why.
        problem: String,
    },
    /// Two loads for one GPU.
    #[error("GPU {gpu} has a load already: name each GPU once")]
    TwinLoads {
        /// GPU index.
        gpu: u32,
    },
    /// A number that such a thing cannot have.
    #[error("{number} {what} are impossible: expected {least} to {most}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// As written.
        number: u32,
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// A NUMA node's number beyond what Linux can have.
    #[error("NUMA node {numa} is impossible: Linux numbers them 0 to 1023")]
    NumaNumber {
        /// As written.
        numa: u32,
    },
    /// A minor number beyond the GPUs' own.
    #[error("/dev/nvidia{minor} is impossible: GPUs have minor numbers 0 to 254")]
    Minor {
        /// As written.
        minor: u32,
    },
    /// More huge pages than memory.
    #[error("the huge pages take more than the node's {} MiB: set fewer aside", .memory.mib())]
    HugePages {
        /// Memory of the node.
        memory: Bytes,
    },
    /// RDMA devices or interfaces of one name.
    #[error("`{name}` is the name of {other} too: name each once")]
    SharedName {
        /// The name.
        name: String,
        /// Place of the other.
        other: String,
    },
    /// A name that is no file name.
    #[error("`{name}` is no name for a device: use letters, digits, `_`, `-` and `.`")]
    BadName {
        /// As written.
        name: String,
    },
    /// A name that is no directory below `/sys/devices`.
    #[error(
        "`{name}` is no directory below /sys/devices: use names of letters, digits, `_`, `-`, `.` and `:` with `/` between them"
    )]
    BadDirectory {
        /// As written.
        name: String,
    },
    /// More memory kept than there is.
    #[error("more memory is reserved than there is: keep it below {} MiB", .total.mib())]
    ReservedMemory {
        /// Memory in all.
        total: Bytes,
    },
    /// Power figures out of order.
    #[error("expected idle < min-limit <= limit <= max-limit, and idle < peak")]
    PowerOrder,
    /// Temperatures out of order.
    #[error("expected 25 < full < slowdown < shutdown")]
    TemperatureOrder,
    /// Clocks out of order.
    #[error("a clock at rest is above the highest: expected each at most as high as in max-clocks-mhz")]
    IdleClocks,
    /// A profile off the grid.
    #[error(
        "`{profile}` leaves the grid of {slices} slices: expected at least one start, and start + size within it"
    )]
    Grid {
        /// The profile.
        profile: String,
        /// Slices of the grid.
        slices: u32,
    },
    /// Two profiles of one id.
    #[error("`{profile}` shares its id or enumerator with another profile: number each once")]
    TwinProfiles {
        /// The profile.
        profile: String,
    },
}
