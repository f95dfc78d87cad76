//! A simulated kubelet: its decisions, its PodResources service, and what it leaves on disk.
//!
//! ```text
//! Pods, plugins ─▶ allocator (pure: devices, cpus, memory, topology manager) ─▶ answer ─▶ serving: kubelet.sock
//!                     │                                                          faults ─┘
//!                     └─▶ checkpoint, files: cpu_manager_state, memory_manager_state, kubelet_internal_checkpoint, …
//! ```
//! The decisions are those of Kubernetes 1.36 (`pkg/kubelet/cm`).

mod allocation;
mod allocator;
mod answer;
mod behaviour;
mod capacity;
mod checkpoint;
mod cpus;
mod devices;
mod files;
mod hints;
mod limiter;
mod machine;
mod memory;
mod pod;
mod pod_resources;
mod quantity;
mod rejection;
mod service;
pub(crate) mod serving;
mod settings;
mod simulated_kubelet;
#[cfg(test)]
mod tests;
mod topology_manager;
mod transcript;

pub use self::allocator::{Allocator, Stage};
pub use self::behaviour::{Behaviour, Fault, GetOffer};
pub use self::checkpoint::{CpuState, DeviceState, MemoryState};
pub use self::devices::{Choice, Device, Question};
pub use self::machine::{Core, HugePages, Machine, NumaNode};
pub use self::pod::{Amounts, Container, Pod};
pub use self::quantity::{ParseQuantityError, Quantity};
pub use self::rejection::Rejection;
pub use self::settings::{
    CpuPolicy, MemoryPolicy, ReservedMemory, Settings, SettingsError, TopologyPolicy, TopologyScope,
};
pub use self::simulated_kubelet::{KubeletError, SimulatedKubelet};
pub use self::transcript::{Answer, Difference, Step, Transcript, Unit, Verdict};
