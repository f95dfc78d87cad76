//! Profiles that there are, and what fits.

use crate::plan::plan_gpu;
use crate::tests::nodes::{Gpu, a30_24, a100_40, gb200, h100_80, off, rtx_pro};
use crate::tests::tables::{ONE_DOUBLE, ONE_ME, divided, used};

use super::{asked, on, reasons, wanted_on};

/// The cause of the one thing that is in the way, in words.
fn cause(gpu: &Gpu, devices: &str) -> String {
    let problems = on(std::slice::from_ref(gpu), devices).unwrap_err();
    let [problem] = problems.0.as_slice() else { panic!("{problems}") };
    problem.cause.to_string()
}

#[test]
fn more_than_fit_and_what_does_not_fit_together_is_told_with_what_does() {
    assert_eq!(cause(&a100_40(), "{1g.5gb: 8}"), "8 1g.5gb are more than the 7 that fit; ask for fewer");
    assert_eq!(
        cause(&a100_40(), "{3g.20gb: 2, 1g.5gb: 1}"),
        "2 3g.20gb, 1 1g.5gb do not fit together; what fits of it is 2 3g.20gb"
    );
    assert_eq!(
        cause(&a100_40(), "{4g.20gb: 1, 2g.10gb: 2}"),
        "1 4g.20gb, 2 2g.10gb do not fit together; what fits of it is 1 4g.20gb, 1 2g.10gb"
    );
    assert_eq!(
        cause(&rtx_pro(), "{4g.96gb: 1, 1g.24gb: 1}"),
        "1 4g.96gb, 1 1g.24gb do not fit together; what fits of it is 1 4g.96gb"
    );
    assert_eq!(
        cause(&a30_24(), "{3g.18gb: 1}"),
        "it has no profile 3g.18gb; it has 1g.6gb, 1g.6gb+me, 2g.12gb, 2g.12gb+me, 4g.24gb"
    );
    // Sums that are right and places that are not.
    assert!(on(&[a100_40()], "{3g.20gb: 1, 2g.10gb: 2}").is_ok());
    assert!(on(&[a100_40()], "{4g.20gb: 1, 3g.20gb: 1}").is_ok());
}

#[test]
fn a_count_is_told_at_its_line_and_a_sum_at_its_entry() {
    let entries = "  - devices: all\n    mig-enabled: true\n    mig-devices:\n      \"2g.10gb\": 1\n      \"1g.5gb\": 9\n";
    let problems = asked(&[a100_40()], entries).unwrap_err();
    assert_eq!(
        (problems.0[0].place.line, problems.0[0].place.path.as_str()),
        (8, "mig-configs.x[0].mig-devices.1g.5gb")
    );
    let entries = entries.replace(": 9", ": 6");
    let problems = asked(&[a100_40()], &entries).unwrap_err();
    assert_eq!((problems.0[0].place.line, problems.reason()), (4, "Infeasible"));
    assert!(problems.is_infeasible());
}

#[test]
fn who_is_there_does_not_matter_here() {
    let mut busy = a100_40();
    busy.division = used(divided(busy.division, &[(0, 0)]), &[0]);
    let desired = on(std::slice::from_ref(&busy), "{1g.5gb: 7}").unwrap();
    // That is for the planner to tell.
    let wanted = desired.wanted().into_values().next().unwrap();
    assert_eq!(plan_gpu(&busy.division, &wanted).unwrap_err().reason(), "Blocked");
}

