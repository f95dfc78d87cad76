//! The daemon on a machine without driver.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod common;

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use common::{Machine, stderr, value, wait_until};
use nix::sys::signal::Signal;

#[test]
fn without_driver_it_is_ready_and_says_so() {
    let machine = Machine::new();
    let daemon = machine.daemon(&[]);
    daemon.ready();
    let scrape = daemon.scrape_until("the driver's state", |scrape| scrape.contains("gpulet_nvml_up"));
    assert!(scrape.contains("gpulet_nvml_up{reason=\"LibraryNotFound\"} 0\n"), "{scrape}");
    assert_eq!(daemon.get("/healthz").0, 200);
    let down = daemon.wait_for_event("the driver is down", 1);
    assert_eq!(down["reason"], "LibraryNotFound");
    assert!(!down["remedy"].as_str().unwrap().is_empty(), "{down}");
    let sampled =
        |scrape: &str| value(scrape, "gpulet_sampling_ticks_total").is_some_and(|count| count >= 8.0);
    daemon.scrape_until("further rounds", sampled);
    assert_eq!(daemon.logged("the driver is down").len(), 1, "a state that stays is logged once");
}

#[test]
fn signals_end_it_cleanly_in_time() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let machine = Machine::new();
        let mut daemon = machine.daemon(&[]);
        daemon.ready();
        let socket = machine.state_dir().join("control.sock");
        wait_until("the control socket", || socket.exists().then_some(()));
        let told = Instant::now();
        daemon.signal(signal);
        assert_eq!(daemon.ended().code(), Some(0));
        assert!(told.elapsed() < Duration::from_secs(2), "{signal}: {:?}", told.elapsed());
        assert_eq!(daemon.wait_for_event("shutting down", 1)["signal"], signal.as_str());
        daemon.wait_for_event("stopped", 1);
        assert!(!socket.exists(), "the control socket was left behind");
    }
}

#[test]
fn a_missing_library_does_not_keep_it_from_running() {
    let machine = Machine::new();
    let daemon = machine.daemon(&["--nvml-library", "/nonexistent/libnvidia-ml.so.1"]);
    daemon.ready();
    let scrape = daemon.scrape_until("the driver's state", |scrape| scrape.contains("gpulet_nvml_up"));
    assert!(scrape.contains("reason=\"LibraryNotFound\"} 0\n"), "{scrape}");
}

#[test]
fn hangup_takes_up_the_configuration_and_keeps_it_when_the_new_one_is_wrong() {
    let machine = Machine::new();
    machine.configure("sampling: {interval: 1h, slow-interval: 1h}\n");
    let daemon = machine.daemon(&[]);
    daemon.ready();
    // One round is all that an interval of an hour gives.
    assert_eq!(value(&daemon.get("/metrics").1, "gpulet_sampling_ticks_total"), Some(1.0));

    machine.configure("sampling: {interval: 100ms, slow-interval: 1h}\n");
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for_event("configuration reloaded", 1);
    let sampled =
        |scrape: &str| value(scrape, "gpulet_sampling_ticks_total").is_some_and(|count| count >= 4.0);
    let scrape = daemon.scrape_until("rounds at the new pace", sampled);
    assert_eq!(value(&scrape, "gpulet_config_last_reload_successful"), Some(1.0));

    machine.configure("sampling: {interval: never}\n");
    daemon.signal(Signal::SIGHUP);
    let refused = daemon.wait_for_event("configuration not reloaded; the former one stays in force", 1);
    assert!(refused["error"].as_str().unwrap().contains("config.yaml:1: sampling.interval"), "{refused}");
    let failed = |scrape: &str| value(scrape, "gpulet_config_last_reload_successful") == Some(0.0);
    let scrape = daemon.scrape_until("the failed reload", failed);
    let before = value(&scrape, "gpulet_sampling_ticks_total").unwrap();
    let goes_on = |scrape: &str| {
        value(scrape, "gpulet_sampling_ticks_total").is_some_and(|count| count >= before + 3.0)
    };
    daemon.scrape_until("rounds at the pace before", goes_on);
}

