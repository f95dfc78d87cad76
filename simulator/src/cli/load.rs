//! `gpulet-sim load`

use clap::{Args, Subcommand};
use gpulet_simulator::command::{self, Command};

#[derive(Debug, Args)]
pub(super) struct Load {
    /// One GPU, by index; all of them without it
    #[arg(long, value_name = "INDEX")]
    gpu: Option<u32>,
    #[command(subcommand)]
    script: Script,
}

#[derive(Debug, Subcommand)]
enum Script {
    /// Nothing runs
    Idle,
    /// The same work all the time
    Steady {
        /// Share of the GPU, percent
        percent: u32,
    },
    /// Work that grows or shrinks evenly, then stays
    Ramp {
        /// At first, percent
        from: u32,
        /// At last, percent
        to: u32,
        /// Seconds in between
        seconds: u32,
    },
    /// Work that comes and goes
    Burst {
        /// Between bursts, percent
        low: u32,
        /// In bursts, percent
        high: u32,
        /// Seconds from one burst to the next
        #[arg(long, default_value_t = 10)]
        period: u32,
        /// Share of the period that a burst lasts, percent
        #[arg(long, default_value_t = 50)]
        duty: u32,
    },
    /// Distributed training
    Training,
    /// Serving a model
    Inference,
}

impl Load {
    pub(super) fn command(self) -> Command {
        let load = match self.script {
            Script::Idle => command::Load::Idle,
            Script::Steady { percent } => command::Load::Steady { percent },
            Script::Ramp { from, to, seconds } => command::Load::Ramp { from, to, seconds },
            Script::Burst { low, high, period, duty } => command::Load::Burst { low, high, period, duty },
            Script::Training => command::Load::Training,
            Script::Inference => command::Load::Inference,
        };
        Command::Load { gpu: self.gpu, load }
    }
}
