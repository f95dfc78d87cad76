//! What a partition file may say, and what is said of what it may not.

use proptest::prelude::*;

use super::*;

/// The file of a fleet of many models.
const FLEET: &str = include_str!("../../fixtures/fleet.yaml");

fn problems(text: &str) -> Vec<(u64, String)> {
    parse(text).unwrap_err().first.into_iter().map(|problem| (problem.line, problem.message)).collect()
}

/// The messages about one entry of one layout.
fn of_entry(entry: &str) -> Vec<String> {
    let text = format!("version: v1\nmig-configs:\n  x:\n  - {entry}\n");
    problems(&text).into_iter().map(|(_, message)| message).collect()
}

fn entry(entry: &str) -> Entry {
    parse(&format!("version: v1\nmig-configs:\n  x:\n  - {entry}\n")).unwrap().layouts["x"][0].clone()
}

fn counts(entry: &Entry) -> Vec<(String, u32)> {
    let AskedDivision::On(asked) = &entry.division else { panic!("{entry:?}") };
    asked.iter().map(|asked| (asked.name.to_string(), asked.count)).collect()
}

#[test]
fn the_file_of_a_fleet_is_read() {
    let file = parse(FLEET).unwrap();
    assert_eq!(file.layouts.len(), 18);
    assert_eq!(file.layout("all-disabled").unwrap()[0].division, AskedDivision::Off);
    assert_eq!(file.layout("all-enabled").unwrap()[0].division, AskedDivision::On(Vec::new()));
    let balanced = file.layout("all-balanced").unwrap();
    assert_eq!(balanced.len(), 3);
    assert_eq!(balanced[1].filter.len(), 4);
    assert_eq!(balanced[1].devices, Devices::All);
    assert_eq!(counts(&balanced[0]), [("1g.5gb".into(), 2), ("2g.10gb".into(), 1), ("3g.20gb".into(), 1)]);
    let gfx = &file.layout("all-1g.24gb.gfx").unwrap()[0];
    assert_eq!(gfx.filter[1].to_string(), "0x2BB510DE:0x204B10DE");
    let half = file.layout("half-and-half").unwrap();
    assert_eq!(half[1].devices, Devices::These(vec![Target::Index(2), Target::Index(3)]));
    assert_eq!(half[1].place.path, "mig-configs.half-and-half[1]");
    assert_eq!(
        half[1].place.line,
        1 + FLEET.lines().position(|line| line.contains("[2, 3]")).unwrap() as u64
    );
    assert_eq!(file.layout("absent"), None);
    assert!(!file.generated);
}

#[test]
fn gpus_are_named_in_three_ways() {
    let text = "{devices: [3, GPU-00000000-0000-0000-0000-000000000001, '0000:3b:00.0', 0000:3C:00.0], \
                mig-enabled: false}";
    let Devices::These(targets) = entry(text).devices else { panic!("they are listed") };
    let told: Vec<String> = targets.iter().map(Target::to_string).collect();
    assert_eq!(told, ["3", "GPU-00000000-0000-0000-0000-000000000001", "0000:3b:00.0", "0000:3c:00.0"]);
    assert_eq!(entry("{devices: [], mig-enabled: false}").devices, Devices::These(Vec::new()));
}

#[test]
fn models_are_named_with_and_without_the_board_quotes_and_lists() {
    let filter = |filter: &str| {
        entry(&format!("{{device-filter: {filter}, devices: all, mig-enabled: false}}")).filter
    };
    let one = DeviceFilter { device: DeviceId(0x20B0_10DE), subsystem: None };
    for text in ["'0x20B010DE'", "\"0x20b010de\"", "0x20B010DE", "['0x20B010DE']", "[0x20B010DE]"] {
        assert_eq!(filter(text), [one], "{text}");
    }
    let board = DeviceFilter { subsystem: Some(DeviceId(0x1450_10DE)), ..one };
    assert_eq!(filter("'0x20B010DE:0x145010DE'"), [board]);
    assert_eq!(DeviceId::of(0x20B0, 0x10DE), one.device);
    for none in ["", "''", "[]", "null"] {
        assert_eq!(filter(none), [], "{none}");
    }
    for wrong in [
        "A100",
        "'0x20B0'",
        "'20B010DE'",
        "'0x20B010DE:'",
        "'0x20B010DE:A100'",
        "-1",
        "0x20B010DE00",
        "true",
        "{}",
    ] {
        let told = of_entry(&format!("{{device-filter: {wrong}, devices: all, mig-enabled: false}}"));
        assert!(
            told[0].starts_with("mig-configs.x[0].device-filter: ") && told[0].contains("names no model"),
            "{told:?}"
        );
    }
}

#[test]
fn counts_of_zero_say_nothing_and_dots_stand_for_pluses() {
    let told = entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0, 3g.20gb: 2, 1g.5gb.me: 1}}");
    assert_eq!(counts(&told), [("3g.20gb".into(), 2), ("1g.5gb+me".into(), 1)]);
    let told = of_entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}");
    assert_eq!(
        told,
        [
            "mig-configs.x[0].mig-devices: all counts are 0; write `{}` for a GPU in MIG mode with nothing on it"
        ]
    );
}

