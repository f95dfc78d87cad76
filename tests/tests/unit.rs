//! The unit that is shipped, by systemd's own checks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::Path;
use std::process::{Command, Output};

/// The most that systemd may say of how exposed it is, in tenths: 10 is the safest, 100 has no protection at all.
const EXPOSURE: &str = "35";

fn unit() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd/gpulet.service")).unwrap()
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
fn systemd_has_nothing_to_say_about_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gpulet.service");
    // The program must be there; it is not installed where it is only built.
    let program = gpulet_tests::gpulet().get_program().to_str().unwrap().to_owned();
    let text = unit();
    assert!(text.contains("ExecStart=/usr/local/bin/gpulet run"));
    std::fs::write(&path, text.replace("/usr/local/bin/gpulet", &program)).unwrap();
    let verified = systemd_analyze(&["verify", "--man=no"], &path);
    assert!(verified.status.success() && said(&verified).is_empty(), "{}", said(&verified));

    let exposure = format!("--threshold={EXPOSURE}");
    let judged = systemd_analyze(&["security", "--offline=true", "--no-pager", &exposure], &path);
    assert!(judged.status.success(), "{}", said(&judged));

    // The checks do see what is wrong.
    std::fs::write(&path, unit().replace("Type=notify", "Type=notifi").replace("ProtectSystem=strict", ""))
        .unwrap();
    assert!(said(&systemd_analyze(&["verify", "--man=no"], &path)).contains("notifi"));
}
