//! The many names of one device.
//!
//! | name | whose |
//! |---|---|
//! | `GPU-<uuid>`, `MIG-<uuid>`, `MIG-GPU-<uuid>/<gi>/<ci>` | the driver; the last before R470 |
//! | `0`, `0:1`, `gpu0`, `mig0:1` | NVIDIA's tools: a GPU's index, and the number of a MIG device on it |
//! | `<name>::<n>` | NVIDIA's device plugin: share `n` of a device |
//! | `GPU-<uuid>-<n>` | HAMi: the same |
//! | `nvidia0`, `nvidia0/gi1`, both also with `/vgpu2` | GKE: minor number, GPU instance, share |
//! | `gpu-0`, `gpu-0-mig-1g10gb-19-4`, `gpu-0-mig-19-4-1` | DRA driver: minor number, profile, first slice; the last with the size in place of the name |
//! | `nvidia.com/gpu=<name>`, `k8s.gpu.nvidia.com/device=<name>`, `k8s.gpu.nvidia.com/claim=<uid>-<name>` | the same in CDI |

use std::str::FromStr;

use crate::gpu::GpuUuid;
use crate::mig::{ComputeInstanceId, GpuInstanceId};

/// A name, understood but not yet looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceName {
    /// What it names.
    pub form: DeviceForm,
    /// Which share of it.
    pub replica: Option<u32>,
}

/// What a name names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceForm {
    /// A GPU by its UUID.
    Gpu(GpuUuid),
    /// A MIG device by its UUID, `MIG-` included.
    Mig(Box<str>),
    /// A MIG device by its place, as drivers before R470 name it.
    MigPlace {
        /// The GPU.
        gpu: GpuUuid,
        /// The GPU instance.
        instance: GpuInstanceId,
        /// The compute instance.
        compute: ComputeInstanceId,
    },
    /// A GPU by the driver's number.
    Index(u32),
    /// A MIG device by its number on a GPU.
    MigIndex {
        /// The driver's number of the GPU.
        gpu: u32,
        /// Which of its MIG devices, from 0.
        mig: u32,
    },
    /// A GPU by N of `/dev/nvidiaN`.
    Minor(u32),
    /// A GPU instance by N of `/dev/nvidiaN`.
    MinorInstance {
        /// N.
        minor: u32,
        /// The GPU instance.
        instance: GpuInstanceId,
    },
    /// A GPU instance by its place.
    Placed {
        /// N of `/dev/nvidiaN`.
        minor: u32,
        /// The driver's id of its profile.
        profile_id: u32,
        /// Its first memory slice.
        start: u32,
    },
}

/// Why a text names no device that we know of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no name of a GPU or MIG device; expected one such as GPU-8f6d2c3a-0000-1111-2222-333344445555"
)]
pub struct ParseDeviceNameError {
    text: String,
}

impl ParseDeviceNameError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "InvalidDeviceName"
    }
}

impl FromStr for DeviceName {
    type Err = ParseDeviceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = unqualified(text).and_then(|name| {
            let (name, replica) = share(name);
            Some(Self { form: form(name)?, replica })
        });
        name.ok_or_else(|| ParseDeviceNameError { text: text.chars().take(64).collect() })
    }
}

/// The name without the kind of CDI before it.
fn unqualified(text: &str) -> Option<&str> {
    let Some((kind, name)) = text.split_once('=') else { return Some(text) };
    match kind {
        "nvidia.com/gpu" | "k8s.gpu.nvidia.com/device" => Some(name),
        // The claim's UID stands before the name.
        "k8s.gpu.nvidia.com/claim" => {
            let (uid, name) = name.split_at_checked(36)?;
            is_uuid(uid).then(|| name.strip_prefix('-')).flatten()
        }
        _ => None,
    }
}

/// The name without the number of its share.
fn share(name: &str) -> (&str, Option<u32>) {
    let whole_uuid = |name: &str| name.strip_prefix("GPU-").is_some_and(is_uuid);
    let split = |mark: &str| {
        let (device, share) = name.rsplit_once(mark)?;
        Some((device, number(share)?))
    };
    match split("::").or_else(|| split("/vgpu")).or_else(|| split("-").filter(|(name, _)| whole_uuid(name))) {
        Some((device, share)) => (device, Some(share)),
        None => (name, None),
    }
}

