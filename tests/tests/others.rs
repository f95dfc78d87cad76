//! Programs of others look at what gpulet serves and at what the simulator pretends to be. They need Debian's
//! Prometheus and the Python packages of `tests/requirements.txt`; `.ci/run` installs them and runs these tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use gpulet_tests::{Agent, Node, TextOnly, others_python, wait_until};

const OPENMETRICS: &str = "application/openmetrics-text;version=1.0.0";

fn feed(command: &mut Command, input: &str) -> std::process::Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that fails at once reads nothing; what it says is what counts.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
#[ignore = "needs promtool"]
fn promtool_finds_nothing_to_say() {
    for name in ["dgx-h100", "l40s-4x", "cpu-only"] {
        let node = Node::serve(name);
        let agent = Agent::run(&node, &[]);
        let output = feed(Command::new("promtool").args(["check", "metrics"]), &agent.get("/metrics").body);
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.is_empty(), "{name}: {said}");
    }
}

#[test]
#[ignore = "needs the Python packages"]
fn an_openmetrics_parser_of_others_agrees() {
    let node = Node::serve("dgx-h100");
    node.sim(&["clock", "pause"]);
    let agent = Agent::run(&node, &[]);
    let response = agent.get_as("/metrics", OPENMETRICS);
    assert_eq!(response.content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let program = [
        "import sys, json",
        "from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse",
        "families = list(parse(sys.stdin.read()))",
        "print(json.dumps([[s.name, s.labels, float(s.value)] for f in families for s in f.samples]))",
    ]
    .join("\n");
    let output = feed(Command::new(others_python()).args(["-c", &program]), &response.body);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let samples: Vec<(String, serde_json::Value, f64)> = serde_json::from_slice(&output.stdout).unwrap();
    let text = agent.scrape();
    let power = samples.iter().filter(|(name, ..)| name == "gpulet_gpu_power_watts");
    let mut compared = 0;
    for (name, labels, value) in power {
        let gpu = labels["gpu"].as_str().unwrap();
        assert_eq!(text.value(name, &[("gpu", gpu)]), Some(*value), "both formats say the same");
        compared += 1;
    }
    assert_eq!(compared, 8);
}

/// A program that ends with its test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Debian's Prometheus, scraping `target` once a second in the format that it prefers.
fn prometheus(target: SocketAddr, directory: &std::path::Path) -> (Running, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: gpulet, static_configs: [{{targets: ['{}']}}]}}]\n",
        target
    );
    std::fs::write(directory.join("prometheus.yml"), config).unwrap();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", directory.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    (Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()), port)
}

fn query(port: u16, expression: &str) -> Option<serde_json::Value> {
    let url = format!("http://127.0.0.1:{port}/api/v1/query?query={expression}");
    let body = ureq::get(&url).call().ok()?.body_mut().read_to_string().ok()?;
    let answer: serde_json::Value = serde_json::from_str(&body).ok()?;
    Some(answer["data"]["result"].clone())
}

fn scraped_by_prometheus(target: SocketAddr) {
    let directory = tempfile::tempdir().unwrap();
    let (_running, port) = prometheus(target, directory.path());
    let up = wait_until("Prometheus has scraped", || {
        query(port, "up").filter(|result| !result.as_array().unwrap().is_empty())
    });
    let gpus = query(port, "count(gpulet_gpu_up==1)");
    let energies = query(port, "gpulet_gpu_energy_joules_total");
    assert_eq!(up[0]["value"][1], "1", "{up}");
    assert_eq!(gpus.unwrap()[0]["value"][1], "8");
    assert_eq!(energies.unwrap().as_array().unwrap().len(), 8);
}

#[test]
#[ignore = "needs Prometheus"]
fn prometheus_scrapes_openmetrics() {
    let node = Node::serve("dgx-h100");
    let agent = Agent::run(&node, &[]);
    // What Prometheus 2.42 prefers when it is left alone.
    scraped_by_prometheus(agent.address());
    let openmetrics = agent.scrape().value("gpulet_scrapes_total", &[("format", "openmetrics")]);
    assert!(openmetrics.unwrap() >= 1.0, "it did take OpenMetrics");
}

#[test]
#[ignore = "needs Prometheus"]
fn prometheus_scrapes_the_text_format() {
    let node = Node::serve("dgx-h100");
    let agent = Agent::run(&node, &[]);
    let text_only = TextOnly::before(agent.address());
    scraped_by_prometheus(text_only.address());
    assert!(text_only.served() >= 1, "it did take the text format");
}

#[test]
#[ignore = "needs the Python packages"]
fn nvml_clients_of_others_see_the_node() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../simulator/tests/others_eyes.py");
    let output = Command::new(others_python())
        .arg(script)
        .arg(gpulet_tests::gpulet_sim().get_program())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
