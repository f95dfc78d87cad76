//! Faults of the hardware, set while the daemon runs: what they may cost, and what they must not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use gpulet_tests::{Agent, Node, Scrape};

const GPU_3: [(&str, &str); 1] = [("gpu", "3")];

fn up(scrape: &Scrape, gpu: &str) -> Option<f64> {
    scrape.value("gpulet_gpu_up", &[("gpu", gpu)])
}

fn down_reason(scrape: &Scrape, gpu: &str) -> Option<String> {
    scrape.label("gpulet_gpu_up", &[("gpu", gpu)], "reason")
}

fn gpus_up(scrape: &Scrape) -> usize {
    (0..8).filter(|gpu| up(scrape, &gpu.to_string()) == Some(1.0)).count()
}

#[test]
fn a_lost_gpu_costs_only_itself() {
    let node = Node::serve("dgx-h100");
    let agent = Agent::run(&node, &[]);
    assert_eq!(gpus_up(&agent.scrape()), 8);

    node.sim(&["fault", "lose", "3"]);
    let scrape = agent.scrape_until("GPU 3 is down", |scrape| up(scrape, "3") == Some(0.0));
    assert_eq!(down_reason(&scrape, "3").as_deref(), Some("Lost"));
    assert_eq!(gpus_up(&scrape), 7);
    assert_eq!(scrape.gpus("gpulet_gpu_power_watts"), 7, "seven GPUs' series go on");
    assert!(scrape.series("gpulet_gpu_power_watts", &GPU_3).is_empty(), "a lost GPU has no readings");
    agent.scrape_until("the Xid of the loss is counted", |scrape| {
        scrape.value("gpulet_gpu_xid_errors_total", &[("gpu", "3"), ("xid", "79")]) == Some(1.0)
    });
}

#[test]
fn ten_thousand_xids_within_one_tick_are_counted_one_by_one() {
    let node = Node::serve("l40s-4x");
    let agent = Agent::run(&node, &[]);
    node.sim(&["clock", "pause"]);
    node.sim(&["fault", "xid", "1", "31", "--times", "10000"]);
    node.sim(&["fault", "xid", "2", "94"]);
    let count = |scrape: &Scrape, gpu, xid| {
        scrape.value("gpulet_gpu_xid_errors_total", &[("gpu", gpu), ("xid", xid)])
    };
    // Events come in order: once the last is counted, so are all before it that were not lost.
    let scrape =
        agent.scrape_until("the last Xid is counted", |scrape| count(scrape, "2", "94") == Some(1.0));
    assert_eq!(count(&scrape, "1", "31"), Some(10_000.0));
}

#[test]
fn a_call_that_never_returns_costs_one_gpu_and_one_thread() {
    let node = Node::serve("dgx-h100");
    let agent = Agent::run(&node, &[]);
    let threads = agent.gpu_threads();

    node.sim(&["fault", "call", "--gpu", "3", "--symbol", "nvmlDeviceGetPowerUsage", "--block"]);
    let scrape = agent.scrape_until("GPU 3 is unresponsive", |scrape| {
        down_reason(scrape, "3").as_deref() == Some("Unresponsive")
    });
    assert_eq!(gpus_up(&scrape), 7, "the others go on");
    let ticks = |scrape: &Scrape| scrape.value("gpulet_sampling_ticks_total", &[]).unwrap();
    let before = ticks(&scrape);
    let scrape = agent.scrape_until("100 more ticks", |scrape| ticks(scrape) >= before + 100.0);
    assert_eq!(scrape.value("gpulet_driver_stuck_threads", &[]), Some(1.0));
    assert_eq!(agent.gpu_threads(), threads);

    node.sim(&["fault", "clear"]);
    agent.scrape_until("GPU 3 is back", |scrape| gpus_up(scrape) == 8);
}

