//! The table of symbols.
//!
//! One line each: the guard that the call passes, the function that answers, the symbol as the caller sees it. The
//! compiler holds every signature against that of nvml-wrapper-sys, in the tests below.
#![allow(unsafe_code, non_snake_case, clippy::useless_conversion)]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_ulonglong};

use nvml_wrapper_sys::bindings::*;

use super::code::Code;
use super::{
    call, clocks, ecc, events, fields, gpm, handle, identity, memory, mig, mig_changes, mig_profiles, nvlink,
    pcie, power, processes, system, thermal, topology, utilization,
};

/// How a guard hands a call on: `free` leaves all checks to the answer, `node` has no handle, the others take the first
/// argument as one.
macro_rules! guarded {
    (free $answer:path, $symbol:expr $(, $argument:ident)*) => {
        $answer($symbol $(, $argument.into())*)
    };
    (node $answer:path, $symbol:expr $(, $argument:ident)*) => {
        call::node($symbol, |node| $answer(node $(, $argument.into())*))
    };
    ($guard:ident $answer:path, $symbol:expr, $handle:ident $(, $argument:ident)*) => {
        call::$guard($symbol, handle::Handle::from($handle), |gpu| $answer(gpu $(, $argument.into())*))
    };
    ($guard:ident with_instance $answer:path, $symbol:expr, $handle:ident $(, $argument:ident)*) => {
        call::$guard($symbol, handle::Handle::from($handle), |gpu, of| $answer(gpu, of $(, $argument.into())*))
    };
}

macro_rules! export {
    ($guard:ident $($with:ident)? = $answer:path => $symbol:ident($($argument:ident: $kind:ty),*)) => {
        /// See the NVML reference.
        ///
        /// # Safety
        /// Pointers that are not null must be as NVML declares them.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($argument: $kind),*) -> Code {
            guarded!($guard $($with)? $answer, stringify!($symbol) $(, $argument)*)
        }
    };
}

