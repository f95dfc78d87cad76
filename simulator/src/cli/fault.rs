//! `gpulet-sim fault`

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use gpulet_simulator::command::Command;
use gpulet_simulator::state::Effect;

use super::values;

#[derive(Debug, Subcommand)]
pub(super) enum Fault {
    /// A call to the driver returns a code, or does not return; prints the number by which it is cleared
    Call(Call),
    /// Clears one fault on calls, or all of them
    Clear {
        /// Its number
        id: Option<u64>,
    },
    /// A GPU falls off the bus
    Lose {
        /// GPU index
        gpu: u32,
    },
    /// A lost GPU comes back, freshly reset
    Restore {
        /// GPU index
        gpu: u32,
    },
    /// A GPU is taken away from the driver, which then numbers the others anew; commands do not
    Unbind {
        /// GPU index
        gpu: u32,
    },
    /// A GPU is given back to the driver
    Bind {
        /// GPU index
        gpu: u32,
    },
    /// The driver reports an Xid
    Xid {
        /// GPU index
        gpu: u32,
        /// Xid number
        code: u64,
        /// How often
        #[arg(long, default_value_t = 1, value_name = "N")]
        times: u32,
        /// GPU instance and compute instance that caused it
        #[arg(long, value_parser = values::instance, value_name = "GI/CI")]
        instance: Option<(u32, u32)>,
    },
    /// An NVLink goes down or up
    Link(Link),
    /// The kernel module is unloaded or loaded
    #[command(subcommand)]
    Driver(Driver),
    /// The driver denies access, as to a user who may not open the device files, or grants it again
    Permission {
        /// Which of the two
        access: Access,
    },
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("effect").required(true)))]
pub(super) struct Call {
    /// One GPU, by index; every GPU, and calls that concern none, without it
    #[arg(long, value_name = "INDEX")]
    gpu: Option<u32>,
    /// One symbol, such as nvmlDeviceGetPowerUsage; every call without it
    #[arg(long, value_parser = values::symbol)]
    symbol: Option<String>,
    /// It returns this code: NOT_SUPPORTED, GPU_IS_LOST, … or a number
    #[arg(long = "return", group = "effect", value_parser = values::return_code, value_name = "CODE")]
    code: Option<u32>,
    /// It does not return until the fault is cleared
    #[arg(long, group = "effect")]
    block: bool,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("state").required(true)))]
pub(super) struct Link {
    /// GPU index
    gpu: u32,
    /// Link number
    link: u32,
    /// It goes down
    #[arg(long, group = "state")]
    down: bool,
    /// It comes up
    #[arg(long, group = "state")]
    up: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Driver {
    /// Unloads it; refused while somebody uses it
    Unload {
        /// Even then
        #[arg(long)]
        force: bool,
    },
    /// Loads it
    Load {
        /// Another version than the last one, such as 470.57.02
        #[arg(long)]
        version: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Access {
    /// Access is denied
    Denied,
    /// Access is granted
    Granted,
}

impl Fault {
    pub(super) fn command(self) -> Command {
        match self {
            Self::Call(Call { gpu, symbol, code, .. }) => {
                Command::SetFault { gpu, symbol, effect: code.map_or(Effect::Block, Effect::Return) }
            }
            Self::Clear { id } => Command::ClearFault { id },
            Self::Lose { gpu } => Command::Lose { gpu },
            Self::Restore { gpu } => Command::Restore { gpu },
            Self::Unbind { gpu } => Command::Bind { gpu, bound: false },
            Self::Bind { gpu } => Command::Bind { gpu, bound: true },
            Self::Xid { gpu, code, times, instance } => Command::Xid { gpu, code, times, instance },
            Self::Link(Link { gpu, link, up, .. }) => Command::Link { gpu, link, up },
            Self::Driver(Driver::Unload { force }) => Command::UnloadDriver { force },
            Self::Driver(Driver::Load { version }) => Command::LoadDriver { version },
            Self::Permission { access } => Command::Permission { denied: access == Access::Denied },
        }
    }
}
