//! CDI specifications of the node, and who makes them.
//!
//! What NVIDIA's toolkit has made is made anew by the toolkit, as it was: by its service where the service writes that file,
//! else by `nvidia-ctk`. What that makes is put in place once it names what there is; until then the old one stays.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::capabilities::Capabilities;
use super::specification::{Specification, Writer, listed};
use super::{ExpectedGpu, Finding};
use crate::program::{Program, ProgramError};
use crate::reader::Reader;
use crate::root::Root;

/// Where runtimes look for specifications.
const DIRECTORIES: [&str; 3] = ["etc/cdi", "var/run/cdi", "run/cdi"];

/// The most files of one directory that are looked at.
const MAX_FILES: usize = 256;

/// The largest that is read, bytes: 56 MIG devices with their mounts are some hundred kilobytes.
const MAX_BYTES: usize = 4 << 20;

/// The toolkit's service, where its units lie, and where it is told to write.
const SERVICE: &str = "nvidia-cdi-refresh.service";
const UNITS: [&str; 4] =
    ["etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];
const SERVICE_SETTINGS: &str = "etc/nvidia-container-toolkit";
const SERVICE_OUTPUT: &str = "/var/run/cdi/nvidia.yaml";

/// The toolkit's program, and where NVIDIA's operator puts it.
const TOOLKIT: &str = "nvidia-ctk";
const OPERATORS_TOOLKIT: &str = "usr/local/nvidia/toolkit/nvidia-ctk";

/// Where a new one lies until it is put in place: runtimes look into no directory below theirs.
const WORKSHOP: &str = ".gpulet";

/// A specification on disk.
#[derive(Debug)]
struct Found {
    /// Its path as the node names it.
    shown: String,
    /// Where it lies.
    real: PathBuf,
}

/// Who is to make one anew, and for what.
#[derive(Debug)]
struct Maker<'a> {
    root: &'a Root,
    expected: &'a [ExpectedGpu],
    capabilities: &'a Capabilities,
    deadline: Duration,
}

/// Looks at every specification, and has those made anew that differ from what there is.
pub(super) fn renew(
    root: &Root,
    expected: &[ExpectedGpu],
    capabilities: &Capabilities,
    deadline: Duration,
) -> Vec<Finding> {
    let maker = Maker { root, expected, capabilities, deadline };
    let findings: Vec<Finding> =
        specifications(root).iter().filter_map(|found| maker.see_to(found)).collect();
    match findings.is_empty() {
        true => vec![Finding::Right(
            "the node has no CDI specification of NVIDIA's devices, so none is made".to_owned(),
        )],
        false => findings,
    }
}

fn specifications(root: &Root) -> Vec<Found> {
    let reader = Reader::new(root);
    let mut found: Vec<Found> = Vec::new();
    for path in DIRECTORIES {
        let Some(directory) = reader.directory(path) else { continue };
        let names = directory.names_up_to(MAX_FILES);
        let is_one = |name: &&String| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end));
        for name in names.iter().filter(is_one) {
            let shown = format!("/{path}/{name}");
            // /var/run is /run on most nodes. A link leads to one that is seen to where it lies.
            let Ok(real) = root.real(Path::new(&shown)) else { continue };
            if found.iter().all(|known| known.real != real) {
                found.push(Found { shown, real });
            }
        }
    }
    found
}

