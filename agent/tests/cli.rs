//! The command line: what it prints, what it refuses, and its exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod common;

use std::net::TcpListener;

use common::{Machine, gpulet, run, stderr, stdout};

#[test]
fn help_and_version_are_no_errors() {
    for arguments in [&["--help"][..], &["run", "--help"], &["-h"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0));
        let text = stdout(&output);
        for part in ["Usage:", "--config", "GPULET_HOST_ROOT", "--nvml-library"] {
            assert!(text.contains(part), "{arguments:?} lacks {part}: {text}");
        }
    }
    let version = stdout(&run(&["--version"]));
    assert!(version.starts_with(&format!("gpulet {} (revision ", env!("CARGO_PKG_VERSION"))), "{version}");
}

#[test]
fn a_command_line_that_is_wrong_exits_64() {
    for arguments in [
        &[][..],
        &["dance"],
        &["run", "--listen", "nowhere"],
        &["run", "--node-name", "No_Name"],
        &["run", "--log-level", "loud"],
        &["quiesce", "--deadline", "soon"],
        &["completions", "cmd.exe"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", stderr(&output));
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_wrong_environment_variable_is_named() {
    let output = gpulet().env("GPULET_LISTEN", "nowhere").arg("run").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(
        stderr(&output).contains("nowhere") && stderr(&output).contains("--listen"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn all_errors_of_the_configuration_are_told_with_their_lines() {
    let machine = Machine::new();
    machine.configure("sampling:\n  interval: fast\nweb:\n  address: 1.2.3\n  colour: red\nplugins: 1\n");
    for command in ["run", "metrics"] {
        let output = machine.gpulet().arg(command).output().unwrap();
        assert_eq!(output.status.code(), Some(64));
        let text = stderr(&output);
        assert!(text.contains("4 errors"), "{text}");
        let at = |line: u32| format!("{}:{line}: ", machine.config().display());
        for (line, part) in [(2, "sampling.interval"), (4, "web.address"), (5, "web.colour"), (6, "plugins")]
        {
            let told = text.lines().find(|told| told.contains(&at(line))).unwrap();
            assert!(told.contains(part), "{told}");
        }
    }
}

#[test]
fn a_configuration_file_that_is_named_must_exist() {
    let output = run(&["--config", "/nonexistent/gpulet.yaml", "run"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("/nonexistent/gpulet.yaml"), "{}", stderr(&output));
}

#[test]
fn a_configuration_that_cannot_be_read_whole_is_refused_at_once() {
    let machine = Machine::new();
    let pipe = machine.state_dir().with_file_name("pipe.yaml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let large = machine.state_dir().with_file_name("large.yaml");
    std::fs::write(&large, vec![b'#'; (1 << 20) + 1]).unwrap();
    for (path, part) in [
        (pipe.as_path(), "not a plain file"),
        (std::path::Path::new("/dev/zero"), "not a plain file"),
        (large.as_path(), "larger than 1048576 bytes"),
    ] {
        let output =
            gpulet().arg("--config").arg(path).args(["run", "--listen", "127.0.0.1:0"]).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(64), "{text}");
        assert!(text.contains(part) && text.contains(path.to_str().unwrap()), "{text}");
    }
}

#[test]
fn of_very_many_errors_some_are_told() {
    let machine = Machine::new();
    let text: String = (0..60_000).map(|number| format!("key-{number}: 1\n")).collect();
    machine.configure(&text);
    let output = machine.gpulet().args(["run", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let text = stderr(&output);
    assert!(text.contains("60000 errors") && text.contains("and 59950 more"), "{text}");
    assert!(text.len() < 16 * 1024, "{} bytes", text.len());
}

#[test]
fn too_few_files_are_said_to_be_too_few() {
    let machine = Machine::new();
    for command in ["run", "metrics", "resume"] {
        // The shell lowers the limit for the program that takes its place.
        let plain = machine.gpulet();
        let mut limited = std::process::Command::new("sh");
        limited
            .args(["-c", "ulimit -n 6 && exec \"$@\"", "sh"])
            .arg(plain.get_program())
            .args(plain.get_args());
        let output = limited.arg(command).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{command}: {text}");
        assert!(text.contains("ulimit -n") && text.lines().count() == 1, "{command}: {text}");
    }
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let machine = Machine::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = machine.gpulet().args(["run", "--listen", &address]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    for part in [address.as_str(), "another program", "--listen", "web.address"] {
        assert!(text.contains(part), "lacks {part}: {text}");
    }
}

#[test]
fn a_scrape_without_driver_says_so() {
    let machine = Machine::new();
    let output = machine.gpulet().arg("metrics").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let scrape = stdout(&output);
    assert!(scrape.contains("gpulet_nvml_up{reason=\"LibraryNotFound\"} 0\n"), "{scrape}");
    assert!(scrape.contains("# TYPE gpulet_nvml_up gauge\n"), "{scrape}");
    assert!(scrape.contains("process_resident_memory_bytes "), "{scrape}");
    assert!(!scrape.contains("# missing"));
}

#[test]
fn explanations_are_comments() {
    let machine = Machine::new();
    let output = machine.gpulet().args(["metrics", "--explain"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let scrape = stdout(&output);
    assert!(scrape.lines().any(|line| line.starts_with("# missing: ")), "{scrape}");
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let value = line.rsplit(' ').next().unwrap();
        assert!(value.parse::<f64>().is_ok(), "not a sample: {line}");
    }
}

#[test]
fn a_library_that_is_named_and_missing_is_named_in_the_log() {
    let machine = Machine::new();
    let output = machine
        .gpulet()
        .args(["--nvml-library", "/nonexistent/libnvidia-ml.so.1", "metrics"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("gpulet_nvml_up{reason=\"LibraryNotFound\"} 0\n"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn completions_and_manual_come_from_the_definitions() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        let text = stdout(&output);
        assert!(text.contains("quiesce") && text.contains("nvml-library"), "{shell}");
    }
    let output = run(&["man"]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    for part in [".TH gpulet", "host\\-root", ".SS \"gpulet quiesce\"", "deadline", "\\fBGPULET_LISTEN\\fR"] {
        assert!(text.contains(part), "lacks {part}");
    }
    let sections: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
    let expected = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "\"GLOBAL OPTIONS\"",
        "COMMANDS",
        "ENVIRONMENT",
        "PRECEDENCE",
        "FILES",
        "SIGNALS",
        "\"EXIT STATUS\"",
        "VERSION",
    ];
    assert_eq!(sections, expected);
    assert!(!text.contains("(1)"), "it refers to another page");
    assert!(!text.contains("simulate\\-node"), "a hidden command is in the manual");
}

#[test]
fn asking_without_daemon_says_how_to_start_one() {
    let machine = Machine::new();
    for command in ["quiesce", "resume"] {
        let output = machine.gpulet().arg(command).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("gpulet run"), "{}", stderr(&output));
    }
}

#[test]
fn a_host_root_that_is_none_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    for command in
        [&["run", "--listen", "127.0.0.1:0"][..], &["topo"], &["metrics"], &["best", "--gpus", "1"]]
    {
        for (root, told) in [
            ("/nonexist", "--host-root /nonexist: no such directory; mount the host's root there"),
            (empty, "neither sys nor proc"),
        ] {
            let output = run(&[&["--host-root", root], command].concat());
            assert_eq!(output.status.code(), Some(64), "{command:?}");
            assert!(stderr(&output).contains(told) && output.stdout.is_empty(), "{}", stderr(&output));
        }
    }
}

#[test]
fn a_count_that_is_none_is_told_what_is_expected() {
    let output = run(&["best", "--gpus", "x"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("expected a whole number of GPUs"), "{}", stderr(&output));
}

#[test]
fn a_variable_left_over_makes_no_call_write_a_file() {
    let machine = Machine::new();
    let file = machine.state_dir().with_file_name("saved.yaml");
    let output = machine.gpulet().env("GPULET_SAVE", &file).arg("topo").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!file.exists());
}

#[test]
#[cfg(feature = "simulator")]
fn the_shipped_nodes_are_listed_in_the_help() {
    let text = stdout(&run(&["simulate", "--help"]));
    for name in gpulet_simulator::node::shipped() {
        assert!(text.contains(&format!("\n  {name}\n")), "lacks {name}: {text}");
    }
}
