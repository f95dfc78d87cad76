//! The node's `nvidia-smi`: resets GPUs, sets persistence and MIG mode, lists devices, divides GPUs (`mig`).

mod mig;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use gpulet_simulator::client::{Client, ClientError};
use gpulet_simulator::command::{Command, RESET_SYMBOL, Refusal};
use gpulet_simulator::state::{GpuState, NodeState};

use crate::cli::{Failure, Outcome};

/// Exit codes of the real program, which are those of the driver's library.
const INVALID: u8 = 2;
const NOT_SUPPORTED: u8 = 3;
const NO_PERMISSION: u8 = 4;
const NOT_FOUND: u8 = 6;
const NO_DRIVER: u8 = 9;
const LOST: u8 = 15;
const IN_USE: u8 = 19;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Ask {
    List,
    Reset,
    Persistence(bool),
    Mig(bool),
}

/// Refuses, in the words of the real program's kind.
fn refuse<T>(code: u8, message: String) -> Result<T, Failure> {
    Err(Failure { error: anyhow::Error::msg(message), code })
}

pub(super) fn run(arguments: &[String], client: &mut Client) -> Outcome {
    if let Some((_, arguments)) = arguments.split_first().filter(|(first, _)| *first == "mig") {
        return mig::run(arguments, client);
    }
    let (ask, ids) = parse(arguments).or_else(|message| refuse(INVALID, message))?;
    let state = with_driver(client)?;
    let gpus =
        chosen(&state, &ids).or_else(|id| refuse(NOT_FOUND, format!("No devices were found: {id}")))?;
    match ask {
        Ask::List => io::stdout().write_all(list(&state, &gpus).as_bytes())?,
        Ask::Reset => return reset(client, &state, &gpus),
        Ask::Mig(on) => return mig::set_mode(client, &state, &gpus, on),
        Ask::Persistence(on) => {
            for gpu in gpus {
                client.command(Command::Persistence { gpu, on })?;
                let word = if on { "Enabled" } else { "Disabled" };
                let at = state.gpus.get(gpu as usize).map(address).unwrap_or_default();
                writeln!(io::stdout(), "{word} persistence mode for GPU {at}.")?;
            }
            writeln!(io::stdout(), "All done.")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The node's state, where the driver lets this program in.
fn with_driver(client: &mut Client) -> Result<NodeState, Failure> {
    let state = client.state()?;
    match &state.driver {
        driver if !driver.loaded => {
            refuse(NO_DRIVER, "couldn't communicate with the NVIDIA driver: it is not loaded".to_owned())
        }
        driver if driver.no_permission => refuse(NO_PERMISSION, "Insufficient Permissions".to_owned()),
        _ => Ok(state),
    }
}

fn parse(arguments: &[String]) -> Result<(Ask, Vec<String>), String> {
    let (mut ask, mut ids) = (Ask::List, Vec::new());
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        let (name, value) = argument.split_once('=').map_or((argument, None), |(n, v)| (n, Some(v)));
        let mut value = || value.or_else(|| rest.next()).ok_or_else(|| format!("{name} needs a value"));
        match name {
            "-L" | "--list-gpus" => ask = Ask::List,
            "-r" | "--gpu-reset" => ask = Ask::Reset,
            "-i" | "--id" => ids.extend(value()?.split(',').map(str::to_owned)),
            "-pm" | "--persistence-mode" => ask = Ask::Persistence(switch(value()?)?),
            "-mig" | "--multi-instance-gpu" => ask = Ask::Mig(switch(value()?)?),
            _ => return Err(format!("{argument} is not simulated: see gpulet-sim --help for what is")),
        }
    }
    Ok((ask, ids))
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" | "DISABLED" => Ok(false),
        "1" | "ENABLED" => Ok(true),
        other => Err(format!("{other} is neither 0 nor 1")),
    }
}

/// Indices, as commands have them, of the GPUs that are named by number, UUID or PCI address; of all without names.
fn chosen(state: &NodeState, ids: &[String]) -> Result<Vec<u32>, String> {
    let there: Vec<(u32, &GpuState)> = (0..).zip(&state.gpus).filter(|(_, gpu)| gpu.bound).collect();
    if ids.is_empty() {
        return Ok(there.iter().map(|(index, _)| *index).collect());
    }
    let find = |id: &String| {
        let numbered = id.parse::<usize>().ok().and_then(|number| there.get(number));
        let is_it =
            |gpu: &GpuState| gpu.identity.uuid == *id || address(gpu).ends_with(&id.to_ascii_uppercase());
        let named = || there.iter().find(|(_, gpu)| id.contains(['-', ':']) && is_it(gpu));
        numbered.or_else(named).map(|(index, _)| *index).ok_or_else(|| id.clone())
    };
    ids.iter().map(find).collect()
}

/// As the real program prints it: eight digits for the domain, in capitals.
fn address(gpu: &GpuState) -> String {
    let of = &gpu.identity;
    format!("{:08X}:{:02X}:{:02X}.0", of.pci_domain, of.pci_bus, of.pci_device)
}

fn list(state: &NodeState, gpus: &[u32]) -> String {
    let mut text = String::new();
    let there = state.gpus.iter().filter(|gpu| gpu.bound);
    let indexed = (0..).zip(&state.gpus).filter(|(_, gpu)| gpu.bound).map(|(index, _): (u32, _)| index);
    for (number, (gpu, _)) in there.zip(indexed).enumerate().filter(|(_, (_, index))| gpus.contains(index)) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "GPU {number}: {} (UUID: {})", gpu.board.name, gpu.identity.uuid);
        let computes = gpu.mig.iter().flat_map(|mig| mig.instances.iter().map(move |gi| (mig, gi)));
        let computes = computes.flat_map(|(mig, gi)| gi.compute.iter().map(move |ci| (mig, gi, ci)));
        for (device, (mig, gi, ci)) in computes.enumerate() {
            let profile = mig.profiles.get(&gi.profile).and_then(|profile| profile.compute.get(&ci.profile));
            let name = profile.map_or("?", |profile| profile.name.as_str());
            let _ = writeln!(text, "  MIG {name:<15} Device {device:>2}: (UUID: {})", ci.uuid);
        }
    }
    text
}

