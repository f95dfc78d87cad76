//! Commands: checked first, then carried out.

use super::{Engine, Life};
use crate::command::{Applied, Command, Counter, MAX_PACE, MAX_STEP, MAX_XIDS, Refusal, out_of_range};
use crate::state::{Event, GpuState};

/// `nvmlEventTypeXidCriticalError`.
const EVENT_XID: u64 = 0x8;

/// No instance.
const NOBODY: (u32, u32) = (u32::MAX, u32::MAX);

/// XID of a GPU that has fallen off the bus.
const XID_LOST: u64 = 79;

impl Engine {
    /// Carries out a command.
    ///
    /// # Errors
    /// Why it is refused; nothing has changed then.
    pub fn apply(&mut self, command: Command) -> Result<Applied, Refusal> {
        match command {
            Command::Load { gpu, load } => self.load(gpu, load)?,
            Command::SetFault { gpu, symbol, effect } => return self.set_fault(gpu, symbol, effect),
            Command::Strike(strike) => return self.set_strike(strike),
            Command::ClearFault { id } => return self.clear_fault(id),
            Command::Lose { gpu } => self.lose(gpu)?,
            Command::Restore { gpu } => self.restore(gpu)?,
            Command::Bind { gpu, bound } => self.bind(gpu, bound)?,
            Command::Xid { gpu, code, times, instance } => self.xid(gpu, code, times, instance)?,
            Command::Link { gpu, link, up } => self.link(gpu, link, up)?,
            Command::UnloadDriver { force } => self.unload_driver(force)?,
            Command::LoadDriver { version } => self.load_driver(version.as_deref())?,
            Command::Permission { denied } => self.state.driver.no_permission = denied,
            Command::Hold(hold) => self.hold(hold)?,
            Command::Observe(observe) => self.observe(observe)?,
            Command::Release { pid, gpu } => self.release(pid, gpu)?,
            Command::SetCounter { gpu, counter, value } => self.set_counter(gpu, counter, value)?,
            Command::PowerLimit { gpu, milliwatts } => self.power_limit(gpu, milliwatts)?,
            Command::ComputeMode { gpu, mode } => self.compute_mode(gpu, mode)?,
            Command::Persistence { gpu, on } => self.present(gpu)?.now.persistence = on,
            Command::Modeset { on } => {
                self.with_driver()?;
                self.state.driver.modeset = on;
            }
            Command::Reset { gpu } => self.reset(gpu)?,
            Command::Reboot => self.reboot()?,
            Command::Ambient { gpu, celsius } => self.ambient(gpu, celsius)?,
            Command::Pause => self.pace = 0.0,
            Command::Run { factor } => self.pace = pace(factor)?,
            Command::Step { by } if by <= MAX_STEP => {
                self.advance(by);
                return Ok(Applied::Clock { clock_us: self.state.clock_us });
            }
            Command::Step { by } => {
                return Err(out_of_range("a step", by.as_secs(), "at most 86400 seconds"));
            }
        }
        Ok(Applied::Done)
    }