#[test]
fn media_extensions_are_had_once() {
    for (gpu, devices) in [
        (a100_40(), "{1g.5gb+me: 2}"),
        (a30_24(), "{1g.6gb+me: 1, 2g.12gb+me: 1}"),
        (rtx_pro(), "{1g.24gb+me.all: 1, 1g.24gb: 1}"),
        (rtx_pro(), "{2g.48gb+me.all: 1, 1g.24gb+gfx: 1}"),
        (rtx_pro(), "{1g.24gb+me: 1, 1g.24gb.me.all: 1}"),
    ] {
        let problems = on(std::slice::from_ref(&gpu), devices).unwrap_err();
        assert_eq!(problems.reason(), "MediaExtensions", "{devices}: {problems}");
    }
    // Though the driver may not tell of the engines.
    let mut silent = a100_40();
    for profile in &mut silent.division.profiles {
        profile.engines = crate::observed::Engines::default();
        profile.max_instances = 7;
    }
    assert_eq!(reasons(on(&[silent], "{1g.5gb+me: 2}")), ["MediaExtensions"]);
    for (gpu, devices) in [
        (rtx_pro(), "{1g.24gb+me.all: 1, 1g.24gb-me: 3}"),
        (rtx_pro(), "{1g.24gb+me: 1, 1g.24gb: 1, 1g.24gb+gfx: 1, 1g.24gb-me: 1}"),
        (rtx_pro(), "{2g.48gb+gfx: 1, 2g.48gb-me: 1}"),
        (a100_40(), "{1g.5gb+me: 1, 1g.5gb: 6}"),
    ] {
        on(std::slice::from_ref(&gpu), devices).unwrap_or_else(|problems| panic!("{devices}: {problems}"));
    }
}

#[test]
fn compute_instances_share_gpu_instances() {
    let gpu = a100_40();
    for (devices, expected) in [
        ("{1c.3g.20gb: 3}", vec!["3g.20gb of 1c.3g.20gb 1c.3g.20gb 1c.3g.20gb"]),
        ("{1c.3g.20gb: 3, 3g.20gb: 1}", vec!["3g.20gb", "3g.20gb of 1c.3g.20gb 1c.3g.20gb 1c.3g.20gb"]),
        ("{1c.3g.20gb: 1, 2c.3g.20gb: 1}", vec!["3g.20gb of 2c.3g.20gb 1c.3g.20gb"]),
        ("{2c.3g.20gb: 2}", vec!["3g.20gb of 2c.3g.20gb", "3g.20gb of 2c.3g.20gb"]),
        (
            "{1c.3g.20gb: 4, 2c.3g.20gb: 1}",
            vec!["3g.20gb of 1c.3g.20gb 1c.3g.20gb 1c.3g.20gb", "3g.20gb of 2c.3g.20gb 1c.3g.20gb"],
        ),
        ("{3c.7g.40gb: 1, 4c.7g.40gb: 1}", vec!["7g.40gb of 4c.7g.40gb 3c.7g.40gb"]),
        ("{3c.3g.20gb: 1}", vec!["3g.20gb"]),
    ] {
        let desired = on(std::slice::from_ref(&gpu), devices)
            .unwrap_or_else(|problems| panic!("{devices}: {problems}"));
        assert_eq!(wanted_on(&desired, std::slice::from_ref(&gpu), 0), expected, "{devices}");
    }
    assert_eq!(cause(&gpu, "{1c.3g.20gb: 7}"), "3 3g.20gb are more than the 2 that fit; ask for fewer");
    assert_eq!(
        cause(&gpu, "{3c.4g.20gb: 1}"),
        "its GPU instances 4g.20gb have no compute instances of that size; they have 1c.4g.20gb, 2c.4g.20gb, 4g.20gb"
    );
}

/// Before a GPU instance is there the driver does not tell where in it compute instances can lie.
#[test]
fn compute_instances_are_asked_for_before_their_places_are_told() {
    let mut gpu = off(a100_40());
    for own in gpu.division.profiles.iter_mut().flat_map(|profile| &mut profile.compute_profiles) {
        own.placements = None;
    }
    let desired = on(std::slice::from_ref(&gpu), "{1c.3g.20gb: 3, 2c.4g.20gb: 2}").unwrap();
    assert_eq!(wanted_on(&desired, &[gpu], 0).len(), 2);
}

