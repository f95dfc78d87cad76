//! A file of what is there means what is there.

use gpulet_inventory::mig::MigMode;
use proptest::prelude::*;

use crate::plan::plan;
use crate::tests::nodes::{Gpu, a30_24, a100_40, facts, node, off, t4};
use crate::tests::tables::{FOUR, ONE, ONE_DOUBLE, ONE_ME, SEVEN, THREE, TWO, divided};

use super::*;

fn divided_gpu(layout: &[(u32, u32)]) -> Gpu {
    let mut gpu = a100_40();
    gpu.division = divided(gpu.division, layout);
    gpu
}

/// Lets the instance at this position have compute instances of these profiles, a slice each.
fn shared(mut gpu: Gpu, at: usize, computes: usize) -> Gpu {
    let instance = &mut gpu.division.instances[at];
    let one = instance.computes.remove(0);
    for start in 0..computes {
        let mut compute = one.clone();
        compute.profile = 0;
        compute.placement.size = 1;
        compute.placement.start = u32::try_from(start).unwrap();
        instance.computes.push(compute);
    }
    gpu
}

/// What is to be done to reach what the export says.
fn changes(gpus: &[Gpu]) -> (String, usize) {
    let node = node(gpus);
    let facts = facts(&node);
    let text = file(&facts);
    let parsed = file::parse(&text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let desired = resolve(&parsed, NAME, &facts, &Overrides::default())
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let divisions: Vec<_> = node.iter().map(|gpu| gpu.division.clone()).collect();
    let plan = plan(&desired.wanted(), &divisions);
    let steps = plan.gpus.iter().map(|gpu| match &gpu.outcome {
        crate::plan::Outcome::Steps(plan) => plan.steps.len(),
        other => panic!("{other:?}\n{text}"),
    });
    let steps = steps.sum();
    (text, steps)
}

#[test]
fn gpus_alike_are_one_entry() {
    let (text, steps) = changes(&vec![divided_gpu(&[(THREE, 4), (ONE, 0), (ONE, 1)]); 2]);
    let expected = "\
version: v1
mig-configs:
  current:
  - devices: all
    mig-enabled: true
    mig-devices:
      \"1g.5gb\": 2
      \"3g.20gb\": 1
";
    assert_eq!((text.as_str(), steps), (expected, 0));
}

#[test]
fn gpus_that_differ_are_told_apart() {
    let (text, steps) = changes(&[divided_gpu(&[(SEVEN, 0)]), t4(), off(a100_40()), a30_24()]);
    let expected = "\
version: v1
mig-configs:
  current:
  - devices: [0]
    mig-enabled: true
    mig-devices:
      \"7g.40gb\": 1
  - devices: [1, 2]
    mig-enabled: false
    mig-devices: {}
  - devices: [3]
    mig-enabled: true
    mig-devices: {}
";
    assert_eq!((text.as_str(), steps), (expected, 0));
}

#[test]
fn compute_instances_are_told_by_their_own_names() {
    let (text, steps) = changes(&[shared(divided_gpu(&[(THREE, 4), (THREE, 0)]), 0, 3)]);
    assert!(text.contains("\"1c.3g.20gb\": 3\n      \"3g.20gb\": 1\n"), "{text}");
    assert_eq!(steps, 0);
}

#[test]
fn what_cannot_be_said_stands_in_a_comment() {
    // Two GPU instances with a small compute instance each: the format would put both into one.
    let spread = shared(shared(divided_gpu(&[(THREE, 0), (THREE, 4)]), 0, 1), 1, 1);
    let (text, steps) = changes(&[spread]);
    assert!(text.starts_with("# GPU 0: not all that is on it can be said in this format"), "{text}");
    assert!(steps > 0);
    // What no one can use is no part of it.
    let mut orphan = divided_gpu(&[(TWO, 0), (THREE, 4)]);
    orphan.division.instances[1].computes.clear();
    let (text, steps) = changes(&[orphan]);
    assert!(
        text.starts_with("# GPU 0: \"3g.20gb\" at 4:4 is left out, for it has no compute instance\n"),
        "{text}"
    );
    assert_eq!(steps, 1, "the orphan goes");
    let mut pending = off(a100_40());
    pending.division.mode = Some(MigMode { current: false, pending: true });
    assert!(changes(&[pending]).0.starts_with("# GPU 0: its MIG mode is another after the next reset\n"));
}

#[test]
fn names_that_are_none_break_no_file() {
    let mut odd = divided_gpu(&[(TWO, 0)]);
    for profile in &mut odd.division.profiles {
        profile.name = "odd\n- \"name".into();
    }
    let node = node(&[odd]);
    let text = file(&facts(&node));
    assert!(file::parse(&text).is_ok(), "{text}");
    assert!(text.starts_with("# GPU 0: not all"), "{text}");
    assert!(file(&[]).starts_with("version: v1\n"));
}

proptest! {
    /// Whatever there is, the file of it asks for no change.
    #[test]
    fn a_file_of_what_is_there_asks_for_no_change(
        spots in prop::collection::vec((prop::sample::select(vec![ONE, ONE_ME, ONE_DOUBLE, TWO, THREE, FOUR, SEVEN]), 0usize..7), 0..8)
    ) {
        let mut layout: Vec<(u32, u32)> = Vec::new();
        let mut taken = 0u32;
        for (profile, at) in spots {
            let offered = a100_40().division;
            let profile = offered.profile(profile).unwrap();
            let place = profile.placements[at % profile.placements.len()];
            let mask = ((1 << place.size) - 1) << place.start;
            let media = profile.id == ONE_ME && layout.iter().any(|(id, _)| *id == ONE_ME);
            if taken & mask == 0 && !media {
                taken |= mask;
                layout.push((profile.id, place.start));
            }
        }
        let (text, steps) = changes(&[divided_gpu(&layout), divided_gpu(&[])]);
        prop_assert_eq!(steps, 0, "{}", text);
        prop_assert!(!text.contains('#'), "{}", text);
    }
}