    /// All indices of GPUs.
    pub(super) fn gpu_numbers(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.state.gpus.len()).unwrap_or(0)
    }

    /// A GPU, lost or not.
    pub(super) fn gpu(&mut self, gpu: u32) -> Result<&mut GpuState, Refusal> {
        let count = self.gpu_numbers().end;
        let state = usize::try_from(gpu).ok().and_then(|index| self.state.gpus.get_mut(index));
        state.ok_or(Refusal::NoSuchGpu { gpu, count })
    }

    /// A GPU that is the driver's and not lost.
    pub(super) fn present(&mut self, gpu: u32) -> Result<&mut GpuState, Refusal> {
        let state = self.gpu(gpu)?;
        match state {
            state if state.lost => Err(Refusal::GpuLost { gpu }),
            state if !state.bound => Err(Refusal::GpuNotBound { gpu }),
            state => Ok(state),
        }
    }

    pub(super) fn life(&mut self, gpu: u32) -> Option<&mut Life> {
        self.lives.get_mut(usize::try_from(gpu).ok()?)
    }

    pub(super) fn with_driver(&self) -> Result<(), Refusal> {
        if self.state.driver.loaded { Ok(()) } else { Err(Refusal::DriverNotLoaded) }
    }

    fn lose(&mut self, gpu: u32) -> Result<(), Refusal> {
        self.present(gpu)?;
        if self.state.driver.loaded {
            self.report(Event {
                sequence: 0,
                gpu,
                kind: EVENT_XID,
                data: XID_LOST,
                gpu_instance: NOBODY.0,
                compute_instance: NOBODY.1,
            });
        }
        self.kill_all(gpu);
        self.set_links(gpu, false);
        self.gpu(gpu)?.lost = true;
        Ok(())
    }

    fn restore(&mut self, gpu: u32) -> Result<(), Refusal> {
        if !self.gpu(gpu)?.lost {
            return Err(Refusal::GpuNotLost { gpu });
        }
        let state = self.gpu(gpu)?;
        state.lost = false;
        let reachable = state.is_reachable();
        self.reset_gpu(gpu);
        self.set_links(gpu, reachable);
        Ok(())
    }

    /// The kernel takes a GPU away from the driver or gives it one. Clients that have it open do not hold it.
    fn bind(&mut self, gpu: u32, bound: bool) -> Result<(), Refusal> {
        self.with_driver()?;
        let state = self.gpu(gpu)?;
        if state.bound == bound {
            return Err(Refusal::SameBinding { gpu, bound });
        }
        let processes = state.processes.iter().map(|process| process.pid);
        let pids: Vec<u32> = processes.chain(state.observers.iter().map(|observer| observer.pid)).collect();
        if !pids.is_empty() {
            return Err(Refusal::InUse { pids });
        }
        state.bound = bound;
        let reachable = state.is_reachable();
        if bound {
            self.reset_gpu(gpu);
        }
        self.set_links(gpu, reachable);
        Ok(())
    }

    /// Links of a GPU that goes or comes: where another GPU is at the other end, that end follows. Links of a GPU that is
    /// away stay as they were.
    pub(super) fn set_links(&mut self, gpu: u32, here: bool) {
        let Ok(index) = usize::try_from(gpu) else { return };
        for link in 0..self.state.gpus.get(index).map_or(0, |state| state.nvlinks.len()) {
            let works = self.wiring.works(index, link);
            let peer = self.wiring.peer(index, link);
            if let Some((peer, peer_link)) = peer {
                self.set_end(peer, peer_link, here && works);
            }
            if here {
                self.set_end(index, link, works && self.answers(peer));
            }
        }
    }

    fn set_end(&mut self, gpu: usize, link: usize, up: bool) {
        if let Some(end) = self.state.gpus.get_mut(gpu).and_then(|state| state.nvlinks.get_mut(link)) {
            end.up = up;
        }
    }

    /// Whether the other end of a link is there: a GPU that the driver reaches, or none at all.
    fn answers(&self, peer: Option<(usize, usize)>) -> bool {
        peer.is_none_or(|(peer, _)| self.state.gpus.get(peer).is_some_and(GpuState::is_reachable))
    }

    fn xid(&mut self, gpu: u32, code: u64, times: u32, instance: Option<(u32, u32)>) -> Result<(), Refusal> {
        self.with_driver()?;
        let state = self.present(gpu)?;
        if !(1..=MAX_XIDS).contains(&times) {
            return Err(out_of_range("the number of Xids", times, &format!("1 to {MAX_XIDS}")));
        }
        if !(1..=999).contains(&code) {
            return Err(out_of_range("an Xid", code, "1 to 999"));
        }
        if let Some((gpu_instance, compute_instance)) = instance {
            let found = state.mig.iter().flat_map(|mig| &mig.instances).find(|gi| gi.id == gpu_instance);
            let whole = compute_instance == NOBODY.1;
            if !found.is_some_and(|gi| whole || gi.compute.iter().any(|ci| ci.id == compute_instance)) {
                return Err(Refusal::NoSuchInstance { gpu, gpu_instance, compute_instance });
            }
        }
        damage(state, code, times);
        let (gpu_instance, compute_instance) = instance.unwrap_or(NOBODY);
        for _ in 0..times {
            self.report(Event {
                sequence: 0,
                gpu,
                kind: EVENT_XID,
                data: code,
                gpu_instance,
                compute_instance,
            });
        }
        Ok(())
    }

    fn link(&mut self, gpu: u32, link: u32, up: bool) -> Result<(), Refusal> {
        let state = self.present(gpu)?;
        let count = u32::try_from(state.nvlinks.len()).unwrap_or(0);
        let (Ok(index), Ok(number)) = (usize::try_from(gpu), usize::try_from(link)) else {
            return Err(Refusal::NoSuchLink { gpu, link, count });
        };
        if number >= state.nvlinks.len() {
            return Err(Refusal::NoSuchLink { gpu, link, count });
        }
        self.wiring.plug(index, number, up);
        let peer = self.wiring.peer(index, number);
        let up = up && self.answers(peer);
        for (gpu, link) in [(index, number)].into_iter().chain(peer) {
            self.set_end(gpu, link, up);
        }
        Ok(())
    }

    fn power_limit(&mut self, gpu: u32, milliwatts: u32) -> Result<(), Refusal> {
        let state = self.present(gpu)?;
        let (least, most) = state.board.power_limit_range_mw;
        if !(least..=most).contains(&milliwatts) {
            return Err(out_of_range("the power limit", milliwatts, &format!("{least} to {most} mW")));
        }
        state.now.power_limit_mw = milliwatts;
        Ok(())
    }

    fn compute_mode(&mut self, gpu: u32, mode: u32) -> Result<(), Refusal> {
        let state = self.present(gpu)?;
        let divided = state.mig.as_ref().is_some_and(|mig| mig.mode.0);
        match mode {
            0 | 2 | 3 if mode == 0 || !divided => state.now.compute_mode = mode,
            _ => {
                return Err(out_of_range(
                    "the compute mode",
                    mode,
                    "0 (default), or outside MIG mode 2 (prohibited) or 3 (exclusive process)",
                ));
            }
        }
        Ok(())
    }

    fn ambient(&mut self, gpu: Option<u32>, celsius: i32) -> Result<(), Refusal> {
        if !(-20..=90).contains(&celsius) {
            return Err(out_of_range("the temperature around", celsius, "-20 to 90 °C"));
        }
        if let Some(gpu) = gpu {
            self.gpu(gpu)?;
        }
        for (_, life) in (0..).zip(&mut self.lives).filter(|(index, _)| gpu.is_none_or(|gpu| gpu == *index)) {
            life.body.ambient = f64::from(celsius);
        }
        Ok(())
    }

    fn set_counter(&mut self, gpu: u32, counter: Counter, value: u64) -> Result<(), Refusal> {
        let state = self.present(gpu)?;
        let narrow = || {
            u32::try_from(value).map_err(|_| out_of_range("a counter of 32 bits", value, "0 to 4294967295"))
        };
        let count = &mut state.count;
        match counter {
            Counter::Energy => count.energy_mj = value,
            Counter::PcieReplays => count.pcie_replays = narrow()?,
            Counter::PcieTransmitted => count.pcie_bytes.0 = value,
            Counter::PcieReceived => count.pcie_bytes.1 = value,
            Counter::EccVolatileCorrected => count.ecc = with(count.ecc, 0, value),
            Counter::EccVolatileUncorrected => count.ecc = with(count.ecc, 1, value),
            Counter::EccAggregateCorrected => count.ecc = with(count.ecc, 2, value),
            Counter::EccAggregateUncorrected => count.ecc = with(count.ecc, 3, value),
            Counter::RemappedCorrectable => count.remapped_rows.0 = narrow()?,
            Counter::RemappedUncorrectable => count.remapped_rows.1 = narrow()?,
            Counter::NvlinkTransmitted(link)
            | Counter::NvlinkReceived(link)
            | Counter::NvlinkReplays(link)
            | Counter::NvlinkCrc(link) => return set_link_counter(gpu, state, counter, link, value),
        }
        Ok(())
    }
}

