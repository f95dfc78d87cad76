//! GPUs in MIG mode, described in a node of one's own: every program is run as a person would run it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use gpulet_tests::{Node, Scrape, gpulet};

/// GPU 0 is divided, GPU 1 is not.
const DESCRIPTION: &str = "\
about: one GPU in MIG mode beside a whole one
driver: 580.105.08
cpu: {model: Test CPU, packages: 1, cores-per-package: 4, threads-per-core: 1}
numa:
- {id: 0, cpus: '0-3', memory: 64GiB, distances: [10]}
pci:
- root: 0000:10
  numa: 0
  devices:
  - bridge:
      at: 10:01.0
      devices:
      - gpu:
          at: 11:00.0
          board: h100-sxm-80gb
          mig: {instances: [{profile: 3g.40gb, start: 0, compute: [1, 2]}, {profile: 1g.10gb, start: 4}, {profile: 1g.10gb, start: 6}]}
  - bridge: {at: 10:02.0, devices: [gpu: {at: 12:00.0, board: h100-sxm-80gb}]}
";

#[test]
fn a_divided_gpu_shows_its_instances_and_no_utilisation() {
    let directory = tempfile::tempdir().unwrap();
    let description = directory.path().join("divided.yaml");
    std::fs::write(&description, DESCRIPTION).unwrap();
    let node = Node::serve(description.to_str().unwrap());
    let mut metrics = gpulet();
    node.environment(&mut metrics);
    let output = metrics.arg("metrics").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let scrape = Scrape::parse(&String::from_utf8(output.stdout).unwrap());

    let mode = |gpu| scrape.value("gpulet_gpu_mig_mode", &[("gpu", gpu), ("state", "current")]);
    assert_eq!((mode("0"), mode("1")), (Some(1.0), Some(0.0)));
    let instances = |profile| scrape.value("gpulet_gpu_mig_instances", &[("gpu", "0"), ("profile", profile)]);
    assert_eq!(instances("3g.40gb"), Some(1.0));
    assert_eq!(instances("1g.10gb"), Some(2.0));
    assert_eq!(instances("7g.80gb"), Some(0.0), "a profile of which there is none is offered all the same");
    assert_eq!(scrape.gpus("gpulet_gpu_mig_instances"), 1, "only a divided GPU has instances");

    let utilisation = |gpu| scrape.series("gpulet_gpu_utilization_ratio", &[("gpu", gpu)]).len();
    assert_eq!(utilisation("0"), 0, "the driver does not tell the utilisation of a divided GPU");
    assert!(utilisation("1") > 0);
    for family in ["gpulet_gpu_up", "gpulet_gpu_power_watts", "gpulet_gpu_memory_used_bytes"] {
        assert_eq!(scrape.gpus(family), 2, "{family}");
    }
}
