//! Which series are missing, and what the driver said instead of each.

use std::fmt;

use gpulet_inventory::snapshot::{Condition, DownReason, Snapshot};

use crate::catalogue::{self, Absence, Family, GpuName, Label, Sink, Value};
use crate::encode;

/// A series that could be there and is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The series as it would be written, such as `gpulet_gpu_temperature_celsius{gpu="0",uuid="GPU-…",sensor="memory"}`.
    /// Labels whose values are not known are left out.
    pub series: String,
    /// The GPU's index; absent for a series of the node.
    pub gpu: Option<u32>,
    /// The driver's symbol that was called; empty where none was, since the GPU or the driver is down.
    pub call: String,
    /// What came back, or why nothing was asked.
    pub answer: String,
    /// Everything that the metric is read from, as the documentation names it.
    pub source: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.call.as_str() {
            "" => write!(f, "{}: {}", self.series, self.answer),
            call => write!(f, "{}: {call}: {}", self.series, self.answer),
        }
    }
}

/// Every series that the catalogue has and `snapshot` has no value for, in the catalogue's order.
pub fn explain(snapshot: &Snapshot) -> Vec<Missing> {
    let mut collector = Collector::default();
    catalogue::walk(snapshot, None, &mut collector);
    collector.missing
}

#[derive(Default)]
struct Collector {
    family: Option<&'static Family>,
    missing: Vec<Missing>,
}

impl Sink for Collector {
    fn begin(&mut self, family: &'static Family) {
        self.family = Some(family);
    }

    fn point(&mut self, _: Option<GpuName<'_>>, _: &[Label<'_>], _: Value) {}

    fn missing(&mut self, gpu: Option<GpuName<'_>>, labels: &[Label<'_>], why: Absence<'_>) {
        let Some(family) = self.family else { return };
        let mut series = Vec::new();
        encode::series(&mut series, family, gpu, labels);
        let (call, answer) = reason(why);
        self.missing.push(Missing {
            series: String::from_utf8_lossy(&series).into_owned(),
            gpu: gpu.map(|gpu| gpu.index),
            call: call.to_owned(),
            answer,
            source: family.source,
        });
    }
}

fn reason(why: Absence<'_>) -> (&str, String) {
    match why {
        Absence::Refused(answer) => (answer.call, answer.cause.to_string()),
        Absence::GpuDown(Condition::Down(DownReason::Unresponsive { call, since })) => (
            call,
            format!("the GPU is down (Unresponsive): it has not returned for {:.1} s", since.as_secs_f64()),
        ),
        Absence::GpuDown(Condition::Down(
            down
            @ (DownReason::Lost(answer) | DownReason::ResetRequired(answer) | DownReason::Failed(answer)),
        )) => (answer.call, format!("the GPU is down ({}): {}", down.reason(), answer.cause)),
        Absence::GpuDown(Condition::Down(DownReason::DriverDown)) => {
            ("", "the GPU is down: the driver is not open".into())
        }
        Absence::NotSampled | Absence::GpuDown(Condition::Up) => {
            ("", "the GPU answers and has not been read yet".into())
        }
        Absence::DriverDown(message) => ("", format!("the driver is down: {message}")),
        Absence::NotTold(call) => (call, "this driver does not tell it apart".into()),
    }
}
