//! What containers find after a change: device files of the instances, and the CDI specification that names them.
//!
//! Each thing is looked at first, and touched only where it is not as it should be; afterwards it is looked at again.
//! Where the node has no CDI specification none is made: its containers get their devices in another way.

mod devices;
mod maker;
mod place;
mod specification;

use std::fmt;
use std::time::Duration;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};

use super::capabilities;
use crate::reader::Reader;
use crate::root::Root;

/// A GPU as containers should find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedGpu {
    /// Which.
    pub gpu: GpuUuid,
    /// N of its `/dev/nvidiaN`.
    pub minor: u32,
    /// Its MIG devices, maybe none; absent where it is not in MIG mode.
    pub mig: Option<Vec<ExpectedMig>>,
}

/// A MIG device as containers should find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedMig {
    /// Its UUID, `MIG-` included; absent where the driver does not tell it.
    pub uuid: Option<String>,
    /// Its GPU instance.
    pub instance: GpuInstanceId,
    /// Its compute instance.
    pub compute: ComputeInstanceId,
}

/// What was found of one thing, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It was as it should be, and is as it was.
    Right(String),
    /// It was not; it was mended, and is as it should be.
    Mended(String),
    /// It is not as it should be, and whoever wrote it has to write it again.
    Others(String),
    /// It is not as it should be.
    Wrong {
        /// The stable word.
        reason: &'static str,
        /// What is wrong and what to do.
        message: String,
    },
}

/// What was found of all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aftercare {
    /// Each thing.
    pub findings: Vec<Finding>,
}

impl Aftercare {
    /// The first thing that is not as it should be: its stable word, and what to do.
    pub fn wrong(&self) -> Option<(&'static str, &str)> {
        self.findings.iter().find_map(|finding| match finding {
            Finding::Wrong { reason, message } => Some((*reason, message.as_str())),
            _ => None,
        })
    }

    /// Whether anything had to be mended.
    pub fn has_mended(&self) -> bool {
        self.findings.iter().any(|finding| matches!(finding, Finding::Mended(_)))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right(told) | Self::Mended(told) | Self::Others(told) => f.write_str(told),
            Self::Wrong { message, .. } => f.write_str(message),
        }
    }
}

/// Brings device files and CDI specifications to what there is now. All of the node's GPUs are expected to be told, for what
/// is not is gone.
pub fn care(root: &Root, expected: &[ExpectedGpu], deadline: Duration) -> Aftercare {
    let root = &root.unrecorded();
    let capabilities = capabilities::read(&Reader::new(root));
    let mut findings = devices::mend(root, &capabilities);
    findings.extend(missing(expected, &capabilities));
    findings.extend(maker::renew(root, expected, &capabilities, deadline));
    Aftercare { findings }
}

/// Instances of which the driver shows no capability.
fn missing(expected: &[ExpectedGpu], capabilities: &capabilities::Capabilities) -> Vec<Finding> {
    let of = |gpu: &ExpectedGpu| {
        let devices = gpu.mig.iter().flatten();
        let wanted = devices.flat_map(|mig| mig.capabilities(gpu.minor)).collect::<Vec<_>>();
        wanted.into_iter().filter(|of| capabilities.minor(*of).is_none()).collect::<Vec<_>>()
    };
    let missing = expected.iter().flat_map(of).map(|of| Finding::Wrong {
        reason: "CapabilityMissing",
        message: format!(
            "the driver shows no capability for {of} below /proc/driver/nvidia/capabilities: containers cannot use it; \
             is the host's /proc mounted below its root?"
        ),
    });
    missing.collect()
}

impl ExpectedMig {
    /// What a container needs to use it.
    fn capabilities(&self, gpu: u32) -> [capabilities::CapabilityOf; 2] {
        let (instance, compute) = (self.instance, self.compute);
        [
            capabilities::CapabilityOf::Instance { gpu, instance },
            capabilities::CapabilityOf::Compute { gpu, instance, compute },
        ]
    }
}

#[cfg(test)]
mod tests;
