//! `gpulet-sim hold`, `release`, `set`, `clock`: commands that are sent as they are.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use gpulet_simulator::command::{self, Applied, Command, Counter};
use gpulet_simulator::state::ProcessKind;

use super::{Outcome, client, values};

#[derive(Debug, Args)]
pub(super) struct Hold {
    /// GPU index
    gpu: u32,
    /// Process id; it need not exist
    #[arg(long)]
    pid: u32,
    /// Memory that it takes, such as 10GiB; without it the driver does not tell
    #[arg(long, value_parser = values::bytes)]
    memory: Option<u64>,
    /// What kind of context
    #[arg(long, value_enum, default_value_t = Kind::Compute)]
    kind: Kind,
    /// GPU instance and compute instance, in MIG mode
    #[arg(long, value_parser = values::instance, value_name = "GI/CI")]
    instance: Option<(u32, u32)>,
    /// Name that the driver gives it
    #[arg(long, default_value = "python3")]
    name: String,
    /// Its cgroup, such as /kubepods/podUID/ID; without it a service of its program's name
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Compute,
    Graphics,
    Mps,
}

impl Hold {
    pub(super) fn command(self) -> Command {
        Command::Hold(command::Hold {
            gpu: self.gpu,
            pid: self.pid,
            kind: match self.kind {
                Kind::Compute => ProcessKind::Compute,
                Kind::Graphics => ProcessKind::Graphics,
                Kind::Mps => ProcessKind::Mps,
            },
            memory_bytes: self.memory,
            instance: self.instance,
            name: self.name,
            cgroup: self.cgroup,
        })
    }
}

#[derive(Debug, Args)]
pub(super) struct Observe {
    /// GPU index
    gpu: u32,
    /// Process id; it need not exist
    #[arg(long)]
    pid: u32,
    /// The GPU instance that it opens, or the compute instance in it
    #[arg(long, value_parser = values::instance_or_part, value_name = "GI[/CI]")]
    instance: Option<(u32, Option<u32>)>,
    /// Name
    #[arg(long, default_value = "nv-hostengine")]
    name: String,
    /// Its cgroup; without it a service of its program's name
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
}

impl Observe {
    pub(super) fn command(self) -> Command {
        let Self { gpu, pid, instance, name, cgroup } = self;
        Command::Observe(command::Observe { gpu, pid, instance, name, cgroup })
    }
}

#[derive(Debug, Args)]
pub(super) struct Reset {
    /// GPU index
    gpu: u32,
}

impl Reset {
    pub(super) fn command(self) -> Command {
        Command::Reset { gpu: self.gpu }
    }
}

#[derive(Debug, Args)]
pub(super) struct Release {
    /// Process id
    #[arg(long)]
    pid: u32,
    /// One GPU, by index; all that it holds without it
    #[arg(long, value_name = "INDEX")]
    gpu: Option<u32>,
}

impl Release {
    pub(super) fn command(self) -> Command {
        Command::Release { pid: self.pid, gpu: self.gpu }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Set {
    /// A counter, to see it wrap or step back
    Counter {
        /// GPU index
        gpu: u32,
        /// Which
        counter: CounterName,
        /// Its value from now on
        value: u64,
        /// Link number, for the counters of a link
        #[arg(long, default_value_t = 0)]
        link: u32,
    },
    /// The power limit
    PowerLimit {
        /// GPU index
        gpu: u32,
        /// Milliwatts
        milliwatts: u32,
    },
    /// The compute mode
    ComputeMode {
        /// GPU index
        gpu: u32,
        /// 0 default, 2 prohibited, 3 exclusive process
        mode: u32,
    },
    /// Persistence mode
    Persistence {
        /// GPU index
        gpu: u32,
        /// Which of the two
        mode: Switch,
    },
    /// nvidia_drm with mode setting, which has every GPU open
    Modeset {
        /// Whether it is loaded
        mode: Switch,
    },
    /// The temperature of the air or water that reaches the GPU
    Ambient {
        /// °C
        #[arg(allow_negative_numbers = true)]
        celsius: i32,
        /// One GPU, by index; all of them without it
        #[arg(long, value_name = "INDEX")]
        gpu: Option<u32>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum CounterName {
    Energy,
    PcieReplays,
    PcieTransmitted,
    PcieReceived,
    EccVolatileCorrected,
    EccVolatileUncorrected,
    EccAggregateCorrected,
    EccAggregateUncorrected,
    RemappedCorrectable,
    RemappedUncorrectable,
    NvlinkTransmitted,
    NvlinkReceived,
    NvlinkReplays,
    NvlinkCrc,
}

impl CounterName {
    fn counter(self, link: u32) -> Counter {
        match self {
            Self::Energy => Counter::Energy,
            Self::PcieReplays => Counter::PcieReplays,
            Self::PcieTransmitted => Counter::PcieTransmitted,
            Self::PcieReceived => Counter::PcieReceived,
            Self::EccVolatileCorrected => Counter::EccVolatileCorrected,
            Self::EccVolatileUncorrected => Counter::EccVolatileUncorrected,
            Self::EccAggregateCorrected => Counter::EccAggregateCorrected,
            Self::EccAggregateUncorrected => Counter::EccAggregateUncorrected,
            Self::RemappedCorrectable => Counter::RemappedCorrectable,
            Self::RemappedUncorrectable => Counter::RemappedUncorrectable,
            Self::NvlinkTransmitted => Counter::NvlinkTransmitted(link),
            Self::NvlinkReceived => Counter::NvlinkReceived(link),
            Self::NvlinkReplays => Counter::NvlinkReplays(link),
            Self::NvlinkCrc => Counter::NvlinkCrc(link),
        }
    }
}

impl Set {
    pub(super) fn command(self) -> Command {
        match self {
            Self::Counter { gpu, counter, value, link } => {
                Command::SetCounter { gpu, counter: counter.counter(link), value }
            }
            Self::PowerLimit { gpu, milliwatts } => Command::PowerLimit { gpu, milliwatts },
            Self::ComputeMode { gpu, mode } => Command::ComputeMode { gpu, mode },
            Self::Persistence { gpu, mode } => Command::Persistence { gpu, on: mode == Switch::On },
            Self::Modeset { mode } => Command::Modeset { on: mode == Switch::On },
            Self::Ambient { celsius, gpu } => Command::Ambient { gpu, celsius },
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Clock {
    /// Stops it; it then moves by `step` only
    Pause,
    /// Lets it run
    Run {
        /// Simulated seconds per real second
        #[arg(long, default_value_t = 1.0)]
        factor: f64,
    },
    /// Moves it at once
    Step {
        /// By how much: 100ms, 1.5s, 10m, 2h
        #[arg(value_parser = values::duration)]
        by: Duration,
    },
}

impl Clock {
    pub(super) fn command(self) -> Command {
        match self {
            Self::Pause => Command::Pause,
            Self::Run { factor } => Command::Run { factor },
            Self::Step { by } => Command::Step { by },
        }
    }
}

/// Sends a command and says what came of it, if there is something to say.
pub(super) fn send(dir: Option<PathBuf>, command: Command) -> Outcome {
    let mut out = io::stdout();
    match client(dir)?.command(command)? {
        Applied::Done => {}
        Applied::Fault { id } => writeln!(out, "{id}")?,
        Applied::Cleared { count } => writeln!(out, "{count} cleared")?,
        Applied::Clock { clock_us } => writeln!(out, "{}.{:06}", clock_us / 1_000_000, clock_us % 1_000_000)?,
    }
    Ok(ExitCode::SUCCESS)
}
