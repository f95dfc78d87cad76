//! How the driver refuses: sizes, versions, handles, what a board or MIG mode does not have. Through the raw symbols,
//! since the wrapper hides some of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unsafe_code
)]

mod common;

use std::ptr::{null, null_mut};

use common::TestNode;
use gpulet_simulator::SYMBOLS;
use gpulet_simulator::command::Command;
use nvml_wrapper::Nvml;
use nvml_wrapper_sys::bindings::*;

const EVERY_BOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/every-board.yaml");
// Indices on that node.
const A100: u32 = 0;
const H100: u32 = 1;
const L40S: u32 = 3;
const RTX: u32 = 4;
const T4: u32 = 5;
const H100_MIG: u32 = 6;
const RTX_MIG: u32 = 7;

/// Calls a symbol of the node's library.
macro_rules! call {
    ($nvml:expr, $symbol:ident($($argument:expr),*)) => {{
        let symbol = $nvml.lib().$symbol.as_ref().unwrap();
        // SAFETY: the arguments are what the test is about; pointers are null or to locals.
        unsafe { symbol($($argument),*) }
    }};
}

fn handle(nvml: &Nvml, index: u32) -> nvmlDevice_t {
    let mut device = null_mut();
    assert_eq!(call!(nvml, nvmlDeviceGetHandleByIndex_v2(index, &raw mut device)), 0);
    device
}

#[test]
fn no_symbol_crashes_on_null_or_garbage() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let gpu = handle(&nvml, H100);
    let without_pointers =
        ["nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlDeviceSetPersistenceMode"];
    for symbol in SYMBOLS.iter().filter(|symbol| !without_pointers.contains(symbol)) {
        type Any =
            unsafe extern "C" fn(*mut nvmlDevice_st, usize, usize, usize, usize, usize) -> nvmlReturn_t;
        let name = [symbol.as_bytes(), b"\0"].concat();
        // SAFETY: every symbol takes at most six integers or pointers, which the C ABI passes in registers.
        let function = unsafe { nvml.lib().__library.get::<Any>(&name) }.unwrap();
        let no_handle = [
            "nvmlSystem",
            "nvmlGetExcluded",
            "nvmlDeviceGetCount",
            "nvmlDeviceGetHandleBy",
            "nvmlEventSetCreate",
            "nvmlGpmSampleAlloc",
            "nvmlGpmMetricsGet",
        ];
        let takes_handle = !no_handle.iter().any(|prefix| symbol.starts_with(prefix));
        let garbage = 0xDEAD_BEEF_usize as *mut nvmlDevice_st;
        for first in [null_mut(), gpu, garbage].into_iter().take(if takes_handle { 3 } else { 1 }) {
            // SAFETY: as above; the first argument is null or meant as a handle, all others are null.
            let code = unsafe { function(first, 0, 0, 0, 0, 0) };
            assert_ne!(code, 0, "{symbol}({first:?}, nulls)");
        }
    }
}

#[test]
fn too_little_room_is_refused() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let gpu = handle(&nvml, H100);
    let mut name = [0; 96];
    assert_eq!(call!(nvml, nvmlDeviceGetName(gpu, name.as_mut_ptr(), 5)), 7);
    assert_eq!(call!(nvml, nvmlDeviceGetName(gpu, name.as_mut_ptr(), 96)), 0);
    let busy = handle(&nvml, A100);
    let mut count = 0;
    assert_eq!(call!(nvml, nvmlDeviceGetComputeRunningProcesses_v3(busy, &raw mut count, null_mut())), 7);
    assert_eq!(count, 1);
    let pid = test.node.state().gpus[A100 as usize].processes[0].pid;
    assert_eq!(call!(nvml, nvmlSystemGetProcessName(pid, name.as_mut_ptr(), 0)), 2);
    assert_eq!(call!(nvml, nvmlSystemGetProcessName(pid, name.as_mut_ptr(), 5)), 0);
    assert_eq!(name[..5].iter().map(|c| *c as u8).collect::<Vec<u8>>(), b"/usr\0", "cut, not refused");
    let mut words = [0; 2];
    assert_eq!(call!(nvml, nvmlDeviceGetCpuAffinity(gpu, 0, words.as_mut_ptr())), 2);
    assert_eq!(call!(nvml, nvmlDeviceGetCpuAffinity(gpu, 2, words.as_mut_ptr())), 0);
    assert_eq!(words, [0b1111, 0]);
}

