//! What a version of the driver has: CUDA version, field ids, symbols.

use super::units::DriverVersion;

/// CUDA version of a driver branch as NVML encodes it. Branches in between have the version of the one before.
const CUDA: &[(u32, i32)] = &[
    (418, 10_010),
    (440, 10_020),
    (450, 11_000),
    (455, 11_010),
    (460, 11_020),
    (465, 11_030),
    (470, 11_040),
    (495, 11_050),
    (510, 11_060),
    (515, 11_070),
    (520, 11_080),
    (525, 12_000),
    (530, 12_010),
    (535, 12_020),
    (545, 12_030),
    (550, 12_040),
    (555, 12_050),
    (560, 12_060),
    (565, 12_070),
    (570, 12_080),
    (575, 12_090),
    (580, 13_000),
    (590, 13_010),
];

/// Symbols by the branch that brought them (source: the driver's header, release by release). A library of an
/// earlier branch does not have them.
const SYMBOLS: &[(u32, &[&str])] = &[
    (
        450,
        &[
            "nvmlDeviceGetMigMode",
            "nvmlDeviceSetMigMode",
            "nvmlDeviceGetGpuInstanceProfileInfo",
            "nvmlDeviceGetGpuInstanceRemainingCapacity",
            "nvmlDeviceCreateGpuInstance",
            "nvmlDeviceGetGpuInstances",
            "nvmlDeviceGetGpuInstanceById",
            "nvmlGpuInstanceGetInfo",
            "nvmlGpuInstanceDestroy",
            "nvmlGpuInstanceGetComputeInstanceProfileInfo",
            "nvmlGpuInstanceGetComputeInstanceRemainingCapacity",
            "nvmlGpuInstanceCreateComputeInstance",
            "nvmlGpuInstanceGetComputeInstances",
            "nvmlGpuInstanceGetComputeInstanceById",
            "nvmlComputeInstanceDestroy",
            "nvmlDeviceIsMigDeviceHandle",
            "nvmlDeviceGetGpuInstanceId",
            "nvmlDeviceGetComputeInstanceId",
            "nvmlDeviceGetMaxMigDeviceCount",
            "nvmlDeviceGetMigDeviceHandleByIndex",
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
            "nvmlDeviceGetAttributes_v2",
            "nvmlDeviceGetRemappedRows",
            "nvmlDeviceGetArchitecture",
            "nvmlEventSetWait_v2",
            "nvmlDeviceGetComputeRunningProcesses_v2",
            "nvmlDeviceGetGraphicsRunningProcesses_v2",
            "nvmlDeviceGetRowRemapperHistogram",
            "nvmlComputeInstanceGetInfo_v2",
        ],
    ),
    (
        465,
        &[
            "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
            "nvmlDeviceCreateGpuInstanceWithPlacement",
            "nvmlDeviceGetMPSComputeRunningProcesses",
            "nvmlDeviceGetMPSComputeRunningProcesses_v2",
        ],
    ),
    (
        510,
        &[
            "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetGraphicsRunningProcesses_v3",
            "nvmlDeviceGetMPSComputeRunningProcesses_v3",
            "nvmlDeviceGetGpuInstanceProfileInfoV",
            "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
            "nvmlDeviceGetNumGpuCores",
            "nvmlDeviceGetMemoryBusWidth",
            "nvmlDeviceGetIrqNum",
            "nvmlDeviceGetPcieLinkMaxSpeed",
            "nvmlDeviceGetPcieSpeed",
            "nvmlDeviceGetBusType",
            "nvmlDeviceGetAdaptiveClockInfoStatus",
            "nvmlDeviceGetPowerSource",
            "nvmlDeviceGetNumFans",
            "nvmlDeviceGetGpuMaxPcieLinkGeneration",
            "nvmlDeviceGetThermalSettings",
            "nvmlDeviceGetDynamicPstatesInfo",
            "nvmlDeviceGetGspFirmwareVersion",
            "nvmlDeviceGetGspFirmwareMode",
        ],
    ),
    (
        525,
        &[
            "nvmlDeviceGetGpuFabricInfo",
            "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
            "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
            "nvmlGpmMetricsGet",
            "nvmlGpmSampleAlloc",
            "nvmlGpmSampleFree",
            "nvmlGpmSampleGet",
            "nvmlGpmMigSampleGet",
            "nvmlGpmQueryDeviceSupport",
            "nvmlDeviceGetMinMaxFanSpeed",
            "nvmlDeviceGetTargetFanSpeed",
        ],
    ),
    (
        535,
        &[
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetSupportedClocksEventReasons",
            "nvmlDeviceGetRunningProcessDetailList",
            "nvmlDeviceGetModuleId",
            "nvmlDeviceGetNumaNodeId",
            "nvmlGpmQueryIfStreamingEnabled",
            "nvmlGpmSetStreamingEnabled",
            "nvmlDeviceGetC2cModeInfoV",
            "nvmlDeviceGetLastBBXFlushTime",
        ],
    ),
    (
        545,
        &[
            "nvmlDeviceGetGpuFabricInfoV",
            "nvmlDeviceGetJpgUtilization",
            "nvmlDeviceGetOfaUtilization",
            "nvmlDeviceGetPciInfoExt",
        ],
    ),
    (550, &["nvmlDeviceGetProcessesUtilizationInfo", "nvmlDeviceGetSramEccErrorStatus"]),
    (560, &["nvmlDeviceGetPlatformInfo", "nvmlDeviceGetCapabilities", "nvmlSystemGetDriverBranch"]),
    (
        570,
        &[
            "nvmlDeviceGetTemperatureV",
            "nvmlDeviceGetMarginTemperature",
            "nvmlDeviceGetGpuInstanceProfileInfoByIdV",
            "nvmlDeviceGetPowerMizerMode_v1",
            "nvmlSystemEventSetCreate",
            "nvmlSystemEventSetFree",
            "nvmlSystemEventSetWait",
            "nvmlSystemRegisterEvents",
        ],
    ),
    (580, &["nvmlDeviceGetRepairStatus", "nvmlDeviceGetAddressingMode"]),
];

