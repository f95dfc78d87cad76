//! What nvml-wrapper 0.13 gets wrong, each beside what this crate makes of it. When one of these fails because the
//! wrapper is right, its fault has been mended and ours can be simplified.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use gpulet_inventory::link::RemoteKind;
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use gpulet_inventory::reading::Cause;
use gpulet_simulator::command::Command;
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::nv_link::IntDeviceType;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::event::EventData;
use nvml_wrapper::structs::device::FieldId;
use support::{Rig, sample, unsupported, value};

fn wrapper(rig: &Rig) -> Nvml {
    Nvml::builder().lib_path(rig.node.library().as_os_str()).init().unwrap()
}

#[tokio::test]
async fn wrapper_possible_placements_are_always_empty() {
    let rig = Rig::new("dgx-h100");
    let gpus = rig.tick().await;
    let ours = value(&value(&sample(&gpus.gpus[0]).mig).profiles);
    assert!(!ours.is_empty());
    let nvml = wrapper(&rig);
    let device = nvml.device_by_index(0).unwrap();
    for profile in &ours {
        assert!(!value(&profile.placements).is_empty());
        assert!(device.possible_placements(profile.id).unwrap().is_empty());
    }
}

#[tokio::test]
async fn wrapper_remote_device_type_is_always_unknown() {
    let rig = Rig::new("dgx-h100");
    let gpus = rig.tick().await;
    let ours = value(&sample(&gpus.gpus[0]).nvlinks);
    assert_eq!(value(&ours[0].remote_kind), RemoteKind::Switch);
    let nvml = wrapper(&rig);
    let device = nvml.device_by_index(0).unwrap();
    assert!(matches!(device.link_wrapper_for(0).remote_device_type(0), Ok(IntDeviceType::Unknown)));
}

#[tokio::test]
async fn wrapper_field_values_are_those_of_scope_0_only() {
    let rig = Rig::new("dgx-h100");
    rig.work();
    rig.command(Command::Link { gpu: 0, link: 0, up: false });
    rig.work();
    let gpus = rig.tick().await;
    let ours = value(&sample(&gpus.gpus[0]).nvlinks);
    let (first, second) = (value(&ours[0].transmitted_bytes), value(&ours[1].transmitted_bytes));
    assert_ne!(first, second, "link 0 was down for a while");
    let nvml = wrapper(&rig);
    let device = nvml.device_by_index(0).unwrap();
    // The same field twice is twice the same link: there is no way to name another.
    let theirs = device.field_values_for(&[FieldId(138), FieldId(138)]).unwrap();
    let kib: Vec<u64> = theirs
        .into_iter()
        .map(|entry| match entry.unwrap().value.unwrap() {
            SampleValue::U64(kib) => kib,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kib, [first / 1024, first / 1024]);
}

#[tokio::test]
async fn wrapper_believes_the_type_of_the_memory_temperature() {
    let rig = Rig::new("dgx-h100");
    let gpus = rig.tick().await;
    let truth = rig.node.state().gpus[0].now.memory_temperature_c;
    assert_eq!(value(&sample(&gpus.gpus[0]).temperature.memory), truth);
    let nvml = wrapper(&rig);
    let device = nvml.device_by_index(0).unwrap();
    let theirs = device.field_values_for(&[FieldId(82)]).unwrap().remove(0).unwrap().value.unwrap();
    assert!(matches!(theirs, SampleValue::F64(celsius) if celsius < 1e-300), "{theirs:?}");
}

#[tokio::test]
async fn wrapper_has_no_memory_of_an_older_driver() {
    let rig = Rig::new("l40s-4x");
    rig.change_driver("470.256.02");
    let gpus = rig.tick().await;
    assert!(value(&sample(&gpus.gpus[0]).memory).total > 0);
    let nvml = wrapper(&rig);
    let device = nvml.device_by_index(0).unwrap();
    assert!(matches!(device.memory_info(), Err(NvmlError::FailedToLoadSymbol(_))));
}

#[tokio::test]
async fn wrapper_events_do_not_say_which_instance_and_lack_the_newer_kinds() {
    let rig = Rig::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/mig.yaml"));
    let mut events = rig.driver.events();
    rig.tick().await;
    let nvml = wrapper(&rig);
    let device = nvml.device_by_index(0).unwrap();
    let set = nvml.create_event_set().unwrap();
    let set = device.register_events(EventTypes::CRITICAL_XID_ERROR, set).unwrap();
    let instance = rig.node.state().gpus[0].mig.as_ref().unwrap().instances[0].clone();
    let at = (instance.id, instance.compute[0].id);
    rig.command(Command::Xid { gpu: 0, code: 43, times: 1, instance: Some(at) });
    // All that there is, by name: a wrapper that tells more no longer compiles here.
    let EventData { device: _, event_type, event_data } = set.wait(10_000).unwrap();
    assert_eq!(event_type, EventTypes::CRITICAL_XID_ERROR);
    assert!(matches!(event_data, Some(XidError::Value(43))));
    assert!(EventTypes::from_bits(0x4000).is_none() && EventTypes::from_bits(0x8000).is_none());
    let ours = events.recv().await.unwrap();
    assert_eq!(ours.gpu_instance, Some(GpuInstanceId(at.0)));
    assert_eq!(ours.compute_instance, Some(ComputeInstanceId(at.1)));
}

#[tokio::test]
async fn wrapper_takes_ecc_counters_that_are_not_there_for_zero() {
    let rig = Rig::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/ecc-off.yaml"));
    let gpus = rig.tick().await;
    let ours = &sample(&gpus.gpus[0]).ecc;
    assert!(!value(&ours.enabled));
    let name = "nvmlDeviceGetFieldValues[NVML_FI_DEV_ECC_SBE_VOL_TOTAL]";
    assert_eq!(unsupported(&ours.volatile_corrected), (name, Cause::Blank));
    let nvml = wrapper(&rig);
    let device = nvml.device_by_index(0).unwrap();
    let theirs = device.field_values_for(&[FieldId(3)]).unwrap().remove(0).unwrap();
    assert!(matches!(theirs.value, Ok(SampleValue::F64(0.0))), "{theirs:?}");
}