#[test]
fn structs_have_versions() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let gpu = handle(&nvml, H100);
    let mut memory = nvmlMemory_v2_t { version: 0, total: 1, reserved: 1, free: 1, used: 1 };
    for wrong in [0, 2, 40, 40 | 1 << 24, 41 | 2 << 24] {
        memory.version = wrong;
        assert_eq!(call!(nvml, nvmlDeviceGetMemoryInfo_v2(gpu, &raw mut memory)), 25, "{wrong:#x}");
    }
    assert_eq!(memory.total, 1, "nothing is written under a wrong version");
    memory.version = 40 | 2 << 24;
    assert_eq!(call!(nvml, nvmlDeviceGetMemoryInfo_v2(gpu, &raw mut memory)), 0);
    assert_eq!(memory.total, test.node.state().gpus[H100 as usize].board.memory_bytes);

    // SAFETY: plain C structs, for which zeros are valid.
    let mut fabric: nvmlGpuFabricInfo_v3_t = unsafe { std::mem::zeroed() };
    assert_eq!(call!(nvml, nvmlDeviceGetGpuFabricInfoV(gpu, &raw mut fabric)), 25);
    for (size, version) in
        [(size_of::<nvmlGpuFabricInfo_v2_t>(), 2), (size_of::<nvmlGpuFabricInfo_v3_t>(), 3)]
    {
        fabric.version = size as u32 | version << 24;
        assert_eq!(call!(nvml, nvmlDeviceGetGpuFabricInfoV(gpu, &raw mut fabric)), 0);
    }
}

#[test]
fn what_a_board_lacks_is_not_supported() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let mut value = 0;
    let mut long = 0;
    let not_supported = |code: nvmlReturn_t| assert_eq!(code, 3);
    not_supported(call!(nvml, nvmlDeviceGetMigMode(handle(&nvml, L40S), &raw mut value, &raw mut value)));
    not_supported(call!(nvml, nvmlDeviceGetNvLinkState(handle(&nvml, L40S), 0, &raw mut value)));
    not_supported(call!(nvml, nvmlDeviceGetFanSpeed(handle(&nvml, H100), &raw mut value)));
    not_supported(call!(nvml, nvmlDeviceGetNumaNodeId(handle(&nvml, H100), &raw mut value)));
    not_supported(call!(nvml, nvmlDeviceGetRetiredPagesPendingStatus(handle(&nvml, H100), &raw mut value)));
    not_supported(call!(nvml, nvmlDeviceGetGpuInstanceId(handle(&nvml, H100), &raw mut value)));
    not_supported(call!(nvml, nvmlDeviceGetAccountingPids(handle(&nvml, H100), &raw mut value, null_mut())));
    assert_eq!(call!(nvml, nvmlDeviceGetRetiredPagesPendingStatus(handle(&nvml, T4), &raw mut value)), 0);
    assert_eq!(call!(nvml, nvmlDeviceGetNvLinkState(handle(&nvml, H100), 99, &raw mut value)), 2);
    assert_eq!(call!(nvml, nvmlDeviceGetTotalEccErrors(handle(&nvml, RTX), 5, 0, &raw mut long)), 2);
}

#[test]
fn a_gpu_in_mig_mode_does_not_tell_its_utilisation() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let gpu = handle(&nvml, H100_MIG);
    let mut value = 0;
    let mut rates = nvmlUtilization_t { gpu: 0, memory: 0 };
    assert_eq!(call!(nvml, nvmlDeviceGetUtilizationRates(gpu, &raw mut rates)), 3);
    assert_eq!(call!(nvml, nvmlDeviceGetEncoderUtilization(gpu, &raw mut value, &raw mut value)), 3);
    assert_eq!(call!(nvml, nvmlDeviceGetProcessUtilization(gpu, null_mut(), &raw mut value, 0)), 3);
    assert_eq!(call!(nvml, nvmlDeviceGetPowerUsage(gpu, &raw mut value)), 0);
    // Row remapping is told by field values only while instances exist.
    let rows = &raw mut value;
    assert_eq!(call!(nvml, nvmlDeviceGetRemappedRows(gpu, rows, rows, rows, rows)), 3);
}

