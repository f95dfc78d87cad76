//! Who uses a GPU and its instances, as far as the driver lists processes.

use std::time::Instant;

use gpulet_inventory::process::GpuProcess;
use gpulet_inventory::reading::{Answer, Reading};
use gpulet_partition::observed::{GpuDivision, Holder};

use super::{Asked, processes};
use crate::capability::Capabilities;
use crate::raw::calls::Calls;
use crate::raw::handle::Device;

/// Processes of all kinds; the refusal where this driver does not list them.
pub(super) fn read(calls: &Calls, device: Device) -> Result<Result<Vec<GpuProcess>, Answer>, Answer> {
    let (mut capabilities, now) = (Capabilities::default(), Instant::now());
    let asked = &mut Asked { calls, device, capabilities: &mut capabilities, now };
    match processes::read(asked, &mut Vec::new()) {
        Reading::Supported(processes) => Ok(Ok(processes)),
        Reading::Unsupported(answer) => Ok(Err(answer)),
        Reading::Failed(answer) => Err(answer),
    }
}

/// Puts everyone where he is.
pub(super) fn add(division: &mut GpuDivision, holding: Result<Vec<GpuProcess>, Answer>) {
    let processes = match holding {
        Ok(processes) => processes,
        Err(answer) => return add_unknown(division, answer),
    };
    for process in processes {
        let holder = Holder::Process { pid: process.pid, program: None, pod: None };
        for holders in places_of(division, &process) {
            // One that computes and draws is in two lists.
            if !holders.contains(&holder) {
                holders.push(holder.clone());
            }
        }
    }
}

/// A driver that does not tell who uses a GPU may have anyone use any of it.
fn add_unknown(division: &mut GpuDivision, answer: Answer) {
    let unknown = || Holder::Unknown { why: format!("the driver does not list processes: {answer}") };
    division.instances.iter_mut().for_each(|instance| instance.holders.push(unknown()));
    division.holders.push(unknown());
}

/// The lists where a process belongs.
fn places_of<'a>(division: &'a mut GpuDivision, process: &GpuProcess) -> Vec<&'a mut Vec<Holder>> {
    let Some(id) = process.gpu_instance else { return vec![&mut division.holders] };
    let Some(at) = division.instances.iter().position(|instance| instance.id == id) else {
        // Of an instance that was created since they were listed, or by whoever; it may as well be any.
        let instances = division.instances.iter_mut().map(|instance| &mut instance.holders);
        return instances.chain([&mut division.holders]).collect();
    };
    let Some(instance) = division.instances.get_mut(at) else { return Vec::new() };
    let compute = process.compute_instance;
    match instance.computes.iter_mut().find(|there| Some(there.id) == compute) {
        Some(compute) => vec![&mut compute.holders],
        None => vec![&mut instance.holders],
    }
}

#[cfg(test)]
#[path = "holders_tests.rs"]
mod tests;
