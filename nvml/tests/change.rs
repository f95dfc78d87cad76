//! Changing how a GPU is divided.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use gpulet_nvml::{Change, ChangeError, Changed};
use gpulet_partition::apply::Failure;
use gpulet_partition::observed::Holder;
use gpulet_partition::step::{InstanceAt, Step};
use gpulet_simulator::state::{Effect, ProcessKind};
use support::dividing::{at, compute, hold, place, profile};
use support::{Rig, sample, value};

const NODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/mig.yaml");
const PATIENCE: Duration = Duration::from_secs(20);

/// Layouts that there is one way only to make: the driver's own places would not do.
#[tokio::test]
async fn each_instance_lies_where_it_was_told_to() {
    let rig = Rig::new(NODE);
    rig.done(1, Step::SetMode(true)).await;
    let empty = rig.division(1).await;
    let traps: [&[(&str, u32)]; 4] = [
        &[("2g.20gb", 0), ("2g.20gb", 2), ("3g.40gb", 4)],
        &[("1g.10gb", 6), ("4g.40gb", 0), ("2g.20gb", 4)],
        &[("3g.40gb", 4), ("1g.10gb", 3), ("1g.10gb", 0), ("1g.10gb", 1), ("1g.10gb", 2)],
        &[("1g.20gb", 2), ("1g.20gb", 6), ("1g.20gb", 0), ("1g.20gb", 4)],
    ];
    for trap in traps {
        for (name, start) in trap {
            rig.done(1, Step::CreateInstance(at(&empty, name, *start))).await;
        }
        let mut wanted: Vec<_> =
            trap.iter().map(|(name, start)| (*start, format!("{name}@{start} []"))).collect();
        wanted.sort();
        assert_eq!(rig.layout(1), wanted.into_iter().map(|(_, told)| told).collect::<Vec<_>>());
        let divided = rig.division(1).await;
        assert!(divided.instances.iter().all(|instance| instance.computes.is_empty()), "orphans are seen");
        for (name, start) in trap {
            rig.done(1, Step::DestroyInstance(at(&empty, name, *start))).await;
        }
        assert_eq!(rig.layout(1), Vec::<String>::new());
    }
}

#[tokio::test]
async fn compute_instances_go_by_kind_and_place() {
    let rig = Rig::new(NODE);
    let divided = rig.division(0).await;
    let three = at(&divided, "3g.40gb", 0);
    assert_eq!(rig.layout(0)[0], "3g.40gb@0 [1@0:2 0@2:1]");
    rig.done(0, Step::DestroyCompute { within: three, compute: compute(1, 0, 2) }).await;
    rig.done(0, Step::CreateCompute { within: three, profile: 0, placement: Some(place(1, 1)) }).await;
    rig.done(0, Step::CreateCompute { within: three, profile: 0, placement: None }).await;
    assert_eq!(rig.layout(0)[0], "3g.40gb@0 [0@0:1 0@1:1 0@2:1]");
    for start in 0..3 {
        rig.done(0, Step::DestroyCompute { within: three, compute: compute(0, start, 1) }).await;
    }
    rig.done(0, Step::CreateCompute { within: three, profile: 2, placement: Some(place(0, 3)) }).await;
    assert_eq!(rig.layout(0)[0], "3g.40gb@0 [2@0:3]");
}

/// The numbers are those of other instances by then.
#[tokio::test]
async fn what_is_destroyed_is_told_by_its_place_and_not_by_a_number() {
    let rig = Rig::new(NODE);
    rig.done(1, Step::SetMode(true)).await;
    let empty = rig.division(1).await;
    let ones: Vec<InstanceAt> = (0..7).map(|start| at(&empty, "1g.10gb", start)).collect();
    for one in &ones {
        rig.done(1, Step::CreateInstance(*one)).await;
    }
    let numbers = || -> BTreeMap<u32, u32> {
        let mig = rig.truth(1).mig.unwrap();
        mig.instances.iter().map(|instance| (instance.placement.0, instance.id)).collect()
    };
    let before = numbers();
    for one in ones.iter().rev() {
        rig.done(1, Step::DestroyInstance(*one)).await;
    }
    for one in ones.iter().rev().chain(&[]) {
        rig.done(1, Step::CreateInstance(*one)).await;
    }
    assert_eq!(before.len(), numbers().len());
    rig.done(1, Step::DestroyInstance(ones[3])).await;
    let left: Vec<u32> = numbers().into_keys().collect();
    assert_eq!(left, [0, 1, 2, 4, 5, 6]);
}

