//! Plan, apply and export are of one mind: what is exported is what was applied, on every board that can be divided.

use gpulet_tests::Site;

/// Layouts that gpulet makes up itself, from what the GPUs say of themselves, there and back: no file, no table of models.
fn there_and_back(node: &str) {
    let site = Site::shipped(node);
    for layout in ["all-balanced", "all-enabled", "all-disabled"] {
        reach(&site, layout);
    }
    reach(&site, "all-balanced");
    let before = site.gpus();
    assert!(before.iter().any(|gpu| !gpu.instances.is_empty()), "{node}: balanced is not empty");

    let exported = site.run(&["export"]).expect(0);
    let file = site.path("exported.yaml");
    std::fs::write(&file, &exported.stdout).unwrap();
    let name = only_layout(&exported.stdout);
    let of_file = |command| site.run(&[command, "-f", file.to_str().unwrap(), "--mig-config", &name]);
    of_file("plan").expect(0);
    let steps: usize = (0..before.len()).map(|gpu| site.changes(gpu)).sum();
    of_file("apply").expect(0);
    assert_eq!(
        (0..before.len()).map(|gpu| site.changes(gpu)).sum::<usize>(),
        steps,
        "{node}: it is there already"
    );

    reach(&site, "all-disabled");
    of_file("plan").expect(2);
    of_file("apply").expect(0);
    let profiles =
        |gpus: &[gpulet_tests::Division]| gpus.iter().map(|gpu| gpu.profiles()).collect::<Vec<_>>();
    assert_eq!(profiles(&site.gpus()), profiles(&before), "{node}");
    let again = site.run(&["export"]).expect(0);
    assert_eq!(again.stdout, exported.stdout, "{node}: the same division is exported in the same words");
}

/// Planned, applied, and then there is nothing left to plan.
fn reach(site: &Site, layout: &str) {
    let planned = site.plan(layout);
    assert!(matches!(planned.code, Some(0 | 2)), "{layout}: {planned}");
    site.apply(layout).expect(0);
    site.plan(layout).expect(0);
    assert!(site.gpus().iter().all(gpulet_tests::Division::is_settled), "{layout}");
    assert!(site.journals().is_empty(), "{layout}");
}

/// The name of the one layout of a partition file.
fn only_layout(file: &str) -> String {
    let tree: serde_json::Value = serde_saphyr::from_str(file).unwrap();
    let layouts = tree["mig-configs"].as_object().unwrap();
    assert_eq!(layouts.len(), 1, "{file}");
    layouts.keys().next().unwrap().clone()
}

#[test]
fn four_slices() {
    there_and_back("a30-2x");
}

#[test]
fn twelve_units() {
    there_and_back("rtx-pro-6000");
}

#[test]
fn seven_slices_that_take_a_reset() {
    there_and_back("a100-pcie-nvlink-pairs");
}

#[test]
fn seven_slices_that_take_none() {
    there_and_back("gb200-tray");
}

/// Every layout that is made up for all profiles of a board can be had, by the name that a label can carry.
#[test]
fn a_layout_for_every_profile() {
    for (node, profiles) in [
        ("a30-2x", &["1g.6gb", "1g.6gb.me", "2g.12gb", "2g.12gb.me", "4g.24gb"][..]),
        (
            "rtx-pro-6000",
            &[
                "1g.24gb",
                "1g.24gb.me",
                "1g.24gb.gfx",
                "1g.24gb.me.all",
                "1g.24gb-me",
                "2g.48gb",
                "4g.96gb.gfx",
            ],
        ),
    ] {
        let site = Site::shipped(node);
        for profile in profiles {
            site.apply(&format!("all-{profile}")).expect(0);
            let names: Vec<String> = site.gpus().iter().flat_map(|gpu| gpu.profiles()).collect();
            assert!(
                !names.is_empty() && names.iter().all(|name| name.replace('+', ".") == **profile),
                "{names:?}"
            );
        }
        site.apply("all-9g.1gb").expect(64).says(&["all-balanced"]);
    }
}

/// Compute instances, orphans and GPUs in different modes: all of it is in what is exported.
#[test]
fn what_is_odd_is_exported_too() {
    use gpulet_tests::Gpu;
    let odd =
        Gpu::divided("h100-sxm-80gb", &[("1g.10gb", 6)]).with("3g.40gb", 0, &[1, 2]).with("1g.20gb", 4, &[1]);
    let site = Site::of(&[odd, Gpu::whole("a100-sxm4-40gb"), Gpu::empty("a30"), Gpu::whole("l40s")]);
    let before = site.gpus();
    let exported = site.run(&["export"]).expect(0);
    let file = site.path("exported.yaml");
    std::fs::write(&file, &exported.stdout).unwrap();
    let name = only_layout(&exported.stdout);
    let file = file.to_str().unwrap();
    site.run(&["plan", "-f", file, "--mig-config", &name]).expect(0);
    site.apply("all-disabled").expect(0);
    site.run(&["apply", "-f", file, "--mig-config", &name]).expect(0);
    for (after, before) in site.gpus().iter().zip(&before) {
        assert_eq!((after.mode, after.profiles()), (before.mode, before.profiles()));
    }
}
