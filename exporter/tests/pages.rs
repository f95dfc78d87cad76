//! What each page says, over a real socket.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod checker;
mod client;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use client::Running;
use gpulet_exporter::{Format, Limits};
use gpulet_inventory::reading::{Answer, Cause, Reading};
use gpulet_inventory::snapshot::{Condition, DownReason, Driver, DriverDown, Snapshot, UnlistedGpu};

const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

async fn running() -> Running {
    Running::start(Some(gpulet_benches::snapshot(2, 2)), Limits::default()).await
}

#[tokio::test]
async fn the_format_is_that_which_is_asked_for() {
    let server = running().await;
    let plain = server.get("/metrics").await;
    assert_eq!(
        (plain.status, plain.header("content-type")),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    assert_eq!(plain.header("vary"), "accept, accept-encoding");
    checker::read(&plain.body, Format::Text004).unwrap();

    let open_metrics = server.get_with("/metrics", &[("Accept", PROMETHEUS)]).await;
    assert_eq!(
        open_metrics.header("content-type"),
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    checker::read(&open_metrics.body, Format::OpenMetrics100).unwrap();
    assert_eq!(server.own.scrapes(Format::OpenMetrics100).get(), 1);
    assert_eq!(server.own.scrapes(Format::Text004).get(), 1);
}

#[tokio::test]
async fn gzip_is_the_same_document() {
    let server = running().await;
    let plain = server.get("/metrics").await;
    assert_eq!(plain.header("content-encoding"), "");
    for _ in 0..2 {
        let compressed = server.get_with("/metrics", &[("Accept-Encoding", "gzip")]).await;
        assert_eq!(compressed.header("content-encoding"), "gzip");
        assert!(compressed.body.len() * 4 < plain.body.len(), "{}", compressed.body.len());
        let mut document = Vec::new();
        flate2::read::GzDecoder::new(compressed.body.as_slice()).read_to_end(&mut document).unwrap();
        assert_eq!(document, plain.body);
    }
}

#[tokio::test]
async fn a_body_lasts_as_long_as_its_snapshot() {
    let server = running().await;
    let scrapes = |answer: &client::Answer| {
        let series = checker::read(&answer.body, Format::Text004).unwrap();
        let text =
            series.iter().find(|one| one.name == "gpulet_scrapes_total" && one.label("format") == "text");
        text.unwrap().value
    };
    let first = server.get("/metrics").await;
    let second = server.get("/metrics").await;
    assert_eq!(first.body, second.body);
    assert!(scrapes(&second).abs() < 1e-9);
    server.show(gpulet_benches::snapshot(3, 0));
    let third = server.get("/metrics").await;
    assert!((scrapes(&third) - 2.0).abs() < 1e-9);
    assert!(third.text().contains("gpulet_gpu_up{gpu=\"2\""));
}

#[tokio::test]
async fn nothing_is_served_before_the_first_snapshot() {
    let server = Running::start(None, Limits::default()).await;
    for path in ["/metrics", "/readyz", "/topology", "/topology.svg"] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{path}");
        assert!(answer.text().contains("no snapshot"), "{}", answer.text());
    }
    assert_eq!(server.get("/healthz").await.status, 200);
    assert_eq!(server.get("/").await.status, 200);
    server.show(gpulet_benches::snapshot(1, 0));
    for path in ["/metrics", "/readyz", "/topology", "/topology.svg"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn health_is_the_agents_own_word() {
    let server = running().await;
    assert_eq!((server.get("/healthz").await.text(), server.get("/readyz").await.text()), ("ok\n", "ok\n"));
    *server.word.waits_for.lock().unwrap() = Some("the kubelet".into());
    let ready = server.get("/readyz").await;
    assert_eq!((ready.status, ready.text(), ready.header("retry-after")), (503, "the kubelet\n", "1"));
    server.word.dead.store(true, Ordering::Relaxed);
    let live = server.get("/healthz").await;
    assert_eq!((live.status, live.text()), (503, "loop sample is stuck\n"));
}

#[tokio::test]
async fn other_paths_and_methods_are_told_so() {
    let server = running().await;
    for path in ["/nothing", "/metrics/", "//metrics", "/%2e%2e/etc/passwd"] {
        let answer = server.get(path).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (404, "text/plain; charset=utf-8"),
            "{path}"
        );
    }
    for method in ["POST", "DELETE", "OPTIONS"] {
        let answer = server.ask(method, "/metrics", &[]).await;
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD"), "{method}");
        assert!(!answer.body.is_empty());
    }
    assert_eq!(server.get("/metrics?name=x").await.status, 200);
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = running().await;
    for path in ["/metrics", "/topology", "/topology.svg", "/"] {
        let whole = server.get(path).await;
        let head = server.ask("HEAD", path, &[]).await;
        assert_eq!(head.status, 200);
        assert!(head.body.is_empty());
        assert_eq!(head.header("content-length"), whole.body.len().to_string(), "{path}");
        assert_eq!(head.header("content-type"), whole.header("content-type"));
    }
}

/// What the agent has planned is shown as it was handed over, and until then it is said that there is none.
#[tokio::test]
async fn the_plan_is_what_the_agent_says() {
    let server = running().await;
    let answer = server.get("/plan").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
    for plan in ["{\"verdict\": \"as-wanted\"}\n", "{}\n"] {
        server.plan.send_replace(Some(plan.into()));
        let answer = server.get("/plan").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
        assert_eq!(answer.body, plan.as_bytes());
    }
}

fn keys(value: &serde_json::Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The shape is a promise: this fails when a key goes.
#[tokio::test]
async fn the_topology_has_its_documented_shape() {
    let server = running().await;
    let answer = server.get("/topology").await;
    assert_eq!(answer.header("content-type"), "application/json");
    let node: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(
        keys(&node),
        [
            "driver",
            "free_sets",
            "gpus",
            "numa_nodes",
            "pci_gpus",
            "taken_unix_seconds",
            "topology",
            "unlisted_gpus"
        ]
    );
    assert_eq!(
        keys(&node["driver"]),
        ["cuda_version", "library", "message", "nvml_version", "reason", "remedy", "up", "version"]
    );
    assert_eq!(keys(&node["numa_nodes"][0]), ["cpus", "distances", "id", "memory_bytes"]);
    assert_eq!(node["numa_nodes"][1]["cpus"], "56-111");
    assert_eq!(keys(&node["pci_gpus"][0]), ["kernel_driver", "numa_node", "pci_bus_id"]);
    let gpu = &node["gpus"][1];
    assert_eq!(
        keys(gpu),
        [
            "age_seconds",
            "architecture",
            "call",
            "compute_capability",
            "index",
            "memory_bytes",
            "mig",
            "minor",
            "model",
            "numa_node",
            "nvlinks",
            "pci_bus_id",
            "pcie",
            "processes",
            "reason",
            "serial",
            "since_seconds",
            "up",
            "uuid",
            "vbios",
        ]
    );
    assert_eq!((gpu["numa_node"].as_u64(), gpu["pci_bus_id"].as_str()), (Some(1), Some("0000:19:00.0")));
    assert_eq!(keys(&gpu["pcie"]), ["generation", "max_generation", "max_width", "width"]);
    assert_eq!(keys(&gpu["nvlinks"][0]), ["link", "remote", "remote_pci_bus_id", "up", "version"]);
    assert_eq!(keys(&gpu["mig"]), ["enabled", "instances", "pending"]);
    assert_eq!(
        keys(&gpu["processes"][0]),
        ["compute_instance", "gpu_instance", "kind", "memory_bytes", "pid"]
    );
}

#[tokio::test]
async fn the_model_has_its_documented_shape() {
    let server = running().await;
    let node: serde_json::Value = serde_json::from_slice(&server.get("/topology").await.body).unwrap();
    let topology = &node["topology"];
    assert_eq!(
        keys(topology),
        [
            "clique",
            "findings",
            "gpus",
            "nics",
            "numa_nodes",
            "nvlink_islands",
            "nvswitches",
            "oddities",
            "pairs",
            "pcie_switches",
        ]
    );
    assert_eq!(keys(&topology["numa_nodes"][0]), ["cpus", "distances", "id", "kind", "memory_bytes"]);
    let gpu = &topology["gpus"][1];
    assert_eq!(
        keys(gpu),
        [
            "c2c_links",
            "down",
            "driver_cpus",
            "driver_numa_nodes",
            "fabric",
            "index",
            "kernel_driver",
            "label",
            "link",
            "memory_node",
            "mig_mode",
            "name",
            "numa",
            "nvlinks",
            "path",
            "pci",
            "pcie_switch",
            "seen_by",
            "uuid",
            "virtual_functions",
        ]
    );
    assert_eq!((gpu["label"].as_str(), gpu["numa"]["source"].as_str()), (Some("GPU1"), Some("sysfs")));
    assert_eq!(keys(&topology["pairs"][0]), ["a", "b", "driver_level", "level", "nvlink"]);
    assert_eq!(topology["pairs"][0]["level"], "SYS");
    assert_eq!(keys(&topology["findings"][0]), ["evidence", "reason", "remedy", "severity", "subject"]);
    assert_eq!(topology["findings"][0]["severity"], "fault");
    assert_eq!(keys(&node["free_sets"]), ["numa_node", "nvlink_island", "pcie_switch"]);
    assert_eq!(node["free_sets"]["numa_node"], serde_json::json!([0]));
}

#[tokio::test]
async fn the_picture_is_an_svg_that_loads_nothing() {
    let server = running().await;
    let answer = server.get("/topology.svg").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "image/svg+xml"));
    assert!(answer.header("content-security-policy").starts_with("default-src 'none'"));
    assert!(answer.text().starts_with("<svg ") && answer.text().contains("GPU1"), "{}", answer.text());
    assert!(!answer.text().contains("<script") && !answer.text().contains("<image"));
    server.show(gpulet_benches::snapshot(5, 0));
    assert!(server.get("/topology.svg").await.text().contains("GPU4"), "it follows the topology");
}

#[tokio::test]
async fn a_gpu_that_never_said_which_it_is_is_shown() {
    let mut snapshot = gpulet_benches::snapshot(2, 0);
    let answer = Answer { call: "nvmlDeviceGetUUID", cause: Cause::Code(15) };
    Arc::make_mut(&mut snapshot.gpus.value).unlisted = vec![UnlistedGpu {
        index: 2,
        pci: Some("0000:5d:00.0".parse().unwrap()),
        reason: DownReason::Lost(answer),
    }];
    let server = Running::start(Some(snapshot), Limits::default()).await;
    let node: serde_json::Value = serde_json::from_slice(&server.get("/topology").await.body).unwrap();
    let expected = serde_json::json!([
        {"index": 2, "pci_bus_id": "0000:5d:00.0", "reason": "Lost", "call": "nvmlDeviceGetUUID",
         "since_seconds": null}
    ]);
    assert_eq!(node["unlisted_gpus"], expected);
    assert_eq!(node["gpus"].as_array().unwrap().len(), 2);
    let answer = server.get("/").await;
    let page = answer.text();
    let row = "<td>2</td><td></td><td><code>0000:5d:00.0</code></td><td class=\"down\">Lost</td>";
    assert!(page.contains(row), "{page}");
}

fn with_hostile_names() -> Snapshot {
    let mut snapshot = gpulet_benches::snapshot(2, 0);
    let node = Arc::make_mut(&mut snapshot.gpus.value);
    let answer = Answer { call: "nvmlDeviceGetName", cause: Cause::Code(15) };
    node.gpus[1].condition = Condition::Down(DownReason::Lost(answer));
    let finding = &mut Arc::make_mut(&mut snapshot.topology.value).findings[0];
    finding.evidence = "<b>3</b> NVLinks".into();
    Arc::make_mut(&mut node.gpus[0].gpu).name =
        Reading::Supported("<script>alert('x')</script> & \"co\"".into());
    snapshot
}

#[tokio::test]
async fn the_page_shows_gpus_and_runs_nothing() {
    let server = Running::start(Some(with_hostile_names()), Limits::default()).await;
    let answer = server.get("/").await;
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    assert!(answer.header("content-security-policy").starts_with("default-src 'none'"));
    let page = answer.text();
    assert!(!page.contains("<script"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;co&quot;"), "{page}");
    // What is known of a GPU that is down: its Xids, too.
    let lost = "<td class=\"down\">Lost</td><td class=\"n\">13 (2), 79 (1)</td>\
                <td colspan=\"8\">nvmlDeviceGetName: NVML_ERROR_GPU_IS_LOST (15)</td>";
    assert!(page.contains(lost), "{page}");
    assert!(page.contains("<h1>gpu-7</h1>") && page.contains("As of 22:13:20 UTC"), "{page}");
    assert!(page.contains("Simulated: &lt;none&gt; of it exists."), "{page}");
    for name in ["GPU util", "PCI address", "MIG", "Xids", "ECC uncorrected", "Clocks event reasons"] {
        assert!(page.contains(&format!(">{name}</th>")), "{name}");
    }
    assert!(page.contains(">power_cap</td>"), "{page}");
    assert!(page.contains(
        "<dt class=\"down\">GPU0: NvlinkDegraded</dt>\n<dd>Seen: &lt;b&gt;3&lt;/b&gt; NVLinks.<br>Remedy: "
    ));
    assert!(page.contains("<img src=\"/topology.svg\""), "{page}");
    for link in ["/metrics", "/topology", "/topology.svg", "/healthz", "/readyz"] {
        assert!(page.contains(&format!("href=\"{link}\"")), "{link}");
    }
    assert!(!page.contains("http://") && !page.contains("https://"), "no assets from elsewhere");
}

#[tokio::test]
async fn a_driver_that_is_let_go_of_on_request_is_no_fault() {
    let mut snapshot = gpulet_benches::snapshot(2, 0);
    Arc::make_mut(&mut snapshot.topology.value).findings.clear();
    let node = Arc::make_mut(&mut snapshot.gpus.value);
    for state in &mut node.gpus {
        (state.condition, state.sample) = (Condition::Down(DownReason::DriverDown), None);
    }
    let down = |reason| Driver::Down(DriverDown { reason, message: "gone".into(), remedy: "wait".into() });
    node.driver = down(DriverDown::QUIESCED);
    let server = Running::start(Some(snapshot.clone()), Limits::default()).await;
    let answer = server.get("/").await;
    let paused = "Paused by <code>gpulet quiesce</code>. To continue: <code>gpulet resume</code>.";
    assert!(answer.text().contains(paused) && !answer.text().contains("class=\"down\""), "{}", answer.text());
    let node: serde_json::Value = serde_json::from_slice(&server.get("/topology").await.body).unwrap();
    assert_eq!((&node["gpus"][1]["up"], &node["gpus"][1]["reason"]), (&false.into(), &"Quiesced".into()));

    Arc::make_mut(&mut snapshot.gpus.value).driver = down("DriverNotLoaded");
    server.show(snapshot);
    let answer = server.get("/").await;
    let fault = "<p class=\"down\">The driver is down (DriverNotLoaded): gone</p>\n<p>Remedy: wait</p>";
    assert!(answer.text().contains(fault), "{}", answer.text());
}

#[tokio::test]
async fn a_gpu_that_hangs_says_in_which_call_and_for_how_long() {
    let mut snapshot = gpulet_benches::snapshot(2, 0);
    let node = Arc::make_mut(&mut snapshot.gpus.value);
    let since = std::time::Duration::from_millis(7500);
    let hangs = DownReason::Unresponsive { call: "nvmlDeviceGetPowerUsage", since };
    node.gpus[1].condition = Condition::Down(hangs);
    let server = Running::start(Some(snapshot), Limits::default()).await;
    let node: serde_json::Value = serde_json::from_slice(&server.get("/topology").await.body).unwrap();
    let gpu = &node["gpus"][1];
    assert_eq!((&gpu["call"], &gpu["since_seconds"]), (&"nvmlDeviceGetPowerUsage".into(), &7.5.into()));
    let said = "nvmlDeviceGetPowerUsage has not returned for 8 s";
    assert!(server.get("/").await.text().contains(said));
    let other = &node["gpus"][0];
    assert!(other["call"].is_null() && other["since_seconds"].is_null(), "{other}");
}
