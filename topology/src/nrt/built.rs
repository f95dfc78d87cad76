//! The object with its reasons.

use super::object::Body;

/// The object, how its figures came about, and what is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Built {
    /// The object.
    pub body: Body,
    /// What was left out or is odd, by reason and subject.
    pub notes: Vec<Note>,
    /// One for each resource of each `Node` zone, in their order.
    pub why: Vec<Account>,
    /// The same of devices that are in no zone, for the node as a whole.
    pub unplaced: Vec<Account>,
}

/// Something that was left out of the object or is odd about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// What it is, in one stable word.
    pub reason: NoteReason,
    /// What it is about: a resource, a zone, a Pod.
    pub subject: String,
    /// What was seen, and what became of it.
    pub message: String,
    /// What a person can do.
    pub remedy: &'static str,
}

/// What a [`Note`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoteReason {
    /// The kernel shows no NUMA node with CPUs, so there is no zone to place Pods in.
    NoCpuNodes,
    /// There are more NUMA nodes with CPUs than schedulers can count.
    TooManyNodes,
    /// The kubelet's topology manager weighs every set of NUMA nodes, and there are very many sets.
    ManyNumaNodes,
    /// Devices that belong to no zone: they count for the node as a whole only.
    DeviceWithoutZone,
    /// The kubelet lists a device with a NUMA node that is not there or has no CPUs.
    UnknownNumaNode,
    /// A Pod has a device that its plugin does not call healthy any more.
    DeviceGone,
    /// The kubelet may give a CPU that is not online.
    CpuOffline,
    /// The kubelet counts memory or huge pages on a NUMA node that is not there, or a kind that is none.
    UnknownMemory,
    /// Pods have more memory than the kubelet says there is to give.
    MemoryOvercommitted,
    /// Memory for the machine is reserved for more than there is, or for a NUMA node that is not there.
    ReservedTooMuch,
    /// A device resource has a name that is not one.
    OddResourceName,
    /// Costs between so many zones would make the object too large.
    CostsLeftOut,
    /// It is not known how the kubelet decides, so that the object does not say.
    SettingsUnknown,
}

impl NoteReason {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::NoCpuNodes,
        Self::TooManyNodes,
        Self::ManyNumaNodes,
        Self::DeviceWithoutZone,
        Self::UnknownNumaNode,
        Self::DeviceGone,
        Self::CpuOffline,
        Self::UnknownMemory,
        Self::MemoryOvercommitted,
        Self::ReservedTooMuch,
        Self::OddResourceName,
        Self::CostsLeftOut,
        Self::SettingsUnknown,
    ];

    /// The stable word for labels and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoCpuNodes => "NoCpuNodes",
            Self::TooManyNodes => "TooManyNodes",
            Self::ManyNumaNodes => "ManyNumaNodes",
            Self::DeviceWithoutZone => "DeviceWithoutZone",
            Self::UnknownNumaNode => "UnknownNumaNode",
            Self::DeviceGone => "DeviceGone",
            Self::CpuOffline => "CpuOffline",
            Self::UnknownMemory => "UnknownMemory",
            Self::MemoryOvercommitted => "MemoryOvercommitted",
            Self::ReservedTooMuch => "ReservedTooMuch",
            Self::OddResourceName => "OddResourceName",
            Self::CostsLeftOut => "CostsLeftOut",
            Self::SettingsUnknown => "SettingsUnknown",
        }
    }
}

/// How the three figures of one resource in one zone came about.
///
/// `allocatable` is `capacity` less all of `kept`; `available` is `allocatable` less all of `taken`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The zone, such as `node-0`; `-` for none.
    pub zone: String,
    /// The resource, such as `nvidia.com/gpu`.
    pub resource: String,
    /// How much there is.
    pub capacity: u64,
    /// Who says so, in words.
    pub source: &'static str,
    /// What is kept from Pods.
    pub kept: Vec<Share>,
    /// How much Pods may have.
    pub allocatable: u64,
    /// What Pods have, in the order of their names.
    pub taken: Vec<Share>,
    /// How much no Pod has.
    pub available: u64,
}

/// A part of a figure and who has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// Who has it, such as `ml/train-0, container main`.
    pub whose: String,
    /// How much: CPUs, bytes or devices.
    pub amount: u64,
    /// Which, where they have names: CPU numbers, device ids.
    pub which: Vec<String>,
}
