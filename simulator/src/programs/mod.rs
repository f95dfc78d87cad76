//! Programs of the simulated machine: `nvidia-smi`, `nvidia-ctk` and `systemctl` in its `usr/bin`, which act on the node.
//!
//! They are scripts that call `gpulet-sim`; what they do is in its command line.

mod cdi;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub use cdi::{CdiOptions, Strategy, specification};

/// Programs that come with the driver and the container toolkit.
const OF_THE_DRIVER: [&str; 2] = ["nvidia-smi", "nvidia-ctk"];

/// Programs of every machine.
const OF_THE_MACHINE: [&str; 1] = ["systemctl"];

/// The program behind them.
const PROGRAM: &str = "gpulet-sim";

/// What a script ends with that finds no program: what `nvidia-smi` ends with that finds no library.
const NOT_THERE: u32 = 12;

/// Puts the programs of a node into its host tree.
pub(crate) fn install(dir: &Path, driver: bool) -> io::Result<()> {
    let bin = dir.join("host/usr/bin");
    fs::create_dir_all(&bin)?;
    let behind = program();
    for name in OF_THE_MACHINE {
        write(&bin.join(name), &script(dir, behind.as_deref(), name))?;
    }
    for name in OF_THE_DRIVER {
        match (driver, fs::remove_file(bin.join(name))) {
            (true, _) => write(&bin.join(name), &script(dir, behind.as_deref(), name))?,
            (false, Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            (false, _) => {}
        }
    }
    Ok(())
}

/// Puts a program in place in one step: one that runs cannot be written to.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
    fs::rename(&fresh, path)
}

fn script(dir: &Path, program: Option<&Path>, name: &str) -> String {
    let does = match program {
        Some(program) => {
            format!("exec {} --dir {} host {name} \"$@\"", quoted(program), quoted(dir))
        }
        None => format!(
            "echo '{name}: {PROGRAM} is not built: cargo build -p gpulet-simulator, then serve the node anew' >&2\n\
             exit {NOT_THERE}"
        ),
    };
    format!("#!/bin/sh\n# This node is simulated, and so is its {name}.\n{does}\n")
}

/// The program, where Cargo puts it: beside the one that serves the node, or above tests.
fn program() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let beside = own.parent()?;
    let places = [beside.join(PROGRAM), beside.join("..").join(PROGRAM)];
    places.into_iter().find(|path| path.is_file())?.canonicalize().ok()
}

/// As a shell takes it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
