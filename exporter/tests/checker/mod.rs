//! A strict reader of both formats, written from their rules and not from the encoder.
//!
//! Stricter than Prometheus: it wants families whole and once, help before type before samples, the same labels on
//! each series of a family, finite values and no timestamps.

use std::collections::BTreeSet;

use gpulet_exporter::Format;

/// One series of a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: f64,
}

impl Series {
    /// The value of a label; empty where it is absent, as in a query.
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(label, _)| label == name).map_or("", |(_, value)| value)
    }
}

/// Reads a document or says what is wrong with it.
pub(crate) fn read(document: &[u8], format: Format) -> Result<Vec<Series>, String> {
    let text = std::str::from_utf8(document).map_err(|error| error.to_string())?;
    let text = text.strip_suffix('\n').ok_or("no newline at the end")?;
    let mut lines: Vec<&str> = text.split('\n').collect();
    if format == Format::OpenMetrics100 && lines.pop() != Some("# EOF") {
        return Err("no # EOF at the end".into());
    }
    let mut reader = Reader { format, ..Reader::default() };
    for line in lines {
        reader.line(line).map_err(|error| format!("{error}: {line}"))?;
    }
    reader.end_family()?;
    Ok(reader.series)
}

struct Reader {
    format: Format,
    families: BTreeSet<String>,
    identities: BTreeSet<String>,
    head: Head,
    series: Vec<Series>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            format: Format::Text004,
            families: BTreeSet::new(),
            identities: BTreeSet::new(),
            head: Head::default(),
            series: Vec::new(),
        }
    }
}

#[derive(Default)]
struct Head {
    name: String,
    kind: Option<String>,
    unit: Option<String>,
    labels: Option<Vec<String>>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        match line.strip_prefix("# ") {
            Some(comment) => self.comment(comment),
            None => self.sample(line),
        }
    }

    fn comment(&mut self, comment: &str) -> Result<(), String> {
        let mut words = comment.splitn(3, ' ');
        let (Some(word), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else {
            return Err("a comment that is no head".into());
        };
        if word == "HELP" {
            self.end_family()?;
            if !self.families.insert(name.to_owned()) {
                return Err("a family for the second time".into());
            }
            self.head = Head { name: name.to_owned(), ..Head::default() };
            return if rest.is_empty() { Err("no help".into()) } else { Ok(()) };
        }
        if name != self.head.name || self.head.labels.is_some() {
            return Err("a head line out of its place".into());
        }
        let kinds: &[&str] = match self.format {
            Format::Text004 => &["gauge", "counter"],
            Format::OpenMetrics100 => &["gauge", "counter", "info"],
        };
        match word {
            "TYPE" if self.head.kind.is_none() && kinds.contains(&rest) => {
                self.head.kind = Some(rest.to_owned())
            }
            "UNIT" if self.format == Format::OpenMetrics100 && name.ends_with(&format!("_{rest}")) => {
                self.head.unit = Some(rest.to_owned());
            }
            _ => return Err("a head line that should not be".into()),
        }
        Ok(())
    }

    fn end_family(&mut self) -> Result<(), String> {
        let head = std::mem::take(&mut self.head);
        if !head.name.is_empty() && head.labels.is_none() {
            return Err(format!("{} has no series", head.name));
        }
        Ok(())
    }

    fn sample(&mut self, line: &str) -> Result<(), String> {
        let name_end = line.find(['{', ' ']).ok_or("neither labels nor value")?;
        let (name, rest) = line.split_at(name_end);
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (Vec::new(), rest),
        };
        let value = value.strip_prefix(' ').ok_or("no space before the value")?;
        let value = number(value)?;
        self.belongs(name, &labels, value)?;
        let names: Vec<String> = labels.iter().map(|(label, _)| label.clone()).collect();
        let unique: BTreeSet<&String> = names.iter().collect();
        if unique.len() != names.len() {
            return Err("a label twice".into());
        }
        if self.head.labels.get_or_insert_with(|| names.clone()) != &names {
            return Err("other labels than the series before".into());
        }
        if !self.identities.insert(format!("{name} {labels:?}")) {
            return Err("a series for the second time".into());
        }
        self.series.push(Series { name: name.to_owned(), labels, value });
        Ok(())
    }

    fn belongs(&self, name: &str, labels: &[(String, String)], value: f64) -> Result<(), String> {
        let kind = self.head.kind.as_deref().ok_or("a sample without a type")?;
        let suffix = match (self.format, kind) {
            (Format::OpenMetrics100, "counter") => "_total",
            (Format::OpenMetrics100, "info") => "_info",
            _ => "",
        };
        if name != format!("{}{suffix}", self.head.name) || !is_name(name) {
            return Err("a sample of another family".into());
        }
        if (kind == "counter") != name.ends_with("_total") || (kind == "counter" && value < 0.0) {
            return Err("a counter that is none, or the reverse".into());
        }
        if name.ends_with("_info") && (value - 1.0).abs() > 0.0 {
            return Err("an info that is not 1".into());
        }
        if labels.iter().any(|(label, _)| !is_name(label) || label.contains(':') || label.starts_with("__")) {
            return Err("a label with a wrong name".into());
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn number(text: &str) -> Result<f64, String> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.e".contains(&b));
    let value: f64 = text.parse().map_err(|_| "a value that is no number")?;
    if plain && value.is_finite() { Ok(value) } else { Err("a value that is no plain number".into()) }
}

type Labels = Vec<(String, String)>;

/// Reads labels from after the opening brace; returns them and what follows the closing one.
fn labels(mut rest: &str) -> Result<(Labels, &str), String> {
    let mut labels = Vec::new();
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label without a value")?;
        let (value, after) = quoted(after)?;
        labels.push((name.to_owned(), value));
        match (after.strip_prefix(','), after.strip_prefix('}')) {
            (Some(after), _) => rest = after,
            (_, Some(after)) => return Ok((labels, after)),
            _ => return Err("labels without an end".into()),
        }
    }
}

/// Reads a value from after the opening quote; returns it and what follows the closing one.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '"' => return Ok((value, characters.as_str())),
            '\\' => value.push(match characters.next() {
                Some('n') => '\n',
                Some(escaped @ ('"' | '\\')) => escaped,
                _ => return Err("an unknown escape".into()),
            }),
            plain => value.push(plain),
        }
    }
    Err("a label value without an end".into())
}
