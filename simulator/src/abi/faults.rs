//! Faults that act on calls.
//!
//! Most strike every call that they concern, which a client sees in the shared state. One that strikes calls by their number
//! counts over all processes: whom it concerns asks the server whether its call is the one.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::code::{Answer, DRIVER_NOT_LOADED, UNKNOWN};
use super::place;
use super::session::{self, Session};
use crate::client::Client;
use crate::share::Reader;
use crate::state::{Effect, Fault, NodeState};

/// Lets faults act that concern a call which is about to be answered, and gives the state in which none stands in its way.
///
/// # Errors
/// The fault's code; `DRIVER_NOT_LOADED` when the server is gone.
pub(super) fn obey(reader: &Reader, symbol: &str, gpu: Option<u32>) -> Answer<Arc<NodeState>> {
    act(reader, |fault| fault.concerns(symbol, gpu) && !fault.strikes_after())
}

/// The same for the GPU that a call turns out to be about, when it has passed once without one.
pub(super) fn obey_for_gpu(reader: &Reader, symbol: &str, gpu: u32) -> Answer<Arc<NodeState>> {
    let counted = |fault: &Fault| fault.strike.is_some() && fault.gpu.is_none();
    act(reader, |fault| fault.concerns(symbol, Some(gpu)) && !fault.strikes_after() && !counted(fault))
}

/// Lets faults act on a call that has succeeded.
///
/// # Errors
/// The fault's code.
pub(super) fn obey_after(reader: &Reader, symbol: &str, gpu: Option<u32>) -> Answer {
    act(reader, |fault| fault.concerns(symbol, gpu) && fault.strikes_after()).map(drop)
}

/// Lets faults act on a call that gives something back, which works also after the driver is gone. Gives the session.
///
/// # Errors
/// The fault's code; `UNINITIALIZED` without a session.
pub(super) fn obey_while_served(symbol: &str) -> Answer<Arc<Session>> {
    let session = session::current()?;
    match obey(session.reader(), symbol, None) {
        Err(code) if session.reader().state().is_ok() => Err(code),
        _ => Ok(session),
    }
}

/// Obeys the first fault, and the next when that has let the call go on.
fn act(reader: &Reader, concerns: impl Fn(&Fault) -> bool) -> Answer<Arc<NodeState>> {
    // Each counts a call once, and delays it once.
    let mut done: Vec<u64> = Vec::new();
    loop {
        let state = reader.state().map_err(|_| DRIVER_NOT_LOADED)?;
        let acts = |fault: &&Fault| !done.contains(&fault.id) && concerns(fault);
        let Some(fault) = state.faults.iter().find(acts) else { return Ok(state) };
        done.push(fault.id);
        let effect = match fault.strike {
            None => Some(fault.effect),
            Some(strike) if strike.is_spent() => None,
            Some(_) => strike(fault.id)?,
        };
        match effect {
            None => {}
            Some(Effect::Return(0)) => return Err(UNKNOWN),
            Some(Effect::Return(code)) => return Err(code),
            Some(Effect::Delay(ms)) => thread::sleep(Duration::from_millis(ms.into())),
            Some(Effect::Block) => wait_for_end(reader, fault.id)?,
        }
    }
}

/// Waits until a fault is cleared.
fn wait_for_end(reader: &Reader, fault: u64) -> Answer {
    loop {
        let seen = reader.wake_count();
        let state = reader.state().map_err(|_| DRIVER_NOT_LOADED)?;
        if state.faults.iter().all(|there| there.id != fault) {
            return Ok(());
        }
        reader.wait(seen, Duration::from_secs(1));
    }
}

fn strike(fault: u64) -> Answer<Option<Effect>> {
    let dir = place::simulation_dir().ok_or(DRIVER_NOT_LOADED)?;
    let answer = Client::connect(&dir).and_then(|mut client| client.strike(fault));
    answer.map_err(|_| DRIVER_NOT_LOADED)
}
