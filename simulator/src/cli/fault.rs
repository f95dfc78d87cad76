//! `gpulet-sim fault`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use gpulet_simulator::command::{Command, Strike};
use gpulet_simulator::state::Effect;

use super::{Outcome, act, client, values};

#[derive(Debug, Subcommand)]
pub(super) enum Fault {
    /// A call to the driver returns a code, or does not return; prints the number by which it is cleared
    ///
    /// With --nth, --times, --changing or --after it strikes calls by their number, counted from now over all processes, and is
    /// then spent.
    Call(Call),
    /// Waits until a fault that strikes calls by their number has struck
    Wait(Wait),
    #[command(flatten)]
    Other(Other),
}

/// Faults that are commands as they are.
#[derive(Debug, Subcommand)]
pub(super) enum Other {
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
    /// It takes so much longer, such as 1.5s
    #[arg(long, group = "effect", value_parser = values::duration, value_name = "TIME")]
    delay: Option<Duration>,
    /// Calls count only that are to change a GPU: creation, destruction, MIG mode, persistence mode
    #[arg(long)]
    changing: bool,
    /// The first call that it strikes, from 1
    #[arg(long, value_name = "N")]
    nth: Option<u64>,
    /// How many calls it strikes
    #[arg(long, value_name = "COUNT")]
    times: Option<u64>,
    /// It strikes when the call has had its effect; calls that fail by themselves do not count
    #[arg(long)]
    after: bool,
}

impl Call {
    fn command(self) -> Command {
        let delay = self.delay.map(|delay| Effect::Delay(delay.as_millis().try_into().unwrap_or(u32::MAX)));
        let effect = self.code.map(Effect::Return).or(delay).unwrap_or(Effect::Block);
        let Self { gpu, symbol, changing, nth, times, after, .. } = self;
        if !changing && nth.is_none() && times.is_none() && !after {
            return Command::SetFault { gpu, symbol, effect };
        }
        let (nth, times) = (nth.unwrap_or(1), times.unwrap_or(1));
        Command::Strike(Strike { gpu, symbol, changing, nth, times, after, effect })
    }
}

#[derive(Debug, Args)]
pub(super) struct Wait {
    /// Its number
    id: u64,
    /// For how long at most
    #[arg(long, value_parser = values::duration, default_value = "30s")]
    timeout: Duration,
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

/// How often it is looked whether a fault has struck.
const ROUND: Duration = Duration::from_millis(10);

pub(super) fn run(fault: Fault, dir: Option<PathBuf>) -> Outcome {
    match fault {
        Fault::Call(call) => act::send(dir, call.command()),
        Fault::Wait(wait) => until_struck(&wait, dir),
        Fault::Other(other) => act::send(dir, other.command()),
    }
}

fn until_struck(wait: &Wait, dir: Option<PathBuf>) -> Outcome {
    let mut client = client(dir)?;
    let deadline = Instant::now() + wait.timeout;
    let id = wait.id;
    loop {
        let faults = client.state()?.faults;
        let fault = faults.iter().find(|fault| fault.id == id);
        let fault = fault.ok_or_else(|| anyhow!("there is no fault {id} in force"))?;
        let strike = fault.strike.ok_or_else(|| anyhow!("fault {id} strikes every call and counts none"))?;
        if strike.struck > 0 {
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= deadline {
            return Err(
                anyhow!("fault {id} has struck no call of the {} that it has counted", strike.seen).into()
            );
        }
        std::thread::sleep(ROUND);
    }
}

impl Other {
    fn command(self) -> Command {
        match self {
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