#[test]
fn mig_devices_have_numbers_with_holes() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    for (gpu, expected) in [(H100_MIG, vec![0, 2, 4, 6]), (RTX_MIG, vec![1, 2])] {
        let parent = handle(&nvml, gpu);
        let mut most = 0;
        assert_eq!(call!(nvml, nvmlDeviceGetMaxMigDeviceCount(parent, &raw mut most)), 0);
        let mut found = vec![];
        for index in 0..most {
            let mut device = null_mut();
            match call!(nvml, nvmlDeviceGetMigDeviceHandleByIndex(parent, index, &raw mut device)) {
                0 => found.push(index),
                6 => continue,
                other => panic!("{other}"),
            }
            let mut is = 0;
            assert_eq!(call!(nvml, nvmlDeviceIsMigDeviceHandle(device, &raw mut is)), 0);
            assert_eq!(is, 1);
            let mut back = null_mut();
            assert_eq!(call!(nvml, nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device, &raw mut back)), 0);
            assert_eq!(back, parent);
            let mut number = 0;
            assert_eq!(call!(nvml, nvmlDeviceGetMinorNumber(device, &raw mut number)), 3);
            assert_eq!(call!(nvml, nvmlDeviceGetIndex(device, &raw mut number)), 0);
            assert_eq!(number, index);
        }
        assert_eq!(found, expected, "GPU {gpu}");
        let mut beyond = null_mut();
        assert_eq!(call!(nvml, nvmlDeviceGetMigDeviceHandleByIndex(parent, most, &raw mut beyond)), 2);
    }
}

#[test]
fn mig_instances_are_what_the_hardware_says() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let gpu = handle(&nvml, H100_MIG);
    let truth = test.node.state().gpus[H100_MIG as usize].mig.clone().unwrap();
    let mut found = vec![];
    for (enumerator, profile) in &truth.profiles {
        // SAFETY: a plain C struct, for which zeros are valid.
        let mut info: nvmlGpuInstanceProfileInfo_v2_t = unsafe { std::mem::zeroed() };
        info.version = size_of_val(&info) as u32 | 2 << 24;
        assert_eq!(call!(nvml, nvmlDeviceGetGpuInstanceProfileInfoV(gpu, *enumerator, &raw mut info)), 0);
        let name: String = info.name.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect();
        assert_eq!((info.id, name), (profile.id, format!("MIG {}", profile.name)));

        let mut count = 0;
        assert_eq!(
            call!(
                nvml,
                nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, info.id, null_mut(), &raw mut count)
            ),
            0
        );
        assert_eq!(count as usize, profile.placements.len());
        let mut places = vec![nvmlGpuInstancePlacement_t { start: 99, size: 99 }; count as usize];
        let room = places.as_mut_ptr();
        assert_eq!(
            call!(nvml, nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, info.id, room, &raw mut count)),
            0
        );
        assert_eq!(
            places.iter().map(|place| (place.start, place.size)).collect::<Vec<_>>(),
            profile.placements
        );

        let mut instances = vec![null_mut(); info.instanceCount as usize];
        let room = instances.as_mut_ptr();
        assert_eq!(call!(nvml, nvmlDeviceGetGpuInstances(gpu, info.id, room, &raw mut count)), 0);
        for instance in &instances[..count as usize] {
            // SAFETY: as above.
            let mut of: nvmlGpuInstanceInfo_t = unsafe { std::mem::zeroed() };
            assert_eq!(call!(nvml, nvmlGpuInstanceGetInfo(*instance, &raw mut of)), 0);
            assert_eq!(of.profileId, profile.id);
            found.push((of.id, (of.placement.start, of.placement.size)));
        }
    }
    found.sort_unstable();
    let mut expected: Vec<_> = truth.instances.iter().map(|gi| (gi.id, gi.placement)).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(call!(nvml, nvmlDeviceGetGpuInstanceProfileInfo(gpu, 99, null_mut())), 2);
    assert_eq!(
        call!(nvml, nvmlDeviceGetGpuInstanceProfileInfo(gpu, 10, null_mut())),
        3,
        "this GPU has no graphics profile"
    );
}

#[test]
fn an_older_driver_lists_no_profiles_with_mig_off() {
    let test = TestNode::start(EVERY_BOARD);
    let profile = |nvml: &Nvml, gpu: u32| {
        // SAFETY: a plain C struct, for which zeros are valid.
        let mut info: nvmlGpuInstanceProfileInfo_t = unsafe { std::mem::zeroed() };
        call!(nvml, nvmlDeviceGetGpuInstanceProfileInfo(handle(nvml, gpu), 0, &raw mut info))
    };
    let nvml = test.nvml();
    assert_eq!((profile(&nvml, A100), profile(&nvml, H100_MIG)), (0, 0));
    drop(nvml);
    test.node.command(Command::UnloadDriver { force: true }).unwrap();
    test.node.command(Command::LoadDriver { version: Some("535.183.01".to_owned()) }).unwrap();
    let nvml = test.nvml();
    assert_eq!(profile(&nvml, A100), 3);
    assert_eq!(field(&nvml, A100, 199).0, 2, "the number came with 550");
    assert_eq!(field(&nvml, A100, 230).0, 2, "and this one with 570");
    assert_eq!(field(&nvml, A100, 83).0, 0);
}