/// The current symbols, which nvml-wrapper-sys knows.
macro_rules! exports {
    ($($guard:ident $(+ $with:ident)? $answer:path => $symbol:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        $(export!($guard $($with)? = $answer => $symbol($($argument: $kind),*));)*

        /// The current symbols that the simulated driver has.
        pub const SYMBOLS: &[&str] = &[$(stringify!($symbol)),*];

        /// Compiles only if each signature is that of the bindings.
        #[cfg(test)]
        #[allow(dead_code)]
        fn have_the_signatures_of_the_bindings(bindings: &NvmlLib) {
            $(let _: Option<[_; 2]> = bindings.$symbol.as_ref().ok().map(|theirs| [*theirs, $symbol as unsafe extern "C" fn($($kind),*) -> _]);)*
        }
    };
}

/// Names that older programs ask for.
macro_rules! legacy {
    ($($guard:ident $(+ $with:ident)? $answer:path => $symbol:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        $(export!($guard $($with)? = $answer => $symbol($($argument: $kind),*));)*

        /// The names that older programs ask for, which the simulated driver has, too.
        pub const LEGACY_SYMBOLS: &[&str] = &[$(stringify!($symbol)),*];
    };
}

exports! {
    free system::init => nvmlInit_v2();
    free system::init_with_flags => nvmlInitWithFlags(flags: c_uint);
    free system::shutdown => nvmlShutdown();

    node system::driver_version => nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint);
    node system::nvml_version => nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint);
    node system::cuda_version => nvmlSystemGetCudaDriverVersion(version: *mut c_int);
    node system::cuda_version => nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int);
    node system::driver_branch => nvmlSystemGetDriverBranch(info: *mut nvmlSystemDriverBranchInfo_t, length: c_uint);
    node system::process_name => nvmlSystemGetProcessName(pid: c_uint, name: *mut c_char, length: c_uint);
    gpu system::driver_model =>
        nvmlDeviceGetDriverModel_v2(device: nvmlDevice_t, current: *mut nvmlDriverModel_t, pending: *mut nvmlDriverModel_t);
    node system::excluded_devices => nvmlGetExcludedDeviceCount(count: *mut c_uint);

    node identity::count => nvmlDeviceGetCount_v2(count: *mut c_uint);
    node identity::by_index => nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut nvmlDevice_t);
    node identity::by_uuid => nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut nvmlDevice_t);
    node identity::by_serial => nvmlDeviceGetHandleBySerial(serial: *const c_char, device: *mut nvmlDevice_t);
    node identity::by_pci => nvmlDeviceGetHandleByPciBusId_v2(bus_id: *const c_char, device: *mut nvmlDevice_t);
    device identity::name => nvmlDeviceGetName(device: nvmlDevice_t, name: *mut c_char, length: c_uint);
    device identity::uuid => nvmlDeviceGetUUID(device: nvmlDevice_t, uuid: *mut c_char, length: c_uint);
    device identity::index => nvmlDeviceGetIndex(device: nvmlDevice_t, index: *mut c_uint);
    gpu identity::serial => nvmlDeviceGetSerial(device: nvmlDevice_t, serial: *mut c_char, length: c_uint);
    gpu identity::minor => nvmlDeviceGetMinorNumber(device: nvmlDevice_t, minor: *mut c_uint);
    gpu identity::module_id => nvmlDeviceGetModuleId(device: nvmlDevice_t, id: *mut c_uint);
    gpu identity::board_id => nvmlDeviceGetBoardId(device: nvmlDevice_t, id: *mut c_uint);
    gpu identity::multi_gpu_board => nvmlDeviceGetMultiGpuBoard(device: nvmlDevice_t, multi: *mut c_uint);
    gpu identity::part_number => nvmlDeviceGetBoardPartNumber(device: nvmlDevice_t, number: *mut c_char, length: c_uint);
    gpu identity::brand => nvmlDeviceGetBrand(device: nvmlDevice_t, brand: *mut nvmlBrandType_t);
    gpu identity::architecture => nvmlDeviceGetArchitecture(device: nvmlDevice_t, architecture: *mut c_uint);
    gpu identity::compute_capability =>
        nvmlDeviceGetCudaComputeCapability(device: nvmlDevice_t, major: *mut c_int, minor: *mut c_int);
    gpu identity::cores => nvmlDeviceGetNumGpuCores(device: nvmlDevice_t, cores: *mut c_uint);
    gpu identity::vbios => nvmlDeviceGetVbiosVersion(device: nvmlDevice_t, version: *mut c_char, length: c_uint);
    gpu identity::inforom_image =>
        nvmlDeviceGetInforomImageVersion(device: nvmlDevice_t, version: *mut c_char, length: c_uint);
    gpu identity::gsp_version => nvmlDeviceGetGspFirmwareVersion(device: nvmlDevice_t, version: *mut c_char);
    gpu identity::gsp_mode =>
        nvmlDeviceGetGspFirmwareMode(device: nvmlDevice_t, enabled: *mut c_uint, default: *mut c_uint);
    gpu identity::pci => nvmlDeviceGetPciInfo_v3(device: nvmlDevice_t, pci: *mut nvmlPciInfo_t);
    gpu identity::pci_ext => nvmlDeviceGetPciInfoExt(device: nvmlDevice_t, pci: *mut nvmlPciInfoExt_t);
    gpu identity::cpu_affinity =>
        nvmlDeviceGetCpuAffinity(device: nvmlDevice_t, words: c_uint, set: *mut c_ulong);
    gpu identity::cpu_affinity_within => nvmlDeviceGetCpuAffinityWithinScope(
        device: nvmlDevice_t, words: c_uint, set: *mut c_ulong, scope: nvmlAffinityScope_t);
    gpu identity::memory_affinity => nvmlDeviceGetMemoryAffinity(
        device: nvmlDevice_t, words: c_uint, set: *mut c_ulong, scope: nvmlAffinityScope_t);
    gpu identity::numa_node => nvmlDeviceGetNumaNodeId(device: nvmlDevice_t, node: *mut c_uint);
    gpu identity::display_mode => nvmlDeviceGetDisplayMode(device: nvmlDevice_t, mode: *mut nvmlEnableState_t);
    gpu identity::display_mode => nvmlDeviceGetDisplayActive(device: nvmlDevice_t, active: *mut nvmlEnableState_t);
    gpu identity::persistence => nvmlDeviceGetPersistenceMode(device: nvmlDevice_t, mode: *mut nvmlEnableState_t);
    gpu identity::compute_mode => nvmlDeviceGetComputeMode(device: nvmlDevice_t, mode: *mut nvmlComputeMode_t);
    gpu identity::virtualization_mode =>
        nvmlDeviceGetVirtualizationMode(device: nvmlDevice_t, mode: *mut nvmlGpuVirtualizationMode_t);

    device memory::info => nvmlDeviceGetMemoryInfo(device: nvmlDevice_t, memory: *mut nvmlMemory_t);
    device memory::info_v2 => nvmlDeviceGetMemoryInfo_v2(device: nvmlDevice_t, memory: *mut nvmlMemory_v2_t);
    device memory::bar1 => nvmlDeviceGetBAR1MemoryInfo(device: nvmlDevice_t, memory: *mut nvmlBAR1Memory_t);
    gpu memory::bus_width => nvmlDeviceGetMemoryBusWidth(device: nvmlDevice_t, bits: *mut c_uint);

    gpu utilization::rates => nvmlDeviceGetUtilizationRates(device: nvmlDevice_t, rates: *mut nvmlUtilization_t);
    gpu utilization::encoder =>
        nvmlDeviceGetEncoderUtilization(device: nvmlDevice_t, percent: *mut c_uint, window_us: *mut c_uint);
    gpu utilization::decoder =>
        nvmlDeviceGetDecoderUtilization(device: nvmlDevice_t, percent: *mut c_uint, window_us: *mut c_uint);
    gpu utilization::jpeg =>
        nvmlDeviceGetJpgUtilization(device: nvmlDevice_t, percent: *mut c_uint, window_us: *mut c_uint);
    gpu utilization::ofa =>
        nvmlDeviceGetOfaUtilization(device: nvmlDevice_t, percent: *mut c_uint, window_us: *mut c_uint);

    gpu power::usage => nvmlDeviceGetPowerUsage(device: nvmlDevice_t, milliwatts: *mut c_uint);
    gpu power::limit => nvmlDeviceGetPowerManagementLimit(device: nvmlDevice_t, milliwatts: *mut c_uint);
    gpu power::limit => nvmlDeviceGetEnforcedPowerLimit(device: nvmlDevice_t, milliwatts: *mut c_uint);
    gpu power::default_limit => nvmlDeviceGetPowerManagementDefaultLimit(device: nvmlDevice_t, milliwatts: *mut c_uint);
    gpu power::constraints => nvmlDeviceGetPowerManagementLimitConstraints(
        device: nvmlDevice_t, lowest: *mut c_uint, highest: *mut c_uint);
    gpu power::management_mode => nvmlDeviceGetPowerManagementMode(device: nvmlDevice_t, mode: *mut nvmlEnableState_t);
    gpu power::source => nvmlDeviceGetPowerSource(device: nvmlDevice_t, source: *mut nvmlPowerSource_t);
    gpu power::energy => nvmlDeviceGetTotalEnergyConsumption(device: nvmlDevice_t, millijoules: *mut c_ulonglong);

    gpu thermal::temperature => nvmlDeviceGetTemperature(
        device: nvmlDevice_t, sensor: nvmlTemperatureSensors_t, celsius: *mut c_uint);
    gpu thermal::temperature_v => nvmlDeviceGetTemperatureV(device: nvmlDevice_t, celsius: *mut nvmlTemperature_t);
    gpu thermal::threshold => nvmlDeviceGetTemperatureThreshold(
        device: nvmlDevice_t, kind: nvmlTemperatureThresholds_t, celsius: *mut c_uint);
    gpu thermal::margin =>
        nvmlDeviceGetMarginTemperature(device: nvmlDevice_t, margin: *mut nvmlMarginTemperature_t);
    gpu thermal::fans => nvmlDeviceGetNumFans(device: nvmlDevice_t, count: *mut c_uint);
    gpu thermal::fan_speed => nvmlDeviceGetFanSpeed(device: nvmlDevice_t, percent: *mut c_uint);
    gpu thermal::fan_speed_of => nvmlDeviceGetFanSpeed_v2(device: nvmlDevice_t, fan: c_uint, percent: *mut c_uint);

    gpu clocks::current => nvmlDeviceGetClockInfo(device: nvmlDevice_t, domain: nvmlClockType_t, mhz: *mut c_uint);
    gpu clocks::max => nvmlDeviceGetMaxClockInfo(device: nvmlDevice_t, domain: nvmlClockType_t, mhz: *mut c_uint);
    gpu clocks::applications =>
        nvmlDeviceGetApplicationsClock(device: nvmlDevice_t, domain: nvmlClockType_t, mhz: *mut c_uint);
    gpu clocks::applications =>
        nvmlDeviceGetDefaultApplicationsClock(device: nvmlDevice_t, domain: nvmlClockType_t, mhz: *mut c_uint);
    gpu clocks::by_kind => nvmlDeviceGetClock(
        device: nvmlDevice_t, domain: nvmlClockType_t, kind: nvmlClockId_t, mhz: *mut c_uint);
    gpu clocks::memory_clocks =>
        nvmlDeviceGetSupportedMemoryClocks(device: nvmlDevice_t, count: *mut c_uint, mhz: *mut c_uint);
    gpu clocks::graphics_clocks => nvmlDeviceGetSupportedGraphicsClocks(
        device: nvmlDevice_t, memory: c_uint, count: *mut c_uint, mhz: *mut c_uint);
    gpu clocks::event_reasons =>
        nvmlDeviceGetCurrentClocksEventReasons(device: nvmlDevice_t, reasons: *mut c_ulonglong);
    gpu clocks::event_reasons =>
        nvmlDeviceGetCurrentClocksThrottleReasons(device: nvmlDevice_t, reasons: *mut c_ulonglong);
    gpu clocks::supported_event_reasons =>
        nvmlDeviceGetSupportedClocksEventReasons(device: nvmlDevice_t, reasons: *mut c_ulonglong);
    gpu clocks::supported_event_reasons =>
        nvmlDeviceGetSupportedClocksThrottleReasons(device: nvmlDevice_t, reasons: *mut c_ulonglong);
    gpu clocks::performance_state => nvmlDeviceGetPerformanceState(device: nvmlDevice_t, state: *mut nvmlPstates_t);
    gpu clocks::performance_state => nvmlDeviceGetPowerState(device: nvmlDevice_t, state: *mut nvmlPstates_t);
    gpu clocks::adaptive => nvmlDeviceGetAdaptiveClockInfoStatus(device: nvmlDevice_t, status: *mut c_uint);
    gpu clocks::violation => nvmlDeviceGetViolationStatus(
        device: nvmlDevice_t, policy: nvmlPerfPolicyType_t, time: *mut nvmlViolationTime_t);

    gpu pcie::generation => nvmlDeviceGetCurrPcieLinkGeneration(device: nvmlDevice_t, generation: *mut c_uint);
    gpu pcie::width => nvmlDeviceGetCurrPcieLinkWidth(device: nvmlDevice_t, lanes: *mut c_uint);
    gpu pcie::max_generation => nvmlDeviceGetMaxPcieLinkGeneration(device: nvmlDevice_t, generation: *mut c_uint);
    gpu pcie::gpu_max_generation => nvmlDeviceGetGpuMaxPcieLinkGeneration(device: nvmlDevice_t, generation: *mut c_uint);
    gpu pcie::max_width => nvmlDeviceGetMaxPcieLinkWidth(device: nvmlDevice_t, lanes: *mut c_uint);
    gpu pcie::throughput =>
        nvmlDeviceGetPcieThroughput(device: nvmlDevice_t, counter: nvmlPcieUtilCounter_t, kbps: *mut c_uint);
    gpu pcie::replays => nvmlDeviceGetPcieReplayCounter(device: nvmlDevice_t, count: *mut c_uint);
    gpu pcie::max_speed => nvmlDeviceGetPcieLinkMaxSpeed(device: nvmlDevice_t, speed: *mut c_uint);
    gpu pcie::speed => nvmlDeviceGetPcieSpeed(device: nvmlDevice_t, speed: *mut c_uint);
    gpu pcie::bus_type => nvmlDeviceGetBusType(device: nvmlDevice_t, kind: *mut nvmlBusType_t);

    gpu nvlink::state => nvmlDeviceGetNvLinkState(device: nvmlDevice_t, link: c_uint, active: *mut nvmlEnableState_t);
    gpu nvlink::version => nvmlDeviceGetNvLinkVersion(device: nvmlDevice_t, link: c_uint, version: *mut c_uint);
    gpu nvlink::capability => nvmlDeviceGetNvLinkCapability(
        device: nvmlDevice_t, link: c_uint, capability: nvmlNvLinkCapability_t, has: *mut c_uint);
    gpu nvlink::remote_pci =>
        nvmlDeviceGetNvLinkRemotePciInfo_v2(device: nvmlDevice_t, link: c_uint, pci: *mut nvmlPciInfo_t);
    gpu nvlink::remote_type => nvmlDeviceGetNvLinkRemoteDeviceType(
        device: nvmlDevice_t, link: c_uint, kind: *mut nvmlIntNvLinkDeviceType_t);
    gpu nvlink::errors => nvmlDeviceGetNvLinkErrorCounter(
        device: nvmlDevice_t, link: c_uint, counter: nvmlNvLinkErrorCounter_t, count: *mut c_ulonglong);
    gpu nvlink::p2p_status => nvmlDeviceGetP2PStatus(
        device: nvmlDevice_t, other: nvmlDevice_t, index: nvmlGpuP2PCapsIndex_t, status: *mut nvmlGpuP2PStatus_t);
    gpu topology::common_ancestor => nvmlDeviceGetTopologyCommonAncestor(
        device: nvmlDevice_t, other: nvmlDevice_t, level: *mut nvmlGpuTopologyLevel_t);
    gpu topology::nearest => nvmlDeviceGetTopologyNearestGpus(
        device: nvmlDevice_t, level: nvmlGpuTopologyLevel_t, count: *mut c_uint, devices: *mut nvmlDevice_t);
    gpu nvlink::fabric => nvmlDeviceGetGpuFabricInfo(device: nvmlDevice_t, info: *mut nvmlGpuFabricInfo_t);
    gpu nvlink::fabric_v => nvmlDeviceGetGpuFabricInfoV(device: nvmlDevice_t, info: *mut nvmlGpuFabricInfoV_t);

    gpu ecc::mode =>
        nvmlDeviceGetEccMode(device: nvmlDevice_t, current: *mut nvmlEnableState_t, pending: *mut nvmlEnableState_t);
    gpu ecc::default_mode => nvmlDeviceGetDefaultEccMode(device: nvmlDevice_t, mode: *mut nvmlEnableState_t);
    gpu ecc::total => nvmlDeviceGetTotalEccErrors(
        device: nvmlDevice_t, kind: nvmlMemoryErrorType_t, counter: nvmlEccCounterType_t, errors: *mut c_ulonglong);
    gpu ecc::detailed => nvmlDeviceGetDetailedEccErrors(
        device: nvmlDevice_t, kind: nvmlMemoryErrorType_t, counter: nvmlEccCounterType_t,
        errors: *mut nvmlEccErrorCounts_t);
    gpu ecc::by_place => nvmlDeviceGetMemoryErrorCounter(
        device: nvmlDevice_t, kind: nvmlMemoryErrorType_t, counter: nvmlEccCounterType_t, place: nvmlMemoryLocation_t,
        errors: *mut c_ulonglong);
    gpu ecc::retired_pages => nvmlDeviceGetRetiredPages(
        device: nvmlDevice_t, cause: nvmlPageRetirementCause_t, count: *mut c_uint, pages: *mut c_ulonglong);
    gpu ecc::retired_pages_v2 => nvmlDeviceGetRetiredPages_v2(
        device: nvmlDevice_t, cause: nvmlPageRetirementCause_t, count: *mut c_uint, pages: *mut c_ulonglong,
        times: *mut c_ulonglong);
    gpu ecc::retired_pending =>
        nvmlDeviceGetRetiredPagesPendingStatus(device: nvmlDevice_t, pending: *mut nvmlEnableState_t);
    gpu ecc::remapped_rows => nvmlDeviceGetRemappedRows(
        device: nvmlDevice_t, correctable: *mut c_uint, uncorrectable: *mut c_uint, pending: *mut c_uint,
        failed: *mut c_uint);
    gpu ecc::remap_histogram =>
        nvmlDeviceGetRowRemapperHistogram(device: nvmlDevice_t, banks: *mut nvmlRowRemapperHistogramValues_t);

    gpu fields::get => nvmlDeviceGetFieldValues(device: nvmlDevice_t, count: c_int, values: *mut nvmlFieldValue_t);
    gpu fields::clear => nvmlDeviceClearFieldValues(device: nvmlDevice_t, count: c_int, values: *mut nvmlFieldValue_t);

    device processes::compute => nvmlDeviceGetComputeRunningProcesses_v3(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_t);
    device processes::graphics => nvmlDeviceGetGraphicsRunningProcesses_v3(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_t);
    device processes::mps => nvmlDeviceGetMPSComputeRunningProcesses_v3(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_t);
    gpu processes::utilization => nvmlDeviceGetProcessUtilization(
        device: nvmlDevice_t, samples: *mut nvmlProcessUtilizationSample_t, count: *mut c_uint,
        last_seen_us: c_ulonglong);
    gpu processes::utilization_info =>
        nvmlDeviceGetProcessesUtilizationInfo(device: nvmlDevice_t, info: *mut nvmlProcessesUtilizationInfo_t);
    gpu processes::accounting_mode =>
        nvmlDeviceGetAccountingMode(device: nvmlDevice_t, mode: *mut nvmlEnableState_t);
    gpu processes::accounting_pids =>
        nvmlDeviceGetAccountingPids(device: nvmlDevice_t, count: *mut c_uint, pids: *mut c_uint);
    gpu processes::accounting_buffer => nvmlDeviceGetAccountingBufferSize(device: nvmlDevice_t, size: *mut c_uint);

    gpu mig::mode => nvmlDeviceGetMigMode(device: nvmlDevice_t, current: *mut c_uint, pending: *mut c_uint);
    gpu mig::max_device_count => nvmlDeviceGetMaxMigDeviceCount(device: nvmlDevice_t, count: *mut c_uint);
    gpu mig::device_by_index =>
        nvmlDeviceGetMigDeviceHandleByIndex(device: nvmlDevice_t, index: c_uint, mig: *mut nvmlDevice_t);
    device mig::is_device => nvmlDeviceIsMigDeviceHandle(device: nvmlDevice_t, is: *mut c_uint);
    device mig::gpu_instance_id => nvmlDeviceGetGpuInstanceId(device: nvmlDevice_t, id: *mut c_uint);
    device mig::compute_instance_id => nvmlDeviceGetComputeInstanceId(device: nvmlDevice_t, id: *mut c_uint);
    device mig::parent =>
        nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device: nvmlDevice_t, parent: *mut nvmlDevice_t);
    device mig::attributes =>
        nvmlDeviceGetAttributes_v2(device: nvmlDevice_t, attributes: *mut nvmlDeviceAttributes_t);
    gpu mig::instances => nvmlDeviceGetGpuInstances(
        device: nvmlDevice_t, profile_id: c_uint, handles: *mut nvmlGpuInstance_t, count: *mut c_uint);
    gpu mig::instance_by_id =>
        nvmlDeviceGetGpuInstanceById(device: nvmlDevice_t, id: c_uint, handle: *mut nvmlGpuInstance_t);
    gpu mig_profiles::info => nvmlDeviceGetGpuInstanceProfileInfo(
        device: nvmlDevice_t, profile: c_uint, info: *mut nvmlGpuInstanceProfileInfo_t);
    gpu mig_profiles::info_v => nvmlDeviceGetGpuInstanceProfileInfoV(
        device: nvmlDevice_t, profile: c_uint, info: *mut nvmlGpuInstanceProfileInfo_v2_t);
    gpu mig_profiles::info_by_id => nvmlDeviceGetGpuInstanceProfileInfoByIdV(
        device: nvmlDevice_t, id: c_uint, info: *mut nvmlGpuInstanceProfileInfo_v2_t);
    gpu mig_profiles::placements => nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        device: nvmlDevice_t, profile_id: c_uint, placements: *mut nvmlGpuInstancePlacement_t, count: *mut c_uint);
    gpu mig_profiles::capacity => nvmlDeviceGetGpuInstanceRemainingCapacity(
        device: nvmlDevice_t, profile_id: c_uint, count: *mut c_uint);
    gpu_instance + with_instance mig::instance_info =>
        nvmlGpuInstanceGetInfo(instance: nvmlGpuInstance_t, info: *mut nvmlGpuInstanceInfo_t);
    gpu_instance + with_instance mig_profiles::compute_info => nvmlGpuInstanceGetComputeInstanceProfileInfo(
        instance: nvmlGpuInstance_t, profile: c_uint, engine: c_uint, info: *mut nvmlComputeInstanceProfileInfo_t);
    gpu_instance + with_instance mig_profiles::compute_info_v => nvmlGpuInstanceGetComputeInstanceProfileInfoV(
        instance: nvmlGpuInstance_t, profile: c_uint, engine: c_uint, info: *mut nvmlComputeInstanceProfileInfo_v2_t);
    gpu_instance + with_instance mig_profiles::compute_placements =>
        nvmlGpuInstanceGetComputeInstancePossiblePlacements(
            instance: nvmlGpuInstance_t, profile_id: c_uint, placements: *mut nvmlComputeInstancePlacement_t,
            count: *mut c_uint);
    gpu_instance + with_instance mig_profiles::compute_capacity => nvmlGpuInstanceGetComputeInstanceRemainingCapacity(
        instance: nvmlGpuInstance_t, profile_id: c_uint, count: *mut c_uint);
    gpu_instance + with_instance mig::compute_instances => nvmlGpuInstanceGetComputeInstances(
        instance: nvmlGpuInstance_t, profile_id: c_uint, handles: *mut nvmlComputeInstance_t, count: *mut c_uint);
    gpu_instance + with_instance mig::compute_instance_by_id => nvmlGpuInstanceGetComputeInstanceById(
        instance: nvmlGpuInstance_t, id: c_uint, handle: *mut nvmlComputeInstance_t);
    compute_instance + with_instance mig::compute_instance_info =>
        nvmlComputeInstanceGetInfo_v2(instance: nvmlComputeInstance_t, info: *mut nvmlComputeInstanceInfo_t);

    gpu mig_changes::set_mode =>
        nvmlDeviceSetMigMode(device: nvmlDevice_t, mode: c_uint, activation: *mut nvmlReturn_t);
    gpu mig_changes::set_persistence =>
        nvmlDeviceSetPersistenceMode(device: nvmlDevice_t, mode: nvmlEnableState_t);
    gpu mig_changes::create_instance => nvmlDeviceCreateGpuInstance(
        device: nvmlDevice_t, profile_id: c_uint, handle: *mut nvmlGpuInstance_t);
    gpu mig_changes::create_instance_with_placement => nvmlDeviceCreateGpuInstanceWithPlacement(
        device: nvmlDevice_t, profile_id: c_uint, placement: *const nvmlGpuInstancePlacement_t,
        handle: *mut nvmlGpuInstance_t);
    gpu_instance + with_instance mig_changes::destroy_instance =>
        nvmlGpuInstanceDestroy(instance: nvmlGpuInstance_t);
    gpu_instance + with_instance mig_changes::create_compute => nvmlGpuInstanceCreateComputeInstance(
        instance: nvmlGpuInstance_t, profile_id: c_uint, handle: *mut nvmlComputeInstance_t);
    gpu_instance + with_instance mig_changes::create_compute_with_placement =>
        nvmlGpuInstanceCreateComputeInstanceWithPlacement(
            instance: nvmlGpuInstance_t, profile_id: c_uint, placement: *const nvmlComputeInstancePlacement_t,
            handle: *mut nvmlComputeInstance_t);
    compute_instance + with_instance mig_changes::destroy_compute =>
        nvmlComputeInstanceDestroy(instance: nvmlComputeInstance_t);

    gpu gpm::support => nvmlGpmQueryDeviceSupport(device: nvmlDevice_t, support: *mut nvmlGpmSupport_t);
    node gpm::alloc => nvmlGpmSampleAlloc(sample: *mut nvmlGpmSample_t);
    free gpm::free => nvmlGpmSampleFree(sample: nvmlGpmSample_t);
    device gpm::get => nvmlGpmSampleGet(device: nvmlDevice_t, sample: nvmlGpmSample_t);
    gpu gpm::get_instance => nvmlGpmMigSampleGet(device: nvmlDevice_t, gi: c_uint, sample: nvmlGpmSample_t);
    node gpm::metrics => nvmlGpmMetricsGet(metrics: *mut nvmlGpmMetricsGet_t);
    gpu gpm::streaming => nvmlGpmQueryIfStreamingEnabled(device: nvmlDevice_t, state: *mut c_uint);

    node events::create => nvmlEventSetCreate(set: *mut nvmlEventSet_t);
    free events::free => nvmlEventSetFree(set: nvmlEventSet_t);
    gpu events::supported_types => nvmlDeviceGetSupportedEventTypes(device: nvmlDevice_t, types: *mut c_ulonglong);
    gpu events::register => nvmlDeviceRegisterEvents(device: nvmlDevice_t, types: c_ulonglong, set: nvmlEventSet_t);
    node events::wait_v2 =>
        nvmlEventSetWait_v2(set: nvmlEventSet_t, data: *mut nvmlEventData_t, timeout_ms: c_uint);
}

