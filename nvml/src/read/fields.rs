//! Many values by one call: `nvmlDeviceGetFieldValues` with a scope for each, and a buffer that is kept.

use gpulet_inventory::reading::{Answer, Cause, Reading};
use nvml_wrapper_sys::bindings as sys;

use super::Asked;
use crate::raw::{field, symbol};

/// A field of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its number, `NVML_FI_*`.
    pub(crate) id: u32,
    /// The call with the field's name in brackets.
    pub(crate) name: &'static str,
    /// Whether the driver states a wrong type and the value is 32 bits without sign.
    pub(crate) as_u32: bool,
}

macro_rules! fields {
    ($($constant:ident = $name:ident, $id:expr $(, $as_u32:literal)?;)*) => {
        $(pub(crate) const $constant: Field = Field {
            id: $id,
            name: concat!("nvmlDeviceGetFieldValues[", stringify!($name), "]"),
            as_u32: fields!(@as_u32 $($as_u32)?),
        };)*
    };
    (@as_u32) => { false };
    (@as_u32 $as_u32:literal) => { $as_u32 };
}

fields! {
    ECC_VOLATILE_CORRECTED = NVML_FI_DEV_ECC_SBE_VOL_TOTAL, 3;
    ECC_VOLATILE_UNCORRECTED = NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 4;
    ECC_AGGREGATE_CORRECTED = NVML_FI_DEV_ECC_SBE_AGG_TOTAL, 5;
    ECC_AGGREGATE_UNCORRECTED = NVML_FI_DEV_ECC_DBE_AGG_TOTAL, 6;
    HELD_POWER_CAP = NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP, 74;
    HELD_SYNC_BOOST = NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST, 76;
    // Drivers from 545 state that it is a double and fill in the unsigned integer.
    MEMORY_TEMPERATURE = NVML_FI_DEV_MEMORY_TEMP, 82, true;
    NVLINK_TRANSMITTED = NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 138;
    NVLINK_RECEIVED = NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, 139;
    REMAPPED_CORRECTABLE = NVML_FI_DEV_REMAPPED_COR, 142;
    REMAPPED_UNCORRECTABLE = NVML_FI_DEV_REMAPPED_UNC, 143;
    REMAPPED_PENDING = NVML_FI_DEV_REMAPPED_PENDING, 144;
    REMAPPED_FAILURE = NVML_FI_DEV_REMAPPED_FAILURE, 145;
    C2C_LINKS = NVML_FI_DEV_C2C_LINK_COUNT, 170;
    RESETLESS_MIG = NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED, 184;
    POWER_INSTANT = NVML_FI_DEV_POWER_INSTANT, 186;
    PCIE_TRANSMITTED = NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 197;
    PCIE_RECEIVED = NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 198;
    RECOVERY_ACTION = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 230;
    HELD_SW_THERMAL_FROM_575 = NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, 251;
    HELD_HW_THERMAL_FROM_575 = NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, 252;
    HELD_HW_POWER_BRAKE_FROM_575 = NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, 253;
    HELD_SW_THERMAL = NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, 269;
    HELD_HW_THERMAL = NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, 270;
    HELD_HW_POWER_BRAKE = NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, 271;
}

/// The fields for software thermal, hardware thermal and hardware power brake. Drivers from 575 have them, and those from
/// 580.82 under other numbers; drivers before 575 do not know the later numbers, and the earlier ones meant power
/// smoothing in 570 (source: the headers of the CUDA toolkits 12.6 to 13.0). A version that does not parse is taken for
/// a new one.
pub(crate) fn held_by_driver(version: &str) -> [Field; 3] {
    if is_575_to_580_82(version) {
        [HELD_SW_THERMAL_FROM_575, HELD_HW_THERMAL_FROM_575, HELD_HW_POWER_BRAKE_FROM_575]
    } else {
        [HELD_SW_THERMAL, HELD_HW_THERMAL, HELD_HW_POWER_BRAKE]
    }
}

fn is_575_to_580_82(version: &str) -> bool {
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let number = parts.next().map(|major| (major, parts.next().unwrap_or(0)));
    number.is_some_and(|number| ((575, 0)..(580, 82)).contains(&number))
}

