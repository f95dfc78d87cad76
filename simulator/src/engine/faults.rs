//! Faults on calls: which are in force, and which call one strikes that counts.

use super::Engine;
use crate::abi::{LEGACY_SYMBOLS, SYMBOLS};
use crate::command::{Applied, MAX_DELAY_MS, RESET_SYMBOL, Refusal, Strike, out_of_range};
use crate::state::{Effect, Fault, StrikeState};

impl Engine {
    pub(super) fn set_fault(
        &mut self,
        gpu: Option<u32>,
        symbol: Option<String>,
        effect: Effect,
    ) -> Result<Applied, Refusal> {
        self.add_fault(gpu, symbol, effect, None)
    }

    pub(super) fn set_strike(&mut self, strike: Strike) -> Result<Applied, Refusal> {
        let Strike { gpu, symbol, changing, nth, times, after, effect } = strike;
        if nth == 0 || times == 0 {
            return Err(out_of_range("the number of a call that a fault strikes", 0, "1 or more"));
        }
        let strike = StrikeState { changing, nth, times, after, seen: 0, struck: 0 };
        self.add_fault(gpu, symbol, effect, Some(strike))
    }

    fn add_fault(
        &mut self,
        gpu: Option<u32>,
        symbol: Option<String>,
        effect: Effect,
        strike: Option<StrikeState>,
    ) -> Result<Applied, Refusal> {
        if let Some(gpu) = gpu {
            self.gpu(gpu)?;
        }
        if let Some(symbol) = symbol.as_ref().filter(|symbol| !can_fail(symbol)) {
            let expected =
                "a symbol that the simulated driver has and that can fail, such as nvmlDeviceGetPowerUsage";
            return Err(out_of_range("a fault's call", symbol, expected));
        }
        match effect {
            Effect::Return(0) => {
                let expected = "an error, 1 to 999: success is no fault";
                return Err(out_of_range("a fault's return code", 0, expected));
            }
            Effect::Delay(ms) if !(1..=MAX_DELAY_MS).contains(&ms) => {
                return Err(out_of_range("a call's delay", ms, "1 ms to 10 minutes"));
            }
            _ => {}
        }
        let id = self.next_fault;
        self.next_fault += 1;
        self.state.faults.push(Fault { id, gpu, symbol, effect, strike });
        Ok(Applied::Fault { id })
    }

    pub(super) fn clear_fault(&mut self, id: Option<u64>) -> Result<Applied, Refusal> {
        let before = self.state.faults.len();
        self.state.faults.retain(|fault| id.is_some_and(|id| fault.id != id));
        let count = u64::try_from(before - self.state.faults.len()).unwrap_or(0);
        match id {
            Some(id) if count == 0 => Err(Refusal::NoSuchFault { id }),
            _ => Ok(Applied::Cleared { count }),
        }
    }

    /// Counts a call that a fault concerns; what the fault does to it, if it is the one.
    pub(crate) fn strike(&mut self, id: u64) -> Option<Effect> {
        let fault = self.state.faults.iter_mut().find(|fault| fault.id == id)?;
        let strike = fault.strike.as_mut()?;
        strike.seen = strike.seen.saturating_add(1);
        let struck = strike.seen >= strike.nth && !strike.is_spent();
        strike.struck += u64::from(struck);
        struck.then_some(fault.effect)
    }
}

/// Whether the driver has a symbol whose calls return a code, or it is the reset, which is none.
fn can_fail(symbol: &str) -> bool {
    symbol == RESET_SYMBOL || SYMBOLS.iter().chain(LEGACY_SYMBOLS).any(|known| *known == symbol)
}