#[test]
fn everything_that_is_wrong_is_told_with_line_and_path() {
    let text = "\
version: v2
mig-configs:
  one:
  - devices: some
    mig-enabled: maybe
  two:
  - mig-enabled: true
    colour: red
  - devices: [-1, 0.5, A100]
    mig-enabled: true
    mig-devices: {big: 1, 1g.5gb: -1}
  - devices: all
    mig-enabled: false
    mig-devices: {1g.5gb: 1}
  three: []
  four: 4
other: 1
mps-configs: none
";
    let told = problems(text);
    let expected: &[(u64, &str)] = &[
        (1, "version: `v2` is not a version that is known"),
        (4, "mig-configs.one[0].devices: `some` is neither `all` nor a list"),
        (5, "mig-configs.one[0].mig-enabled: `maybe` is not true or false"),
        (7, "mig-configs.two[0]: `devices` is missing"),
        (7, "mig-configs.two[0]: `mig-devices` is missing"),
        (
            8,
            "unknown key `mig-configs.two[0].colour`; known here: device-filter, devices, mig-enabled, mig-devices",
        ),
        (9, "mig-configs.two[1].devices[0]: `-1` is not the index of a GPU"),
        (9, "mig-configs.two[1].devices[1]: `0.5` is no GPU"),
        (9, "mig-configs.two[1].devices[2]: `A100` is no GPU"),
        (11, "mig-configs.two[1].mig-devices.big: `big` is not a MIG profile's name"),
        (11, "mig-configs.two[1].mig-devices.1g.5gb: `-1` is not a whole number"),
        (14, "mig-configs.two[2].mig-devices: must be empty where `mig-enabled` is false"),
        (15, "mig-configs.three: it is empty"),
        (16, "mig-configs.four: `4` is not a list"),
        (17, "unknown key `other`; known here: version, mig-configs, mps-configs"),
        (18, "mps-configs: `none` is not a map"),
    ];
    for ((line, message), (expected_line, expected)) in told.iter().zip(expected) {
        assert!(
            line == expected_line && message.starts_with(expected),
            "{line}: {message}\n{expected_line}: {expected}"
        );
    }
    assert_eq!(told.len(), expected.len(), "{told:#?}");
}

#[test]
fn a_file_without_layouts_is_none() {
    for (text, expected) in [
        ("", "`version` is missing"),
        ("mig-configs: {x: [{devices: all, mig-enabled: false}]}", "`version` is missing"),
        ("version: v1", "there is no layout in it"),
        ("version: v1\nmig-configs: {}", "mig-configs: it is empty"),
        ("version: v1\nmig-configs:", "mig-configs: nothing is not a map"),
        (
            "version: 1\nmig-configs: {x: [{devices: all, mig-enabled: false}]}",
            "version: `1` is not a version",
        ),
        ("- devices: all", "the document: a list is not a map"),
        ("version: v1\nmig-configs: {x: [1]}", "mig-configs.x[0]: `1` is not a map"),
        ("version: v1\nmig-configs: {x: [~]}", "mig-configs.x[0]: nothing is not a map"),
        ("{", "not YAML that can be read"),
        (
            "version: v1\nversion: v1\nmig-configs: {x: [{devices: all, mig-enabled: false}]}",
            "not YAML that can be read",
        ),
    ] {
        let told = problems(text);
        assert!(told.iter().any(|(_, message)| message.starts_with(expected)), "{text}: {told:?}");
    }
}

#[test]
fn a_file_may_have_layouts_of_the_other_kind_only() {
    let file = parse("version: v1\nmps-configs:\n  shared: [{devices: all, clients: 4}]\n").unwrap();
    assert!(file.layouts.is_empty() && file.mps.is_some());
}

#[test]
fn what_a_label_cannot_say_is_found_by_what_it_can() {
    let entries = "[{devices: all, mig-enabled: false}]";
    let file = parse(&format!("version: v1\nmig-configs: {{all-1g.5gb+me: {entries}}}")).unwrap();
    assert!(file.layout("all-1g.5gb.me").is_some());
    assert!(file.layout("all-1g.5gb+me").is_some());
    assert_eq!(file.layout("all-1g+5gb.me"), None);
}

#[test]
fn a_file_made_to_be_expensive_is_refused() {
    let laughs = (1..24).fold("a0: &a0 [x, x]\n".to_owned(), |text, at| {
        let before = at - 1;
        format!("{text}a{at}: &a{at} [*a{before}, *a{before}]\n")
    });
    assert!(parse(&laughs).is_err());
    assert!(parse(&"[".repeat(100_000)).is_err());
    let many: String = (0..5000).map(|at| format!("k{at}: 1\n")).collect();
    let problems = parse(&many).unwrap_err();
    assert!(problems.first.len() <= 50 && problems.count() > 5000);
}

/// Words of which files are made, right and wrong ones.
const WORDS: [&str; 24] = [
    "version",
    "v1",
    "mig-configs",
    "mps-configs",
    "devices",
    "all",
    "device-filter",
    "mig-enabled",
    "mig-devices",
    "true",
    "false",
    "1g.5gb",
    "1c.3g.20gb",
    "0x20B010DE",
    "[",
    "]",
    "{",
    "}",
    ":",
    "- ",
    "\n",
    "\n  ",
    "7",
    "~",
];

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn any_words_are_read_or_refused(words in prop::collection::vec(0usize..WORDS.len(), 0..60)) {
        let text: String = words.into_iter().flat_map(|at| [WORDS[at], " "]).collect();
        let _ = parse(&text);
    }

    #[test]
    fn a_line_of_the_fleet_may_be_anything(at in 0usize..150, line in ".{0,60}") {
        let mut lines: Vec<&str> = FLEET.lines().collect();
        if let Some(own) = lines.get_mut(at) {
            *own = &line;
        }
        let _ = parse(&lines.join("\n"));
    }
}
