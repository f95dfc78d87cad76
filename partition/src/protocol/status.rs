//! What is told of how it goes.

use gpulet_inventory::gpu::GpuUuid;
use serde::{Deserialize, Serialize};

use super::assessment::Assessment;
use super::event::GpuResult;

/// Longest message in the annotation, bytes: all annotations of a Node together may have 256 KiB, and everyone reads them.
const LONGEST: usize = 2000;

/// How it goes, in NVIDIA's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It has begun.
    Pending,
    /// The machine is about to be rebooted for it.
    Rebooting,
    /// The GPUs, read again, are as wanted.
    Success,
    /// They are not, and the reason says why.
    Failed,
    /// They are nobody's or another's to divide; it is no value of the label.
    HandsOff,
}

impl State {
    /// The value of the label; absent where the label is left alone.
    pub fn label(self) -> Option<&'static str> {
        match self {
            Self::Pending => Some("pending"),
            Self::Rebooting => Some("rebooting"),
            Self::Success => Some("success"),
            Self::Failed => Some("failed"),
            Self::HandsOff => None,
        }
    }
}

/// How it goes, in full. The annotation `gpulet.dev/partition-status` is this and a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Status {
    /// In a word.
    pub state: State,
    /// The name of the wanted layout.
    pub config: String,
    /// The hash of what it resolves to; absent where it resolves to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The stable word for why.
    pub reason: String,
    /// Why, and what a person can do.
    pub message: String,
    /// Each GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuStatus>,
}

/// How one GPU is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct GpuStatus {
    /// Which; absent where it does not even tell its UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuUuid>,
    /// In a word.
    pub result: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// What is to become of what is told on the Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusChange {
    /// The label and the annotation are to say this.
    Write(Status),
    /// Both are to be taken away.
    Remove,
}

#[derive(Serialize, Deserialize)]
struct Timed<S> {
    #[serde(flatten)]
    status: S,
    time: String,
}

impl Status {
    /// The annotation's value, as of this time (RFC 3339).
    pub fn annotation(&self, time: &str) -> String {
        // It has nothing that JSON could not say.
        serde_json::to_string(&Timed { status: self, time: time.to_owned() }).unwrap_or_default()
    }

    /// What an annotation says; absent where it is none of this form.
    pub fn read(annotation: &str) -> Option<Self> {
        serde_json::from_str(annotation).ok().map(|Timed { status, time: _ }| status)
    }

    /// With messages of a length that an annotation bears.
    pub(super) fn bounded(mut self) -> Self {
        cut(&mut self.message, LONGEST);
        let each = LONGEST / 2;
        self.gpus.iter_mut().for_each(|gpu| cut(&mut gpu.message, each));
        self
    }
}

fn cut(text: &mut String, longest: usize) {
    if text.len() > longest {
        let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
}

/// What a look tells of each GPU of which something is wanted.
pub(super) fn looked(assessment: &Assessment) -> Vec<GpuStatus> {
    let told = assessment.gpus.iter().map(|one| GpuStatus {
        gpu: one.gpu.clone(),
        result: one.outlook.word().to_owned(),
        message: one.outlook.message(),
    });
    told.collect()
}

/// How the change of each ended.
pub(super) fn ended(results: &[GpuResult]) -> Vec<GpuStatus> {
    let told = results.iter().map(|one| GpuStatus {
        gpu: one.gpu.clone(),
        result: one.end.word().to_owned(),
        message: one.message.clone(),
    });
    told.collect()
}
