//! Tells the program which commit and compiler it was built from.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=GPULET_REVISION");
    let revision =
        std::env::var("GPULET_REVISION").ok().filter(|text| !text.is_empty()).or_else(git_revision);
    println!("cargo:rustc-env=GPULET_BUILD_REVISION={}", revision.unwrap_or_default());
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = output(Command::new(rustc).arg("--version")).unwrap_or_default();
    // `rustc 1.90.0 (1159e78c4 2025-09-14)`
    let version = version.split_ascii_whitespace().nth(1).unwrap_or_default();
    println!("cargo:rustc-env=GPULET_BUILD_RUSTC={version}");
}

/// The commit of the repository that this is the work tree of; a package's source lies in none, or in a foreign one.
fn git_revision() -> Option<String> {
    // As it is when this runs: a compiled build script may be reused for a copy of the tree elsewhere.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")?;
    let workspace = Path::new(&package).parent()?;
    let git = |arguments: &[&str]| output(Command::new("git").arg("-C").arg(workspace).args(arguments));
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != workspace.canonicalize().ok()? {
        return None;
    }
    // The log of HEAD grows with each commit, checkout and reset.
    let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
