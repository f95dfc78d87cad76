//! `gpulet-sim exec`
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};

use anyhow::Context;
use clap::Args;
use gpulet_simulator::{ClockMode, SimulatedNode};
use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::{Pid, getpid, getppid};

use super::Outcome;

#[derive(Debug, Args)]
pub(super) struct Exec {
    /// Name of a shipped node, or path of a YAML file of the same form
    node: String,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(exec: &Exec) -> Outcome {
    // Before any thread is started, so that no thread takes a signal away from the descriptor.
    let mut signals = SigSet::empty();
    [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]
        .into_iter()
        .for_each(|s| signals.add(s));
    let own = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK).context("cannot block signals")?;
    let signals = SignalFd::new(&signals).context("cannot receive signals")?;

    let dir = tempfile::Builder::new()
        .prefix("gpulet-sim-")
        .tempdir()
        .context("cannot make a directory for the node")?;
    let node = SimulatedNode::start(&exec.node, dir.path(), ClockMode::Real)?;
    let status = start(&exec.command, &node, own).and_then(|child| attend(child, &signals))?;
    drop(node);
    let path = dir.path().to_owned();
    dir.close().with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(exit_code(status))
}

/// Runs the command with the signal mask that this program was started with. However this program ends, the command does
/// not outlive its node.
fn start(command: &[OsString], node: &SimulatedNode, mask: SigSet) -> anyhow::Result<Child> {
    let (program, arguments) = command.split_first().context("there is no command to run")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(node.environment());
    let parent = getpid();
    let prepare = move || -> io::Result<()> {
        set_pdeathsig(Signal::SIGKILL)?;
        // It may have ended before that.
        if getppid() != parent {
            return Err(Errno::ESRCH.into());
        }
        Ok(mask.thread_set_mask()?)
    };
    // SAFETY: between fork and exec it makes system calls only (prctl, getppid, the signal mask) and turns error numbers
    // into errors, neither of which allocates or takes a lock.
    unsafe { command.pre_exec(prepare) };
    command.spawn().with_context(|| format!("cannot run {}", program.display()))
}

/// Passes signals on to the command until it ends.
fn attend(mut child: Child, signals: &SignalFd) -> anyhow::Result<ExitStatus> {
    /// `si_code` of what the terminal sends: the command has received it, too.
    const FROM_THE_KERNEL: i32 = 0x80;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            return Ok(status);
        }
        let Some(received) = signals.read_signal().context("cannot receive signals")? else { continue };
        let signal = i32::try_from(received.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
        if let Some(signal) = signal.filter(|signal| *signal != Signal::SIGCHLD)
            && received.ssi_code != FROM_THE_KERNEL
        {
            // A command that has just ended is noticed in the next round.
            let _ended = kill(Pid::from_raw(child.id().cast_signed()), signal);
        }
    }
}

/// The command's exit code; for one that a signal ended, what shells make of it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
