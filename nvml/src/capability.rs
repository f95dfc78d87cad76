//! Remembers what a GPU does not support, so that it is not asked each tick.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gpulet_inventory::reading::{Answer, Cause, Reading};

use crate::code::is_unsupported;

/// After this long an unsupported value is asked for once more: modes that no event announces may have changed.
pub(crate) const PROBE_AGAIN: Duration = Duration::from_secs(600);

/// One GPU's refusals, by call (or field) and its number: link, profile, scope; 0 where there is none.
///
/// Only refusals that will stay are kept ([`is_unsupported`]); what failed is asked again next time. A new epoch of
/// the driver starts with an empty one, and a change of the MIG configuration empties it.
#[derive(Debug, Default)]
pub(crate) struct Capabilities {
    refused: BTreeMap<(&'static str, u32), (Cause, Instant)>,
}

impl Capabilities {
    /// The refusal still in force for `call` and `number`.
    pub(crate) fn refusal(&self, call: &'static str, number: u32, now: Instant) -> Option<Answer> {
        let (cause, since) = self.refused.get(&(call, number))?;
        let in_force = now.saturating_duration_since(*since) < PROBE_AGAIN;
        in_force.then_some(Answer { call, cause: *cause })
    }

    /// Turns what came back into a reading, and remembers a refusal that will stay.
    pub(crate) fn judge<T>(
        &mut self,
        call: &'static str,
        number: u32,
        now: Instant,
        outcome: Result<T, Cause>,
    ) -> Reading<T> {
        let cause = match outcome {
            Ok(value) => {
                self.refused.remove(&(call, number));
                return Reading::Supported(value);
            }
            Err(cause) => cause,
        };
        let answer = Answer { call, cause };
        if is_unsupported(cause) {
            self.refused.insert((call, number), (cause, now));
            return Reading::Unsupported(answer);
        }
        // A blank value means that there is none in the present state; it comes with others, so asking is free.
        if cause == Cause::Blank { Reading::Unsupported(answer) } else { Reading::Failed(answer) }
    }

    /// Makes the call unless it is known to be refused.
    pub(crate) fn ask<T>(
        &mut self,
        call: &'static str,
        number: u32,
        now: Instant,
        read: impl FnOnce() -> Result<T, Cause>,
    ) -> Reading<T> {
        match self.refusal(call, number, now) {
            Some(answer) => Reading::Unsupported(answer),
            None => self.judge(call, number, now, read()),
        }
    }

    /// Forgets what was refused for `number` by calls that `concerns` names.
    pub(crate) fn forget(&mut self, number: u32, concerns: impl Fn(&'static str) -> bool) {
        self.refused.retain(|(call, of), _| *of != number || !concerns(call));
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.refused.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::code::{NO_PERMISSION, NOT_SUPPORTED};

    const CALL: &str = "nvmlDeviceGetJpgUtilization";

    /// Asks and says how often the driver was called.
    fn asked(capabilities: &mut Capabilities, number: u32, now: Instant, outcome: Result<u32, Cause>) -> u32 {
        let calls = Cell::new(0);
        capabilities.ask(CALL, number, now, || {
            calls.set(calls.get() + 1);
            outcome
        });
        calls.get()
    }

    #[test]
    fn what_is_unsupported_is_asked_once() {
        let (mut capabilities, now) = (Capabilities::default(), Instant::now());
        let refused = Err(Cause::Code(NOT_SUPPORTED));
        assert_eq!(asked(&mut capabilities, 0, now, refused), 1);
        assert_eq!(asked(&mut capabilities, 0, now, refused), 0);
        assert_eq!(asked(&mut capabilities, 0, now + PROBE_AGAIN - Duration::from_nanos(1), refused), 0);
        assert_eq!(asked(&mut capabilities, 0, now + PROBE_AGAIN, refused), 1);
        assert_eq!(asked(&mut capabilities, 0, now + PROBE_AGAIN, refused), 0);
    }

    #[test]
    fn a_missing_symbol_is_unsupported() {
        let (mut capabilities, now) = (Capabilities::default(), Instant::now());
        let reading = capabilities.ask(CALL, 0, now, || Err::<u32, _>(Cause::NoSymbol));
        assert_eq!(reading, Reading::Unsupported(Answer { call: CALL, cause: Cause::NoSymbol }));
        assert_eq!(asked(&mut capabilities, 0, now, Ok(1)), 0);
    }

    #[test]
    fn what_failed_is_asked_again() {
        let (mut capabilities, now) = (Capabilities::default(), Instant::now());
        for cause in [Cause::Code(NO_PERMISSION), Cause::Code(999), Cause::Blank, Cause::Implausible] {
            assert_eq!(asked(&mut capabilities, 0, now, Err(cause)), 1);
            assert_eq!(asked(&mut capabilities, 0, now, Err(cause)), 1);
        }
    }

    #[test]
    fn each_link_has_its_own() {
        let (mut capabilities, now) = (Capabilities::default(), Instant::now());
        let refused = Err(Cause::Code(NOT_SUPPORTED));
        assert_eq!(asked(&mut capabilities, 3, now, refused), 1);
        assert_eq!(asked(&mut capabilities, 4, now, refused), 1);
        capabilities.forget(3, |call| call == CALL);
        assert_eq!(asked(&mut capabilities, 4, now, refused), 0);
        assert_eq!(asked(&mut capabilities, 3, now, refused), 1);
        capabilities.clear();
        assert_eq!(asked(&mut capabilities, 4, now, refused), 1);
    }
}
