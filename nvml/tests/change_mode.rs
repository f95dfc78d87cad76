//! Turning MIG mode on and off: at once, with a reset, or put off until one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use gpulet_inventory::mig::MigMode;
use gpulet_inventory::reading::Cause;
use gpulet_nvml::{Change, Changed, Driver, PutOff};
use gpulet_partition::step::Step;
use gpulet_simulator::command::{Command, Load};
use gpulet_simulator::state::{Effect, ProcessKind};
use support::dividing::{at, compute, hold, place};
use support::{Rig, all_up, sample, value};

const NODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/mig.yaml");

const ON: Step = Step::SetMode(true);
const OFF: Step = Step::SetMode(false);

fn mode(current: bool, pending: bool) -> Option<MigMode> {
    Some(MigMode { current, pending })
}

/// A node whose GPUs do nothing.
fn idle(node: &str) -> Rig {
    let rig = Rig::new(node);
    rig.command(Command::Load { gpu: None, load: Load::Idle });
    rig
}

#[tokio::test]
async fn without_a_need_for_a_reset_it_is_in_force_at_once() {
    let rig = idle(NODE);
    let gpu = rig.uuid(1);
    assert_eq!(rig.driver.is_mig_resetless(&gpu).await.unwrap(), Some(true));
    rig.done(1, ON).await;
    assert_eq!(rig.division(1).await.mode, mode(true, true));
    // Once it is so, the driver is not asked again.
    rig.done(1, ON).await;
    rig.done(1, OFF).await;
    assert_eq!(rig.division(1).await.mode, mode(false, false));
    assert_eq!((rig.truth(1).changing_calls, rig.truth(1).resets, rig.truth(0).changing_calls), (2, 0, 0));
}

#[tokio::test]
async fn the_driver_is_opened_anew_afterwards() {
    let rig = idle(NODE);
    let before = rig.tick().await;
    assert_eq!(before.calls.opens, 1);
    rig.done(1, ON).await;
    let after = rig.tick().await;
    assert!(all_up(&after, 2), "{after:#?}");
    assert_eq!(after.calls.opens, 2);
    assert!(value(&sample(&after.gpus[1]).mig).mode.current);
    assert_eq!(rig.tick().await.calls.opens, 2, "once");
    // Also without a sample in between.
    rig.done(1, OFF).await;
    rig.done(1, ON).await;
    rig.division(1).await;
    let after = rig.tick().await;
    assert!(all_up(&after, 2) && after.calls.stuck_threads == 0, "{after:#?}");
    assert!(after.calls.opens >= 3);
}

/// It waits until the other GPU's change is over: the library is not shut down under it.
#[tokio::test]
async fn another_gpus_change_goes_on_with_the_driver_that_it_has() {
    let rig = idle(NODE);
    rig.tick().await;
    let divided = rig.division(0).await;
    let new = Step::CreateInstance(at(&divided, "1g.10gb", 5));
    let fault = rig.fault(Some(0), "nvmlDeviceCreateGpuInstanceWithPlacement", Effect::Block);
    let (driver, gpu) = (rig.driver.clone(), rig.uuid(0));
    let blocked = tokio::spawn(async move { driver.change(&gpu, Change::Step(new)).await });
    // It is asked for before anything else is.
    tokio::task::yield_now().await;
    rig.done(1, ON).await;
    assert_eq!(rig.division(1).await.mode, mode(true, true));
    let gpus = rig.tick().await;
    assert!(all_up(&gpus, 2), "{gpus:#?}");
    assert!(!blocked.is_finished());
    rig.clear(fault);
    assert_eq!(blocked.await.unwrap().unwrap(), Changed::default());
    let opens = gpus.calls.opens;
    let after = rig.tick().await;
    assert!(all_up(&after, 2) && after.calls.stuck_threads == 0, "{after:#?}");
    assert_eq!(after.calls.opens, opens + 1);
}

#[tokio::test]
async fn a_gpu_that_needs_a_reset_gets_one_from_the_driver_where_nobody_has_it_open() {
    let rig = idle("a30-2x");
    let gpu = rig.uuid(0);
    assert_eq!(rig.driver.is_mig_resetless(&gpu).await.unwrap(), Some(false));
    rig.driver.change(&gpu, Change::Persistence(false)).await.unwrap();
    rig.done(0, ON).await;
    assert_eq!(rig.division(0).await.mode, mode(true, true));
    assert_eq!((rig.truth(0).resets, rig.truth(1).resets), (1, 0));
    let divided = rig.division(0).await;
    rig.done(0, Step::CreateInstance(at(&divided, "2g.12gb", 2))).await;
    assert_eq!(rig.layout(0), ["2g.12gb@2 []"]);
}

