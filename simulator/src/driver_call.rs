//! Calls through NVML that change a GPU: the library hands them on to the server, where the hardware is.

use serde::{Deserialize, Serialize};

/// What a client asks the driver to do. GPUs and instances are named by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverCall {
    /// `nvmlDeviceSetMigMode`
    SetMigMode {
        /// GPU index.
        gpu: u32,
        /// Whether it is to be on.
        on: bool,
    },
    /// `nvmlDeviceSetPersistenceMode`
    SetPersistence {
        /// GPU index.
        gpu: u32,
        /// Whether it is to be on.
        on: bool,
    },
    /// `nvmlDeviceCreateGpuInstance`, `nvmlDeviceCreateGpuInstanceWithPlacement`
    CreateGpuInstance {
        /// GPU index.
        gpu: u32,
        /// The id that creation takes, not the enumerator.
        profile: u32,
        /// First unit and size; where the driver likes without.
        placement: Option<(u32, u32)>,
    },
    /// `nvmlGpuInstanceDestroy`
    DestroyGpuInstance {
        /// GPU index.
        gpu: u32,
        /// Its number.
        gpu_instance: u32,
    },
    /// `nvmlGpuInstanceCreateComputeInstance`, `nvmlGpuInstanceCreateComputeInstanceWithPlacement`
    CreateComputeInstance {
        /// GPU index.
        gpu: u32,
        /// In which GPU instance.
        gpu_instance: u32,
        /// The id that creation takes.
        profile: u32,
        /// First slice and size; where the driver likes without.
        placement: Option<(u32, u32)>,
    },
    /// `nvmlComputeInstanceDestroy`
    DestroyComputeInstance {
        /// GPU index.
        gpu: u32,
        /// In which GPU instance.
        gpu_instance: u32,
        /// Its number.
        compute_instance: u32,
    },
}

impl DriverCall {
    /// Which GPU it is to change.
    pub fn gpu(&self) -> u32 {
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
pub enum Called {
    /// It is done.
    Done,
    /// MIG mode is set; whether it is in force, as an `nvmlReturn_t`.
    Mode {
        /// `NVML_SUCCESS`, or why it is not.
        activation: u32,
    },
    /// An instance was created, with this number.
    Created {
        /// Its number.
        id: u32,
    },
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