/// The code and the value that a field has.
fn field(nvml: &Nvml, gpu: u32, id: u32) -> (nvmlReturn_t, u64) {
    // SAFETY: a plain C struct, for which zeros are valid.
    let mut field: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
    field.fieldId = id;
    assert_eq!(call!(nvml, nvmlDeviceGetFieldValues(handle(nvml, gpu), 1, &raw mut field)), 0);
    // SAFETY: every part of the union is an integer of at most its size.
    (field.nvmlReturn, unsafe { field.value.ullVal })
}

#[test]
fn held_clocks_have_another_number_in_each_driver() {
    let test = TestNode::start(EVERY_BOARD);
    for (version, told) in [("570.133.20", vec![]), ("575.57.08", vec![251]), ("580.105.08", vec![269])] {
        test.node.command(Command::UnloadDriver { force: true }).unwrap();
        test.node.command(Command::LoadDriver { version: Some(version.to_owned()) }).unwrap();
        let nvml = test.nvml();
        let answered = [251, 269].into_iter().filter(|id| field(&nvml, H100, *id).0 == 0);
        assert_eq!(answered.collect::<Vec<u32>>(), told, "{version}");
    }
}

#[test]
fn an_instance_with_all_media_engines_goes_with_none_that_has_any() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let room = |profile_id: u32| {
        let mut count = 99;
        let gpu = handle(&nvml, RTX_MIG);
        let code = call!(nvml, nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, profile_id, &raw mut count));
        (code, count)
    };
    // 1g.24gb and 2g.48gb are there, which have some, and a quarter is free.
    assert_eq!(room(14), (0, 1), "1g.24gb");
    assert_eq!(room(67), (0, 1), "1g.24gb-me");
    assert_eq!(room(65), (0, 0), "1g.24gb+me.all");
}

#[test]
fn the_old_pci_struct_is_not_overrun() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let gpu = handle(&nvml, H100);
    // SAFETY: a plain C struct, for which zeros are valid.
    let mut info: nvmlPciInfo_t = unsafe { std::mem::zeroed() };
    info.busId = [7; 32];
    type GetPciInfo = unsafe extern "C" fn(nvmlDevice_t, *mut nvmlPciInfo_t) -> nvmlReturn_t;
    // SAFETY: the declaration that the symbol has, and a pointer to a local.
    let answer = unsafe {
        nvml.lib().__library.get::<GetPciInfo>(b"nvmlDeviceGetPciInfo_v2\0").unwrap()(gpu, &raw mut info)
    };
    assert_eq!(answer, 0);
    assert_eq!((info.bus, info.busIdLegacy[0] as u8), (0x12, b'0'));
    assert_eq!(info.busId, [7; 32], "where a program of that time has no room");
    assert_eq!(call!(nvml, nvmlDeviceGetPciInfo_v3(gpu, &raw mut info)), 0);
    assert_eq!(info.busId[0] as u8, b'0');
}

#[test]
fn a_lost_gpu_is_nobodys_peer() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let (gpu, peer) = (handle(&nvml, H100), handle(&nvml, A100));
    let mut value = 0;
    let p2p = nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_READ;
    assert_eq!(call!(nvml, nvmlDeviceGetP2PStatus(gpu, peer, p2p, &raw mut value)), 0);
    test.node.command(Command::Lose { gpu: A100 }).unwrap();
    assert_eq!(call!(nvml, nvmlDeviceGetP2PStatus(gpu, peer, p2p, &raw mut value)), 15);
    assert_eq!(call!(nvml, nvmlDeviceGetTopologyCommonAncestor(gpu, peer, &raw mut value)), 15);
}

#[test]
fn listing_instances_needs_permission() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let gpu = handle(&nvml, H100_MIG);
    let mut count = 0;
    assert_eq!(call!(nvml, nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 19, &raw mut count)), 0);
    test.node.command(Command::Permission { denied: true }).unwrap();
    assert_eq!(call!(nvml, nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 19, &raw mut count)), 4);
    assert_eq!(
        call!(nvml, nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, 19, null_mut(), &raw mut count)),
        4
    );
    assert_eq!(call!(nvml, nvmlDeviceGetPowerUsage(gpu, &raw mut count)), 0, "reading goes on");
}