/// Resets one after the other; tells all that could not be, and who is in the way.
fn reset(client: &mut Client, state: &NodeState, gpus: &[u32]) -> Outcome {
    let mut out = io::stdout();
    let mut refused = Vec::new();
    for gpu in gpus {
        let at = state.gpus.get(*gpu as usize).map(address).unwrap_or_default();
        match reset_one(client, *gpu)? {
            None => writeln!(out, "GPU {at} was successfully reset.")?,
            Some((code, why)) => refused.push((code, format!("  GPU {at}: {why}"))),
        }
    }
    let Some((code, _)) = refused.first() else {
        writeln!(out, "All done.")?;
        return Ok(ExitCode::SUCCESS);
    };
    let lines: Vec<&str> = refused.iter().map(|(_, line)| line.as_str()).collect();
    writeln!(out, "These GPUs could not be reset:\n{}", lines.join("\n"))?;
    Ok(ExitCode::from(*code))
}

/// Why it was not reset, and the code for that.
fn reset_one(client: &mut Client, gpu: u32) -> Result<Option<(u8, String)>, Failure> {
    let told = |code: u32| Some((u8::try_from(code).unwrap_or(u8::MAX), format!("Unknown Error ({code})")));
    client.announce_change(gpu)?;
    if let Err(code) = client.obey(RESET_SYMBOL, gpu, false)? {
        return Ok(told(code));
    }
    let in_use = |who: String| Some((IN_USE, format!("In use by another client: {who}")));
    let refusal = match client.command(Command::Reset { gpu }) {
        Ok(_) => return Ok(client.obey(RESET_SYMBOL, gpu, true)?.err().and_then(told)),
        Err(ClientError::Refused(refusal)) => refusal,
        Err(error) => return Err(error.into()),
    };
    Ok(match refusal {
        Refusal::InUse { pids } => in_use(names(&client.state()?, gpu, &pids).join(", ")),
        Refusal::Persistent { .. } => in_use("persistence mode is on".to_owned()),
        Refusal::ModesetActive => in_use("nvidia_drm has it open".to_owned()),
        Refusal::ResetNotPossible { .. } => Some((NOT_SUPPORTED, "Not Supported".to_owned())),
        Refusal::GpuLost { .. } => Some((LOST, "GPU is lost".to_owned())),
        other => return Err(other.into()),
    })
}

/// Processes with the names of their programs: of the simulated ones by the state, of real ones by the kernel.
fn names(state: &NodeState, gpu: u32, pids: &[u32]) -> Vec<String> {
    let gpu = state.gpus.get(gpu as usize);
    let name = |pid: &u32| {
        let working = gpu.iter().flat_map(|gpu| &gpu.processes).find(|process| process.pid == *pid);
        let watching = gpu.iter().flat_map(|gpu| &gpu.observers).find(|observer| observer.pid == *pid);
        let simulated = working.map(|of| of.name.clone()).or_else(|| watching.map(|of| of.name.clone()));
        let real = || std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        let name = simulated.or_else(real).unwrap_or_default();
        format!("process {pid} ({})", name.trim())
    };
    pids.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<(Ask, Vec<String>), String> {
        parse(&arguments.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_asked_for_stands_in_any_order() {
        let one = vec!["0000:07:00.0".to_owned()];
        assert_eq!(parsed(&["--gpu-reset", "-i", "0000:07:00.0"]), Ok((Ask::Reset, one.clone())));
        assert_eq!(parsed(&["--id=0000:07:00.0", "-r"]), Ok((Ask::Reset, one)));
        assert_eq!(
            parsed(&["-i", "0,1", "-pm", "0"]),
            Ok((Ask::Persistence(false), vec!["0".into(), "1".into()]))
        );
        assert_eq!(parsed(&[]), Ok((Ask::List, vec![])));
        for wrong in [&["-i"][..], &["-pm", "2"], &["-q"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