#[test]
fn hangup_changes_the_log_level() {
    let machine = Machine::new();
    let daemon = machine.daemon(&[]);
    daemon.ready();
    let reload = |times: f64| {
        daemon.signal(Signal::SIGHUP);
        let series = "gpulet_config_reloads_total{outcome=\"success\"}";
        let counted = |scrape: &str| value(scrape, series) == Some(times);
        daemon.scrape_until("the reload is counted", counted);
    };
    machine.configure("log: {level: error}\n");
    reload(1.0);
    machine.configure("log: {level: error}\nsampling: {deadline: 1s}\n");
    reload(2.0);
    machine.configure("log: {level: info}\nsampling: {deadline: 2s}\n");
    reload(3.0);
    daemon.wait_for_event("changes of these keys take effect at the next start", 1);
    assert_eq!(daemon.logged("configuration reloaded").len(), 1, "those before were below the level");
    assert_eq!(daemon.logged("changes of these keys take effect at the next start").len(), 1);
}

const REFUSED: &str =
    "the new address cannot be listened on; it is tried again until it can be, all else is reloaded";

#[test]
fn an_address_that_is_taken_is_tried_again_and_the_reload_has_failed_until_then() {
    let machine = Machine::new();
    machine.configure("web: {address: '127.0.0.1:0'}\n");
    let mut command = machine.gpulet();
    command.arg("run");
    let daemon = common::Daemon::start(command);
    daemon.ready();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let wanted = taken.local_addr().unwrap();
    machine.configure(&format!("web: {{address: '{wanted}'}}\n"));
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for_event(REFUSED, 1);
    let (status, scrape) = daemon.get("/metrics");
    assert_eq!(status, 200, "it is served where it was");
    assert_eq!(value(&scrape, "gpulet_config_last_reload_successful"), Some(0.0));
    assert_eq!(value(&scrape, "gpulet_config_reloads_total{outcome=\"failure\"}"), Some(1.0));
    assert!(daemon.logged("configuration reloaded").is_empty());
    drop(taken);
    daemon.wait_for_event("configuration reloaded", 1);
    assert_eq!(daemon.address(), wanted);
    let (_, scrape) = daemon.get("/metrics");
    assert_eq!(value(&scrape, "gpulet_config_last_reload_successful"), Some(1.0));
}