#[test]
fn names_of_other_boards_are_taken_with_a_warning() {
    let desired = on(&[gb200(), gb200()], "{1g.24gb+me: 1, 1c.3g.95gb: 3, 1g.23gb: 1}").unwrap();
    assert_eq!(
        wanted_on(&desired, &[gb200(), gb200()], 1),
        ["1g.23gb", "1g.23gb+me", "3g.93gb of 1c.3g.93gb 1c.3g.93gb 1c.3g.93gb"]
    );
    let told: Vec<String> = desired.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("GPUs 0, 1: 1g.23gb+me is taken for 1g.24gb+me"), "{told:?}");
    assert!(told[1].starts_with("GPUs 0, 1: 3g.93gb is taken for 3g.95gb"), "{told:?}");
}

#[test]
fn what_may_mean_two_profiles_or_twice_the_same_is_not_decided() {
    let mut odd = a100_40();
    odd.division.profiles[0].name = "1g.10gb".into();
    odd.division.profiles[2].name = "1g.12gb".into();
    let problems = on(&[odd], "{1g.11gb: 1}").unwrap_err();
    assert_eq!(problems.reason(), "AmbiguousProfile");
    assert!(!problems.is_infeasible());
    assert!(problems.to_string().contains("1g.10gb (19), 1g.12gb (15)"), "{problems}");
    assert_eq!(
        cause(&gb200(), "{1g.23gb: 1, 1g.24gb: 2}"),
        "1g.24gb and 1g.23gb mean the same profile here, 1g.23gb; write it once"
    );
}

#[test]
fn what_takes_a_newer_driver_is_told() {
    let mut old = a100_40();
    old.driver = "460.106.00";
    old.division.profiles.retain(|profile| ![ONE_ME, ONE_DOUBLE].contains(&profile.id));
    assert!(cause(&old, "{1g.5gb+me: 1}").ends_with("(1g with +me takes driver R470 or newer)"));
    assert!(cause(&old, "{1g.10gb: 1}").ends_with("(1g with double memory takes driver R525 or newer)"));
    assert!(!cause(&old, "{1g.20gb: 1}").contains("takes driver"));
    assert_eq!(
        cause(&old, "{4g.20gb: 1, 3g.20gb: 1}"),
        "driver 460.106.00 cannot do it; a 4g beside a 3g takes R510 or newer"
    );
    // What the GPU offers it has, whatever the driver's number.
    let mut odd = a100_40();
    odd.driver = "460.106.00";
    assert!(on(std::slice::from_ref(&odd), "{1g.5gb+me: 1, 1g.10gb: 1}").is_ok());
    odd.driver = "unheard of";
    assert!(on(&[odd], "{4g.20gb: 1, 3g.20gb: 1}").is_ok());
}

#[test]
fn where_the_driver_tells_no_profiles_only_the_mode_can_be_had() {
    let mut old = off(h100_80());
    old.division.profiles.clear();
    assert_eq!(reasons(on(std::slice::from_ref(&old), "{1g.10gb: 7}")), ["NoProfiles"]);
    let desired = on(std::slice::from_ref(&old), "{}").unwrap();
    let wanted = desired.wanted().into_values().next().unwrap();
    assert_eq!(plan_gpu(&old.division, &wanted).unwrap().steps.len(), 1);
}

/// A GPU whose memory is the host's: all names say 0 GB.
#[test]
fn names_of_no_memory_are_names() {
    let mut thor = a100_40();
    for profile in &mut thor.division.profiles {
        profile.memory_bytes = 0;
        profile.max_instances = 1;
        let name = format!("{}g.0gb{}", profile.slices, if profile.id == ONE_ME { "+me" } else { "" });
        for own in &mut profile.compute_profiles {
            own.name = crate::names::compute(own.slices, &name, profile.slices);
        }
        profile.name = name;
    }
    thor.division.profiles.retain(|profile| profile.id != ONE_DOUBLE);
    let desired = on(std::slice::from_ref(&thor), "{1g.0gb+me: 1, 2g.0gb: 1}").unwrap();
    assert_eq!(wanted_on(&desired, std::slice::from_ref(&thor), 0), ["1g.0gb+me", "2g.0gb"]);
    assert_eq!(cause(&thor, "{2g.0gb: 2}"), "2 2g.0gb are more than the 1 that fit; ask for fewer");
}
