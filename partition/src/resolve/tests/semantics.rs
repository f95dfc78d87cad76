//! Who is named by what: the ways in which a layout could mean something else than people think.

use crate::desired::Wanted;
use crate::tests::nodes::{Gpu, a30_24, a100_40, facts, gpu, h100_80, node, t4};

use super::{asked, on, reasons, with_overrides};
use crate::file::{PartitionFile, parse};
use crate::overrides::Overrides;
use crate::resolve::{resolve, resolve_answering};

const OFF: &str = "mig-enabled: false";
const SEVEN: &str = "mig-enabled: true, mig-devices: {1g.5gb: 7}";

fn four() -> Vec<Gpu> {
    vec![a100_40(); 4]
}

#[test]
fn two_entries_for_one_gpu_are_told_with_both_lines() {
    let entries = format!("  - {{devices: all, {OFF}}}\n  - {{devices: [1, 2], {SEVEN}}}\n");
    let problems = asked(&four(), &entries).unwrap_err();
    assert_eq!(problems.0.len(), 1);
    assert_eq!(
        problems.to_string(),
        "line 5: mig-configs.x[1]: GPUs 1, 2: the entry at line 4: mig-configs.x[0] is for the same GPU; leave it out \
         of one of them"
    );
    assert!(!problems.is_infeasible());
    // A GPU may be named twice in one entry, by whatever.
    let entries = format!("  - {{devices: [1, 1, {}, '0000:11:00.0'], {OFF}}}\n", gpu(1));
    assert_eq!(asked(&four(), &entries).unwrap().wanted().len(), 1);
    // Filters that leave nothing in common do not overlap.
    let entries = format!(
        "  - {{device-filter: 0x20B010DE, devices: all, {SEVEN}}}\n  - {{device-filter: ['0x20B710DE'], devices: all, {OFF}}}\n"
    );
    assert_eq!(asked(&[a100_40(), a30_24()], &entries).unwrap().wanted().len(), 2);
}

#[test]
fn gpus_that_are_not_there_are_told() {
    for (devices, told) in [
        ("[0, 4, 9]", vec!["there is no GPU 4 on this node; there are 0, 1, 2, 3", "there is no GPU 9"]),
        (
            "[GPU-00000000-0000-0000-0000-000000000009]",
            vec!["there is no GPU GPU-00000000-0000-0000-0000-000000000009"],
        ),
        ("['0000:3b:00.0']", vec!["there is no GPU 0000:3b:00.0 on this node; there are 0000:10:00.0, "]),
    ] {
        let problems = asked(&four(), &format!("  - {{devices: {devices}, {OFF}}}\n")).unwrap_err();
        assert_eq!(problems.0.len(), told.len(), "{problems}");
        for (problem, told) in problems.0.iter().zip(told) {
            assert!(problem.cause.to_string().starts_with(told), "{problem}");
        }
    }
    // What an entry for other models names is for other nodes.
    let entries =
        format!("  - {{device-filter: '0x233010DE', devices: [7], {OFF}}}\n  - {{devices: [0], {OFF}}}\n");
    assert!(asked(&four(), &entries).is_ok());
}

#[test]
fn a_filter_for_boards_names_only_these() {
    let entry = |filter: &str| format!("  - {{device-filter: '{filter}', devices: all, {OFF}}}\n");
    assert!(asked(&four(), &entry("0x20b010de:0x123410de")).is_ok());
    assert_eq!(reasons(asked(&four(), &entry("0x20B010DE:0x123510DE"))), ["NotForThisNode"]);
    let node = node(&four());
    let mut unknown = facts(&node);
    unknown.iter_mut().for_each(|gpu| gpu.device = None);
    let file = parse(&format!("version: v1\nmig-configs:\n  x:\n{}", entry("0x20B010DE"))).unwrap();
    let told = resolve(&file, "x", &unknown, &Overrides::default()).unwrap_err().to_string();
    assert!(told.contains("of a model that cannot be told"), "{told}");
}

#[test]
fn what_no_entry_names_is_left_as_it_is() {
    let desired = asked(&four(), &format!("  - {{devices: [1], {SEVEN}}}\n")).unwrap();
    let named: Vec<bool> = desired.gpus.iter().map(|(_, wanted)| wanted.is_some()).collect();
    assert_eq!(named, [false, true, false, false]);
}

#[test]
fn all_passes_over_what_cannot_be_divided_and_a_name_does_not() {
    let gpus = [a100_40(), t4()];
    let desired = on(&gpus, "{1g.5gb: 7}").unwrap();
    assert_eq!(desired.wanted().len(), 1);
    assert_eq!(desired.warnings.iter().map(|warning| warning.reason()).collect::<Vec<_>>(), ["PassedOver"]);
    let problems = asked(&gpus, &format!("  - {{devices: [0, 1], {SEVEN}}}\n")).unwrap_err();
    assert_eq!((problems.reason(), problems.0[0].gpus[0].index), ("NotMigCapable", 1));
    // Another entry may tell of what is passed over.
    let entries = format!("  - {{devices: all, {SEVEN}}}\n  - {{devices: [1], {OFF}}}\n");
    assert_eq!(asked(&gpus, &entries).unwrap().wanted()[&gpu(1)], Wanted::Off);
}

#[test]
fn counts_of_zero_are_the_same_as_nothing() {
    let with = on(&four(), "{1g.5gb: 0, 3g.20gb: 2}").unwrap();
    let without = on(&four(), "{3g.20gb: 2}").unwrap();
    assert_eq!((&with.hash, &with.gpus), (&without.hash, &without.gpus));
}

