//! Constants of `nvml.h` (13.0 and later) that nvml-wrapper-sys 0.10.0 lacks or has in one meaning only.

/// GPU instance profiles: the first enumerator that no driver knows yet. The header has 18, the bindings 17
/// (they lack `NVML_GPU_INSTANCE_PROFILE_3_SLICE_GFX`). Older drivers answer `INVALID_ARGUMENT` to what they do not
/// know.
pub(crate) const GPU_INSTANCE_PROFILE_COUNT: u32 = 18;

/// Compute instance profiles: the first enumerator that no driver knows yet. The header has 9, the bindings 8 (they
/// lack `NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE_NVL`).
pub(crate) const COMPUTE_INSTANCE_PROFILE_COUNT: u32 = 9;

/// Most NVLinks of a GPU that are asked about (`NVML_NVLINK_MAX_LINKS` is 18 in the bindings; room for the next
/// generation, since a link that is not there ends the enumeration).
pub(crate) const NVLINK_MAX_LINKS: u32 = 36;

/// `NVML_EVENT_TYPE_*` bits that are worth being told of. ECC single-bit errors, performance states and clocks would
/// only make noise.
pub(crate) mod event {
    /// `nvmlEventTypeXidCriticalError`
    pub(crate) const XID: u64 = 0x8;
    /// `nvmlEventMigConfigChange`
    pub(crate) const MIG_CONFIG_CHANGE: u64 = 0x100;
    /// `nvmlEventTypeSingleBitEccErrorStorm`
    pub(crate) const ECC_STORM: u64 = 0x200;
    /// `nvmlEventTypeDramRetirementEvent`
    pub(crate) const DRAM_RETIREMENT: u64 = 0x400;
    /// `nvmlEventTypeDramRetirementFailure`
    pub(crate) const DRAM_RETIREMENT_FAILURE: u64 = 0x800;
    /// `nvmlEventTypeNonFatalPoisonError`
    pub(crate) const NON_FATAL_POISON: u64 = 0x1000;
    /// `nvmlEventTypeFatalPoisonError`
    pub(crate) const FATAL_POISON: u64 = 0x2000;
    /// `nvmlEventTypeGpuUnavailableError`
    pub(crate) const UNAVAILABLE: u64 = 0x4000;
    /// `nvmlEventTypeGpuRecoveryAction`
    pub(crate) const RECOVERY_ACTION: u64 = 0x8000;
    /// All of these.
    pub(crate) const WANTED: u64 = XID
        | MIG_CONFIG_CHANGE
        | ECC_STORM
        | DRAM_RETIREMENT
        | DRAM_RETIREMENT_FAILURE
        | NON_FATAL_POISON
        | FATAL_POISON
        | UNAVAILABLE
        | RECOVERY_ACTION;
}