impl Maker<'_> {
    /// What is found of one; absent if it is none of NVIDIA's.
    fn see_to(&self, found: &Found) -> Option<Finding> {
        let Found { shown, real } = found;
        let specification = match self.read(real) {
            Ok(Some(specification)) => specification,
            Ok(None) => return None,
            Err(problem) => {
                let message =
                    format!("{shown} cannot be understood: {problem}; remove it, or have it made anew");
                let is_about_nvidia = shown.contains("nvidia");
                return is_about_nvidia.then_some(Finding::Wrong { reason: "CdiUnreadable", message });
            }
        };
        let differences = specification.differences(self.expected, self.capabilities);
        if differences.is_empty() {
            return Some(Finding::Right(format!("{shown} agrees with what there is")));
        }
        let stale = format!("{shown} {}", listed(&differences));
        Some(match specification.writer() {
            Writer::Toolkit | Writer::ToolkitInPart | Writer::ToolkitForManagers => {
                self.renew(found, &specification, &stale)
            }
            Writer::DevicePlugin => Finding::Others(format!(
                "{stale}; NVIDIA's device plugin writes it anew when its Pod is started again"
            )),
            Writer::Other => Finding::Others(format!("{stale}; whoever wrote it has to write it anew")),
        })
    }

    /// Absent if it is none of NVIDIA's.
    fn read(&self, real: &Path) -> Result<Option<Specification>, String> {
        let below =
            real.strip_prefix(self.root.path()).ok().and_then(Path::to_str).ok_or("its path is no text")?;
        let mut bytes = Vec::new();
        self.root.fetch(below, 0, MAX_BYTES + 1, &mut bytes).map_err(|error| error.to_string())?;
        if bytes.len() > MAX_BYTES {
            return Err(format!("it is larger than {MAX_BYTES} bytes"));
        }
        let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        let specification = Specification::parse(&text)?;
        Ok(specification.is_nvidias().then_some(specification))
    }

    fn renew(&self, found: &Found, old: &Specification, stale: &str) -> Finding {
        let by = match self.is_of_service(found) && old.writer() == Writer::Toolkit {
            true => self.by_service().map(|()| SERVICE),
            false => self.by_toolkit(found, old).map(|()| TOOLKIT),
        };
        let by = match by {
            Ok(by) => by,
            Err(problem) => return wrong(stale, &problem),
        };
        match self
            .read(&found.real)
            .map(|new| new.map(|new| new.differences(self.expected, self.capabilities)))
        {
            Ok(Some(differences)) if differences.is_empty() => {
                Finding::Mended(format!("{}: made anew by {by}, and agrees with what there is", found.shown))
            }
            Ok(Some(differences)) => {
                wrong(stale, &format!("{by} made it anew, and it still {}", listed(&differences)))
            }
            Ok(None) => wrong(stale, &format!("{by} made it anew, and it is about other devices now")),
            Err(problem) => {
                wrong(stale, &format!("{by} made it anew, and it cannot be understood: {problem}"))
            }
        }
    }

    /// Whether the toolkit's service is there and writes this file.
    fn is_of_service(&self, found: &Found) -> bool {
        let real = |path: &str| self.root.real(Path::new(path)).ok();
        let is_there =
            UNITS.iter().any(|units| real(&format!("{units}/{SERVICE}")).is_some_and(|unit| unit.is_file()));
        let reader = Reader::new(self.root);
        let settings = reader.directory(SERVICE_SETTINGS);
        let told = settings.and_then(|settings| {
            settings.read("cdi-refresh.env", |text| {
                let mut lines = text.lines().filter_map(|line| line.trim().split_once('='));
                let output = lines.rfind(|(key, _)| *key == "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH");
                Ok::<_, std::convert::Infallible>(
                    output.map(|(_, path)| path.trim_matches(['"', '\'']).to_owned()),
                )
            })
        });
        let output = told.flatten().unwrap_or_else(|| SERVICE_OUTPUT.to_owned());
        is_there && real(&output).as_ref() == Some(&found.real)
    }

    /// Comes back when the service has ended.
    fn by_service(&self) -> Result<(), String> {
        let program = Program::find(self.root, "systemctl").map_err(|error| chain(&error))?;
        program.run(&["restart", SERVICE], self.deadline).map(drop).map_err(|error| chain(&error))
    }

    fn by_toolkit(&self, found: &Found, old: &Specification) -> Result<(), String> {
        let program = match Program::find(self.root, TOOLKIT) {
            Ok(program) => program,
            Err(error) => Program::at(self.root, OPERATORS_TOOLKIT).ok_or_else(|| chain(&error))?,
        };
        let directory = found.real.parent().ok_or("it is in no directory")?;
        let workshop = directory.join(WORKSHOP);
        let failed = |error: io::Error| format!("{} cannot be written to: {error}", directory.display());
        let made = emptied(&workshop)
            .and_then(|()| fs::create_dir(&workshop))
            .map_err(failed)
            .and_then(|()| self.made(&program, &workshop, found, old));
        let _ = emptied(&workshop);
        made
    }

    /// Has new ones made beside the old ones, and puts them in place if they agree with what there is. Where some of the
    /// devices have files of their own, the toolkit makes all files at once.
    fn made(
        &self,
        program: &Program,
        workshop: &Path,
        found: &Found,
        old: &Specification,
    ) -> Result<(), String> {
        let name = found.real.file_name().and_then(|name| name.to_str()).ok_or("its name is no text")?;
        let new = workshop.join(whole(name, old));
        let output = format!("--output={}", program.sees(&new).display());
        let mut arguments = vec!["cdi".to_owned(), "generate".to_owned(), output];
        arguments.extend(old.options());
        program.run(&arguments, self.deadline).map_err(|error| chain(&error))?;
        let specification = match self.read(&new) {
            Ok(Some(specification)) => specification,
            Ok(None) => {
                return Err(format!("what {TOOLKIT} makes is about other devices; the old one was left"));
            }
            Err(problem) => {
                return Err(format!(
                    "what {TOOLKIT} makes cannot be understood ({problem}); the old one was left"
                ));
            }
        };
        let differences = specification.differences(self.expected, self.capabilities);
        if !differences.is_empty() {
            return Err(format!("what {TOOLKIT} makes {} too; the old one was left", listed(&differences)));
        }
        let directory = workshop.parent().unwrap_or(workshop);
        placed(workshop, directory)
            .map_err(|error| format!("{} cannot be written to: {error}", directory.display()))
    }
}

/// The name of the file with all devices, beside which the file of some of them is.
fn whole(name: &str, old: &Specification) -> String {
    let (_, class) = old.vendor_and_class();
    match class.split_once('.') {
        Some((_, part)) => name.replacen(&format!(".{part}"), "", 1),
        None => name.to_owned(),
    }
}

/// Moves all files into place, down to the disk.
fn placed(workshop: &Path, directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(workshop)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.sync_all()?;
            fs::rename(entry.path(), directory.join(entry.file_name()))?;
        }
    }
    File::open(directory)?.sync_all()
}

/// Removes a directory, or what is in its place; none is fine.
fn emptied(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn wrong(stale: &str, problem: &str) -> Finding {
    let message = format!("{stale}. Containers that ask for these devices by CDI do not start. {problem}");
    Finding::Wrong { reason: "CdiStale", message }
}

fn chain(error: &ProgramError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}
