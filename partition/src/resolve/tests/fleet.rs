//! The file of a fleet on the nodes of the fleet.

use crate::file::parse;
use crate::overrides::Overrides;
use crate::resolve::{Desired, Problems, resolve};
use crate::tests::nodes::{Gpu, a30_24, a100_40, facts, gb200, h100_80, node, off, rtx_pro, t4};

use super::wanted_on;

/// The layout of the fleet's file on two GPUs of a model.
fn on(gpu: &Gpu, layout: &str) -> Result<Desired, Problems> {
    let file = parse(include_str!("../../../fixtures/fleet.yaml")).unwrap();
    resolve(&file, layout, &facts(&node(&[gpu.clone(), gpu.clone()])), &Overrides::default())
}

#[test]
fn each_layout_means_on_each_model_what_it_says() {
    let models = [
        (a100_40(), "all-1g.5gb", "7 1g.5gb"),
        (a100_40(), "all-1g.5gb.me", "1 1g.5gb+me"),
        (a100_40(), "all-2g.10gb", "3 2g.10gb"),
        (a100_40(), "all-3g.20gb", "2 3g.20gb"),
        (a100_40(), "all-7g.40gb", "1 7g.40gb"),
        (a100_40(), "all-1g.10gb", "4 1g.10gb"),
        (h100_80(), "all-1g.10gb", "7 1g.10gb"),
        (h100_80(), "all-3g.40gb", "2 3g.40gb"),
        (gb200(), "all-1g.24gb", "7 1g.23gb"),
        (a30_24(), "all-1g.6gb", "4 1g.6gb"),
        (a30_24(), "all-2g.12gb.me", "1 2g.12gb+me"),
        (rtx_pro(), "all-1g.24gb", "4 1g.24gb"),
        (rtx_pro(), "all-1g.24gb.gfx", "4 1g.24gb+gfx"),
        (rtx_pro(), "all-1g.24gb.me.all", "1 1g.24gb+me.all"),
        (rtx_pro(), "all-1g.24gb-me", "4 1g.24gb-me"),
        (a100_40(), "all-balanced", "2 1g.5gb 1 2g.10gb 1 3g.20gb"),
        (h100_80(), "all-balanced", "2 1g.10gb 1 2g.20gb 1 3g.40gb"),
        (a30_24(), "all-balanced", "2 1g.6gb 1 2g.12gb"),
        (a100_40(), "all-enabled", ""),
    ];
    for (model, layout, expected) in models {
        // It is the same whether the GPU is in MIG mode already.
        for gpu in [model.clone(), off(model)] {
            let desired = on(&gpu, layout).unwrap_or_else(|problems| panic!("{layout}: {problems}"));
            let node = [gpu.clone(), gpu];
            for index in [0, 1] {
                let wanted = wanted_on(&desired, &node, index);
                let mut counted: Vec<(String, usize)> = Vec::new();
                for name in wanted {
                    match counted.last_mut() {
                        Some((known, count)) if *known == name => *count += 1,
                        _ => counted.push((name, 1)),
                    }
                }
                let told: Vec<String> =
                    counted.iter().map(|(name, count)| format!("{count} {name}")).collect();
                assert_eq!(told.join(" "), expected, "{layout}");
            }
        }
    }
}

#[test]
fn what_is_for_other_models_is_told_before_anything_is_touched() {
    for (model, layout, reason) in [
        (h100_80(), "all-1g.5gb", "UnknownProfile"),
        (a100_40(), "all-3g.40gb", "UnknownProfile"),
        (h100_80(), "all-1g.24gb.gfx", "NotForThisNode"),
        (rtx_pro(), "all-balanced", "NotForThisNode"),
        (t4(), "all-balanced", "NotForThisNode"),
        (a100_40(), "all-such", "UnknownLayout"),
        (a100_40(), "half-and-half", "UnknownGpu"),
    ] {
        let problems = on(&model, layout).unwrap_err();
        assert_eq!(problems.reason(), reason, "{layout}: {problems}");
    }
    let told = on(&h100_80(), "all-1g.5gb").unwrap_err().to_string();
    let expected = "mig-configs.all-1g.5gb[0].mig-devices.1g.5gb: GPUs 0, 1: it has no profile 1g.5gb; it has 1g.10gb, \
                    1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb";
    assert!(told.starts_with("line ") && told.ends_with(expected), "{told}");
    let told = on(&rtx_pro(), "all-balanced").unwrap_err().to_string();
    assert!(told.contains("0x2BB510DE:0x123410DE"), "{told}");
    let told = on(&a100_40(), "all-such").unwrap_err().to_string();
    assert!(
        told.starts_with("there is no layout `all-such`; there are: all-1g.10gb, all-1g.24gb, "),
        "{told}"
    );
}

#[test]
fn all_that_cannot_be_divided_is_passed_over() {
    let desired = on(&t4(), "all-enabled").unwrap();
    assert!(desired.wanted().is_empty());
    assert_eq!(desired.warnings[0].to_string(), "GPUs 0, 1: passed over, without MIG mode");
    assert_eq!(on(&t4(), "all-disabled").unwrap().wanted().len(), 2);
}
