//! One word for what is wanted of all GPUs.

use std::collections::BTreeMap;
use std::fmt::Write;

use gpulet_inventory::gpu::GpuUuid;
use xxhash_rust::xxh3::xxh3_64;

use crate::desired::{Wanted, WantedInstance};

/// The hash of what is wanted of each GPU, 16 hexadecimal digits: the same for the same, in whatever order it is written.
///
/// It is kept in the cluster and on disk and compared by later versions, so what is hashed here must not change its form.
pub fn content(gpus: &[(GpuUuid, Option<Wanted>)]) -> String {
    let wanted: BTreeMap<&GpuUuid, &Wanted> =
        gpus.iter().filter_map(|(gpu, wanted)| Some((gpu, wanted.as_ref()?))).collect();
    let mut text = String::new();
    for (gpu, wanted) in wanted {
        let _ = writeln!(text, "{gpu} {}", canonical(wanted));
    }
    format!("{:016x}", xxh3_64(text.as_bytes()))
}

/// `off`, or `on` and a word for each instance: its profile, and those of its compute instances.
fn canonical(wanted: &Wanted) -> String {
    let Wanted::On(instances) = wanted else { return "off".to_owned() };
    let mut sorted: Vec<WantedInstance> = instances.clone();
    sorted.iter_mut().for_each(|instance| instance.computes.sort_unstable());
    sorted.sort_unstable();
    sorted.iter().fold("on".to_owned(), |mut text, WantedInstance { profile, computes }| {
        let computes: Vec<String> = computes.iter().map(u32::to_string).collect();
        let _ = write!(text, " {profile}/{}", computes.join(","));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(number: u32) -> GpuUuid {
        format!("GPU-00000000-0000-0000-0000-{number:012}").parse().unwrap()
    }

    fn on(instances: &[(u32, &[u32])]) -> Option<Wanted> {
        let one = |(profile, computes): &(u32, &[u32])| WantedInstance {
            profile: *profile,
            computes: computes.to_vec(),
        };
        Some(Wanted::On(instances.iter().map(one).collect()))
    }

    #[test]
    fn order_does_not_matter_and_content_does() {
        let one = content(&[
            (gpu(1), on(&[(9, &[0, 1]), (14, &[1])])),
            (gpu(2), Some(Wanted::Off)),
            (gpu(3), None),
        ]);
        let other = content(&[(gpu(2), Some(Wanted::Off)), (gpu(1), on(&[(14, &[1]), (9, &[1, 0])]))]);
        assert_eq!(one, other);
        let all = [
            content(&[]),
            content(&[(gpu(1), on(&[]))]),
            content(&[(gpu(1), Some(Wanted::Off))]),
            content(&[(gpu(2), Some(Wanted::Off))]),
            content(&[(gpu(1), on(&[(9, &[0])]))]),
            content(&[(gpu(1), on(&[(9, &[0, 0])]))]),
            content(&[(gpu(1), on(&[(9, &[0]), (9, &[0])]))]),
        ];
        for (at, hash) in all.iter().enumerate() {
            assert!(!all[..at].contains(hash), "{at}");
        }
    }

    /// What was written by one version is compared by the next.
    #[test]
    fn the_form_stays() {
        assert_eq!(content(&[]), "2d06800538d394c2");
        assert_eq!(
            content(&[(gpu(1), on(&[(9, &[2]), (14, &[0, 0])])), (gpu(2), Some(Wanted::Off))]),
            "785f2fe65e8bbc7e"
        );
    }
}
