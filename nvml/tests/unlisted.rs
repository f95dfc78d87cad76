//! A GPU that does not say which it is when the driver is opened: it is told of all the same, and the others are served.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::time::Duration;

use gpulet_inventory::reading::{Answer, Cause};
use gpulet_inventory::snapshot::{Condition, DownReason, NodeGpus, UnlistedGpu};
use gpulet_simulator::command::Command;
use gpulet_simulator::state::Effect;
use support::{Rig, all_up, sample};

const SICK: u32 = 3;

/// The one that is not listed; the other seven must be up, each by its own number.
fn seven_and(gpus: &NodeGpus) -> UnlistedGpu {
    let indices: Vec<u32> = gpus.gpus.iter().map(|gpu| gpu.gpu.index).collect();
    assert_eq!(indices, [0, 1, 2, 4, 5, 6, 7], "{:?}", gpus.unlisted);
    for gpu in &gpus.gpus {
        assert_eq!(gpu.condition, Condition::Up, "{}", gpu.gpu.index);
        sample(gpu);
    }
    let [unlisted] = gpus.unlisted[..] else { panic!("{:?}", gpus.unlisted) };
    assert_eq!(unlisted.index, SICK);
    unlisted
}

fn seven_up(gpus: &NodeGpus) -> bool {
    gpus.gpus.len() == 7 && gpus.gpus.iter().all(|gpu| gpu.condition == Condition::Up)
}

fn address(rig: &Rig) -> String {
    let of = &rig.node.state().gpus[SICK as usize].identity;
    format!("{:04x}:{:02x}:{:02x}.0", of.pci_domain, of.pci_bus, of.pci_device)
}

async fn whole_again(rig: &Rig) {
    let gpus = rig.tick_until(|gpus| all_up(gpus, 8)).await;
    assert_eq!(gpus.unlisted, []);
    assert_eq!(gpus.gpus[SICK as usize].gpu.pci.to_string(), address(rig));
    assert_eq!(gpus.calls.opens, 1, "it did not take opening the driver anew");
}

#[tokio::test]
async fn one_that_hangs_at_first() {
    let rig = Rig::with_deadline("dgx-h100", Duration::from_secs(2));
    let fault = rig.fault(Some(SICK), "nvmlDeviceGetHandleByIndex_v2", Effect::Block);
    let hangs = |gpus: &NodeGpus| {
        matches!(gpus.unlisted[..], [UnlistedGpu { reason: DownReason::Unresponsive { .. }, .. }])
    };
    let gpus = rig.tick_until(|gpus| seven_up(gpus) && hangs(gpus)).await;
    let unlisted = seven_and(&gpus);
    assert_eq!(unlisted.pci, None, "it said nothing at all");
    assert_eq!(unlisted.reason.call(), Some("nvmlDeviceGetHandleByIndex_v2"));
    assert_eq!(gpus.calls.stuck_threads, 1);
    rig.clear(fault);
    whole_again(&rig).await;
}

#[tokio::test]
async fn one_that_hangs_before_it_told_its_uuid_has_an_address() {
    let rig = Rig::with_deadline("dgx-h100", Duration::from_secs(2));
    let fault = rig.fault(Some(SICK), "nvmlDeviceGetUUID", Effect::Block);
    let hangs = |gpus: &NodeGpus| matches!(gpus.unlisted[..], [one] if one.reason.reason() == "Unresponsive");
    let gpus = rig.tick_until(|gpus| seven_up(gpus) && hangs(gpus)).await;
    let unlisted = seven_and(&gpus);
    assert_eq!(unlisted.pci.unwrap().to_string(), address(&rig));
    assert_eq!(unlisted.reason.call(), Some("nvmlDeviceGetUUID"));
    rig.clear(fault);
    whole_again(&rig).await;
}

#[tokio::test]
async fn one_that_is_lost() {
    let rig = Rig::new("dgx-h100");
    rig.command(Command::Lose { gpu: SICK });
    let unlisted = seven_and(&rig.tick().await);
    assert!(matches!(unlisted.reason, DownReason::Lost(_)), "{unlisted:?}");
    rig.command(Command::Restore { gpu: SICK });
    whole_again(&rig).await;
}

#[tokio::test]
async fn one_that_may_not_be_used() {
    let rig = Rig::new("dgx-h100");
    let denied = Effect::Return(4);
    let fault = rig.command(Command::SetFault { gpu: Some(SICK), symbol: None, effect: denied });
    let unlisted = seven_and(&rig.tick().await);
    let answer = Answer { call: "nvmlDeviceGetHandleByIndex_v2", cause: Cause::Code(4) };
    assert_eq!(unlisted.reason, DownReason::Failed(answer), "{fault:?}");
    rig.command(Command::ClearFault { id: None });
    whole_again(&rig).await;
}

#[tokio::test]
async fn none_is_told_of_while_the_driver_is_closed() {
    let rig = Rig::new("dgx-h100");
    rig.command(Command::Lose { gpu: SICK });
    seven_and(&rig.tick().await);
    rig.driver.quiesce(Duration::from_secs(20)).await.unwrap();
    let quiet = rig.tick().await;
    assert_eq!((quiet.gpus.len(), quiet.unlisted.len()), (7, 0));
    rig.driver.resume().await;
    seven_and(&rig.tick().await);
}
