//! `gpulet topo`: where everything sits, and what is wrong with that.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::path::Path;

use gpulet_inventory::snapshot::Driver;
use gpulet_inventory::topology::{Finding, NodeTopology, Severity};

use super::{CommandError, look_under, nrt, print};
use crate::cli::{Global, TopologyForm};
use crate::config::Source;
use crate::profile;

/// Prints the node's topology, and keeps it in the file `save` as what is expected.
pub(super) fn topo(
    global: &Global,
    source: &Source,
    form: TopologyForm,
    save: Option<&Path>,
    why: bool,
) -> Result<(), CommandError> {
    if why && form != TopologyForm::Nrt {
        return Err(CommandError::Usage(
            "--why tells about the NodeResourceTopology object; it goes with -o nrt",
        ));
    }
    let (settings, seen) = look_under(global, source)?;
    // What is about to be kept is not held against what was kept before.
    let expected = settings.topology.expected_profile.clone().filter(|_| save.is_none());
    let topology = seen.topology(expected.as_deref());
    let text = match form {
        TopologyForm::Table => table(&topology, &seen.driver.gpus.driver),
        TopologyForm::Json => json(&topology)?,
        TopologyForm::Dot => gpulet_topology::dot(&topology.model),
        TopologyForm::Svg => gpulet_topology::svg(&topology.model),
        TopologyForm::Nrt => nrt::text(global, &settings, &seen, &topology.model, why)?,
    };
    print(text.as_bytes())?;
    if let Some(path) = save {
        profile::save(path, &topology.model)?;
        if let Driver::Down(down) = &seen.driver.gpus.driver {
            eprintln!(
                "gpulet: the driver is down ({}), so the profile expects no NVLinks and knows no product names",
                down.reason
            );
        }
    }
    Ok(())
}

fn json(topology: &NodeTopology) -> Result<String, CommandError> {
    let text = serde_json::to_string_pretty(topology);
    text.map(|text| text + "\n").map_err(|error| CommandError::Output(error.into()))
}

/// The matrix with its legend, then what is wrong.
fn table(topology: &NodeTopology, driver: &Driver) -> String {
    let mut text = gpulet_topology::table(&topology.model);
    if let Driver::Down(down) = driver {
        let _ = writeln!(
            text,
            "\nThe driver is down ({}), so this is the kernel's view alone: {}; {}",
            down.reason, down.message, down.remedy
        );
    }
    if !topology.findings.is_empty() {
        text.push_str("\nFindings:\n\n");
    }
    let colour =
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    for finding in &topology.findings {
        add(finding, colour, &mut text);
    }
    text
}

fn add(finding: &Finding, colour: bool, text: &mut String) {
    let word = match finding.severity {
        Severity::Fault => "fault",
        Severity::Note => "note",
    };
    let (before, after) = match (colour, finding.severity) {
        (false, _) => ("", ""),
        (true, Severity::Fault) => ("\x1b[1;31m", "\x1b[0m"),
        (true, Severity::Note) => ("\x1b[1m", "\x1b[0m"),
    };
    let (subject, reason) = (&finding.subject, finding.reason.as_str());
    let _ = writeln!(text, "  {before}{subject}: {reason}{after} ({word})");
    let _ = writeln!(text, "    seen:   {}", finding.evidence);
    let _ = writeln!(text, "    remedy: {}", finding.remedy);
}

#[cfg(test)]
mod tests {
    use gpulet_inventory::topology::FindingReason;

    use super::*;

    #[test]
    fn faults_are_red_on_a_terminal_only() {
        let finding = Finding {
            reason: FindingReason::NvlinkDegraded,
            severity: Severity::Fault,
            subject: "GPU3".into(),
            evidence: "17 NVLinks are up, expected are 18".into(),
            remedy: "look for Xid 74".into(),
        };
        let text = |colour| {
            let mut text = String::new();
            add(&finding, colour, &mut text);
            text
        };
        assert!(
            text(false).starts_with("  GPU3: NvlinkDegraded (fault)\n    seen:   17 NVLinks"),
            "{}",
            text(false)
        );
        assert!(
            text(true).starts_with("  \x1b[1;31mGPU3: NvlinkDegraded\x1b[0m (fault)\n"),
            "{}",
            text(true)
        );
    }
}