fn set_link_counter(
    gpu: u32,
    state: &mut GpuState,
    counter: Counter,
    link: u32,
    value: u64,
) -> Result<(), Refusal> {
    let count = u32::try_from(state.nvlinks.len()).unwrap_or(0);
    let found = usize::try_from(link).ok().and_then(|number| state.nvlinks.get_mut(number));
    let Some(found) = found else { return Err(Refusal::NoSuchLink { gpu, link, count }) };
    match counter {
        Counter::NvlinkTransmitted(_) => found.data_kib.0 = value,
        Counter::NvlinkReceived(_) => found.data_kib.1 = value,
        Counter::NvlinkReplays(_) => found.errors = with(found.errors, 0, value),
        _ => found.errors = with(found.errors, 2, value),
    }
    Ok(())
}

fn with<const N: usize>(mut values: [u64; N], index: usize, value: u64) -> [u64; N] {
    if let Some(slot) = values.get_mut(index) {
        *slot = value;
    }
    values
}

fn pace(factor: f64) -> Result<f64, Refusal> {
    if factor > 0.0 && factor <= MAX_PACE {
        return Ok(factor);
    }
    Err(out_of_range("the clock's pace", factor, "above 0, at most 1000"))
}

/// What goes with XIDs of memory: uncorrected errors (48, 94, 95), a row to be remapped (63) or not to be had (64).
fn damage(state: &mut GpuState, code: u64, times: u32) {
    let [volatile_corrected, volatile, corrected, aggregate] = state.count.ecc;
    match code {
        48 | 94 | 95 if state.now.ecc_mode.0 => {
            let times = u64::from(times);
            state.count.ecc = [
                volatile_corrected,
                volatile.saturating_add(times),
                corrected,
                aggregate.saturating_add(times),
            ];
        }
        63 if state.board.row_remapping => {
            state.count.remapped_rows.1 = state.count.remapped_rows.1.saturating_add(times);
            state.now.row_remap.0 = true;
        }
        64 if state.board.row_remapping => state.now.row_remap.1 = true,
        _ => {}
    }
}
