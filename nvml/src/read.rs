//! What is read from one GPU, grouped as the snapshot groups it.
//!
//! Each file here turns calls into readings: sentinels and impossible values are sorted out, and what a GPU does not
//! support is remembered.

pub(crate) mod clocks;
pub(crate) mod division;
pub(crate) mod fabric;
pub(crate) mod fast;
pub(crate) mod fields;
pub(crate) mod holders;
pub(crate) mod identity;
pub(crate) mod links;
pub(crate) mod locality;
pub(crate) mod memory;
pub(crate) mod mig;
pub(crate) mod offer;
pub(crate) mod processes;
pub(crate) mod slow;

use std::time::Instant;

use gpulet_inventory::reading::{Cause, Reading};

use crate::capability::Capabilities;
use crate::raw::calls::Calls;
use crate::raw::handle::{Device, Handle};
use crate::raw::plain::Plain;
use crate::raw::symbol::{Get, GetAt, GetTwo, Symbol, Text};

type Gpu = <Device as Handle>::Raw;

/// One GPU being asked, at one instant.
pub(crate) struct Asked<'a> {
    /// How to call.
    pub(crate) calls: &'a Calls,
    /// Which GPU.
    pub(crate) device: Device,
    /// What it is known to refuse.
    pub(crate) capabilities: &'a mut Capabilities,
    /// When.
    pub(crate) now: Instant,
}

impl Asked<'_> {
    /// Any call, under the name that the reading shall carry; `number` tells links, profiles and scopes apart.
    pub(crate) fn ask<T>(
        &mut self,
        name: &'static str,
        number: u32,
        read: impl FnOnce(&Calls, Device) -> Result<T, Cause>,
    ) -> Reading<T> {
        let (calls, device) = (self.calls, self.device);
        self.capabilities.ask(name, number, self.now, || read(calls, device))
    }

    /// One value.
    pub(crate) fn get<T: Plain, U>(
        &mut self,
        symbol: &Symbol<Get<Gpu, T>>,
        check: impl FnOnce(T) -> Result<U, Cause>,
    ) -> Reading<U> {
        self.ask(symbol.name, 0, |calls, device| calls.get(symbol, device).and_then(check))
    }

    /// One value about a numbered part, under a name of its own.
    pub(crate) fn get_at<T: Plain, U>(
        &mut self,
        symbol: &Symbol<GetAt<Gpu, T>>,
        name: &'static str,
        number: u32,
        check: impl FnOnce(T) -> Result<U, Cause>,
    ) -> Reading<U> {
        self.ask(name, number, |calls, device| calls.get_at(symbol, device, number).and_then(check))
    }

    /// The first of two values.
    pub(crate) fn first_of_two<A: Plain, B: Plain, U>(
        &mut self,
        symbol: &Symbol<GetTwo<Gpu, A, B>>,
        check: impl FnOnce(A) -> Result<U, Cause>,
    ) -> Reading<U> {
        self.ask(symbol.name, 0, |calls, device| calls.get_two(symbol, device).and_then(|(a, _)| check(a)))
    }

    /// Text that is not empty.
    pub(crate) fn text(&mut self, symbol: &Symbol<Text<Gpu>>) -> Reading<String> {
        self.ask(symbol.name, 0, |calls, device| {
            calls
                .text(symbol, device)
                .and_then(|text| if text.is_empty() { Err(Cause::Blank) } else { Ok(text) })
        })
    }
}

/// A second way to the same value, for a driver that does not have the first. If neither works, the first refusal
/// is the one to tell.
pub(crate) fn or<T>(first: Reading<T>, second: impl FnOnce() -> Reading<T>) -> Reading<T> {
    match first {
        Reading::Unsupported(answer) => match second() {
            Reading::Unsupported(_) => Reading::Unsupported(answer),
            had => had,
        },
        had => had,
    }
}