#[test]
fn a_configuration_that_is_no_plain_file_any_more_disturbs_nothing() {
    let machine = Machine::new();
    let mut daemon = machine.daemon(&[]);
    daemon.ready();
    std::fs::remove_file(machine.config()).unwrap();
    nix::unistd::mkfifo(&machine.config(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    daemon.signal(Signal::SIGHUP);
    let refused = daemon.wait_for_event("configuration not reloaded; the former one stays in force", 1);
    assert!(refused["error"].as_str().unwrap().contains("not a plain file"), "{refused}");
    assert_eq!(daemon.get("/healthz").0, 200);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
}

#[test]
fn an_expected_profile_that_is_no_plain_file_is_a_finding_and_disturbs_nothing() {
    for device in [None, Some("/dev/zero")] {
        let machine = Machine::new();
        let profile = device.map_or_else(|| machine.config().with_file_name("profile.yaml"), Into::into);
        if device.is_none() {
            nix::unistd::mkfifo(&profile, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        machine.configure(&format!("topology: {{expected-profile: {}}}\n", profile.display()));
        let mut daemon = machine.daemon(&[]);
        daemon.ready();
        let finding = daemon.wait_for_event("topology finding", 1);
        assert_eq!(finding["reason"], "ProfileUnreadable", "{finding}");
        assert!(finding["evidence"].as_str().unwrap().contains("not a plain file"), "{finding}");
        assert_eq!(daemon.get("/healthz").0, 200);
        daemon.signal(Signal::SIGTERM);
        assert_eq!(daemon.ended().code(), Some(0));
    }
}

#[test]
fn those_who_ask_nothing_do_not_keep_off_those_who_ask() {
    let machine = Machine::new();
    let daemon = machine.daemon(&[]);
    daemon.ready();
    let socket = machine.state_dir().join("control.sock");
    let connect = || std::os::unix::net::UnixStream::connect(&socket);
    let mut idle = vec![wait_until("the control socket", || connect().ok())];
    let begun = Instant::now();
    idle.extend((1..7).map(|_| connect().unwrap()));
    let output = machine.gpulet().arg("resume").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // One after the other, the idle ones have two seconds each.
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
}

#[test]
fn hangup_moves_it_to_another_address() {
    let machine = Machine::new();
    machine.configure("web: {address: '127.0.0.1:0'}\n");
    let mut command = machine.gpulet();
    command.arg("run");
    let daemon = common::Daemon::start(command);
    daemon.ready();
    let before = daemon.address();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    machine.configure(&format!("web: {{address: '{}'}}\n", taken.local_addr().unwrap()));
    daemon.signal(Signal::SIGHUP);
    let refused = daemon.wait_for_event(REFUSED, 1);
    assert_eq!(refused["still"], before.to_string());
    daemon.ready();
    machine.configure("web: {address: '127.0.0.2:0'}\n");
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for_event("listening", 2);
    assert_eq!(daemon.address().ip().to_string(), "127.0.0.2");
    daemon.ready();
    wait_until("the address before is closed", || {
        std::net::TcpStream::connect(before).is_err().then_some(())
    });
}

#[test]
fn flags_go_before_the_environment_and_that_before_the_file() {
    let machine = Machine::new();
    machine.configure("web: {address: '127.0.0.2:0'}\n");
    let listens_on = |environment: Option<&str>, flag: Option<&str>| {
        let mut command = machine.gpulet();
        command.arg("run").envs(environment.map(|address| ("GPULET_LISTEN", address)));
        command.args(flag.into_iter().flat_map(|address| ["--listen", address]));
        common::Daemon::start(command).address().ip().to_string()
    };
    assert_eq!(listens_on(None, None), "127.0.0.2");
    assert_eq!(listens_on(Some("127.0.0.3:0"), None), "127.0.0.3");
    assert_eq!(listens_on(Some("127.0.0.3:0"), Some("127.0.0.4:0")), "127.0.0.4");
}

#[test]
fn quiesce_and_resume_reach_the_daemon() {
    let machine = Machine::new();
    let daemon = machine.daemon(&[]);
    daemon.ready();
    wait_until("the control socket", || machine.state_dir().join("control.sock").exists().then_some(()));
    let output = machine.gpulet().args(["quiesce", "--deadline", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    daemon.scrape_until("the driver is let go of", |scrape| {
        scrape.contains("gpulet_nvml_up{reason=\"Quiesced\"} 0\n")
    });
    let output = machine.gpulet().arg("resume").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    daemon
        .scrape_until("it is looked for again", |scrape| scrape.contains("reason=\"LibraryNotFound\"} 0\n"));
}

#[test]
fn killed_and_started_again_it_takes_the_place_of_the_former() {
    let machine = Machine::new();
    let mut daemon = machine.daemon(&[]);
    daemon.ready();
    let socket = machine.state_dir().join("control.sock");
    wait_until("the control socket", || socket.exists().then_some(()));
    daemon.signal(Signal::SIGKILL);
    daemon.ended();
    assert!(socket.exists(), "a killed daemon cannot clean up");
    let again = machine.daemon(&[]);
    again.ready();
    wait_until("the new daemon answers", || {
        machine.gpulet().arg("resume").output().unwrap().status.success().then_some(())
    });
}

#[test]
fn the_service_manager_is_told() {
    let machine = Machine::new();
    let path = machine.state_dir().with_file_name("notify.sock");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let next = || {
        let mut buffer = [0; 4096];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let wait_for = |word: &str| while !next().lines().any(|line| line == word) {};
    let mut command = machine.gpulet();
    command
        .args(["run", "--listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "350000");
    let mut daemon = common::Daemon::start(command);
    let mut seen = Vec::new();
    while !(seen.iter().any(|line| line == "READY=1") && seen.iter().any(|line| line == "WATCHDOG=1")) {
        seen.extend(next().lines().map(str::to_owned));
    }
    wait_for("WATCHDOG=1");
    // 100 ms between ticks and 300 ms for a call that hangs are as much as the watchdog of 350 ms does not allow.
    daemon.wait_for_event(
        "the service manager's watchdog (WatchdogSec=) is shorter than sampling.interval and sampling.deadline \
         together: it will end a daemon that works",
        1,
    );
    daemon.signal(Signal::SIGHUP);
    let reloading = loop {
        let message = next();
        if message.contains("RELOADING=1") {
            break message;
        }
    };
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    wait_for("READY=1");
    daemon.signal(Signal::SIGTERM);
    wait_for("STOPPING=1");
    assert_eq!(daemon.ended().code(), Some(0));
}
