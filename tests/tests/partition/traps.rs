//! Layouts that tools which try one profile after the other, or let the driver choose places, reach late or never: they come
//! to be at the first try.

use gpulet_tests::{Division, Gpu, Site};

const A100: &str = "a100-sxm4-40gb";

/// Every multiset of profiles that has one layout only, with that layout.
const TRAPS: [&[(&str, u32)]; 16] = [
    &[("4g.20gb", 0), ("2g.10gb", 4)],
    &[("3g.20gb", 0), ("3g.20gb", 4)],
    &[("4g.20gb", 0), ("3g.20gb", 4)],
    &[("4g.20gb", 0), ("2g.10gb", 4), ("1g.5gb", 6)],
    &[("4g.20gb", 0), ("1g.10gb", 4), ("1g.10gb", 6)],
    &[("4g.20gb", 0), ("2g.10gb", 4), ("1g.10gb", 6)],
    &[("2g.10gb", 0), ("2g.10gb", 2), ("2g.10gb", 4)],
    &[("2g.10gb", 0), ("2g.10gb", 2), ("3g.20gb", 4)],
    &[("4g.20gb", 0), ("1g.5gb", 4), ("1g.5gb", 5), ("1g.5gb", 6)],
    &[("4g.20gb", 0), ("1g.5gb", 4), ("1g.5gb", 5), ("1g.10gb", 6)],
    &[("2g.10gb", 0), ("2g.10gb", 2), ("2g.10gb", 4), ("1g.5gb", 6)],
    &[("1g.10gb", 0), ("1g.10gb", 2), ("1g.10gb", 4), ("1g.10gb", 6)],
    &[("2g.10gb", 0), ("2g.10gb", 2), ("2g.10gb", 4), ("1g.10gb", 6)],
    &[("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 2), ("1g.5gb", 3), ("3g.20gb", 4)],
    &[
        ("1g.5gb", 0),
        ("1g.5gb", 1),
        ("1g.5gb", 2),
        ("1g.5gb", 3),
        ("1g.5gb", 4),
        ("1g.5gb", 5),
        ("1g.5gb", 6),
    ],
    &[
        ("1g.5gb", 0),
        ("1g.5gb", 1),
        ("1g.5gb", 2),
        ("1g.5gb", 3),
        ("1g.5gb", 4),
        ("1g.5gb", 5),
        ("1g.10gb", 6),
    ],
];

/// Units that a profile covers.
fn size(profile: &str) -> u32 {
    match profile {
        "1g.5gb" => 1,
        "1g.10gb" | "2g.10gb" => 2,
        "3g.20gb" | "4g.20gb" => 4,
        other => panic!("{other}"),
    }
}

fn layout(places: &[(&str, u32)]) -> Vec<String> {
    places.iter().map(|(profile, start)| format!("{profile}@{start}")).collect()
}

/// One GPU for each, and one layout that asks for all of them. The profiles are named from the smallest on, which is the
/// order in which trying them one by one fails.
fn ask_for_all(site: &Site) {
    let entries: Vec<String> = TRAPS
        .iter()
        .enumerate()
        .map(|(gpu, trap)| {
            let mut counts: Vec<(&str, usize)> = Vec::new();
            for (profile, _) in trap.iter() {
                match counts.iter_mut().find(|(counted, _)| counted == profile) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((profile, 1)),
                }
            }
            counts.sort_by_key(|(profile, _)| size(profile));
            let devices: Vec<String> =
                counts.iter().map(|(profile, count)| format!("{profile:?}: {count}")).collect();
            format!("{{devices: [{gpu}], mig-enabled: true, mig-devices: {{{}}}}}", devices.join(", "))
        })
        .collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    site.layouts(&[("traps", &entries)]);
}

#[test]
fn on_empty_gpus() {
    let site = Site::of(&vec![Gpu::empty(A100); TRAPS.len()]);
    ask_for_all(&site);
    site.apply("traps").expect(0);
    for (index, (gpu, trap)) in site.gpus().iter().zip(TRAPS).enumerate() {
        assert_eq!(gpu.layout(), layout(trap));
        assert_eq!(site.changes(index), 2 * trap.len(), "each GPU and compute instance was created once");
    }
    site.plan("traps").expect(0);
}

/// Each GPU has already one of the instances, which is in use, and all else that it has room for is of the smallest profile.
#[test]
fn around_an_instance_that_is_in_use_and_through_others_that_are_not() {
    let occupied: Vec<Gpu> = TRAPS.iter().enumerate().map(|(at, trap)| occupied(trap, at)).collect();
    let site = Site::of(&occupied);
    for (gpu, trap) in TRAPS.iter().enumerate() {
        site.hold(gpu, kept(trap, gpu).1, 4000 + u32::try_from(gpu).unwrap());
    }
    let before = site.gpus();
    ask_for_all(&site);
    site.apply("traps").expect(0);
    for (index, trap) in TRAPS.iter().enumerate() {
        let (gpu, (_, start)) = (site.gpu(index), kept(trap, index));
        assert_eq!(gpu.layout(), layout(trap));
        assert_eq!(gpu.at(start), before[index].at(start), "what is in use is the same as before");
        // Each took one call for its GPU instance and one for its compute instance: nothing was tried on the hardware.
        assert_eq!(site.changes(index), 2 * differences(&before[index], &gpu));
    }
}

/// How many instances are gone, and how many are new.
fn differences(before: &Division, after: &Division) -> usize {
    let (before, after) = (before.uuids(), after.uuids());
    let gone = before.iter().filter(|uuid| !after.contains(uuid)).count();
    gone + after.iter().filter(|uuid| !before.contains(uuid)).count()
}

/// Which of its instances is there already: not always the first.
fn kept<'a>(trap: &[(&'a str, u32)], at: usize) -> (&'a str, u32) {
    trap[at % trap.len()]
}

fn occupied(trap: &[(&str, u32)], at: usize) -> Gpu {
    let (profile, start) = kept(trap, at);
    let taken = start..start + size(profile);
    let mut there = vec![(profile, start)];
    there.extend((0..7).filter(|unit| !taken.contains(unit)).map(|unit| ("1g.5gb", unit)));
    Gpu::divided(A100, &there)
}

/// The driver's own choice for `-cgi 14,19,19,19,19,19` leaves no room for a 3g; it has to be undone without touching what
/// is in use.
#[test]
fn out_of_what_the_driver_would_have_chosen() {
    let there = [("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 2), ("1g.5gb", 3), ("2g.10gb", 4), ("1g.5gb", 6)];
    let site = Site::of(&[Gpu::divided(A100, &there)]);
    site.hold(0, 1, 4321);
    let before = site.gpu(0);
    // `nvidia-smi mig -cgi 19,19,14,9` fails on an empty GPU.
    site.layouts(&[(
        "small-first",
        &["{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}}"],
    )]);
    site.apply("small-first").expect(0);
    let after = site.gpu(0);
    assert_eq!(after.layout(), ["1g.5gb@0", "1g.5gb@1", "2g.10gb@2", "3g.20gb@4"]);
    assert_eq!(after.at(1), before.at(1));
    assert_eq!(after.at(0), before.at(0), "what can stay stays");
}
