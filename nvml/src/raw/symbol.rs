//! The symbols of the driver's library that are called, each with its C type.
//!
//! The types come from nvml-wrapper-sys: a symbol that is declared here with another one does not compile.

use std::ffi::{c_char, c_int, c_ulong};

use nvml_wrapper_sys::bindings::{self as sys, NvmlLib};

use crate::code;

type Return = sys::nvmlReturn_t;
/// Writes one value about a handle.
pub(crate) type Get<H, T> = unsafe extern "C" fn(H, *mut T) -> Return;
/// Writes two.
pub(crate) type GetTwo<H, A, B> = unsafe extern "C" fn(H, *mut A, *mut B) -> Return;
/// Writes one value about a numbered part of what the handle stands for.
pub(crate) type GetAt<H, T> = unsafe extern "C" fn(H, u32, *mut T) -> Return;
/// Writes text into a buffer of a given size.
pub(crate) type Text<H> = unsafe extern "C" fn(H, *mut c_char, u32) -> Return;
/// Writes a list into a buffer whose size it is told and replaces by the number of entries.
pub(crate) type List<H, T> = unsafe extern "C" fn(H, *mut u32, *mut T) -> Return;
/// The same for a numbered part.
pub(crate) type ListAt<H, T> = unsafe extern "C" fn(H, u32, *mut T, *mut u32) -> Return;

/// Writes a bit mask into so many words, within a scope.
pub(crate) type SetWithin<H> = unsafe extern "C" fn(H, u32, *mut c_ulong, u32) -> Return;

/// Creates something of a numbered profile at a place, and writes its handle.
pub(crate) type CreateAt<H, P, T> = unsafe extern "C" fn(H, u32, *const P, *mut T) -> Return;

type Gpu = sys::nvmlDevice_t;

/// A symbol and where to find it in the loaded library.
pub(crate) struct Symbol<F: 'static> {
    /// Its name.
    pub(crate) name: &'static str,
    /// A return code that is part of the call's ordinary use and not a failure.
    pub(super) ordinary: Option<u32>,
    /// The function, unless the installed library lacks it.
    pub(super) find: fn(&NvmlLib) -> Option<F>,
}

