//! Names as boards and drivers have them.

use proptest::prelude::*;

use super::*;
use crate::observed::Engines;

fn name(text: &str) -> ProfileName {
    text.parse().unwrap()
}

fn profiles(names: &[&str]) -> Vec<Profile> {
    let one = |(id, name): (u32, &&str)| Profile {
        id,
        name: (*name).to_owned(),
        slices: self::name(name).slices,
        memory_bytes: 0,
        multiprocessors: 0,
        max_instances: 1,
        placements: Vec::new(),
        engines: Engines::default(),
        compute_profiles: Vec::new(),
    };
    (0..).zip(names).map(one).collect()
}

fn meant(asked: &str, offered: &[&str]) -> Result<(String, bool), NoMatch> {
    matching(&name(asked), &profiles(offered)).map(|found| (found.profile.name.clone(), found.exact))
}

#[test]
fn names_are_taken_apart_and_put_together() {
    for text in
        ["1g.5gb", "1g.10gb+me", "1c.3g.20gb", "1g.24gb+me.all", "1g.24gb-me", "1g.0gb+gfx", "7g.141gb"]
    {
        assert_eq!(name(text).to_string(), text);
    }
    assert_eq!(name("1c.7g.80gb").instance(), name("7g.80gb"));
}

#[test]
fn a_dot_stands_for_a_plus() {
    for (dotted, plus) in
        [("1g.10gb.me", "1g.10gb+me"), ("1g.24gb.me.all", "1g.24gb+me.all"), ("1g.24gb.gfx", "1g.24gb+gfx")]
    {
        assert_eq!(name(dotted), name(plus));
    }
    assert_ne!(name("1g.24gb-me"), name("1g.24gb.me"));
}

#[test]
fn what_is_no_name_is_refused() {
    let wrong = [
        "",
        "1g",
        "1g.gb",
        "g.5gb",
        "0g.5gb",
        "1g.5",
        "1g.5GB",
        "1g.5gb+",
        "1g.5gb+me..all",
        "1g.5gb me",
        "4c.3g.20gb",
        "0c.3g.20gb",
        "1c.1c.3g.20gb",
        "1.3g.20gb",
        "+1g.5gb",
        "1g.12345gb",
        "1g.5gb\u{e4}",
        "MIG 1g.5gb",
    ];
    for text in wrong {
        assert_eq!(text.parse::<ProfileName>().unwrap_err().reason(), "InvalidProfileName", "{text}");
    }
}

/// Memory of profile and board in MiB, and the name that is published (source: NVIDIA's MIG user guide).
#[test]
fn computed_names_are_the_published_ones() {
    let table = [
        (0, 1, 4864, 40960, "1g.5gb"),
        (0, 1, 4864, 40536, "1g.5gb"),
        (9, 1, 9856, 40960, "1g.10gb"),
        (2, 3, 19968, 40536, "3g.20gb"),
        (4, 7, 40192, 40960, "7g.40gb"),
        (0, 1, 9856, 81251, "1g.10gb"),
        (7, 1, 9984, 81559, "1g.10gb+me"),
        (2, 3, 40448, 81559, "3g.40gb"),
        (0, 1, 11008, 95830, "1g.12gb"),
        (2, 3, 47488, 95830, "3g.47gb"),
        (4, 7, 95360, 95830, "7g.94gb"),
        (0, 1, 16384, 143_771, "1g.18gb"),
        (1, 2, 33024, 143_771, "2g.35gb"),
        (3, 4, 71168, 143_771, "4g.71gb"),
        (8, 2, 11970, 24576, "2g.12gb+me"),
        (10, 1, 24166, 97887, "1g.24gb+gfx"),
        (13, 1, 24166, 97887, "1g.24gb-me"),
        (15, 1, 24166, 97887, "1g.24gb+me.all"),
        (4, 4, 97402, 97887, "4g.96gb"),
        (0, 1, 22528, 183_359, "1g.23gb"),
        (2, 3, 46592 * 2, 189_471, "3g.93gb"),
    ];
    for (kind, slices, memory, total, published) in table {
        assert_eq!(computed(kind, slices, memory, total << 20), published);
    }
}