legacy! {
    gpu system::driver_model =>
        nvmlDeviceGetDriverModel(device: nvmlDevice_t, current: *mut nvmlDriverModel_t, pending: *mut nvmlDriverModel_t);
    free system::init => nvmlInit();
    node identity::count => nvmlDeviceGetCount(count: *mut c_uint);
    node identity::by_index => nvmlDeviceGetHandleByIndex(index: c_uint, device: *mut nvmlDevice_t);
    node identity::by_pci => nvmlDeviceGetHandleByPciBusId(bus_id: *const c_char, device: *mut nvmlDevice_t);
    gpu identity::pci_v2 => nvmlDeviceGetPciInfo_v2(device: nvmlDevice_t, pci: *mut nvmlPciInfo_t);
    gpu nvlink::remote_pci_v1 =>
        nvmlDeviceGetNvLinkRemotePciInfo(device: nvmlDevice_t, link: c_uint, pci: *mut nvmlPciInfo_t);
    device processes::compute_v1 => nvmlDeviceGetComputeRunningProcesses(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_v1_t);
    device processes::graphics_v1 => nvmlDeviceGetGraphicsRunningProcesses(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_v1_t);
    device processes::mps_v1 => nvmlDeviceGetMPSComputeRunningProcesses(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_v1_t);
    device processes::compute => nvmlDeviceGetComputeRunningProcesses_v2(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_t);
    device processes::graphics => nvmlDeviceGetGraphicsRunningProcesses_v2(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_t);
    device processes::mps => nvmlDeviceGetMPSComputeRunningProcesses_v2(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_t);
    compute_instance + with_instance mig::compute_instance_info_v1 =>
        nvmlComputeInstanceGetInfo(instance: nvmlComputeInstance_t, info: *mut nvmlComputeInstanceInfo_t);
    gpu mig_profiles::placements => nvmlDeviceGetGpuInstancePossiblePlacements(
        device: nvmlDevice_t, profile_id: c_uint, placements: *mut nvmlGpuInstancePlacement_t, count: *mut c_uint);
    node events::wait_v1 =>
        nvmlEventSetWait(set: nvmlEventSet_t, data: *mut nvmlEventData_t, timeout_ms: c_uint);
}

/// A code in words, for people; never null.
#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: Code) -> *const c_char {
    system::error_string(code)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn no_symbol_is_listed_twice_and_the_wrapper_finds_what_it_cannot_do_without() {
        let symbols: BTreeSet<_> = super::SYMBOLS.iter().collect();
        assert_eq!(symbols.len(), super::SYMBOLS.len());
        for needed in ["nvmlInit_v2", "nvmlShutdown", "nvmlEventSetFree", "nvmlGpmSampleFree"] {
            assert!(symbols.contains(&needed), "{needed}");
        }
    }
}
