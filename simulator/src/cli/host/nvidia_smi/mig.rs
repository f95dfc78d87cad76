//! `nvidia-smi -mig` and `nvidia-smi mig`: a person divides GPUs by hand.

use std::io::{self, Write};
use std::process::ExitCode;

use gpulet_simulator::client::Client;
use gpulet_simulator::driver_call::{Called, DriverCall};
use gpulet_simulator::state::{GiProfileState, GpuInstanceState, MigState, NodeState};

use super::{INVALID, address, chosen, refuse, with_driver};
use crate::cli::{Failure, Outcome};

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Ask {
    /// Profiles by id or name, each with a first unit behind a colon or none; whether with compute instances.
    Create(Vec<String>, bool),
    DestroyInstances,
    DestroyComputes,
    ListInstances,
}

/// Numbers of GPU instances and of compute instances; all without.
#[derive(Debug, Default, PartialEq, Eq)]
struct Which {
    gpus: Vec<String>,
    instances: Option<Vec<u32>>,
    computes: Option<Vec<u32>>,
}

pub(super) fn set_mode(client: &mut Client, state: &NodeState, gpus: &[u32], on: bool) -> Outcome {
    let mut out = io::stdout();
    for gpu in gpus {
        let at = state.gpus.get(*gpu as usize).map(address).unwrap_or_default();
        let word = if on { "enable" } else { "disable" };
        match change(client, state.driver.load, DriverCall::SetMigMode { gpu: *gpu, on })? {
            Ok(Called::Mode { activation: 0 }) => writeln!(out, "MIG mode {word}d for GPU {at}.")?,
            Ok(Called::Mode { activation }) => {
                writeln!(
                    out,
                    "Warning: MIG mode is in pending {word} state for GPU {at}: {}",
                    words(activation)
                )?;
            }
            Ok(_) => {}
            Err(code) => return failed(code, &format!("cannot {word} MIG mode for GPU {at}")),
        }
    }
    writeln!(out, "All done.")?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn run(arguments: &[String], client: &mut Client) -> Outcome {
    let (ask, which) = parse(arguments).or_else(|message| refuse(INVALID, message))?;
    let state = with_driver(client)?;
    let gpus = chosen(&state, &which.gpus).or_else(|id| refuse(super::NOT_FOUND, format!("no GPU {id}")))?;
    for gpu in gpus {
        // What cannot be divided is passed over where all are meant, as those are that are not in MIG mode.
        let mig = state.gpus.get(gpu as usize).and_then(|of| of.mig.as_ref()).filter(|mig| mig.mode.0);
        let Some(mig) = mig else { continue };
        let done = match &ask {
            Ask::ListInstances => list(gpu, mig).map(|()| 0)?,
            Ask::Create(profiles, computes) => create(client, &state, gpu, profiles, *computes)?,
            Ask::DestroyInstances => destroy_instances(client, &state, gpu, mig, &which)?,
            Ask::DestroyComputes => destroy_computes(client, &state, gpu, mig, &which)?,
        };
        if done != 0 {
            return failed(done, &format!("GPU {gpu}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Has the driver change a GPU.
fn change(client: &mut Client, load: u64, call: DriverCall) -> Result<Result<Called, u32>, Failure> {
    client.announce_change(call.gpu())?;
    Ok(client.call(load, call)?)
}

fn failed(code: u32, what: &str) -> Outcome {
    refuse(u8::try_from(code).unwrap_or(u8::MAX), format!("{what}: {}", words(code)))
}

fn words(code: u32) -> String {
    match code {
        2 => "Invalid Argument".to_owned(),
        3 => "Not Supported".to_owned(),
        16 => "GPU requires reset".to_owned(),
        19 => "In use by another client".to_owned(),
        23 => "Insufficient Resources".to_owned(),
        other => format!("error {other}"),
    }
}

fn parse(arguments: &[String]) -> Result<(Ask, Which), String> {
    let (mut ask, mut which, mut with_computes) = (None, Which::default(), false);
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument {
            "-i" | "--id" => which.gpus.extend(value()?.split(',').map(str::to_owned)),
            "-gi" | "--gpu-instance-id" => which.instances = Some(numbers(value()?)?),
            "-ci" | "--compute-instance-id" => which.computes = Some(numbers(value()?)?),
            "-C" | "--default-compute-instance" => with_computes = true,
            "-cgi" | "--create-gpu-instance" => {
                ask = Some(Ask::Create(value()?.split(',').map(str::to_owned).collect(), false));
            }
            "-dgi" | "--destroy-gpu-instance" => ask = Some(Ask::DestroyInstances),
            "-dci" | "--destroy-compute-instance" => ask = Some(Ask::DestroyComputes),
            "-lgi" | "--list-gpu-instances" => ask = Some(Ask::ListInstances),
            other => return Err(format!("mig {other} is not simulated")),
        }
    }
    match ask {
        Some(Ask::Create(profiles, _)) => Ok((Ask::Create(profiles, with_computes), which)),
        Some(ask) => Ok((ask, which)),
        None => Err("mig needs one of -cgi, -dgi, -dci, -lgi".to_owned()),
    }
}

fn numbers(text: &str) -> Result<Vec<u32>, String> {
    text.split(',').map(|number| number.parse().map_err(|_| format!("{number} is no number"))).collect()
}

fn list(gpu: u32, mig: &MigState) -> io::Result<()> {
    let mut out = io::stdout();
    for instance in &mig.instances {
        let profile = mig.profiles.get(&instance.profile);
        let (name, id) = profile.map_or(("?", 0), |profile| (profile.name.as_str(), profile.id));
        let (start, size) = instance.placement;
        writeln!(
            out,
            "GPU {gpu}  MIG {name:<14} profile {id:>2}  instance {:>2}  {start}:{size}",
            instance.id
        )?;
    }
    Ok(())
}

/// The code with which the first was refused; 0 where all were created.
fn create(
    client: &mut Client,
    state: &NodeState,
    gpu: u32,
    profiles: &[String],
    computes: bool,
) -> Result<u32, Failure> {
    let load = state.driver.load;
    let mig = state.gpus.get(gpu as usize).and_then(|gpu| gpu.mig.as_ref());
    for wanted in profiles {
        let (name, start) = wanted.split_once(':').map_or((wanted.as_str(), None), |(n, s)| (n, Some(s)));
        let is_it = |profile: &&GiProfileState| profile.name == name || profile.id.to_string() == name;
        let found = mig.and_then(|mig| mig.profiles.values().find(is_it));
        let Some(profile) = found else { return Ok(u32::from(INVALID)) };
        let start = start.map(|start| numbers(start).map(|starts| starts.first().copied().unwrap_or(0)));
        let start = start.transpose().or_else(|message| refuse(INVALID, message))?;
        let size = profile.placements.first().map_or(1, |(_, size)| *size);
        let placement = start.map(|start| (start, size));
        let call = DriverCall::CreateGpuInstance { gpu, profile: profile.id, placement };
        let gpu_instance = match change(client, load, call)? {
            Ok(Called::Created { id }) => id,
            Ok(_) => continue,
            Err(code) => return Ok(code),
        };
        writeln!(io::stdout(), "Created GPU instance {gpu_instance} on GPU {gpu}: MIG {}", profile.name)?;
        let whole = profile.compute.values().find(|compute| compute.slices == profile.slices);
        let Some(compute) = whole.filter(|_| computes) else { continue };
        let (profile, placement) = (compute.id, None);
        let call = DriverCall::CreateComputeInstance { gpu, gpu_instance, profile, placement };
        if let Err(code) = change(client, load, call)? {
            return Ok(code);
        }
    }
    Ok(0)
}

fn chosen_instances<'a>(mig: &'a MigState, which: &'a Which) -> impl Iterator<Item = &'a GpuInstanceState> {
    let meant = |id: u32| which.instances.as_ref().is_none_or(|ids| ids.contains(&id));
    mig.instances.iter().filter(move |instance| meant(instance.id))
}

fn destroy_instances(
    client: &mut Client,
    state: &NodeState,
    gpu: u32,
    mig: &MigState,
    which: &Which,
) -> Result<u32, Failure> {
    for instance in chosen_instances(mig, which) {
        let call = DriverCall::DestroyGpuInstance { gpu, gpu_instance: instance.id };
        if let Err(code) = change(client, state.driver.load, call)? {
            return Ok(code);
        }
    }
    Ok(0)
}

fn destroy_computes(
    client: &mut Client,
    state: &NodeState,
    gpu: u32,
    mig: &MigState,
    which: &Which,
) -> Result<u32, Failure> {
    let meant = |id: u32| which.computes.as_ref().is_none_or(|ids| ids.contains(&id));
    for instance in chosen_instances(mig, which) {
        for compute in instance.compute.iter().filter(|compute| meant(compute.id)) {
            let (gpu_instance, compute_instance) = (instance.id, compute.id);
            let call = DriverCall::DestroyComputeInstance { gpu, gpu_instance, compute_instance };
            if let Err(code) = change(client, state.driver.load, call)? {
                return Ok(code);
            }
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<(Ask, Which), String> {
        parse(&arguments.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn instances_are_named_by_numbers() {
        let (ask, which) = parsed(&["-cgi", "19,1g.10gb:4", "-C", "-i", "0"]).unwrap();
        assert_eq!(ask, Ask::Create(vec!["19".into(), "1g.10gb:4".into()], true));
        assert_eq!(which.gpus, ["0"]);
        let (ask, which) = parsed(&["-dci", "-gi", "1,2", "-ci", "0"]).unwrap();
        assert_eq!(
            (ask, which.instances, which.computes),
            (Ask::DestroyComputes, Some(vec![1, 2]), Some(vec![0]))
        );
        for wrong in [&[][..], &["-lgip"], &["-dgi", "-gi", "x"], &["-cgi"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
