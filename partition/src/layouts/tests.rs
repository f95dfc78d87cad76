//! Layouts without a file.

use crate::desired::Wanted;
use crate::overrides::Overrides;
use crate::resolve::resolve;
use crate::tests::nodes::{Gpu, a30_24, a100_40, facts, gb200, gpu, node, off, rtx_pro, t4};

use super::*;

fn of(gpus: &[Gpu]) -> PartitionFile {
    generated(&facts(&node(gpus)))
}

/// The layouts with what they ask for, entry by entry.
fn told(file: &PartitionFile) -> Vec<String> {
    let entry = |entry: &Entry| {
        let devices = match &entry.devices {
            Devices::All => String::new(),
            Devices::These(targets) => {
                let all: Vec<String> = targets.iter().map(ToString::to_string).collect();
                format!("{}: ", all.join(","))
            }
        };
        match &entry.division {
            AskedDivision::Off => format!("{devices}off"),
            AskedDivision::On(asked) => {
                let all: Vec<String> =
                    asked.iter().map(|asked| format!("{} {}", asked.count, asked.name)).collect();
                format!("{devices}[{}]", all.join(", "))
            }
        }
    };
    let layout = |(name, entries): (&String, &Vec<Entry>)| {
        format!("{name} {}", entries.iter().map(entry).collect::<Vec<_>>().join(" "))
    };
    file.layouts.iter().map(layout).collect()
}

#[test]
fn of_seven_slices() {
    let expected = [
        "all-1g.10gb [4 1g.10gb]",
        "all-1g.5gb [7 1g.5gb]",
        "all-1g.5gb.me [1 1g.5gb+me]",
        "all-2g.10gb [3 2g.10gb]",
        "all-3g.20gb [2 3g.20gb]",
        "all-4g.20gb [1 4g.20gb]",
        "all-7g.40gb [1 7g.40gb]",
        "all-balanced [2 1g.5gb, 1 2g.10gb, 1 3g.20gb]",
        "all-disabled off",
        "all-enabled []",
    ];
    assert_eq!(told(&of(&[a100_40(), a100_40()])), expected);
    assert_eq!(told(&of(&[off(a100_40()), t4()])), expected, "whatever its mode is, and what else is there");
}

#[test]
fn of_four_slices() {
    let a30 = told(&of(&[a30_24()]));
    assert!(a30.contains(&"all-balanced [2 1g.6gb, 1 2g.12gb]".to_owned()), "{a30:?}");
    assert!(a30.contains(&"all-4g.24gb [1 4g.24gb]".to_owned()), "{a30:?}");
    let rtx_pro = told(&of(&[rtx_pro()]));
    for expected in [
        "all-1g.24gb.me.all [1 1g.24gb+me.all]",
        "all-1g.24gb-me [4 1g.24gb-me]",
        "all-2g.48gb.gfx [2 2g.48gb+gfx]",
        "all-balanced [2 1g.24gb, 1 2g.48gb]",
    ] {
        assert!(rtx_pro.contains(&expected.to_owned()), "{rtx_pro:?}");
    }
}

/// The driver's counts are known to be wrong on some models: places tell what fits.
#[test]
fn no_more_than_fit() {
    let mut odd = a30_24();
    odd.division.profiles.iter_mut().for_each(|profile| profile.max_instances = 7);
    let told = told(&of(&[odd]));
    assert!(told.contains(&"all-1g.6gb [4 1g.6gb]".to_owned()), "{told:?}");
    assert!(told.contains(&"all-2g.12gb [2 2g.12gb]".to_owned()), "{told:?}");
}

#[test]
fn what_differs_is_told_gpu_by_gpu() {
    let gpus = [a100_40(), a30_24(), a100_40(), t4()];
    let file = of(&gpus);
    let told = told(&file);
    for expected in [
        "all-1g.5gb 0,2: [7 1g.5gb]",
        "all-1g.6gb 1: [4 1g.6gb]",
        "all-balanced 0,2: [2 1g.5gb, 1 2g.10gb, 1 3g.20gb] 1: [2 1g.6gb, 1 2g.12gb]",
        "all-disabled off",
    ] {
        assert!(told.contains(&expected.to_owned()), "{told:?}");
    }
    let desired = resolve(&file, "all-1g.6gb", &facts(&node(&gpus)), &Overrides::default()).unwrap();
    assert_eq!(desired.wanted().into_keys().collect::<Vec<_>>(), [gpu(1)]);
}

#[test]
fn every_generated_layout_can_be_had() {
    for gpus in [vec![a100_40(); 8], vec![off(gb200())], vec![a30_24(), rtx_pro(), t4()], vec![t4()]] {
        let node = node(&gpus);
        let facts = facts(&node);
        let file = generated(&facts);
        for name in file.layouts.keys() {
            resolve(&file, name, &facts, &Overrides::default())
                .unwrap_or_else(|problems| panic!("{name}: {problems}"));
        }
        assert!(file.layouts.contains_key("all-disabled") && file.layouts.contains_key("all-enabled"));
    }
    assert_eq!(of(&[t4()]).layouts.len(), 2);
}

/// An older driver tells profiles in MIG mode only. What is not known of a GPU is not taken for its not being asked.
#[test]
fn where_one_does_not_tell_it_is_not_left_out_silently() {
    let mut silent = off(a100_40());
    silent.division.profiles.clear();
    let gpus = [a100_40(), silent];
    let node = node(&gpus);
    let problems = resolve(&of(&gpus), "all-1g.5gb", &facts(&node), &Overrides::default()).unwrap_err();
    assert_eq!((problems.reason(), problems.0[0].gpus[0].index), ("NoProfiles", 1));
}

#[test]
fn a_layout_named_for_another_board_is_found() {
    let node = node(&[gb200()]);
    let (facts, none) = (facts(&node), Overrides::default());
    let file = generated(&facts);
    let desired = resolve(&file, "all-1g.24gb", &facts, &none).unwrap();
    assert!(matches!(&desired.wanted()[&gpu(0)], Wanted::On(instances) if instances.len() == 7));
    assert_eq!(desired.name, "all-1g.24gb");
    assert_eq!(desired.warnings[0].reason(), "NearLayout");
    assert_eq!(desired.hash, resolve(&file, "all-1g.23gb", &facts, &none).unwrap().hash);
    for unknown in ["all-1g.5gb", "all-1g.24gb-me", "some", "all-"] {
        assert_eq!(
            resolve(&file, unknown, &facts, &none).unwrap_err().reason(),
            "UnknownLayout",
            "{unknown}"
        );
    }
    // In a file people wrote, a name is a name.
    let written = PartitionFile { generated: false, ..file };
    assert_eq!(resolve(&written, "all-1g.24gb", &facts, &none).unwrap_err().reason(), "UnknownLayout");
}
