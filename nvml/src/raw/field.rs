//! Values of `nvmlDeviceGetFieldValues`: which member of the union holds the number, and whether there is one.
#![allow(unsafe_code)]

use gpulet_inventory::reading::Cause;
use nvml_wrapper_sys::bindings as sys;

use super::plain::Plain;
use crate::{code, plausible};

/// An entry that asks for `field` of `scope`.
pub(crate) fn request(field: u32, scope: u32) -> sys::nvmlFieldValue_t {
    let mut entry = sys::nvmlFieldValue_t::zeroed();
    entry.fieldId = field;
    entry.scopeId = scope;
    entry
}

/// The number that the driver put there. `as_u32`: the type that the entry states is wrong, and it is 32 bits.
pub(crate) fn number(entry: &sys::nvmlFieldValue_t, as_u32: bool) -> Result<u64, Cause> {
    if entry.nvmlReturn != code::SUCCESS {
        return Err(Cause::Code(entry.nvmlReturn));
    }
    // The driver leaves ECC fields as they were when ECC is off, and still says that it succeeded: type 0, no time.
    let double = sys::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE;
    if entry.valueType == double && entry.timestamp == 0 && entry.latencyUsec == 0 {
        return Err(Cause::Blank);
    }
    let kind = if as_u32 { sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT } else { entry.valueType };
    // SAFETY: every member of the union is a number, for which any bits are valid; all were zeroed before the call.
    let (d, si, ui, ul, ull, sll, us) = unsafe {
        let value = entry.value;
        (value.dVal, value.siVal, value.uiVal, value.ulVal, value.ullVal, value.sllVal, value.usVal)
    };
    match kind {
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE => whole(d),
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => plausible::number(ui).map(u64::from),
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG => plausible::wide(ul),
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => plausible::wide(ull),
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG => positive(sll),
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT => positive(i64::from(si)),
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_SHORT => Ok(u64::from(us)),
        _ => Err(Cause::Implausible),
    }
}

/// None of the fields that are read can be negative; -1 says that there is no value.
fn positive(value: i64) -> Result<u64, Cause> {
    u64::try_from(value).map_err(|_| Cause::Blank).and_then(plausible::wide)
}

/// None of the fields that are read has fractions; NaN and negative numbers say that there is no value.
fn whole(value: f64) -> Result<u64, Cause> {
    if value.is_finite() && value >= 0.0 { plausible::wide(value as u64) } else { Err(Cause::Blank) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u32, value: sys::nvmlValue_t) -> sys::nvmlFieldValue_t {
        let mut entry = request(1, 0);
        entry.timestamp = 1;
        entry.valueType = kind;
        entry.value = value;
        entry
    }

    #[test]
    fn each_type_is_read_as_what_it_is() {
        assert_eq!(number(&entry(0, sys::nvmlValue_t { dVal: 42.0 }), false), Ok(42));
        assert_eq!(number(&entry(1, sys::nvmlValue_t { uiVal: 42 }), false), Ok(42));
        assert_eq!(number(&entry(2, sys::nvmlValue_t { ulVal: 1 << 40 }), false), Ok(1 << 40));
        assert_eq!(number(&entry(3, sys::nvmlValue_t { ullVal: 1 << 41 }), false), Ok(1 << 41));
        assert_eq!(number(&entry(4, sys::nvmlValue_t { sllVal: 42 }), false), Ok(42));
        assert_eq!(number(&entry(5, sys::nvmlValue_t { siVal: 42 }), false), Ok(42));
        assert_eq!(number(&entry(6, sys::nvmlValue_t { usVal: 42 }), false), Ok(42));
        assert_eq!(number(&entry(7, sys::nvmlValue_t { ullVal: 42 }), false), Err(Cause::Implausible));
    }

    #[test]
    fn a_wrongly_stated_type_is_overridden() {
        let mut value = sys::nvmlValue_t { ullVal: 0 };
        value.uiVal = 55;
        assert_eq!(number(&entry(0, value), true), Ok(55));
        assert_eq!(number(&entry(0, value), false), Ok(0), "what the stated type would give");
    }

    #[test]
    fn what_is_not_there_is_no_number() {
        assert_eq!(number(&request(3, 0), false), Err(Cause::Blank), "left as it was");
        assert_eq!(number(&entry(0, sys::nvmlValue_t { dVal: f64::NAN }), false), Err(Cause::Blank));
        assert_eq!(number(&entry(1, sys::nvmlValue_t { uiVal: u32::MAX }), false), Err(Cause::Blank));
        assert_eq!(number(&entry(3, sys::nvmlValue_t { ullVal: u64::MAX }), false), Err(Cause::Blank));
        assert_eq!(number(&entry(4, sys::nvmlValue_t { sllVal: -1 }), false), Err(Cause::Blank));
        assert_eq!(number(&entry(5, sys::nvmlValue_t { siVal: -1 }), false), Err(Cause::Blank));
        let mut refused = entry(1, sys::nvmlValue_t { uiVal: 1 });
        refused.nvmlReturn = code::NOT_SUPPORTED;
        assert_eq!(number(&refused, false), Err(Cause::Code(code::NOT_SUPPORTED)));
    }
}