#[tokio::test]
async fn where_somebody_has_it_open_it_is_put_off_and_can_be_taken_back() {
    let rig = idle("a30-2x");
    let gpu = rig.uuid(0);
    rig.driver.change(&gpu, Change::Persistence(false)).await.unwrap();
    rig.command(hold(0, 99, ProcessKind::Compute, None));
    let changed = rig.change(0, ON).await.unwrap();
    let Some(PutOff { gpu: which, answer }) = &changed.put_off else { panic!("{changed:?}") };
    assert_eq!((which, answer.call, answer.cause), (&gpu, "nvmlDeviceSetMigMode", Cause::Code(19)));
    let told = changed.put_off.unwrap().to_string();
    assert!(told.contains(gpu.as_str()) && told.contains("IN_USE (19)") && told.contains("reset"), "{told}");
    assert_eq!(rig.division(0).await.mode, mode(false, true));
    rig.change(0, OFF).await.unwrap();
    assert_eq!(rig.division(0).await.mode, mode(false, false));
    assert_eq!(rig.truth(0).resets, 0);
}

#[tokio::test]
async fn persistence_mode_puts_it_off_too() {
    let rig = idle("a30-2x");
    rig.driver.change(&rig.uuid(0), Change::Persistence(true)).await.unwrap();
    assert!(rig.change(0, ON).await.unwrap().put_off.is_some());
    assert_eq!(rig.division(0).await.mode, mode(false, true));
}

#[tokio::test]
async fn a_virtual_machine_says_that_it_cannot_reset() {
    let rig = idle("p4d-24xl");
    let changed = rig.change(3, ON).await.unwrap();
    assert_eq!(changed.put_off.unwrap().answer.cause, Cause::Code(16));
    assert_eq!(rig.division(3).await.mode, mode(false, true));
}

/// A GPU that needs no reset has nothing to wait for: the driver reports success and has done nothing.
#[tokio::test]
async fn a_mode_that_stays_as_it_is_is_no_success() {
    let rig = idle(NODE);
    let error = rig.change(0, OFF).await.unwrap_err();
    assert_eq!(error.reason(), "InUse", "{error}");
    assert!(error.to_string().contains("nvmlDeviceSetMigMode"), "{error}");
    assert_eq!(rig.division(0).await.mode, mode(true, true));
    assert_eq!(rig.layout(0).len(), 3);
}

#[tokio::test]
async fn a_gpu_without_the_mode_refuses_it() {
    let rig = idle("l40s-4x");
    let error = rig.change(0, ON).await.unwrap_err();
    assert_eq!(error.reason(), "NotSupported", "{error}");
}

/// Old drivers name no profiles, and choose themselves where a compute instance lies.
#[tokio::test]
async fn with_an_old_driver_what_can_be_done_is_done_and_the_rest_is_refused() {
    let rig = idle("a30-2x");
    let new = rig.division(0).await;
    rig.driver.quiesce(std::time::Duration::from_secs(20)).await.unwrap();
    rig.change_driver("470.256.02");
    let driver = Driver::new(rig.options.clone());
    let gpu = rig.uuid(0);
    let change = async |step| driver.change(&gpu, Change::Step(step)).await;
    assert_eq!(driver.division(&gpu).await.unwrap().profiles, [], "told in MIG mode only");
    driver.change(&gpu, Change::Persistence(false)).await.unwrap();
    change(ON).await.unwrap();
    let old = driver.division(&gpu).await.unwrap();
    assert!(!old.profiles.is_empty());
    for profile in &old.profiles {
        let named = new.profiles.iter().find(|other| other.id == profile.id).unwrap();
        assert_eq!((&profile.name, &profile.placements), (&named.name, &named.placements));
    }
    let within = at(&old, "4g.24gb", 0);
    change(Step::CreateInstance(within)).await.unwrap();
    let create = |start| Step::CreateCompute { within, profile: 0, placement: Some(place(start, 1)) };
    change(create(0)).await.unwrap();
    let error = change(create(3)).await.unwrap_err();
    assert_eq!(error.reason(), "OtherPlace", "{error}");
    assert!(error.to_string().contains("1:1"), "{error}");
    assert_eq!(rig.layout(0), ["4g.24gb@0 [0@0:1]"], "what lay elsewhere was removed again");
    let divided = driver.division(&gpu).await.unwrap();
    assert_eq!(divided.instances[0].computes[0].at(), compute(0, 0, 1));
    let own = &support::dividing::profile(&divided, "4g.24gb").compute_profiles;
    assert!(own.iter().all(|own| own.placements.is_none()), "{own:?}");
}

#[tokio::test]
async fn a_driver_that_takes_no_places_at_all_is_too_old() {
    let rig = idle("a30-2x");
    rig.driver.quiesce(std::time::Duration::from_secs(20)).await.unwrap();
    rig.change_driver("460.73.01");
    let driver = Driver::new(rig.options.clone());
    let gpu = rig.uuid(0);
    driver.change(&gpu, Change::Persistence(false)).await.unwrap();
    driver.change(&gpu, Change::Step(ON)).await.unwrap();
    let error = driver.division(&gpu).await.unwrap_err();
    assert_eq!(error.reason(), "DriverTooOld", "{error}");
    assert!(error.to_string().contains("nvmlDeviceGetGpuInstancePossiblePlacements_v2"), "{error}");
    let within = gpulet_partition::step::InstanceAt { profile: 0, placement: place(0, 4) };
    let error = driver.change(&gpu, Change::Step(Step::CreateInstance(within))).await.unwrap_err();
    assert_eq!(error.reason(), "DriverTooOld", "{error}");
    assert!(error.to_string().contains("nvmlDeviceCreateGpuInstanceWithPlacement"), "{error}");
}
