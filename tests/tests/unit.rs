//! The units that are shipped, by systemd's own checks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::Path;
use std::process::{Command, Output};

/// The most that systemd may say of how exposed it is, in tenths: 10 is the safest, 100 has no protection at all.
const EXPOSURE: &str = "35";

/// The units and what they start.
const UNITS: [(&str, &str); 2] = [("gpulet.service", "run"), ("gpulet-partition.service", "apply")];

fn unit(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../systemd/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn systemd_analyze(arguments: &[&str], unit: &Path) -> Output {
    let mut command = Command::new("systemd-analyze");
    command.args(arguments).arg(unit).output().expect("systemd-analyze is installed (package systemd)")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
#[ignore = "needs systemd-analyze"]
fn systemd_has_nothing_to_say_about_them() {
    UNITS.iter().for_each(|(name, command)| systemd_has_nothing_to_say_about(name, command));
}

fn systemd_has_nothing_to_say_about(name: &str, command: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    // The program must be there; it is not installed where it is only built.
    let program = gpulet_tests::gpulet().get_program().to_str().unwrap().to_owned();
    let text = unit(name);
    assert!(text.contains(&format!("ExecStart=/usr/local/bin/gpulet {command}\n")));
    std::fs::write(&path, text.replace("/usr/local/bin/gpulet", &program)).unwrap();
    let verified = systemd_analyze(&["verify", "--man=no"], &path);
    assert!(verified.status.success() && said(&verified).is_empty(), "{}", said(&verified));

    let exposure = format!("--threshold={EXPOSURE}");
    let judged = systemd_analyze(&["security", "--offline=true", "--no-pager", &exposure], &path);
    assert!(judged.status.success(), "{}", said(&judged));

    // The checks do see what is wrong.
    std::fs::write(&path, text.replace("Type=", "Type=no")).unwrap();
    assert!(said(&systemd_analyze(&["verify", "--man=no"], &path)).contains("service type"), "{name}");
}