#[test]
fn memory_shared_with_the_host_counts_as_none() {
    assert_eq!(computed(0, 1, 0, 0), "1g.0gb");
    assert_eq!(computed(17, 3, 1024, 0), "3g.0gb+gfx");
    assert_eq!(computed(0, 1, 0, 1 << 36), "1g.0gb");
    assert_eq!(computed(0, 1, u64::MAX >> 20, 1), "1g.18446744073708503040gb");
}

#[test]
fn the_drivers_word_goes_before_the_computed_name() {
    assert_eq!(profile(Some("MIG 1g.23gb"), 0, 1, 24576, 189_471 << 20), "1g.23gb");
    assert_eq!(profile(Some(" 1g.23gb+me "), 0, 1, 0, 0), "1g.23gb+me");
    for none in [None, Some(""), Some("MIG ")] {
        assert_eq!(profile(none, 0, 1, 4864, 40960 << 20), "1g.5gb");
    }
}

#[test]
fn names_of_other_boards_are_understood() {
    let gb200 = ["1g.23gb", "1g.23gb+me", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"];
    for (asked, taken) in [
        ("1g.24gb", "1g.23gb"),
        ("1g.24gb+me", "1g.23gb+me"),
        ("4g.95gb", "4g.93gb"),
        ("7g.189gb", "7g.186gb"),
        ("1c.3g.95gb", "3g.93gb"),
    ] {
        assert_eq!(meant(asked, &gb200), Ok((taken.to_owned(), false)), "{asked}");
    }
    assert_eq!(meant("3g.39gb", &["3g.40gb"]), Ok(("3g.40gb".to_owned(), false)));
    assert_eq!(meant("7g.80gb", &["7g.79gb"]), Ok(("7g.79gb".to_owned(), false)));
}

#[test]
fn names_of_other_models_are_not() {
    let a100_40 = ["1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"];
    for asked in ["1g.20gb", "7g.80gb", "2g.5gb", "6g.40gb", "1g.10gb+me", "1g.5gb-me", "1g.7gb"] {
        assert_eq!(meant(asked, &a100_40), Err(NoMatch::Unknown), "{asked}");
    }
    assert_eq!(meant("1g.10gb", &a100_40), Ok(("1g.10gb".to_owned(), true)));
}

#[test]
fn what_may_mean_two_means_none() {
    let Err(NoMatch::Ambiguous(candidates)) = meant("1g.11gb", &["1g.10gb", "1g.12gb", "2g.20gb"]) else {
        panic!("it must not be decided");
    };
    assert_eq!(candidates, ["1g.10gb (0)", "1g.12gb (1)"]);
    assert_eq!(meant("1g.12gb", &["1g.10gb", "1g.12gb"]), Ok(("1g.12gb".to_owned(), true)));
}

#[test]
fn of_compute_profiles_with_as_many_slices_the_plain_one_is_taken() {
    let mut seven = profiles(&["7g.80gb"]).remove(0);
    let own =
        |id, slices| ComputeProfile { id, name: String::new(), slices, max_instances: 1, placements: None };
    seven.compute_profiles = vec![own(8, 7), own(7, 1), own(4, 7), own(0, 1)];
    assert_eq!(compute_profile(&seven, None).unwrap().id, 4);
    assert_eq!(compute_profile(&seven, Some(1)).unwrap().id, 0);
    assert_eq!(compute_profile(&seven, Some(2)), None);
    assert_eq!(compute(1, "7g.80gb", 7), "1c.7g.80gb");
    assert_eq!(compute(7, "7g.80gb", 7), "7g.80gb");
}

proptest! {
    #[test]
    fn any_text_is_a_name_or_refused(text in ".{0,40}") {
        let _ = text.parse::<ProfileName>();
    }

    #[test]
    fn what_looks_like_a_name_survives_printing(text in "([1-7]c\\.)?[0-9]{1,2}g\\.[0-9]{1,3}gb([+.-]me(\\.all)?)?") {
        if let Ok(name) = text.parse::<ProfileName>() {
            prop_assert_eq!(name.to_string().parse::<ProfileName>().unwrap(), name);
        }
    }

    #[test]
    fn any_sizes_have_a_name(kind in 0u32..20, slices: u32, memory: u64, total: u64) {
        let name = computed(kind, slices, memory, total);
        prop_assert!(name.contains("gb"));
    }
}
