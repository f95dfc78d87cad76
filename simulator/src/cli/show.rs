//! `gpulet-sim state`

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use gpulet_simulator::client::Client;
use gpulet_simulator::state::{Effect, GpuState, NodeState};

use super::Outcome;

#[derive(Debug, Args)]
pub(super) struct State {
    /// For people, or the whole of it for programs
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(super) fn run(args: &State, client: &mut Client) -> Outcome {
    let state = client.state()?;
    let mut out = io::stdout().lock();
    match args.output {
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &state)?;
            writeln!(out)?;
        }
        Format::Text => text(&mut out, &state, &client.driver_users()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(out: &mut impl Write, state: &NodeState, users: &[u32]) -> io::Result<()> {
    let driver = &state.driver;
    match (driver.loaded, driver.version.is_empty()) {
        (true, _) => writeln!(out, "driver {}, loaded {} times", driver.version, driver.load)?,
        (false, false) => writeln!(out, "driver {}, not loaded", driver.version)?,
        (false, true) => writeln!(out, "no driver")?,
    }
    if !users.is_empty() {
        let pids: Vec<_> = users.iter().map(u32::to_string).collect();
        writeln!(out, "opened by {}", pids.join(", "))?;
    }
    if !state.gpus.is_empty() {
        writeln!(
            out,
            "\n{:>3}  {:<28} {:>5} {:>15} {:>7} {:>5}  PROCESSES",
            "GPU", "NAME", "BUSY", "MEMORY MiB", "POWER", "TEMP"
        )?;
    }
    for (index, gpu) in state.gpus.iter().enumerate() {
        writeln!(out, "{index:>3}  {}", line(gpu))?;
    }
    for fault in &state.faults {
        let gpu = fault.gpu.map_or("every GPU".to_owned(), |gpu| format!("GPU {gpu}"));
        let symbol = fault.symbol.as_deref().unwrap_or("every call");
        let effect = match fault.effect {
            Effect::Return(code) => format!("returns {code}"),
            Effect::Block => "does not return".to_owned(),
        };
        writeln!(out, "fault {}: {gpu}, {symbol} {effect}", fault.id)?;
    }
    Ok(())
}

fn line(gpu: &GpuState) -> String {
    if !gpu.is_reachable() {
        return format!("{:<28} {}", gpu.board.name, if gpu.lost { "lost" } else { "not bound" });
    }
    let [busy, ..] = gpu.now.utilization;
    let memory = format!("{}/{}", gpu.now.memory_used_bytes >> 20, gpu.board.memory_bytes >> 20);
    let pids: Vec<_> = gpu.processes.iter().map(|process| process.pid.to_string()).collect();
    let (watts, celsius) = (gpu.now.power_average_mw / 1000, gpu.now.temperature_c);
    format!("{:<28} {busy:>4}% {memory:>15} {watts:>5} W {celsius:>3} C  {}", gpu.board.name, pids.join(" "))
}