#[tokio::test]
async fn what_follows_from_slices_is_what_the_driver_tells_of_instances() {
    for (node, gpu) in [(NODE, 1), ("rtx-pro-6000", 0)] {
        let rig = Rig::new(node);
        if !rig.division(gpu).await.mode.unwrap().current {
            rig.command(gpulet_simulator::command::Command::Load {
                gpu: None,
                load: gpulet_simulator::command::Load::Idle,
            });
            rig.done(gpu, Step::SetMode(true)).await;
        }
        let empty = rig.division(gpu).await;
        assert!(empty.profiles.len() > 5 && empty.instances.is_empty(), "{node}");
        for offered in &empty.profiles {
            let one = InstanceAt { profile: offered.id, placement: offered.placements[0] };
            rig.done(gpu, Step::CreateInstance(one)).await;
            let told = rig.division(gpu).await;
            let told = profile(&told, &offered.name);
            let plain = |of: &gpulet_partition::observed::Profile| -> Vec<_> {
                let own = of.compute_profiles.iter();
                own.map(|own| (own.id, own.name.clone(), own.slices, own.max_instances)).collect()
            };
            assert_eq!(plain(told), plain(offered), "{node} {}", offered.name);
            assert!(offered.compute_profiles.iter().all(|own| own.placements.is_none()));
            for own in &told.compute_profiles {
                let places = own.placements.as_ref().unwrap();
                assert!(places.len() >= own.max_instances as usize, "{node} {}: {places:?}", own.name);
            }
            rig.done(gpu, Step::DestroyInstance(one)).await;
        }
    }
}

#[tokio::test]
async fn what_is_in_use_stays_and_is_told_with_its_users() {
    let rig = Rig::new(NODE);
    let divided = rig.division(0).await;
    let instance = divided.instances.iter().find(|instance| instance.computes.len() == 2).unwrap();
    let (within, first, second) = (instance.at(), &instance.computes[0], &instance.computes[1]);
    rig.command(hold(0, 4711, ProcessKind::Compute, Some((instance.id.0, second.id.0))));
    let before = rig.layout(0);
    let refused = [
        (Step::DestroyCompute { within, compute: second.at() }, "nvmlComputeInstanceDestroy"),
        (Step::DestroyInstance(within), "nvmlGpuInstanceDestroy"),
        (Step::SetMode(false), "nvmlDeviceSetMigMode"),
    ];
    for (step, call) in refused {
        let error = rig.change(0, step).await.unwrap_err();
        let ChangeError::InUse { holders, .. } = &error else { panic!("{error}") };
        assert_eq!(holders, &[Holder::Process { pid: 4711, program: None, pod: None }], "{error}");
        let Failure { reason, message } = error.into();
        assert_eq!(reason, "InUse");
        for part in [call, "NVML_ERROR_IN_USE (19)", "process 4711", rig.uuid(0).as_str(), "; "] {
            assert!(message.contains(part), "{message}");
        }
    }
    assert_eq!(rig.layout(0), before);
    // The other half is free.
    rig.done(0, Step::DestroyCompute { within, compute: first.at() }).await;
}

#[tokio::test]
async fn what_does_not_fit_or_is_not_there_is_refused() {
    let rig = Rig::new(NODE);
    let divided = rig.division(0).await;
    let before = rig.layout(0);
    let taken = at(&divided, "4g.40gb", 0);
    let absent = at(&divided, "1g.10gb", 5);
    let present = at(&divided, "1g.10gb", 4);
    let unknown = InstanceAt { profile: 4242, placement: place(5, 1) };
    let odd = InstanceAt { placement: place(1, 4), ..taken };
    let refused = [
        (Step::CreateInstance(taken), "InsufficientResources"),
        (Step::CreateInstance(odd), "InvalidArgument"),
        (Step::CreateInstance(unknown), "InvalidArgument"),
        (Step::DestroyInstance(absent), "NoSuchInstance"),
        (Step::DestroyInstance(unknown), "UnknownProfile"),
        (Step::DestroyCompute { within: absent, compute: compute(0, 0, 1) }, "NoSuchInstance"),
        (Step::DestroyCompute { within: present, compute: compute(0, 1, 1) }, "NoSuchInstance"),
        (Step::CreateCompute { within: present, profile: 4, placement: None }, "UnknownProfile"),
        (Step::CreateCompute { within: present, profile: 0, placement: None }, "InsufficientResources"),
        (Step::CreateCompute { within: absent, profile: 0, placement: None }, "NoSuchInstance"),
    ];
    for (step, reason) in refused {
        let error = rig.change(0, step).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.is_unchanged() && error.to_string().contains(rig.uuid(0).as_str()), "{error}");
    }
    // Instances are of GPUs in MIG mode.
    let error = rig.change(1, Step::CreateInstance(taken)).await.unwrap_err();
    assert_eq!(error.reason(), "NotSupported", "{error}");
    assert_eq!(rig.layout(0), before);
}

