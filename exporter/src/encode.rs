//! The text formats that Prometheus reads, streamed into a buffer.
//!
//! Text 0.0.4 names a family by its samples (`…_total`, `…_info`); OpenMetrics 1.0 names it without what the type adds,
//! has a line for the unit and a last line `# EOF`. Everything else is the same in both.

use std::fmt;
use std::io::Write;

use gpulet_inventory::snapshot::Snapshot;

use crate::catalogue::{self, Absence, Family, GPU_LABELS, GpuName, Kind, Label, Sink, Value};
use crate::own::Own;

/// A format of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Prometheus text format 0.0.4.
    Text004,
    /// OpenMetrics 1.0.
    OpenMetrics100,
}

impl Format {
    /// The value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text004 => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics100 => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes every series of `snapshot` and `own` to the end of `out`. Allocates nothing once `out` has grown.
pub fn render(snapshot: &Snapshot, own: &Own, format: Format, out: &mut Vec<u8>) {
    let mut encoder = Encoder { out, format, family: None, begun: false };
    catalogue::walk(snapshot, Some(own), &mut encoder);
    if format == Format::OpenMetrics100 {
        encoder.put("# EOF\n");
    }
}

struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    format: Format,
    family: Option<&'static Family>,
    /// Whether the family's head is written; a family without series has none.
    begun: bool,
}

impl Sink for Encoder<'_> {
    fn begin(&mut self, family: &'static Family) {
        self.family = Some(family);
        self.begun = false;
    }

    fn point(&mut self, gpu: Option<GpuName<'_>>, labels: &[Label<'_>], value: Value) {
        let Some(family) = self.family else { return };
        if matches!(value, Value::Float(number) if !number.is_finite()) {
            return;
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.head(family);
        }
        series(self.out, family, gpu, labels);
        self.put(" ");
        number(self.out, value);
        self.put("\n");
    }

    fn missing(&mut self, _: Option<GpuName<'_>>, _: &[Label<'_>], _: Absence<'_>) {}
}

impl Encoder<'_> {
    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// The lines before a family's first series.
    fn head(&mut self, family: &Family) {
        let (suffix, kind) = match (self.format, family.kind) {
            (Format::Text004, Kind::Info) => (family.kind.suffix(), "gauge"),
            (Format::OpenMetrics100, Kind::Info) => ("", "info"),
            (_, Kind::Gauge) => ("", "gauge"),
            (Format::Text004, Kind::Counter) => (family.kind.suffix(), "counter"),
            (Format::OpenMetrics100, Kind::Counter) => ("", "counter"),
        };
        self.head_line("HELP", family, suffix, family.help);
        self.head_line("TYPE", family, suffix, kind);
        if let (Format::OpenMetrics100, Some(unit)) = (self.format, family.unit) {
            self.head_line("UNIT", family, suffix, unit);
        }
    }

    fn head_line(&mut self, word: &str, family: &Family, suffix: &str, rest: &str) {
        for part in ["# ", word, " ", family.name, suffix, " ", rest, "\n"] {
            self.put(part);
        }
    }
}

/// Writes a series' name and labels, as they are in both formats.
pub(crate) fn series(out: &mut Vec<u8>, family: &Family, gpu: Option<GpuName<'_>>, labels: &[Label<'_>]) {
    out.extend_from_slice(family.name.as_bytes());
    out.extend_from_slice(family.kind.suffix().as_bytes());
    let mut before = b'{';
    if let Some(gpu) = gpu {
        let [index, uuid] = GPU_LABELS;
        label(out, &mut before, index, Label::Number(gpu.index.into()));
        label(out, &mut before, uuid, Label::Text(gpu.uuid));
    }
    for (name, value) in family.labels.iter().zip(labels) {
        label(out, &mut before, name.name, *value);
    }
    if before == b',' {
        out.push(b'}');
    }
}

fn label(out: &mut Vec<u8>, before: &mut u8, name: &str, value: Label<'_>) {
    out.push(std::mem::replace(before, b','));
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    match value {
        Label::Text(text) => escape(out, text),
        Label::Number(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        Label::Pci(address) => print(out, format_args!("{address}")),
        Label::NvLinkVersion(version) => print(out, format_args!("{version}")),
        Label::Version(major, minor) => print(out, format_args!("{major}.{minor}")),
    }
    out.push(b'"');
}

fn print(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    // A `Vec` takes whatever is written, so there is no error to tell anyone.
    let _ = out.write_fmt(text);
}

/// Quotes, backslashes and newlines by a backslash. Other control characters have no escape in either format and
/// some readers stop at them (Prometheus at a NUL), so each becomes the replacement character.
fn escape(out: &mut Vec<u8>, text: &str) {
    let special = |b: u8| b == b'"' || b == b'\\' || b < 0x20 || b == 0x7f;
    // Almost always there is none, and a pass without a way out is one that the compiler can do in wide steps.
    if !text.bytes().fold(false, |found, b| found | special(b)) {
        return out.extend_from_slice(text.as_bytes());
    }
    let mut rest = text;
    while let Some(at) = rest.bytes().position(special) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let mut characters = special.chars();
        out.extend_from_slice(match characters.next() {
            Some('"') => b"\\\"",
            Some('\\') => b"\\\\",
            Some('\n') => b"\\n",
            _ => "\u{fffd}".as_bytes(),
        });
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

/// The shortest text that reads back as the same number; whole numbers without a fraction.
fn number(out: &mut Vec<u8>, value: Value) {
    const EXACT: f64 = (1_u64 << 53) as f64;
    match value {
        Value::Integer(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        Value::Float(number) if number.fract() == 0.0 && (0.0..EXACT).contains(&number) => {
            out.extend_from_slice(itoa::Buffer::new().format(number as u64).as_bytes());
        }
        Value::Float(number) => out.extend_from_slice(zmij::Buffer::new().format(number).as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = Vec::new();
        escape(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    fn printed(value: f64) -> String {
        let mut out = Vec::new();
        number(&mut out, Value::Float(value));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escaped(r#"a "quoted" \ one"#), r#"a \"quoted\" \\ one"#);
        assert_eq!(escaped("two\nlines\r\0é"), "two\\nlines\u{fffd}\u{fffd}é");
        assert_eq!(escaped(""), "");
    }

    #[test]
    fn numbers_are_short_and_exact() {
        for (value, text) in
            [(0.0, "0"), (0.37, "0.37"), (1.0, "1"), (1_980_000_000.0, "1980000000"), (701.5, "701.5")]
        {
            assert_eq!(printed(value), text);
        }
        assert_eq!(printed(-0.5), "-0.5");
    }

    proptest! {
        #[test]
        fn numbers_read_back_as_they_were(value in proptest::num::f64::NORMAL | proptest::num::f64::ZERO) {
            prop_assert_eq!(printed(value).parse::<f64>().unwrap(), value);
        }

        #[test]
        fn escaping_leaves_no_way_out_of_the_quotes(text in any::<String>()) {
            let escaped = escaped(&text);
            prop_assert!(!escaped.contains(|c: char| c.is_ascii_control()));
            let mut characters = escaped.chars();
            while let Some(c) = characters.next() {
                prop_assert_ne!(c, '"');
                if c == '\\' {
                    prop_assert!(matches!(characters.next(), Some('"' | '\\' | 'n')));
                }
            }
        }
    }
}
