//! How a transition reads in the log.

use std::fmt;

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::snapshot::{DownReason, DriverDown, UnlistedGpu};

use super::Transition;

impl Transition {
    /// Logs it: what is well, or was asked for, at `info`; what a person may have to act on at `warn`.
    pub(crate) fn log(&self) {
        match self {
            Self::DriverUp(info) => tracing::info!(
                driver_version = info.driver_version,
                library = info.library,
                epoch = info.epoch,
                "the driver is open"
            ),
            Self::DriverDown(down) => driver_down(down),
            Self::GpuUp(gpu) => tracing::info!(
                gpu = gpu.index,
                uuid = %gpu.uuid,
                pci_bus_id = %gpu.pci,
                model = gpu.name.value(),
                "the GPU answers"
            ),
            Self::GpuDown { gpu, reason } => tracing::warn!(
                gpu = gpu.index,
                uuid = %gpu.uuid,
                pci_bus_id = %gpu.pci,
                reason = reason.reason(),
                call = reason.call(),
                remedy = remedy(*reason),
                "{} does not answer: {}",
                Name::of(gpu),
                What(*reason)
            ),
            Self::GpuUnnamed(UnlistedGpu { index, pci, reason }) => tracing::warn!(
                gpu = index,
                pci_bus_id = pci.map(tracing::field::display),
                reason = reason.reason(),
                call = reason.call(),
                remedy = remedy(*reason),
                "{} does not say which it is: {}",
                Name { index: *index, pci: *pci },
                What(*reason)
            ),
            Self::GpuGone(gpu) => tracing::warn!(
                gpu = gpu.index,
                uuid = %gpu.uuid,
                pci_bus_id = %gpu.pci,
                "{} is not listed by the driver any more",
                Name::of(gpu)
            ),
            Self::Xid { gpu, code, times } => tracing::warn!(
                gpu = gpu.index,
                uuid = %gpu.uuid,
                pci_bus_id = %gpu.pci,
                xid = code,
                times,
                "{} reported Xid {code}",
                Name::of(gpu)
            ),
        }
    }
}

fn driver_down(down: &DriverDown) {
    let DriverDown { reason, message, remedy } = down;
    if is_wanted(reason) {
        tracing::info!(reason, detail = message, "the driver is let go of, as asked for");
    } else {
        tracing::warn!(reason, detail = message, remedy, "the driver is down");
    }
}

/// Whether someone asked for the driver to be down.
fn is_wanted(reason: &str) -> bool {
    [DriverDown::QUIESCED, "Quiescing"].contains(&reason)
}

/// A GPU as people tell it from the others: by number and slot.
struct Name {
    index: u32,
    pci: Option<PciAddress>,
}

impl Name {
    fn of(gpu: &Gpu) -> Self {
        Self { index: gpu.index, pci: Some(gpu.pci) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {}", self.index)?;
        self.pci.map_or(Ok(()), |pci| write!(f, " ({pci})"))
    }
}

/// What a GPU does instead of answering.
struct What(DownReason);

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DownReason::Unresponsive { call, since } => {
                write!(f, "{call} has not returned for {:.1} s", since.as_secs_f64())
            }
            DownReason::Lost(answer) => write!(f, "it has fallen off the bus; {answer}"),
            DownReason::ResetRequired(answer) => write!(f, "it must be reset; {answer}"),
            DownReason::Failed(answer) => write!(f, "{answer}"),
            DownReason::DriverDown => f.write_str("the driver is not open"),
        }
    }
}

/// What a person can do about it.
fn remedy(reason: DownReason) -> &'static str {
    match reason {
        DownReason::Lost(_) => "Xid 79: `gpulet quiesce`, then reset the GPU or power-cycle the node",
        DownReason::ResetRequired(_) => {
            "end the programs on the GPU, `gpulet quiesce`, `nvidia-smi --gpu-reset`, then `gpulet resume`"
        }
        DownReason::Unresponsive { .. } => {
            "gpulet goes on without it and takes it up when the call returns; if it does not within minutes, look for Xid \
             and NVRM in the kernel log (`dmesg`), then drain and reboot the node: a reset waits for the same call"
        }
        DownReason::Failed(_) => {
            "gpulet asks it again; if it stays so, look for Xid and NVRM in the kernel log (`dmesg`)"
        }
        DownReason::DriverDown => "see why the driver is down",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gpulet_inventory::reading::{Answer, Cause};

    use super::*;

    #[test]
    fn what_a_gpu_does_instead_of_answering_is_told_with_its_name() {
        let name = |pci: Option<&str>| Name { index: 1, pci: pci.map(|pci| pci.parse().unwrap()) };
        assert_eq!(name(Some("0000:43:00.0")).to_string(), "GPU 1 (0000:43:00.0)");
        assert_eq!(name(None).to_string(), "GPU 1");
        let hangs = DownReason::Unresponsive { call: "nvmlDeviceGetX", since: Duration::from_millis(2040) };
        assert_eq!(What(hangs).to_string(), "nvmlDeviceGetX has not returned for 2.0 s");
        let answer = Answer { call: "nvmlDeviceGetX", cause: Cause::Code(15) };
        let lost = What(DownReason::Lost(answer)).to_string();
        assert_eq!(lost, "it has fallen off the bus; nvmlDeviceGetX: NVML_ERROR_GPU_IS_LOST (15)");
    }

    #[test]
    fn each_reason_has_a_remedy_of_its_own() {
        let answer = Answer { call: "nvmlDeviceGetX", cause: Cause::Code(15) };
        let remedies = [
            DownReason::Lost(answer),
            DownReason::ResetRequired(answer),
            DownReason::Unresponsive { call: "nvmlDeviceGetX", since: Duration::ZERO },
            DownReason::Failed(answer),
            DownReason::DriverDown,
        ]
        .map(remedy);
        let different: std::collections::BTreeSet<_> = remedies.iter().collect();
        assert_eq!(different.len(), remedies.len(), "{remedies:?}");
        assert!(remedies[0].contains("Xid 79") && remedies[0].contains("power-cycle"));
    }

    #[test]
    fn only_a_driver_that_someone_asked_to_let_go_of_is_no_warning() {
        let wanted: Vec<_> = DriverDown::REASONS.into_iter().filter(|reason| is_wanted(reason)).collect();
        assert_eq!(wanted, ["Quiescing", "Quiesced"]);
    }
}