impl DriverVersion {
    /// The CUDA version that it brings, as NVML encodes it.
    pub fn cuda(&self) -> i32 {
        let known = CUDA.iter().rev().find(|(branch, _)| self.at_least(&[*branch]));
        known.or(CUDA.first()).map_or(0, |(_, cuda)| *cuda)
    }

    /// NVML's version: CUDA's major number, then the driver's.
    pub fn nvml(&self) -> String {
        format!("{}.{}", self.cuda() / 1000, self.as_str())
    }

    /// Symbols that its library does not have yet.
    pub fn missing_symbols(&self) -> Vec<String> {
        let later = SYMBOLS.iter().filter(|(branch, _)| !self.at_least(&[*branch]));
        later.flat_map(|(_, symbols)| symbols.iter()).map(|symbol| (*symbol).to_owned()).collect()
    }

    /// Whether field ids 251 to 253 and 269 to 271 have their later meaning.
    pub fn field_ids_from_580_82(&self) -> bool {
        self.at_least(&[580, 82])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> DriverVersion {
        text.parse().unwrap()
    }

    #[test]
    fn branches_have_their_cuda() {
        assert_eq!(version("580.105.08").cuda(), 13_000);
        assert_eq!(version("580.105.08").nvml(), "13.580.105.08");
        assert_eq!(version("537.13").cuda(), 12_020);
        assert_eq!(version("470.256.02").nvml(), "11.470.256.02");
        assert_eq!(version("390.12").cuda(), 10_010);
    }

    #[test]
    fn older_libraries_miss_more() {
        let misses =
            |driver: &str, symbol: &str| version(driver).missing_symbols().iter().any(|s| s == symbol);
        assert!(misses("470.256.02", "nvmlDeviceGetMemoryInfo_v2"));
        assert!(!misses("535.183.01", "nvmlDeviceGetMemoryInfo_v2"));
        assert!(misses("535.183.01", "nvmlDeviceGetJpgUtilization"));
        assert!(misses("550.54", "nvmlDeviceGetTemperatureV"));
        assert!(version("580.105.08").missing_symbols().is_empty());
        assert!(!version("580.65.06").field_ids_from_580_82());
        assert!(version("580.82.07").field_ids_from_580_82());
    }
}