/// Fields to be read together.
#[derive(Default)]
pub(crate) struct Batch {
    requests: Vec<(Field, u32)>,
    readings: Vec<Reading<u64>>,
    // What is sent, and which request each entry is for; kept so that a tick allocates nothing.
    entries: Vec<sys::nvmlFieldValue_t>,
    sent: Vec<usize>,
}

impl Batch {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a field of a scope (a link's number; 0 where a field has none), and says where its value will be.
    pub(crate) fn add(&mut self, field: Field, scope: u32) -> usize {
        self.requests.push((field, scope));
        self.readings.push(Reading::Failed(Answer { call: field.name, cause: Cause::NotOpen }));
        self.requests.len() - 1
    }

    /// Reads all that the GPU is not known to refuse, by one call.
    pub(crate) fn read(&mut self, asked: &mut Asked<'_>) {
        self.entries.clear();
        self.sent.clear();
        for (at, (field, scope)) in self.requests.iter().enumerate() {
            match asked.capabilities.refusal(field.name, *scope, asked.now) {
                Some(answer) => set(&mut self.readings, at, Reading::Unsupported(answer)),
                None => {
                    self.entries.push(field::request(field.id, *scope));
                    self.sent.push(at);
                }
            }
        }
        if self.entries.is_empty() {
            return;
        }
        let whole = asked.calls.fields(asked.device, &mut self.entries);
        for (entry, at) in self.entries.iter().zip(&self.sent) {
            let Some((field, scope)) = self.requests.get(*at) else { continue };
            let outcome = whole.and_then(|()| field::number(entry, field.as_u32));
            // A value that is blank is not a call that failed.
            if let (Ok(()), Err(cause @ Cause::Code(_))) = (whole, outcome) {
                asked.calls.count_failed(field.name, cause);
            }
            let reading = asked.capabilities.judge(field.name, *scope, asked.now, outcome);
            set(&mut self.readings, *at, reading);
        }
    }

    /// The value at the place that [`Batch::add`] gave.
    pub(crate) fn value(&self, at: usize) -> Reading<u64> {
        // Every place that `add` gave has a reading; another one is answered as what it is.
        self.readings
            .get(at)
            .cloned()
            .unwrap_or(Reading::Failed(Answer { call: symbol::FIELDS.name, cause: Cause::NotOpen }))
    }
}

fn set(readings: &mut [Reading<u64>], at: usize, reading: Reading<u64>) {
    if let Some(place) = readings.get_mut(at) {
        *place = reading;
    }
}

/// The same reading, if its number is one that can be.
pub(crate) fn checked<T>(
    reading: Reading<u64>,
    name: &'static str,
    check: impl FnOnce(u64) -> Result<T, Cause>,
) -> Reading<T> {
    match reading {
        Reading::Supported(value) => match check(value) {
            Ok(value) => Reading::Supported(value),
            Err(cause) => Reading::Failed(Answer { call: name, cause }),
        },
        Reading::Unsupported(answer) => Reading::Unsupported(answer),
        Reading::Failed(answer) => Reading::Failed(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renumbered_fields_follow_the_driver() {
        for old in ["575.51.03", "580.65.06", "580.81", "580"] {
            assert_eq!(held_by_driver(old).map(|field| field.id), [251, 252, 253], "{old}");
        }
        for new in ["535.183.01", "570.133.20", "580.82.07", "580.105.08", "590.1", "610", "unreadable"] {
            assert_eq!(held_by_driver(new).map(|field| field.id), [269, 270, 271], "{new}");
        }
    }

    #[test]
    fn a_renumbered_field_keeps_its_name() {
        for (old, new) in held_by_driver("575.1").into_iter().zip(held_by_driver("590.1")) {
            assert_eq!(old.name, new.name);
        }
    }

    #[test]
    fn an_impossible_number_is_told_as_such() {
        let checked = checked(Reading::Supported(300), MEMORY_TEMPERATURE.name, |value| {
            crate::plausible::narrow(value).and_then(crate::plausible::celsius)
        });
        let answer =
            Answer { call: "nvmlDeviceGetFieldValues[NVML_FI_DEV_MEMORY_TEMP]", cause: Cause::Implausible };
        assert_eq!(checked, Reading::Failed(answer));
    }
}