#[tokio::test]
async fn each_code_has_its_word_and_names_call_instance_and_remedy() {
    let rig = Rig::new(NODE);
    let divided = rig.division(0).await;
    let step = Step::CreateInstance(at(&divided, "1g.10gb", 5));
    let call = "nvmlDeviceCreateGpuInstanceWithPlacement";
    let words = [
        (2, "InvalidArgument"),
        (3, "NotSupported"),
        (4, "NoPermission"),
        (6, "NotFound"),
        (10, "DriverTimeout"),
        (13, "DriverTooOld"),
        (15, "GpuLost"),
        (16, "ResetRequired"),
        (19, "InUse"),
        (23, "InsufficientResources"),
        (29, "InvalidState"),
        (999, "DriverError"),
        (4711, "DriverError"),
    ];
    for (code, word) in words {
        let fault = rig.fault(Some(0), call, Effect::Return(code));
        let error = rig.change(0, step).await.unwrap_err();
        rig.clear(fault);
        assert_eq!(error.reason(), word, "{error}");
        let message = error.to_string();
        for part in [call, "the GPU instance of profile 19 at 5:1", rig.uuid(0).as_str(), "; "] {
            assert!(message.contains(part), "{code}: {message}");
        }
        assert!(error.is_unchanged());
    }
    rig.done(0, step).await;
}

#[tokio::test]
async fn an_error_that_was_none_is_seen_by_reading_again() {
    let rig = Rig::new(NODE);
    let divided = rig.division(0).await;
    let new = at(&divided, "1g.10gb", 5);
    rig.done(0, Step::CreateInstance(new)).await;
    assert!(rig.division(0).await.instances.iter().any(|instance| instance.at() == new));
    // Another program removes it, and nothing that was learned hides that.
    let other = gpulet_nvml::Driver::new(rig.options.clone());
    other.change(&rig.uuid(0), Change::Step(Step::DestroyInstance(new))).await.unwrap();
    assert!(rig.division(0).await.instances.iter().all(|instance| instance.at() != new));
    assert_eq!(rig.change(0, Step::DestroyInstance(new)).await.unwrap_err().reason(), "NoSuchInstance");
}

/// The tick after a change tells of it: who reads processes wants to know their instances.
#[tokio::test]
async fn samples_tell_of_a_change_at_once() {
    let rig = Rig::new(NODE);
    let divided = rig.division(0).await;
    let fast = gpulet_nvml::Classes { fast: true, slow: false };
    rig.tick().await;
    rig.done(0, Step::CreateInstance(at(&divided, "1g.10gb", 5))).await;
    let gpus = rig.driver.sample(fast, std::time::Instant::now()).await;
    let mig = value(&sample(&gpus.gpus[0]).mig);
    assert_eq!(value(&mig.instances).len(), 4);
}

#[tokio::test]
async fn two_gpus_are_changed_side_by_side() {
    let rig = Rig::new(NODE);
    rig.done(1, Step::SetMode(true)).await;
    let (first, second) = (rig.division(0).await, rig.division(1).await);
    let one = Step::CreateInstance(at(&first, "1g.10gb", 5));
    let two = Step::CreateInstance(at(&second, "7g.80gb", 0));
    let fault = rig.fault(Some(0), "nvmlDeviceCreateGpuInstanceWithPlacement", Effect::Block);
    let (driver, gpu) = (rig.driver.clone(), rig.uuid(0));
    let blocked = tokio::spawn(async move { driver.change(&gpu, Change::Step(one)).await });
    rig.done(1, two).await;
    assert!(!blocked.is_finished());
    rig.clear(fault);
    assert_eq!(blocked.await.unwrap().unwrap(), Changed::default());
    assert_eq!((rig.layout(0).len(), rig.layout(1).len()), (4, 1));
}

#[tokio::test]
async fn persistence_mode_is_read_and_set_and_left_alone_where_it_is_as_wanted() {
    let rig = Rig::new(NODE);
    let gpu = rig.uuid(1);
    let was = rig.driver.persistence(&gpu).await.unwrap().unwrap();
    assert_eq!(rig.truth(1).now.persistence, was);
    for on in [was, !was, !was, was] {
        rig.driver.change(&gpu, Change::Persistence(on)).await.unwrap();
        assert_eq!(rig.driver.persistence(&gpu).await.unwrap(), Some(on));
        assert_eq!(rig.truth(1).now.persistence, on);
    }
    assert_eq!((rig.truth(1).changing_calls, rig.truth(0).changing_calls), (2, 0));
    rig.fault(Some(1), "nvmlDeviceGetPersistenceMode", Effect::Return(3));
    assert_eq!(rig.driver.persistence(&gpu).await.unwrap(), None);
    rig.fault(Some(0), "nvmlDeviceSetPersistenceMode", Effect::Return(4));
    let error = rig.driver.change(&rig.uuid(0), Change::Persistence(!was)).await.unwrap_err();
    assert_eq!(error.reason(), "NoPermission", "{error}");
}

#[tokio::test]
async fn nothing_is_changed_while_the_driver_is_let_go_of() {
    let rig = Rig::new(NODE);
    let divided = rig.division(0).await;
    rig.driver.quiesce(PATIENCE).await.unwrap();
    let error = rig.change(0, Step::CreateInstance(at(&divided, "1g.10gb", 5))).await.unwrap_err();
    assert_eq!((error.reason(), error.is_unchanged()), ("Quiesced", true));
    assert_eq!(rig.truth(0).changing_calls, 0);
}
