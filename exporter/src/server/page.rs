//! A page for people: where everything is, and the GPUs in a table.

use std::fmt::{self, Display, Write};

use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::Sample;
use gpulet_inventory::snapshot::{Condition, Driver, GpuState, NodeGpus, Snapshot, UnlistedGpu};
use gpulet_inventory::topology::{Finding, Severity};

use crate::own::Own;

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>gpulet</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse }
th, td { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid #ddd }
td.n { text-align: right; font-variant-numeric: tabular-nums }
.down { color: #b00020; font-weight: 600 }
img { max-width: 100%; margin: 1em 0 }
dd { margin: 0 0 .6em 1.5em }
:root { color-scheme: light dark }
@media (prefers-color-scheme: dark) {
  body { color: #e6eaf0; background: #11151b }
  th, td { border-color: #39424f }
  .down { color: #ff7b72 }
}
code { font-family: ui-monospace, monospace }
</style>
</head>
<body>
<h1>gpulet</h1>
";

const LINKS: &str = "<ul>
<li><a href=\"/metrics\">/metrics</a>: for Prometheus</li>
<li><a href=\"/topology\">/topology</a>: the node as JSON; <a href=\"/topology.svg\">/topology.svg</a>: the topology as a picture</li>
<li><a href=\"/healthz\">/healthz</a>, <a href=\"/readyz\">/readyz</a>: the agent's own health</li>
</ul>
</body>
</html>
";

/// The whole page.
pub(super) fn html(snapshot: Option<&Snapshot>, own: &Own) -> String {
    let mut page = String::from(HEAD);
    // Writing to a `String` cannot fail.
    let _ = body(&mut page, snapshot, own);
    page.push_str(LINKS);
    page
}

fn body(page: &mut String, snapshot: Option<&Snapshot>, own: &Own) -> fmt::Result {
    writeln!(page, "<p>Version {} {}</p>", Escaped(&own.build.version), Escaped(&own.build.revision))?;
    let Some(snapshot) = snapshot else {
        return writeln!(page, "<p class=\"down\">No snapshot of the node has been taken yet.</p>");
    };
    match &snapshot.gpus.value.driver {
        Driver::Up(driver) => writeln!(
            page,
            "<p>Driver {}, NVML {}, CUDA {}</p>",
            Escaped(&driver.driver_version),
            Escaped(&driver.nvml_version),
            Escaped(driver.cuda_version.as_deref().unwrap_or("unknown")),
        )?,
        Driver::Down(down) => writeln!(
            page,
            "<p class=\"down\">The driver is down ({}): {}</p>\n<p>{}</p>",
            Escaped(down.reason),
            Escaped(&down.message),
            Escaped(&down.remedy),
        )?,
    }
    gpus(page, &snapshot.gpus.value)?;
    findings(page, &snapshot.topology.value.findings)?;
    writeln!(page, "<p><img src=\"/topology.svg\" alt=\"The topology as a picture\"></p>")
}

fn gpus(page: &mut String, node: &NodeGpus) -> fmt::Result {
    if node.gpus.is_empty() && node.unlisted.is_empty() {
        return writeln!(page, "<p>No GPU.</p>");
    }
    page.push_str(
        "<table>\n<tr><th>GPU</th><th>model</th><th>address</th><th>state</th><th>busy</th><th>memory</th>\
         <th>power</th><th>temperature</th><th>processes</th></tr>\n",
    );
    node.gpus.iter().try_for_each(|state| row(page, state))?;
    node.unlisted.iter().try_for_each(|gpu| unlisted(page, gpu))?;
    page.push_str("</table>\n");
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
            "<dt{class}>{}: {}</dt>\n<dd>{}.<br>{}.</dd>",
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
    writeln!(
        page,
        "<tr><td>{}</td><td></td><td><code>{address}</code></td><td class=\"down\" colspan=\"6\">{}</td></tr>",
        gpu.index,
        gpu.reason.reason(),
    )
}

fn row(page: &mut String, state: &GpuState) -> fmt::Result {
    let gpu = &state.gpu;
    let model = gpu.name.value().map_or("", String::as_str);
    write!(
        page,
        "<tr><td>{}</td><td title=\"{}\">{}</td>",
        gpu.index,
        Escaped(gpu.uuid.as_str()),
        Escaped(model)
    )?;
    write!(page, "<td><code>{}</code></td>", gpu.pci)?;
    match (state.condition, state.sample.as_deref()) {
        (Condition::Up, Some(sample)) => values(page, sample)?,
        (Condition::Up, None) => page.push_str("<td colspan=\"6\">not read yet</td>"),
        (Condition::Down(reason), _) => {
            write!(page, "<td class=\"down\" colspan=\"6\">{}</td>", Escaped(reason.reason()))?;
        }
    }
    page.push_str("</tr>\n");
    Ok(())
}

fn values(page: &mut String, sample: &Sample) -> fmt::Result {
    page.push_str("<td>up</td>");
    cell(page, &sample.utilization.gpu, |percent| format!("{percent} %"))?;
    cell(page, &sample.memory, |memory| format!("{} of {} MiB", memory.used >> 20, memory.total >> 20))?;
    cell(page, &sample.power.usage, |milliwatts| format!("{} W", milliwatts.div_ceil(1000)))?;
    cell(page, &sample.temperature.gpu, |celsius| format!("{celsius} °C"))?;
    cell(page, &sample.processes, |processes| processes.len().to_string())
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
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(
            Escaped("<a href=\"x\" id='y'>&amp;</a>").to_string(),
            "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;"
        );
    }
}