fn form(name: &str) -> Option<DeviceForm> {
    if let Some(mig) = name.strip_prefix("MIG-") {
        return mig_form(name, mig);
    }
    if let Ok(uuid) = name.parse() {
        return Some(DeviceForm::Gpu(uuid));
    }
    if let Some(rest) = name.strip_prefix("nvidia") {
        return match rest.split_once("/gi") {
            None => Some(DeviceForm::Minor(number(rest)?)),
            Some((minor, instance)) => Some(DeviceForm::MinorInstance {
                minor: number(minor)?,
                instance: GpuInstanceId(number(instance)?),
            }),
        };
    }
    if let Some(rest) = name.strip_prefix("gpu-") {
        return claimed(rest);
    }
    let digits = ["gpu", "mig"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    match digits.split_once(':') {
        None if !name.starts_with("mig") => Some(DeviceForm::Index(number(digits)?)),
        Some((gpu, mig)) if !name.starts_with("gpu") => {
            Some(DeviceForm::MigIndex { gpu: number(gpu)?, mig: number(mig)? })
        }
        _ => None,
    }
}

fn mig_form(name: &str, mig: &str) -> Option<DeviceForm> {
    if is_uuid(mig) {
        return Some(DeviceForm::Mig(name.into()));
    }
    let mut parts = mig.split('/');
    let (gpu, instance, compute) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    Some(DeviceForm::MigPlace {
        gpu: gpu.parse().ok()?,
        instance: GpuInstanceId(number(instance)?),
        compute: ComputeInstanceId(number(compute)?),
    })
}

/// A device of the DRA driver, without `gpu-`.
fn claimed(rest: &str) -> Option<DeviceForm> {
    let Some((minor, mig)) = rest.split_once("-mig-") else { return Some(DeviceForm::Minor(number(rest)?)) };
    let minor = number(minor)?;
    let parts: Vec<&str> = mig.split('-').collect();
    // A profile's name is never a number: where a number stands in its place, the id comes first and the size last.
    let (profile_id, start) = match parts.as_slice() {
        [profile_id, start, size] if number(profile_id).is_some() => {
            number(size)?;
            (profile_id, start)
        }
        [_, .., profile_id, start] if parts.len() > 2 => (profile_id, start),
        _ => return None,
    };
    Some(DeviceForm::Placed { minor, profile_id: number(profile_id)?, start: number(start)? })
}

/// Digits alone: `parse` would take a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn is_uuid(text: &str) -> bool {
    let groups = text.split('-');
    groups.clone().map(str::len).eq([8, 4, 4, 4, 12])
        && groups.flat_map(str::bytes).all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "8f6d2c3a-0000-1111-2222-333344445555";

    fn gpu() -> GpuUuid {
        format!("GPU-{UUID}").parse().unwrap()
    }

    #[test]
    fn every_form() {
        use DeviceForm::{Gpu, Index, Mig, MigIndex, MigPlace, Minor, MinorInstance, Placed};
        let mig = Mig(format!("MIG-{UUID}").into());
        let gi = GpuInstanceId;
        for (text, form, replica) in [
            (format!("GPU-{UUID}"), Gpu(gpu()), None),
            (format!("GPU-{UUID}::3"), Gpu(gpu()), Some(3)),
            (format!("GPU-{UUID}-9"), Gpu(gpu()), Some(9)),
            (format!("MIG-{UUID}"), mig.clone(), None),
            (format!("MIG-{UUID}::1"), mig, Some(1)),
            (
                format!("MIG-GPU-{UUID}/7/0"),
                MigPlace { gpu: gpu(), instance: gi(7), compute: ComputeInstanceId(0) },
                None,
            ),
            ("0".to_owned(), Index(0), None),
            ("15::2".to_owned(), Index(15), Some(2)),
            ("gpu0".to_owned(), Index(0), None),
            ("0:1".to_owned(), MigIndex { gpu: 0, mig: 1 }, None),
            ("mig3:6".to_owned(), MigIndex { gpu: 3, mig: 6 }, None),
            ("nvidia0".to_owned(), Minor(0), None),
            ("nvidia0/vgpu2".to_owned(), Minor(0), Some(2)),
            ("nvidia1/gi3".to_owned(), MinorInstance { minor: 1, instance: gi(3) }, None),
            ("nvidia1/gi3/vgpu0".to_owned(), MinorInstance { minor: 1, instance: gi(3) }, Some(0)),
            ("gpu-4".to_owned(), Minor(4), None),
            ("gpu-0-mig-1g10gb-19-4".to_owned(), Placed { minor: 0, profile_id: 19, start: 4 }, None),
            ("gpu-0-mig-1g10gb-me-20-6".to_owned(), Placed { minor: 0, profile_id: 20, start: 6 }, None),
            ("gpu-0-mig-19-4-1".to_owned(), Placed { minor: 0, profile_id: 19, start: 4 }, None),
            (format!("nvidia.com/gpu=GPU-{UUID}"), Gpu(gpu()), None),
            ("k8s.gpu.nvidia.com/device=gpu-2".to_owned(), Minor(2), None),
            (format!("k8s.gpu.nvidia.com/claim={UUID}-gpu-2"), Minor(2), None),
        ] {
            assert_eq!(text.parse(), Ok(DeviceName { form, replica }), "{text}");
        }
    }

    #[test]
    fn what_names_no_device() {
        for text in [
            "",
            "GPU-",
            "MIG-",
            "GPU-8f6d2c3a",
            "nvidia",
            "nvidiactl",
            "nvidia0/gi",
            "nvidia0/gi1/ci0",
            "gpu-",
            "gpu-vfio-0",
            "gpu-0-mig-",
            "gpu-0-mig-1g10gb",
            "gpu-0-mig-1g10gb-19",
            "mig3",
            "gpu0:1",
            "0:1:2",
            "-1",
            "+1",
            "4294967296",
            "all",
            "nvidia.com/gpu=all",
            "example.com/gpu=0",
            "k8s.gpu.nvidia.com/claim=gpu-0",
            "0000:3b:00.0",
            "::1",
        ] {
            let error = text.parse::<DeviceName>().unwrap_err();
            assert_eq!(error.reason(), "InvalidDeviceName", "{text}");
        }
        let long = "é".repeat(5000).parse::<DeviceName>().unwrap_err();
        assert!(long.to_string().len() < 300);
    }

    proptest! {
        #[test]
        fn any_text_is_understood_or_refused(
            text in "(nvidia|gpu-?|MIG-|GPU-|mig|k8s.gpu.nvidia.com/claim=)?[-0-9a-f:/gimvpu=é]{0,50}|.{0,40}",
        ) {
            let _ = text.parse::<DeviceName>();
        }

        #[test]
        fn a_share_is_of_the_same_device(minor: u32, instance: u32, share: u32) {
            let base = format!("nvidia{minor}/gi{instance}");
            let whole = base.parse::<DeviceName>().unwrap();
            for text in [format!("{base}/vgpu{share}"), format!("{base}::{share}")] {
                let name = text.parse::<DeviceName>().unwrap();
                prop_assert_eq!((&name.form, name.replica), (&whole.form, Some(share)));
            }
        }
    }
}
