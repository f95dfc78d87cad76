//! Calls through NVML that change a GPU: the library hands them on to the server, where the hardware is.

use serde::{Deserialize, Serialize};

/// What a client asks the driver to do. GPUs and instances are named by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DriverCall {
    /// `nvmlDeviceSetMigMode`
    SetMigMode { gpu: u32, on: bool },
    /// `nvmlDeviceSetPersistenceMode`
    SetPersistence { gpu: u32, on: bool },
    /// `nvmlDeviceCreateGpuInstance`, `nvmlDeviceCreateGpuInstanceWithPlacement`
    CreateGpuInstance {
        gpu: u32,
        /// The id that creation takes, not the enumerator.
        profile: u32,
        placement: Option<(u32, u32)>,
    },
    /// `nvmlGpuInstanceDestroy`
    DestroyGpuInstance { gpu: u32, gpu_instance: u32 },
    /// `nvmlGpuInstanceCreateComputeInstance`, `nvmlGpuInstanceCreateComputeInstanceWithPlacement`
    CreateComputeInstance { gpu: u32, gpu_instance: u32, profile: u32, placement: Option<(u32, u32)> },
    /// `nvmlComputeInstanceDestroy`
    DestroyComputeInstance { gpu: u32, gpu_instance: u32, compute_instance: u32 },
}

impl DriverCall {
    /// Which GPU it is to change.
    pub(crate) fn gpu(&self) -> u32 {
        match *self {
            Self::SetMigMode { gpu, .. }
            | Self::SetPersistence { gpu, .. }
            | Self::CreateGpuInstance { gpu, .. }
            | Self::DestroyGpuInstance { gpu, .. }
            | Self::CreateComputeInstance { gpu, .. }
            | Self::DestroyComputeInstance { gpu, .. } => gpu,
        }
    }
}

/// What came of a call that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Called {
    /// It is done.
    Done,
    /// MIG mode is set; whether it is in force, as an `nvmlReturn_t`.
    Mode { activation: u32 },
    /// An instance was created, with this number.
    Created { id: u32 },
}

/// The return codes that such calls come to.
pub(crate) mod code {
    pub(crate) use nvml_wrapper_sys::bindings::{
        nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST as GPU_IS_LOST, nvmlReturn_enum_NVML_ERROR_IN_USE as IN_USE,
        nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES as INSUFFICIENT_RESOURCES,
        nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
        nvmlReturn_enum_NVML_ERROR_NO_PERMISSION as NO_PERMISSION,
        nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
        nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED as RESET_REQUIRED,
        nvmlReturn_enum_NVML_ERROR_UNINITIALIZED as UNINITIALIZED, nvmlReturn_enum_NVML_SUCCESS as SUCCESS,
    };
}
