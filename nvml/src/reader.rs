//! Everything that one worker knows about its GPU from one tick to the next.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::Answer;
use gpulet_inventory::sample::Sample;

use crate::Classes;
use crate::capability::Capabilities;
use crate::raw::calls::Calls;
use crate::raw::handle::Device;
use crate::raw::symbol;
use crate::read::fast::{Fast, FastReader};
use crate::read::locality::{GpuAnswers, Peer};
use crate::read::slow::{Slow, SlowReader};
use crate::read::{Asked, identity};

/// Reads one GPU. It lives as long as the driver is open.
pub(crate) struct Reader {
    index: u32,
    device: Device,
    gpu: Arc<Gpu>,
    place: Arc<OnceLock<PciAddress>>,
    capabilities: Capabilities,
    fast: FastReader,
    slow: SlowReader,
    last: Option<(Fast, Slow)>,
    mig_generation: u64,
}

impl Reader {
    /// Takes the GPU of that number and reads what it is; `place` gets its address even if no more can be had.
    ///
    /// # Errors
    /// What the driver said when it did not give the GPU or did not say which one it is.
    pub(crate) fn open(
        calls: &Calls,
        index: u32,
        driver_version: &str,
        place: &Arc<OnceLock<PciAddress>>,
        now: Instant,
    ) -> Result<Self, Answer> {
        let device = calls.device(index).map_err(|cause| Answer { call: symbol::HANDLE.name, cause })?;
        let mut capabilities = Capabilities::default();
        let asked = &mut Asked { calls, device, capabilities: &mut capabilities, now };
        let gpu = identity::read(asked, index, place)?;
        Ok(Self {
            index,
            device,
            gpu: Arc::new(gpu),
            place: Arc::clone(place),
            capabilities,
            fast: FastReader::new(driver_version),
            slow: SlowReader::new(),
            last: None,
            mig_generation: 0,
        })
    }

    /// What it is.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Its handle.
    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// Completes what is known of where it sits.
    pub(crate) fn locality(&mut self, calls: &Calls, known: &mut GpuAnswers, peers: &[Peer], now: Instant) {
        let capabilities = &mut self.capabilities;
        known.complete(&mut Asked { calls, device: self.device, capabilities, now }, peers);
    }

    /// Reads the classes that are asked for (all, the first time); the rest is that of the last time.
    /// `mig_generation` counts the changes of the MIG configuration that the driver told of.
    ///
    /// # Errors
    /// Why the GPU as a whole gives no data.
    pub(crate) fn sample(
        &mut self,
        calls: &Calls,
        classes: Classes,
        mig_generation: u64,
        now: Instant,
    ) -> Result<Sample, Answer> {
        let divided_anew = self.mig_generation != mig_generation;
        if divided_anew {
            self.mig_generation = mig_generation;
            self.capabilities.clear();
            self.slow.forget_mig();
        }
        // How it is divided is told with the slow values, and who reads the processes wants to know their instances.
        let slow_due = classes.slow || divided_anew || self.last.is_none();
        let asked = &mut Asked { calls, device: self.device, capabilities: &mut self.capabilities, now };
        if slow_due && identity::is_incomplete(&self.gpu) {
            self.gpu = Arc::new(identity::read(asked, self.index, &self.place)?);
        }
        let (fast, slow) = match self.last.take() {
            None => (self.fast.read(asked), self.slow.read(asked)),
            Some((fast, slow)) => (
                if classes.fast { self.fast.read(asked) } else { fast },
                if slow_due { self.slow.read(asked) } else { slow },
            ),
        };
        if let Some(answer) = calls.fatal() {
            return Err(answer);
        }
        if let Some(answer) = calls.nothing_but() {
            // A GPU that refuses everything does not lack everything.
            self.capabilities.clear();
            return Err(answer);
        }
        let sample = compose(&fast, &slow);
        self.last = Some((fast, slow));
        Ok(sample)
    }
}

fn compose(fast: &Fast, slow: &Slow) -> Sample {
    Sample {
        utilization: fast.utilization.clone(),
        memory: fast.memory.clone(),
        bar1: fast.bar1.clone(),
        power: fast.power.clone(),
        temperature: fast.temperature.clone(),
        nvlinks: slow.nvlinks.clone(),
        ecc: slow.ecc.clone(),
        remapped_rows: slow.remapped_rows.clone(),
        processes: fast.processes.clone(),
        mig: slow.mig.clone(),
        clock: fast.clock.clone(),
        pcie: fast.pcie.clone(),
        performance_state: fast.performance_state.clone(),
        recovery_action: slow.recovery_action.clone(),
        fabric: slow.fabric.clone(),
    }
}
