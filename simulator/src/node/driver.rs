//! What a version of the driver has: CUDA version, field ids, symbols.

use super::units::DriverVersion;
use crate::state::FieldNumbers;

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

/// Symbols by the branch that brought them (source: from 515 on the headers of the CUDA toolkits 11.7 to 13.0; before,
/// NVIDIA's change log). A library of an earlier branch does not have them.
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
            "nvmlDeviceGetThermalSettings",
            "nvmlDeviceGetDynamicPstatesInfo",
            "nvmlDeviceGetGspFirmwareVersion",
            "nvmlDeviceGetGspFirmwareMode",
        ],
    ),
    (515, &["nvmlDeviceGetMinMaxFanSpeed"]),
    (
        520,
        &[
            "nvmlGpmMetricsGet",
            "nvmlGpmSampleAlloc",
            "nvmlGpmSampleFree",
            "nvmlGpmSampleGet",
            "nvmlGpmQueryDeviceSupport",
            "nvmlDeviceGetTargetFanSpeed",
        ],
    ),
    (
        525,
        &[
            "nvmlDeviceGetGpuFabricInfo",
            "nvmlDeviceGetGpuMaxPcieLinkGeneration",
            "nvmlDeviceClearFieldValues",
            "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
            "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
            "nvmlGpmMigSampleGet",
        ],
    ),
    (
        535,
        &[
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetSupportedClocksEventReasons",
            "nvmlDeviceGetModuleId",
            "nvmlDeviceGetJpgUtilization",
            "nvmlDeviceGetOfaUtilization",
            "nvmlGpmQueryIfStreamingEnabled",
            "nvmlGpmSetStreamingEnabled",
        ],
    ),
    (
        545,
        &[
            "nvmlDeviceGetRunningProcessDetailList",
            "nvmlDeviceGetC2cModeInfoV",
            "nvmlDeviceGetLastBBXFlushTime",
        ],
    ),
    (
        550,
        &[
            "nvmlDeviceGetProcessesUtilizationInfo",
            "nvmlDeviceGetSramEccErrorStatus",
            "nvmlDeviceGetNumaNodeId",
            "nvmlDeviceGetGpuFabricInfoV",
            "nvmlDeviceGetPciInfoExt",
        ],
    ),
    (555, &["nvmlDeviceGetCapabilities", "nvmlDeviceGetDriverModel_v2"]),
    (560, &["nvmlSystemGetDriverBranch"]),
    (570, &["nvmlDeviceGetTemperatureV", "nvmlDeviceGetMarginTemperature", "nvmlDeviceGetPlatformInfo"]),
    (
        575,
        &[
            "nvmlSystemEventSetCreate",
            "nvmlSystemEventSetFree",
            "nvmlSystemEventSetWait",
            "nvmlSystemRegisterEvents",
        ],
    ),
    (
        580,
        &[
            "nvmlDeviceGetGpuInstanceProfileInfoByIdV",
            "nvmlDeviceGetPowerMizerMode_v1",
            "nvmlDeviceGetRepairStatus",
            "nvmlDeviceGetAddressingMode",
        ],
    ),
];

/// The highest field number by branch, from the same headers; drivers before know no more than the first.
const LAST_FIELDS: &[(u32, u32)] = &[
    (515, 160),
    (520, 166),
    (525, 169),
    (530, 172),
    (535, 196),
    (550, 199),
    (555, 222),
    (560, 229),
    (570, 268),
    (575, 273),
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

    /// How it numbers its field values. In 570 the numbers that 575 gave to held clocks meant power smoothing, and from
    /// 580.82 on they do again.
    pub fn fields(&self) -> FieldNumbers {
        let known = LAST_FIELDS.iter().rev().find(|(branch, _)| self.at_least(&[*branch]));
        FieldNumbers {
            last: known.or(LAST_FIELDS.first()).map_or(0, |(_, last)| *last),
            clocks_held: match () {
                () if self.at_least(&[580, 82]) => Some(269),
                () if self.at_least(&[575]) => Some(251),
                () => None,
            },
            mig_query: match () {
                () if self.at_least(&[570]) => Some(199),
                () if self.at_least(&[555]) => Some(200),
                () if self.at_least(&[550]) => Some(199),
                () => None,
            },
        }
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
        assert!(misses("535.183.01", "nvmlDeviceGetPciInfoExt"));
        assert!(!misses("535.183.01", "nvmlDeviceGetJpgUtilization"));
        assert!(misses("550.54", "nvmlDeviceGetTemperatureV"));
        assert!(version("580.105.08").missing_symbols().is_empty());
    }

    #[test]
    fn field_values_have_their_drivers_numbers() {
        let numbers = |driver: &str| {
            let fields = version(driver).fields();
            (fields.last, fields.clocks_held, fields.mig_query)
        };
        assert_eq!(numbers("470.256.02"), (160, None, None));
        assert_eq!(numbers("535.183.01"), (196, None, None));
        assert_eq!(numbers("550.54.15"), (199, None, Some(199)));
        assert_eq!(numbers("555.42.02"), (222, None, Some(200)));
        assert_eq!(numbers("570.133.20"), (268, None, Some(199)));
        assert_eq!(numbers("580.65.06"), (273, Some(251), Some(199)));
        assert_eq!(numbers("580.82.07"), (273, Some(269), Some(199)));
    }
}
