//! A page for people: where everything is, and the GPUs in a table.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::time::Duration;

use gpulet_inventory::mig::MigState;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::Sample;
use gpulet_inventory::snapshot::{
    Condition, DownReason, Driver, DriverDown, GpuState, NodeGpus, Snapshot, UnlistedGpu,
};
use gpulet_inventory::topology::{Finding, Severity};

use super::About;
use crate::catalogue::events_of;
use crate::own::Own;

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>gpulet</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse }
th, td { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid #ddd }
td.n { white-space: nowrap; text-align: right; font-variant-numeric: tabular-nums }
.down { color: #b00020; font-weight: 600 }
.banner { border-left: .3em solid #c28a00; padding: .3em .8em; background: #fff6dd }
.table { overflow-x: auto }
img { max-width: 100%; margin: 1em 0 }
dd { margin: 0 0 .6em 1.5em }
:root { color-scheme: light dark }
@media (prefers-color-scheme: dark) {
  body { color: #e6eaf0; background: #11151b }
  th, td { border-color: #39424f }
  .down { color: #ff7b72 }
  .banner { background: #2c2410 }
}
code { font-family: ui-monospace, monospace }
</style>
</head>
<body>
";

/// Name and explanation.
const COLUMNS: [(&str, &str); 13] = [
    ("GPU", "the driver's index"),
    ("Model", ""),
    ("PCI address", ""),
    ("State", ""),
    ("Xids", "since gpulet started: code (times)"),
    ("GPU util", "share of time in which a kernel ran"),
    ("Memory", "used of total"),
    ("Power", ""),
    ("Temperature", "of the GPU die"),
    ("Clocks event reasons", "throttle reasons in force; gpu_idle and clocks_setting are no faults"),
    ("ECC uncorrected", "since the driver was loaded"),
    ("MIG", ""),
    ("Processes", ""),
];

/// Columns after that of the Xids: what only a GPU that answers has.
const VALUES: usize = 8;

const LINKS: &str = "<ul>
<li><a href=\"/metrics\">/metrics</a>: for Prometheus</li>
<li><a href=\"/topology\">/topology</a>: the node as JSON; <a href=\"/topology.svg\">/topology.svg</a>: the topology as a picture</li>
<li><a href=\"/plan\">/plan</a>: what would change to divide the GPUs as declared, as JSON</li>
<li><a href=\"/healthz\">/healthz</a>, <a href=\"/readyz\">/readyz</a>: the agent's own health</li>
</ul>
</body>
</html>
";

/// The whole page.
pub(super) fn html(snapshot: Option<&Snapshot>, own: &Own, about: &About) -> String {
    let mut page = String::from(HEAD);
    // Writing to a `String` cannot fail.
    let _ = body(&mut page, snapshot, own, about);
    page.push_str(LINKS);
    page
}

fn body(page: &mut String, snapshot: Option<&Snapshot>, own: &Own, about: &About) -> fmt::Result {
    writeln!(page, "<h1>{}</h1>", Escaped(about.node.as_deref().unwrap_or("gpulet")))?;
    if let Some(simulated) = &about.simulated {
        writeln!(page, "<p class=\"banner\">{}</p>", Escaped(simulated))?;
    }
    let version = Escaped(&own.build.version);
    let Some(snapshot) = snapshot else {
        writeln!(page, "<p>gpulet {version} {}</p>", Escaped(&own.build.revision))?;
        return writeln!(page, "<p class=\"down\">No snapshot of the node has been taken yet.</p>");
    };
    let (time, revision) = (TimeOfDay(snapshot.taken_unix), Escaped(&own.build.revision));
    writeln!(page, "<p>As of {time} UTC. gpulet {version} {revision}</p>")?;
    driver(page, &snapshot.gpus.value.driver)?;
    gpus(page, &snapshot.gpus.value)?;
    findings(page, &snapshot.topology.value.findings)?;
    writeln!(page, "<p><img src=\"/topology.svg\" alt=\"The topology as a picture\"></p>")
}

fn driver(page: &mut String, driver: &Driver) -> fmt::Result {
    match driver {
        Driver::Up(driver) => writeln!(
            page,
            "<p>Driver {}, NVML {}, CUDA {}</p>",
            Escaped(&driver.driver_version),
            Escaped(&driver.nvml_version),
            Escaped(driver.cuda_version.as_deref().unwrap_or("unknown")),
        ),
        Driver::Down(down) if down.reason == DriverDown::QUIESCED => writeln!(
            page,
            "<p class=\"banner\">Paused by <code>gpulet quiesce</code>. To continue: <code>gpulet resume</code>.</p>",
        ),
        Driver::Down(down) => writeln!(
            page,
            "<p class=\"down\">The driver is down ({}): {}</p>\n<p>Remedy: {}</p>",
            Escaped(down.reason),
            Escaped(&down.message),
            Escaped(&down.remedy),
        ),
    }
}

fn gpus(page: &mut String, node: &NodeGpus) -> fmt::Result {
    if node.gpus.is_empty() && node.unlisted.is_empty() {
        return writeln!(page, "<p>No GPU.</p>");
    }
    page.push_str("<div class=\"table\"><table>\n<tr>");
    COLUMNS.iter().try_for_each(|(name, tip)| match *tip {
        "" => write!(page, "<th>{name}</th>"),
        tip => write!(page, "<th title=\"{tip}\">{name}</th>"),
    })?;
    page.push_str("</tr>\n");
    node.gpus.iter().try_for_each(|state| row(page, node, state))?;
    node.unlisted.iter().try_for_each(|gpu| unlisted(page, gpu))?;
    page.push_str("</table></div>\n");
    Ok(())
}

/// What is wrong with the topology, each with its evidence and remedy.
fn findings(page: &mut String, findings: &[Finding]) -> fmt::Result {
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(page, "<h2>Findings</h2>\n<dl>")?;
    for finding in findings {
        let class = if finding.severity == Severity::Fault { " class=\"down\"" } else { "" };
        writeln!(
            page,
            "<dt{class}>{}: {}</dt>\n<dd>Seen: {}.<br>Remedy: {}.</dd>",
            Escaped(&finding.subject),
            Escaped(finding.reason.as_str()),
            Escaped(&finding.evidence),
            Escaped(&finding.remedy),
        )?;
    }
    writeln!(page, "</dl>")
}

/// A GPU that has not said which it is.
fn unlisted(page: &mut String, gpu: &UnlistedGpu) -> fmt::Result {
    let address = gpu.pci.map(|pci| pci.to_string()).unwrap_or_default();
    write!(page, "<tr><td>{}</td><td></td><td><code>{address}</code></td>", gpu.index)?;
    state_cell(page, gpu.reason.reason(), gpu.reason)?;
    page.push_str("<td class=\"n\">-</td>");
    silence(page, gpu.reason)?;
    page.push_str("</tr>\n");
    Ok(())
}

fn row(page: &mut String, node: &NodeGpus, state: &GpuState) -> fmt::Result {
    let gpu = &state.gpu;
    let model = gpu.name.value().map_or("", String::as_str);
    write!(
        page,
        "<tr><td>{}</td><td title=\"{}\">{}</td><td><code>{}</code></td>",
        gpu.index,
        Escaped(gpu.uuid.as_str()),
        Escaped(model),
        gpu.pci
    )?;
    match state.condition {
        Condition::Up => page.push_str("<td>up</td>"),
        Condition::Down(down) => {
            state_cell(page, node.down_reason(state.condition).unwrap_or_default(), down)?;
        }
    }
    cell(page, &state.xids, xids)?;
    match (state.condition, state.sample.as_deref()) {
        (Condition::Up, Some(sample)) => values(page, sample)?,
        (Condition::Up, None) => write!(page, "<td colspan=\"{VALUES}\">not read yet</td>")?,
        (Condition::Down(down), _) => silence(page, down)?,
    }
    page.push_str("</tr>\n");
    Ok(())
}

/// Why a GPU does not answer. What the driver is the reason of stands above the table, and is no fault of the GPU.
fn state_cell(page: &mut String, word: &str, down: DownReason) -> fmt::Result {
    let class = if down == DownReason::DriverDown { "" } else { " class=\"down\"" };
    write!(page, "<td{class}>{}</td>", Escaped(word))
}

/// What a GPU that does not answer did instead.
fn silence(page: &mut String, down: DownReason) -> fmt::Result {
    let text = match down {
        DownReason::Unresponsive { call, since } => {
            format!("{call} has not returned for {:.0} s", since.as_secs_f64())
        }
        DownReason::Lost(answer) | DownReason::ResetRequired(answer) | DownReason::Failed(answer) => {
            answer.to_string()
        }
        DownReason::DriverDown => String::new(),
    };
    write!(page, "<td colspan=\"{VALUES}\">{}</td>", Escaped(&text))
}

fn values(page: &mut String, sample: &Sample) -> fmt::Result {
    cell(page, &sample.utilization.gpu, |percent| format!("{percent} %"))?;
    cell(page, &sample.memory, |memory| format!("{} of {} MiB", memory.used >> 20, memory.total >> 20))?;
    cell(page, &sample.power.usage, |milliwatts| format!("{} W", milliwatts.div_ceil(1000)))?;
    cell(page, &sample.temperature.gpu, |celsius| format!("{celsius} °C"))?;
    cell(page, &sample.clock.event_reasons, events)?;
    cell(page, &sample.ecc.volatile_uncorrected, u64::to_string)?;
    cell(page, &sample.mig, mig)?;
    cell(page, &sample.processes, |processes| processes.len().to_string())
}

/// How often each code came: `79 (1), 13 (2)`.
fn xids(counts: &BTreeMap<u32, u64>) -> String {
    let came: Vec<String> = counts
        .iter()
        .filter(|(_, times)| **times > 0)
        .map(|(code, times)| format!("{code} ({times})"))
        .collect();
    if came.is_empty() { "none".to_owned() } else { came.join(", ") }
}

fn events(bits: &u64) -> String {
    let words: Vec<&str> = events_of(*bits).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn mig(mig: &MigState) -> String {
    let mut text = match (mig.mode.current, mig.instances.value()) {
        (false, _) => "off".to_owned(),
        (true, Some(instances)) => format!("on, {} instances", instances.len()),
        (true, None) => "on".to_owned(),
    };
    match (mig.mode.current, mig.mode.pending) {
        (false, true) => text.push_str("; on after reset"),
        (true, false) => text.push_str("; off after reset"),
        _ => {}
    }
    text
}

/// The time of day on the wall clock, UTC.
struct TimeOfDay(Duration);

impl Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        write!(f, "{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
    }
}

fn cell<T>(page: &mut String, reading: &Reading<T>, show: impl FnOnce(&T) -> String) -> fmt::Result {
    match reading.value() {
        Some(value) => write!(page, "<td class=\"n\">{}</td>", Escaped(&show(value))),
        None => write!(page, "<td class=\"n\">-</td>"),
    }
}

/// Text that is only text, in an element and in a quoted attribute.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            plain => f.write_char(plain),
        })
    }
}

#[cfg(test)]
mod tests {
    use gpulet_inventory::mig::MigMode;

    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(
            Escaped("<a href=\"x\" id='y'>&amp;</a>").to_string(),
            "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;"
        );
    }

    #[test]
    fn the_time_is_that_of_the_day() {
        assert_eq!(TimeOfDay(Duration::from_millis(1_700_000_000_250)).to_string(), "22:13:20");
        assert_eq!(TimeOfDay(Duration::from_secs(86_400 * 365)).to_string(), "00:00:00");
    }

    #[test]
    fn mig_is_told_with_what_a_reset_will_change() {
        let state = |current, pending| MigState {
            mode: MigMode { current, pending },
            profiles: Reading::Supported(Vec::new()),
            instances: Reading::Supported(Vec::new()),
        };
        assert_eq!(mig(&state(false, false)), "off");
        assert_eq!(mig(&state(true, true)), "on, 0 instances");
        assert_eq!(mig(&state(false, true)), "off; on after reset");
        assert_eq!(mig(&state(true, false)), "on, 0 instances; off after reset");
    }

    #[test]
    fn xids_are_told_by_code() {
        assert_eq!(xids(&BTreeMap::from([(13, 2), (48, 0), (79, 1)])), "13 (2), 79 (1)");
        assert_eq!(xids(&BTreeMap::new()), "none");
    }
}