#[test]
fn a_handle_of_one_kind_is_none_of_another() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let gpu = handle(&nvml, H100_MIG);
    let mut set = null_mut();
    assert_eq!(call!(nvml, nvmlEventSetCreate(&raw mut set)), 0);
    let mut value = 0;
    assert_eq!(call!(nvml, nvmlDeviceGetPowerUsage(set.cast(), &raw mut value)), 2);
    assert_eq!(call!(nvml, nvmlDeviceRegisterEvents(gpu, 8, gpu.cast())), 2);
    assert_eq!(call!(nvml, nvmlGpuInstanceGetInfo(gpu.cast(), null_mut())), 2);
    assert_eq!(call!(nvml, nvmlEventSetFree(set)), 0);
    assert_eq!(call!(nvml, nvmlEventSetFree(set)), 2, "it is freed");
    assert_eq!(call!(nvml, nvmlDeviceGetHandleByUUID(null(), null_mut())), 2);
    assert_eq!(call!(nvml, nvmlDeviceGetHandleByUUID(c"GPU-none".as_ptr(), null_mut())), 6);
}

#[test]
fn field_values_have_the_drivers_traps() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let truth = test.node.state();
    let read = |gpu: u32, id: u32, scope: u32| {
        // SAFETY: a plain C struct, for which zeros are valid.
        let mut field: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
        (field.fieldId, field.scopeId) = (id, scope);
        field.value.ullVal = 0xAAAA_AAAA_AAAA_AAAA;
        assert_eq!(call!(nvml, nvmlDeviceGetFieldValues(handle(&nvml, gpu), 1, &raw mut field)), 0);
        // SAFETY: every part of the union is an integer of at most its size.
        (field.nvmlReturn, field.valueType, unsafe { field.value.ullVal }, field.timestamp)
    };
    let h100 = &truth.gpus[H100 as usize];
    let now = truth.clock_us.cast_signed();
    assert_eq!(read(H100, 83, 0), (0, 3, h100.count.energy_mj, now));
    assert_eq!(
        read(H100, 82, 0),
        (0, 0, h100.now.memory_temperature_c.into(), now),
        "tagged as a double, filled as an integer"
    );
    assert_eq!(read(L40S, 82, 0).0, 3, "no HBM, no temperature of it");
    assert_eq!(read(H100, 186, 0), (0, 1, h100.now.power_instant_mw.into(), now));
    assert_eq!(read(H100, 185, 0), (0, 1, h100.now.power_average_mw.into(), now));
    assert_eq!((read(A100, 185, 0).0, read(T4, 185, 0).0), (3, 3), "which do not average their power");
    assert_eq!((read(T4, 29, 0).0, read(H100, 29, 0).0), (0, 3), "pages were retired before Ampere");
    assert_eq!((read(A100, 90, 0).2, read(H100, 90, 0).2), (25_000, 26_562), "each generation has its speed");
    assert_eq!(read(A100, 199, 0).2, 1);
    assert_eq!(read(H100, 269, 0), (0, 3, h100.count.clocks_held_ns[2], now), "as since 580.82");
    assert_eq!(read(H100, 251, 0).0, 3, "which means power smoothing since 580.82");
    assert_eq!(read(H100, 9_999, 0).0, 2, "no such field");
    assert_eq!(read(H100, 193, 0).1, 5, "a signed distance");
    assert_eq!(
        read(H100, 193, 0).2 as u32 as i32,
        h100.board.slowdown_c as i32 - h100.board.shutdown_c as i32
    );
    assert_eq!(call!(nvml, nvmlDeviceGetFieldValues(handle(&nvml, H100), 0, null_mut())), 2);
}

#[test]
fn structs_are_as_large_as_in_c() {
    // Sizes from the header, on 64 bits; the version words that clients send are made of them.
    assert_eq!(size_of::<nvmlPciInfo_t>(), 68);
    assert_eq!(size_of::<nvmlMemory_v2_t>(), 40);
    assert_eq!(size_of::<nvmlProcessInfo_t>(), 24);
    assert_eq!(size_of::<nvmlFieldValue_t>(), 40);
    assert_eq!(size_of::<nvmlEventData_t>(), 32);
    assert_eq!(size_of::<nvmlGpuInstanceProfileInfo_v2_t>(), 152);
    assert_eq!(size_of::<nvmlGpuInstanceProfileInfo_v3_t>(), 152);
    assert_eq!(size_of::<nvmlComputeInstanceInfo_t>(), 32);
    assert_eq!(size_of::<nvmlGpuFabricInfo_v2_t>(), 36);
    assert_eq!(size_of::<nvmlDeviceAttributes_t>(), 40);
}