#[test]
fn mig_mode_with_nothing_on_it_is_wanted_with_a_warning() {
    let desired = on(&four(), "{}").unwrap();
    assert!(desired.wanted().values().all(|wanted| *wanted == Wanted::On(Vec::new())));
    assert_eq!(desired.warnings.len(), 1);
    assert!(desired.warnings[0].to_string().starts_with("GPUs 0, 1, 2, 3: in MIG mode with no instance"));
}

#[test]
fn all_that_is_wrong_is_told_at_once_and_once() {
    let entries = "  - {devices: [0, 1], mig-enabled: true, mig-devices: {1g.7gb: 1, 8g.9gb: 1}}\n  - {devices: [1, 8], mig-enabled: false}\n";
    let problems = asked(&four(), entries).unwrap_err();
    assert_eq!(
        problems.0.iter().map(|problem| problem.cause.reason()).collect::<Vec<_>>(),
        ["UnknownProfile", "UnknownProfile", "UnknownGpu", "Overlap"]
    );
    assert_eq!(problems.0[0].gpus.len(), 2);
    let json = serde_json::to_value(&problems).unwrap();
    assert_eq!(json[0]["reason"], "unknown-profile");
    assert_eq!(json[0]["place"]["line"], 4);
    assert_eq!(json[0]["gpus"][1]["index"], 1);
}

#[test]
fn a_node_without_gpus_reaches_nothing() {
    assert_eq!(reasons(asked(&[], &format!("  - {{devices: all, {OFF}}}\n"))), ["NoGpus"]);
    let nothing = resolve(&PartitionFile::default(), "x", &[], &Overrides::default()).unwrap_err();
    assert_eq!(nothing.to_string().matches("; ").count(), 3, "{nothing}");
}

#[test]
fn the_hash_is_of_what_is_wanted_and_of_nothing_else() {
    let one = on(&four(), "{1g.5gb: 2, 3g.20gb: 1}").unwrap();
    let listed = "  - devices: [3, 2, 1, 0]\n    mig-enabled: true\n    # a comment\n    mig-devices: {3g.20gb: 1, 1g.5gb: 2}\n";
    assert_eq!(one.hash, asked(&four(), listed).unwrap().hash);
    assert_ne!(one.hash, on(&four(), "{1g.5gb: 3, 3g.20gb: 1}").unwrap().hash);
    assert_eq!(one.hash.len(), 16);
}

#[test]
fn what_is_said_of_one_gpu_goes_before_the_layout() {
    let entries = format!("  - {{devices: all, {SEVEN}}}\n");
    let overrides = r#"{"2": {"mig-enabled": false}, "0000:13:00.0": {"mig-enabled": true, "mig-devices": {"3g.20gb": 2}}}"#;
    let desired = with_overrides(&four(), &entries, overrides).unwrap();
    let wanted = desired.wanted();
    assert_eq!(wanted[&gpu(2)], Wanted::Off);
    assert!(matches!(&wanted[&gpu(3)], Wanted::On(instances) if instances.len() == 2));
    assert!(matches!(&wanted[&gpu(0)], Wanted::On(instances) if instances.len() == 7));
    // Also where the layout is for other models altogether.
    let elsewhere = format!("  - {{device-filter: '0x233010DE', devices: all, {SEVEN}}}\n");
    assert_eq!(with_overrides(&four(), &elsewhere, overrides).unwrap().wanted().len(), 2);
}

#[test]
fn what_is_wrong_with_the_annotation_is_told_with_its_key() {
    let entries = format!("  - {{devices: all, {OFF}}}\n");
    for (overrides, told) in [
        (
            r#"{"7": {"mig-enabled": false}}"#,
            "annotation gpulet.dev/mig-config: 7: there is no GPU 7 on this node",
        ),
        (
            r#"{"0": {"mig-enabled": true, "mig-devices": {"1g.5gb": 9}}}"#,
            "annotation gpulet.dev/mig-config: 0.mig-devices.1g.5gb: GPU 0 (GPU-",
        ),
    ] {
        let problems = with_overrides(&four(), &entries, overrides).unwrap_err().to_string();
        assert!(problems.starts_with(told), "{problems}");
    }
    let twice = format!(r#"{{"0": {{"mig-enabled": false}}, "{}": {{"mig-enabled": false}}}}"#, gpu(0));
    assert_eq!(reasons(with_overrides(&four(), &entries, &twice)), ["Overlap"]);
    let named = r#"{"1": {"mig-enabled": true, "mig-devices": {}}}"#;
    assert_eq!(reasons(with_overrides(&[h100_80(), t4()], &entries, named)), ["NotMigCapable"]);
}

#[test]
fn a_gpu_that_may_be_one_that_does_not_answer_keeps_no_other_from_being_divided() {
    let node = node(&four());
    let divide = |devices: &str, others| {
        let text = format!("version: v1\nmig-configs:\n  x:\n  - {{devices: {devices}, {SEVEN}}}\n");
        resolve_answering(&parse(&text).unwrap(), "x", &facts(&node), others, &Overrides::default())
    };
    assert_eq!(divide("[3, 4]", false).unwrap_err().reason(), "UnknownGpu");
    let desired = divide("[3, 4]", true).unwrap();
    assert_eq!(desired.wanted().len(), 1);
    assert!(desired.warnings.iter().any(|warning| warning.to_string().starts_with("GPU 4: ")), "{desired:?}");
    assert_eq!(divide("[4]", true).unwrap().wanted().len(), 0);
}

#[test]
fn a_name_tells_a_terminal_nothing() {
    let text = "version: v1\nmig-configs:\n  \"a\\e[31m\\n\": [{devices: all, mig-enabled: false}]\n";
    let file = parse(text).unwrap();
    let told = resolve(&file, "x", &facts(&node(&four())), &Overrides::default()).unwrap_err().to_string();
    assert!(told.contains("[31m") && !told.contains(char::is_control), "{told:?}");
}