#[test]
fn a_gpu_that_hangs_from_the_start_is_told_of_until_it_says_which_it_is() {
    let node = Node::serve("dgx-h100");
    node.sim(&["fault", "call", "--gpu", "3", "--block"]);
    let agent = Agent::run(&node, &[]);
    let scrape = agent.scrape_until("GPU 3 is unresponsive", |scrape| {
        down_reason(scrape, "3").as_deref() == Some("Unresponsive") && gpus_up(scrape) == 7
    });
    assert_eq!(scrape.label("gpulet_gpu_up", &GPU_3, "uuid").as_deref(), Some(""));
    assert_eq!(scrape.gpus("gpulet_gpu_power_watts"), 7);
    node.sim(&["fault", "clear"]);
    let scrape = agent.scrape_until("GPU 3 is one of eight", |scrape| gpus_up(scrape) == 8);
    assert!(scrape.label("gpulet_gpu_up", &GPU_3, "uuid").is_some_and(|uuid| uuid.starts_with("GPU-")));
    let told: Vec<String> =
        agent.log().into_iter().filter(|line| line.contains("does not say which it is")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn gpus_that_are_taken_from_the_driver_and_given_back_need_no_restart() {
    let node = Node::serve("dgx-h100");
    node.sim(&["load", "idle"]);
    let agent = Agent::run(&node, &[]);
    assert_eq!(gpus_up(&agent.scrape()), 8);
    node.sim(&["fault", "unbind", "3"]);
    let scrape = agent.scrape_until("seven GPUs", |scrape| gpus_up(scrape) == 7 && up(scrape, "7").is_none());
    assert_eq!(scrape.gpus("gpulet_gpu_up"), 7, "the driver numbers them anew");
    node.sim(&["fault", "bind", "3"]);
    agent.scrape_until("eight GPUs", |scrape| gpus_up(scrape) == 8);
}

#[test]
fn a_driver_reload_needs_no_restart() {
    let node = Node::serve("dgx-h100");
    let agent = Agent::run(&node, &[]);

    node.sim(&["fault", "driver", "unload", "--force"]);
    let scrape =
        agent.scrape_until("the driver is down", |scrape| scrape.value("gpulet_nvml_up", &[]) == Some(0.0));
    assert_eq!(scrape.label("gpulet_nvml_up", &[], "reason").as_deref(), Some("DriverNotLoaded"));
    assert_eq!(gpus_up(&scrape), 0, "no GPU is said to be up");
    assert_eq!(down_reason(&scrape, "3").as_deref(), Some("DriverNotLoaded"));
    assert_eq!(scrape.gpus("gpulet_gpu_up"), 8, "its GPUs are not forgotten");
    node.sim(&["fault", "driver", "load"]);
    agent.scrape_until("all GPUs are back", |scrape| gpus_up(scrape) == 8);
}

#[test]
fn quiesce_lets_go_of_every_device_file() {
    let node = Node::serve("dgx-h100");
    let agent = Agent::run(&node, &[]);
    let devices = node.host_root().join("dev").to_string_lossy().into_owned();
    let open = || agent.open_files().into_iter().filter(|file| file.starts_with(&devices)).count();
    assert!(open() > 0, "the daemon holds device files while it samples");

    let told = gpulet_on(&node, "quiesce");
    assert!(told.status.success(), "{told:?}");
    assert_eq!(open(), 0, "{:?}", agent.open_files());
    // The driver can be unloaded now, which it refuses while anyone holds it: us, or a job on a GPU.
    node.sim(&["load", "idle"]);
    node.sim(&["fault", "driver", "unload"]);
    node.sim(&["fault", "driver", "load"]);
    let scrape = agent.scrape_until("it says why", |scrape| {
        scrape.label("gpulet_nvml_up", &[], "reason").as_deref() == Some("Quiesced")
    });
    assert_eq!(gpus_up(&scrape), 0);
    assert_eq!(scrape.series("gpulet_gpu_up", &[("reason", "Quiesced")]).len(), 8, "no GPU is at fault");

    let told = gpulet_on(&node, "resume");
    assert!(told.status.success(), "{told:?}");
    agent.scrape_until("all GPUs are back", |scrape| gpus_up(scrape) == 8);
    assert!(open() > 0);
}

#[test]
fn the_driver_cannot_be_unloaded_under_the_daemon() {
    let node = Node::serve("dgx-h100");
    let _agent = Agent::run(&node, &[]);
    let mut command = gpulet_tests::gpulet_sim();
    command.args(["fault", "driver", "unload"]).env("GPULET_SIM_DIR", node.directory());
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("in use"), "{refused:?}");
}

#[test]
fn a_link_that_goes_down_is_a_zero_and_no_other_series() {
    let node = Node::serve("dgx-h100");
    let agent = Agent::run(&node, &[]);
    let link = [("gpu", "4"), ("link", "17")];
    let info = |scrape: &Scrape| {
        let labels = ["version", "remote", "remote_pci_bus_id"];
        labels.map(|label| scrape.label("gpulet_gpu_nvlink_info", &link, label))
    };
    let before = info(&agent.scrape());
    assert_eq!(before[0].as_deref(), Some("4.0"));
    node.sim(&["fault", "link", "--down", "4", "17"]);
    let scrape = agent
        .scrape_until("the link is down", |scrape| scrape.value("gpulet_gpu_nvlink_up", &link) == Some(0.0));
    let down = info(&scrape);
    assert!(down == before || down == [None, None, None], "{down:?}");
    node.sim(&["fault", "link", "--up", "4", "17"]);
    agent.scrape_until("the link is up", |scrape| {
        scrape.value("gpulet_gpu_nvlink_up", &link) == Some(1.0) && info(scrape) == before
    });
}

#[test]
fn xids_are_counted_one_by_one() {
    let node = Node::serve("dgx-h100");
    let agent = Agent::run(&node, &[]);
    let counted =
        |scrape: &Scrape| scrape.value("gpulet_gpu_xid_errors_total", &[("gpu", "5"), ("xid", "48")]);
    assert_eq!(counted(&agent.scrape()), Some(0.0), "a dangerous code is there before its first event");
    node.sim(&["fault", "xid", "5", "48", "--times", "200"]);
    agent.scrape_until("all 200 are counted", |scrape| counted(scrape) == Some(200.0));
}

#[test]
fn a_failing_call_is_an_absent_series_and_explained() {
    let node = Node::serve("dgx-h100");
    let agent = Agent::run(&node, &[]);
    node.sim(&["fault", "call", "--gpu", "2", "--symbol", "nvmlDeviceGetPowerUsage", "--return", "UNKNOWN"]);
    let power = |scrape: &Scrape| scrape.value("gpulet_gpu_power_watts", &[("gpu", "2")]);
    let scrape = agent.scrape_until("the series is gone", |scrape| power(scrape).is_none());
    assert_eq!(up(&scrape, "2"), Some(1.0), "one failing call does not take the GPU down");
    let failed = [("call", "nvmlDeviceGetPowerUsage"), ("reason", "UNKNOWN")];
    assert!(scrape.value("gpulet_driver_call_failures_total", &failed).unwrap() >= 1.0);

    let explained = gpulet_on(&node, "metrics --explain");
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    let line = text
        .lines()
        .find(|line| line.contains("nvmlDeviceGetPowerUsage") && !line.contains("failures_total"))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("UNKNOWN") && line.contains("gpulet_gpu_power_watts"), "{line}");

    node.sim(&["fault", "clear"]);
    agent.scrape_until("the series is back", |scrape| power(scrape).is_some());
}

#[test]
fn a_dead_simulator_is_a_dead_driver() {
    let node = Node::serve("l40s-4x");
    let agent = Agent::run(&node, &[]);
    node.kill_server();
    agent.scrape_until("the driver is down", |scrape| scrape.value("gpulet_nvml_up", &[]) == Some(0.0));
    assert_eq!(agent.get("/healthz").status, 200, "the daemon itself is well");
}

fn gpulet_on(node: &Node, arguments: &str) -> std::process::Output {
    let mut command = gpulet_tests::gpulet();
    node.environment(&mut command);
    command.args(arguments.split(" ")).output().unwrap()
}
