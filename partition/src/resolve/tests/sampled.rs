//! Whatever is asked, what comes out can be planned, and nothing that can be planned is refused.

use proptest::prelude::*;

use crate::desired::{Wanted, WantedInstance};
use crate::names::compute_profile;
use crate::plan::plan_gpu;
use crate::tests::nodes::{Gpu, a30_24, a100_40, gb200, rtx_pro, t4};

use super::{on, with_overrides};

fn gpus() -> impl Strategy<Value = Gpu> {
    prop::sample::select(vec![a100_40(), a30_24(), rtx_pro(), gb200()])
}

/// Profiles of the GPU by position, each once, and how many.
fn counts() -> impl Strategy<Value = Vec<(usize, u32)>> {
    prop::collection::btree_map(0usize..16, 0u32..5, 0..4).prop_map(|counts| counts.into_iter().collect())
}

/// The same as a file says it, and as the planner takes it; a position past the last profile means none.
fn said(gpu: &Gpu, counts: &[(usize, u32)]) -> (String, Vec<WantedInstance>) {
    let mut text = Vec::new();
    let mut wanted = Vec::new();
    for (at, count) in counts {
        let Some(profile) = gpu.division.profiles.get(*at).filter(|_| *count > 0) else { continue };
        text.push(format!("{}: {count}", profile.name));
        let one = WantedInstance {
            profile: profile.id,
            computes: vec![compute_profile(profile, None).unwrap().id],
        };
        wanted.extend((0..*count).map(|_| one.clone()));
    }
    (format!("{{{}}}", text.join(", ")), wanted)
}

proptest! {
    #[test]
    fn what_can_be_planned_is_had_and_nothing_else((gpu, counts) in (gpus(), counts())) {
        let (text, wanted) = said(&gpu, &counts);
        let planned = plan_gpu(&gpu.division, &Wanted::On(wanted.clone()));
        match on(std::slice::from_ref(&gpu), &text) {
            Ok(desired) => {
                let got = desired.wanted().into_values().next().unwrap();
                prop_assert!(plan_gpu(&gpu.division, &got).is_ok(), "{text}");
                let Wanted::On(mut got) = got else { panic!("{text}") };
                let mut wanted = wanted;
                got.sort();
                wanted.sort();
                prop_assert_eq!(got, wanted);
            }
            Err(problems) => {
                // Where engines suffice, the media extensions are had once all the same.
                prop_assert!(planned.is_err() || problems.reason() == "MediaExtensions", "{}: {}", text, problems);
                prop_assert!(problems.is_infeasible());
            }
        }
    }

    #[test]
    fn any_counts_of_any_names_have_an_answer(
        gpu in gpus(),
        asked in prop::collection::btree_map("([1-7]c\\.)?[1-7]g\\.(5|6|10|20|23|24|40|47|48|93|96)gb(\\+me|\\.gfx|-me|\\+me\\.all)?", 0u32..257, 0..6),
        overridden in "[0-3]",
    ) {
        // What is no name is the file's to refuse.
        let names = asked.iter().filter(|(name, _)| name.parse::<crate::names::ProfileName>().is_ok());
        let some: Vec<String> = names.filter(|(_, count)| **count > 0).map(|(name, count)| format!("{name:?}: {count}")).collect();
        let devices = format!("{{{}}}", some.join(", "));
        let entries = format!("  - {{devices: all, mig-enabled: true, mig-devices: {devices}}}\n");
        let overrides = format!("{{\"{overridden}\": {{\"mig-enabled\": true, \"mig-devices\": {devices}}}}}");
        match with_overrides(&[gpu.clone(), t4(), gpu.clone()], &entries, &overrides) {
            Ok(desired) => {
                for wanted in desired.wanted().values() {
                    prop_assert!(plan_gpu(&gpu.division, wanted).is_ok(), "{}", devices);
                }
            }
            Err(problems) => prop_assert!(!problems.to_string().is_empty()),
        }
    }
}
