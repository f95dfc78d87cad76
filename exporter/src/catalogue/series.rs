//! How a family says what it has.

use gpulet_inventory::reading::Reading;

use super::{Absence, GpuName, Label, Sink, Value};

/// One family's series: those of one GPU, or those of the node.
pub(crate) struct Series<'a> {
    gpu: Option<GpuName<'a>>,
    sink: &'a mut dyn Sink,
}

impl<'a> Series<'a> {
    pub(crate) fn new(gpu: Option<GpuName<'a>>, sink: &'a mut dyn Sink) -> Self {
        Self { gpu, sink }
    }

    /// A series with this value.
    pub(crate) fn point(&mut self, labels: &[Label<'_>], value: Value) {
        self.sink.point(self.gpu, labels, value);
    }

    /// A series that is missing.
    pub(crate) fn missing(&mut self, labels: &[Label<'_>], why: Absence<'_>) {
        self.sink.missing(self.gpu, labels, why);
    }

    /// A series where the driver answered.
    pub(crate) fn reading<T: Copy>(
        &mut self,
        labels: &[Label<'_>],
        reading: &Reading<T>,
        value: impl FnOnce(T) -> Value,
    ) {
        if let Some(read) = self.given(labels, reading) {
            self.point(labels, value(*read));
        }
    }

    /// What the driver answered; a refusal is noted as a missing series.
    pub(crate) fn given<'r, T>(&mut self, labels: &[Label<'_>], reading: &'r Reading<T>) -> Option<&'r T> {
        match reading {
            Reading::Supported(value) => Some(value),
            Reading::Unsupported(answer) | Reading::Failed(answer) => {
                self.missing(labels, Absence::Refused(*answer));
                None
            }
        }
    }

    /// One series for each of `states`, 1 for the one that holds and 0 for the others, so that no series comes or
    /// goes when the state changes.
    pub(crate) fn one_of(&mut self, states: &[&str], now: &str) {
        for state in states {
            self.point(&[Label::Text(state)], Value::flag(*state == now));
        }
    }
}

impl Value {
    /// 1 or 0.
    pub(crate) fn flag(holds: bool) -> Self {
        Self::Integer(u64::from(holds))
    }

    /// A ratio from percent.
    pub(crate) fn percent(percent: u32) -> Self {
        Self::Float(f64::from(percent) / 100.0)
    }

    /// Watts from milliwatts.
    pub(crate) fn milli(thousandths: u32) -> Self {
        Self::Float(f64::from(thousandths) / 1e3)
    }

    /// Joules from millijoules. A double holds the millijoules of 285 years at 1 kW exactly.
    pub(crate) fn milli_long(thousandths: u64) -> Self {
        Self::Float(thousandths as f64 / 1e3)
    }

    /// Hertz from megahertz.
    pub(crate) fn mega(millions: u32) -> Self {
        Self::Integer(u64::from(millions) * 1_000_000)
    }

    /// Seconds from nanoseconds.
    pub(crate) fn nano(billionths: u64) -> Self {
        Self::Float(billionths as f64 / 1e9)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(u64::from(number))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}
