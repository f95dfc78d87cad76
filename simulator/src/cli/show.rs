//! `gpulet-sim state`

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use gpulet_simulator::client::Client;
use gpulet_simulator::state::{Effect, Fault, GpuState, MigState, NodeState};

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
        gpu.mig.iter().try_for_each(|mig| instances(out, gpu, mig))?;
    }
    for fault in &state.faults {
        let gpu = fault.gpu.map_or("every GPU".to_owned(), |gpu| format!("GPU {gpu}"));
        let symbol = fault.symbol.as_deref().unwrap_or("every call");
        let effect = match fault.effect {
            Effect::Return(code) => format!("returns {code}"),
            Effect::Block => "does not return".to_owned(),
            Effect::Delay(ms) => format!("takes {ms} ms longer"),
        };
        writeln!(out, "fault {}: {gpu}, {symbol} {effect}{}", fault.id, counted(fault))?;
    }
    Ok(())
}

/// What a fault that strikes calls by their number has done so far.
fn counted(fault: &Fault) -> String {
    let Some(strike) = fault.strike else { return String::new() };
    let which = if strike.changing { ", calls that change a GPU" } else { "" };
    let when = if strike.after { ", when it is done" } else { "" };
    let (nth, last) = (strike.nth, strike.nth.saturating_add(strike.times - 1));
    let (seen, struck) = (strike.seen, strike.struck);
    format!("{which}{when}, from call {nth} to {last}: {seen} counted, {struck} struck")
}

/// MIG mode, and the instances with their places and who is in them.
fn instances(out: &mut impl Write, gpu: &GpuState, mig: &MigState) -> io::Result<()> {
    match mig.mode {
        (false, false) => return Ok(()),
        (true, true) => {}
        (_, true) => writeln!(out, "     MIG on after a reset")?,
        (_, false) => writeln!(out, "     MIG off after a reset")?,
    }
    if mig.mode.0 && mig.instances.is_empty() {
        writeln!(out, "     MIG on, no instances")?;
    }
    for gi in &mig.instances {
        let profile = mig.profiles.get(&gi.profile);
        let name = profile.map_or("?", |profile| profile.name.as_str());
        let (start, size) = gi.placement;
        writeln!(out, "     GPU instance {:>2}  {name} at {start}:{size}", gi.id)?;
        for ci in &gi.compute {
            let name = profile.and_then(|profile| profile.compute.get(&ci.profile));
            let name = name.map_or("?", |profile| profile.name.as_str());
            let inside = gpu.processes.iter().filter(|process| process.instance == Some((gi.id, ci.id)));
            let pids: Vec<_> = inside.map(|process| process.pid.to_string()).collect();
            let (start, size) = ci.placement;
            let line = format!("{name} at {start}:{size}  {}  {}", ci.uuid, pids.join(" "));
            writeln!(out, "       compute instance {}  {}", ci.id, line.trim_end())?;
        }
    }
    Ok(())
}

fn line(gpu: &GpuState) -> String {
    if !gpu.is_reachable() {
        return format!("{:<28} {}", gpu.board.name, if gpu.lost { "lost" } else { "not bound" });
    }
    let [busy, ..] = gpu.now.utilization;
    let memory = format!("{}/{}", gpu.now.memory_used_bytes >> 20, gpu.board.memory_bytes >> 20);
    let mut pids: Vec<_> = gpu.processes.iter().map(|process| process.pid.to_string()).collect();
    // Those that only have it open.
    pids.extend(gpu.observers.iter().map(|observer| format!("({})", observer.pid)));
    let (watts, celsius) = (gpu.now.power_average_mw / 1000, gpu.now.temperature_c);
    format!("{:<28} {busy:>4}% {memory:>15} {watts:>5} W {celsius:>3} C  {}", gpu.board.name, pids.join(" "))
}