macro_rules! symbols {
    ($($(#[$doc:meta])* $constant:ident: $type:ty = $name:ident $(, ordinary $code:expr)?;)*) => {
        $($(#[$doc])* pub(crate) const $constant: Symbol<$type> = Symbol {
            name: stringify!($name),
            ordinary: symbols!(@ordinary $($code)?),
            find: |table| table.$name.as_ref().ok().copied(),
        };)*
    };
    (@ordinary) => { None };
    (@ordinary $code:expr) => { Some($code) };
}

symbols! {
    INIT: unsafe extern "C" fn() -> Return = nvmlInit_v2;
    INIT_WITH_FLAGS: unsafe extern "C" fn(u32) -> Return = nvmlInitWithFlags;
    SHUTDOWN: unsafe extern "C" fn() -> Return = nvmlShutdown;
    DRIVER_VERSION: unsafe extern "C" fn(*mut c_char, u32) -> Return = nvmlSystemGetDriverVersion;
    NVML_VERSION: unsafe extern "C" fn(*mut c_char, u32) -> Return = nvmlSystemGetNVMLVersion;
    CUDA_VERSION: unsafe extern "C" fn(*mut c_int) -> Return = nvmlSystemGetCudaDriverVersion_v2;
    COUNT: unsafe extern "C" fn(*mut u32) -> Return = nvmlDeviceGetCount_v2;
    HANDLE: unsafe extern "C" fn(u32, *mut Gpu) -> Return = nvmlDeviceGetHandleByIndex_v2;

    UUID: Text<Gpu> = nvmlDeviceGetUUID;
    NAME: Text<Gpu> = nvmlDeviceGetName;
    SERIAL: Text<Gpu> = nvmlDeviceGetSerial;
    VBIOS: Text<Gpu> = nvmlDeviceGetVbiosVersion;
    PCI: Get<Gpu, sys::nvmlPciInfo_t> = nvmlDeviceGetPciInfo_v3;
    MINOR: Get<Gpu, u32> = nvmlDeviceGetMinorNumber;
    ARCHITECTURE: Get<Gpu, u32> = nvmlDeviceGetArchitecture;
    COMPUTE_CAPABILITY: GetTwo<Gpu, c_int, c_int> = nvmlDeviceGetCudaComputeCapability;
    PCIE_MAX_GENERATION: Get<Gpu, u32> = nvmlDeviceGetMaxPcieLinkGeneration;
    PCIE_MAX_WIDTH: Get<Gpu, u32> = nvmlDeviceGetMaxPcieLinkWidth;
    MAX_CLOCK: GetAt<Gpu, u32> = nvmlDeviceGetMaxClockInfo;

    UTILIZATION: Get<Gpu, sys::nvmlUtilization_t> = nvmlDeviceGetUtilizationRates;
    ENCODER: GetTwo<Gpu, u32, u32> = nvmlDeviceGetEncoderUtilization;
    DECODER: GetTwo<Gpu, u32, u32> = nvmlDeviceGetDecoderUtilization;
    JPEG: GetTwo<Gpu, u32, u32> = nvmlDeviceGetJpgUtilization;
    OFA: GetTwo<Gpu, u32, u32> = nvmlDeviceGetOfaUtilization;
    MEMORY: Get<Gpu, sys::nvmlMemory_t> = nvmlDeviceGetMemoryInfo;
    MEMORY_V2: Get<Gpu, sys::nvmlMemory_v2_t> = nvmlDeviceGetMemoryInfo_v2;
    BAR1: Get<Gpu, sys::nvmlBAR1Memory_t> = nvmlDeviceGetBAR1MemoryInfo;
    POWER: Get<Gpu, u32> = nvmlDeviceGetPowerUsage;
    POWER_LIMIT: Get<Gpu, u32> = nvmlDeviceGetEnforcedPowerLimit;
    ENERGY: Get<Gpu, u64> = nvmlDeviceGetTotalEnergyConsumption;
    TEMPERATURE: GetAt<Gpu, u32> = nvmlDeviceGetTemperature;
    TEMPERATURE_V: Get<Gpu, sys::nvmlTemperature_t> = nvmlDeviceGetTemperatureV;
    CLOCK: GetAt<Gpu, u32> = nvmlDeviceGetClockInfo;
    CLOCKS_EVENT_REASONS: Get<Gpu, u64> = nvmlDeviceGetCurrentClocksEventReasons;
    /// What drivers before 535 call them.
    CLOCKS_THROTTLE_REASONS: Get<Gpu, u64> = nvmlDeviceGetCurrentClocksThrottleReasons;
    PCIE_GENERATION: Get<Gpu, u32> = nvmlDeviceGetCurrPcieLinkGeneration;
    PCIE_WIDTH: Get<Gpu, u32> = nvmlDeviceGetCurrPcieLinkWidth;
    PCIE_REPLAYS: Get<Gpu, u32> = nvmlDeviceGetPcieReplayCounter;
    PERFORMANCE_STATE: Get<Gpu, u32> = nvmlDeviceGetPerformanceState;
    COMPUTE_PROCESSES: List<Gpu, sys::nvmlProcessInfo_t> =
        nvmlDeviceGetComputeRunningProcesses_v3, ordinary code::INSUFFICIENT_SIZE;
    GRAPHICS_PROCESSES: List<Gpu, sys::nvmlProcessInfo_t> =
        nvmlDeviceGetGraphicsRunningProcesses_v3, ordinary code::INSUFFICIENT_SIZE;
    MPS_PROCESSES: List<Gpu, sys::nvmlProcessInfo_t> =
        nvmlDeviceGetMPSComputeRunningProcesses_v3, ordinary code::INSUFFICIENT_SIZE;
    /// Drivers before 510 have the second form, with the same struct.
    COMPUTE_PROCESSES_V2: List<Gpu, sys::nvmlProcessInfo_t> =
        nvmlDeviceGetComputeRunningProcesses_v2, ordinary code::INSUFFICIENT_SIZE;
    GRAPHICS_PROCESSES_V2: List<Gpu, sys::nvmlProcessInfo_t> =
        nvmlDeviceGetGraphicsRunningProcesses_v2, ordinary code::INSUFFICIENT_SIZE;
    MPS_PROCESSES_V2: List<Gpu, sys::nvmlProcessInfo_t> =
        nvmlDeviceGetMPSComputeRunningProcesses_v2, ordinary code::INSUFFICIENT_SIZE;
    FIELDS: unsafe extern "C" fn(Gpu, c_int, *mut sys::nvmlFieldValue_t) -> Return = nvmlDeviceGetFieldValues;

    ECC_MODE: GetTwo<Gpu, u32, u32> = nvmlDeviceGetEccMode;
    FABRIC: Get<Gpu, sys::nvmlGpuFabricInfo_t> = nvmlDeviceGetGpuFabricInfo;
    FABRIC_V: Get<Gpu, sys::nvmlGpuFabricInfo_v3_t> = nvmlDeviceGetGpuFabricInfoV;

    NVLINK_STATE: GetAt<Gpu, u32> = nvmlDeviceGetNvLinkState;
    NVLINK_VERSION: GetAt<Gpu, u32> = nvmlDeviceGetNvLinkVersion;
    NVLINK_REMOTE_TYPE: GetAt<Gpu, u32> = nvmlDeviceGetNvLinkRemoteDeviceType;
    NVLINK_REMOTE_PCI: GetAt<Gpu, sys::nvmlPciInfo_t> = nvmlDeviceGetNvLinkRemotePciInfo_v2;

    MIG_MODE: GetTwo<Gpu, u32, u32> = nvmlDeviceGetMigMode;
    GI_PROFILE: GetAt<Gpu, sys::nvmlGpuInstanceProfileInfo_t> = nvmlDeviceGetGpuInstanceProfileInfo;
    GI_PROFILE_V: GetAt<Gpu, sys::nvmlGpuInstanceProfileInfo_v2_t> = nvmlDeviceGetGpuInstanceProfileInfoV;
    GI_PLACEMENTS: ListAt<Gpu, sys::nvmlGpuInstancePlacement_t> =
        nvmlDeviceGetGpuInstancePossiblePlacements_v2, ordinary code::INSUFFICIENT_SIZE;
    GPU_INSTANCES: ListAt<Gpu, sys::nvmlGpuInstance_t> = nvmlDeviceGetGpuInstances;
    GPU_INSTANCE: Get<sys::nvmlGpuInstance_t, sys::nvmlGpuInstanceInfo_t> = nvmlGpuInstanceGetInfo;
    CI_PROFILE: unsafe extern "C" fn(
        sys::nvmlGpuInstance_t, u32, u32, *mut sys::nvmlComputeInstanceProfileInfo_t,
    ) -> Return = nvmlGpuInstanceGetComputeInstanceProfileInfo;
    COMPUTE_INSTANCES: ListAt<sys::nvmlGpuInstance_t, sys::nvmlComputeInstance_t> =
        nvmlGpuInstanceGetComputeInstances;
    COMPUTE_INSTANCE: Get<sys::nvmlComputeInstance_t, sys::nvmlComputeInstanceInfo_t> =
        nvmlComputeInstanceGetInfo_v2;
    CI_PLACEMENTS: ListAt<sys::nvmlGpuInstance_t, sys::nvmlComputeInstancePlacement_t> =
        nvmlGpuInstanceGetComputeInstancePossiblePlacements, ordinary code::INSUFFICIENT_SIZE;

    SET_MIG_MODE: unsafe extern "C" fn(Gpu, u32, *mut Return) -> Return = nvmlDeviceSetMigMode;
    CREATE_GPU_INSTANCE: CreateAt<Gpu, sys::nvmlGpuInstancePlacement_t, sys::nvmlGpuInstance_t> =
        nvmlDeviceCreateGpuInstanceWithPlacement;
    DESTROY_GPU_INSTANCE: unsafe extern "C" fn(sys::nvmlGpuInstance_t) -> Return = nvmlGpuInstanceDestroy;
    CREATE_COMPUTE_INSTANCE: GetAt<sys::nvmlGpuInstance_t, sys::nvmlComputeInstance_t> =
        nvmlGpuInstanceCreateComputeInstance;
    CREATE_COMPUTE_INSTANCE_AT:
        CreateAt<sys::nvmlGpuInstance_t, sys::nvmlComputeInstancePlacement_t, sys::nvmlComputeInstance_t> =
        nvmlGpuInstanceCreateComputeInstanceWithPlacement;
    DESTROY_COMPUTE_INSTANCE: unsafe extern "C" fn(sys::nvmlComputeInstance_t) -> Return =
        nvmlComputeInstanceDestroy;
    PERSISTENCE_MODE: Get<Gpu, u32> = nvmlDeviceGetPersistenceMode;
    SET_PERSISTENCE_MODE: unsafe extern "C" fn(Gpu, u32) -> Return = nvmlDeviceSetPersistenceMode;

    CPU_AFFINITY_WITHIN: SetWithin<Gpu> =
        nvmlDeviceGetCpuAffinityWithinScope, ordinary code::INSUFFICIENT_SIZE;
    CPU_AFFINITY: unsafe extern "C" fn(Gpu, u32, *mut c_ulong) -> Return =
        nvmlDeviceGetCpuAffinity, ordinary code::INSUFFICIENT_SIZE;
    MEMORY_AFFINITY: SetWithin<Gpu> = nvmlDeviceGetMemoryAffinity, ordinary code::INSUFFICIENT_SIZE;
    NUMA_NODE: Get<Gpu, u32> = nvmlDeviceGetNumaNodeId;
    COMMON_ANCESTOR: unsafe extern "C" fn(Gpu, Gpu, *mut u32) -> Return = nvmlDeviceGetTopologyCommonAncestor;

    EVENT_TYPES: Get<Gpu, u64> = nvmlDeviceGetSupportedEventTypes;
    EVENT_SET_CREATE: unsafe extern "C" fn(*mut sys::nvmlEventSet_t) -> Return = nvmlEventSetCreate;
    EVENT_REGISTER: unsafe extern "C" fn(Gpu, u64, sys::nvmlEventSet_t) -> Return = nvmlDeviceRegisterEvents;
    EVENT_WAIT: unsafe extern "C" fn(sys::nvmlEventSet_t, *mut sys::nvmlEventData_t, u32) -> Return =
        nvmlEventSetWait_v2, ordinary code::TIMEOUT;
    /// What drivers before 450 have: it leaves out the MIG instances, at the end of the struct.
    EVENT_WAIT_V1: unsafe extern "C" fn(sys::nvmlEventSet_t, *mut sys::nvmlEventData_t, u32) -> Return =
        nvmlEventSetWait, ordinary code::TIMEOUT;
    EVENT_SET_FREE: unsafe extern "C" fn(sys::nvmlEventSet_t) -> Return = nvmlEventSetFree;
}
