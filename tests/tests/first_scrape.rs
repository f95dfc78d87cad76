//! The main job: a node is sampled and served.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use gpulet_tests::{Agent, Node};

#[test]
fn a_dgx_h100_is_sampled_and_served() {
    let node = Node::serve("dgx-h100");
    let agent = Agent::run(&node, &[]);
    let scrape = agent.scrape();
    assert_eq!(scrape.value("gpulet_nvml_up", &[]), Some(1.0));
    for family in [
        "gpulet_gpu_info",
        "gpulet_gpu_up",
        "gpulet_gpu_utilization_ratio",
        "gpulet_gpu_memory_total_bytes",
        "gpulet_gpu_memory_used_bytes",
        "gpulet_gpu_power_watts",
        "gpulet_gpu_energy_joules_total",
        "gpulet_gpu_temperature_celsius",
        "gpulet_gpu_clock_hertz",
        "gpulet_gpu_nvlink_transmitted_bytes_total",
        "gpulet_gpu_ecc_errors_total",
    ] {
        assert_eq!(scrape.gpus(family), 8, "{family}");
    }
    let links = scrape.series("gpulet_gpu_nvlink_up", &[("gpu", "0")]).len();
    assert_eq!(links, 18, "an H100 has 18 NVLinks");
    let link = [("gpu", "0"), ("link", "17")];
    assert_eq!(scrape.label("gpulet_gpu_nvlink_info", &link, "version").as_deref(), Some("4.0"));
    let failures = scrape.series("gpulet_driver_call_failures_total", &[]);
    assert!(failures.is_empty(), "no call fails on a healthy node: {failures:?}");
    assert!(scrape.value("gpulet_driver_calls_unsupported_total", &[]).unwrap() > 0.0);
}

#[test]
fn what_is_served_is_what_the_hardware_says() {
    let node = Node::serve("dgx-h100");
    // With the clock stopped, the hardware's truth and the next scrape are of the same instant.
    node.sim(&["clock", "pause"]);
    let agent = Agent::run(&node, &[]);
    let scrape = agent.scrape();
    let state = node.state();
    for (index, gpu) in state["gpus"].as_array().unwrap().iter().enumerate() {
        let index = index.to_string();
        let labels = [("gpu", index.as_str())];
        let memory = gpu["board"]["memory_bytes"].as_f64().unwrap();
        assert_eq!(scrape.value("gpulet_gpu_memory_total_bytes", &labels), Some(memory));
        let used = gpu["now"]["memory_used_bytes"].as_f64().unwrap();
        assert_eq!(scrape.value("gpulet_gpu_memory_used_bytes", &labels), Some(used));
        let watts = gpu["now"]["power_average_mw"].as_f64().unwrap() / 1000.0;
        assert_eq!(scrape.value("gpulet_gpu_power_watts", &labels), Some(watts));
        let sent = gpu["nvlinks"][7]["data_kib"][0].as_f64().unwrap() * 1024.0;
        let link = [("gpu", index.as_str()), ("link", "7")];
        assert_eq!(scrape.value("gpulet_gpu_nvlink_transmitted_bytes_total", &link), Some(sent));
        let uuid = gpu["identity"]["uuid"].as_str().unwrap();
        assert_eq!(scrape.label("gpulet_gpu_info", &labels, "uuid").as_deref(), Some(uuid));
    }
}

#[test]
fn what_a_board_lacks_is_absent_and_never_zero() {
    let node = Node::serve("l40s-4x");
    let agent = Agent::run(&node, &[]);
    let scrape = agent.scrape();
    assert_eq!(scrape.gpus("gpulet_gpu_power_watts"), 4);
    assert_eq!(scrape.gpus("gpulet_gpu_nvlink_up"), 0, "an L40S has no NVLink");
    assert_eq!(scrape.gpus("gpulet_gpu_mig_mode"), 0, "an L40S has no MIG");
    let memory_temperature = scrape.series("gpulet_gpu_temperature_celsius", &[("sensor", "memory")]);
    assert!(memory_temperature.is_empty(), "an L40S does not tell its memory's temperature");
}

#[test]
fn a_node_without_gpu_and_driver_is_ready_and_says_so() {
    let node = Node::serve("cpu-only");
    let agent = Agent::run(&node, &[]);
    let scrape = agent.scrape();
    assert_eq!(scrape.value("gpulet_nvml_up", &[]), Some(0.0));
    assert_eq!(scrape.label("gpulet_nvml_up", &[], "reason").as_deref(), Some("LibraryNotFound"));
    assert_eq!(scrape.gpus("gpulet_gpu_up"), 0);
    assert_eq!(agent.get("/healthz").status, 200);
}

#[test]
fn the_topology_names_every_gpu_and_its_numa_node() {
    let node = Node::serve("dgx-h100");
    let agent = Agent::run(&node, &[]);
    let response = agent.get_as("/topology", "application/json");
    assert_eq!(response.content_type, "application/json");
    let topology: serde_json::Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(topology["topology"]["gpus"][0]["numa"]["cpus"], "0-55,112-167");
    assert_eq!(topology["topology"]["findings"], serde_json::json!([]));
    let picture = agent.get_as("/topology.svg", "image/svg+xml");
    assert_eq!((picture.status, picture.content_type.as_str()), (200, "image/svg+xml"));
    assert!(picture.body.contains("GPU7") && picture.body.contains("NIC12"), "{}", picture.body);
    let scrape = agent.scrape();
    for (gpu, numa_node) in [("0", "0"), ("3", "0"), ("4", "1"), ("7", "1")] {
        let found = scrape.label("gpulet_gpu_info", &[("gpu", gpu)], "numa_node");
        assert_eq!(found.as_deref(), Some(numa_node), "GPU {gpu}");
    }
}
