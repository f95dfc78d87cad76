//! Reads a partition file: everything that is wrong with it at once.

use std::collections::BTreeMap;

use gpulet_inventory::yaml::{self, Notes, Problems, Section, Spot, Value};

use crate::names::ProfileName;

use super::{Asked, AskedDivision, DeviceFilter, DeviceId, Devices, Entry, PartitionFile, Place, Target};

/// The version of the format.
const VERSION: &str = "v1";
/// More MIG devices of one profile than any node can have.
const MOST: usize = 256;

/// Reads the text of a partition file.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn parse(text: &str) -> Result<PartitionFile, Problems> {
    let document = yaml::document(text)?;
    let notes = Notes::default();
    let top = Spot::top(&document, &notes);
    let is_map = document.value == Value::Null || top.entries().is_some();
    let file = if is_map { file(top.section()) } else { PartitionFile::default() };
    let problems = notes.into_problems();
    if problems.first.is_empty() { Ok(file) } else { Err(problems) }
}

fn file(mut top: Section<'_>) -> PartitionFile {
    match top.spot("version") {
        None => top.incomplete("`version` is missing; write `version: v1`"),
        Some(spot) if *spot.value() == Value::Text(VERSION.to_owned()) => {}
        Some(spot) => spot.wrong(&format!(
            "{} is not a version that is known; write `version: v1`",
            spot.value().describe()
        )),
    }
    let layouts = top.spot("mig-configs");
    let mps = top.spot("mps-configs");
    if layouts.is_none() && mps.is_none() {
        top.incomplete("there is no layout in it; write at least one under `mig-configs`");
    }
    top.finish();
    PartitionFile {
        layouts: layouts.map(|spot| self::layouts(&spot)).unwrap_or_default(),
        mps: mps.filter(|spot| spot.entries().is_some()).map(|spot| spot.node().clone()),
        generated: false,
    }
}

fn layouts(spot: &Spot<'_>) -> BTreeMap<String, Vec<Entry>> {
    let entries = spot.entries().unwrap_or_default();
    if entries.is_empty() && matches!(spot.value(), Value::Map(_)) {
        spot.wrong("it is empty; write at least one layout");
    }
    entries.into_iter().map(|(key, spot)| (key.name.clone(), layout(&spot))).collect()
}

fn layout(spot: &Spot<'_>) -> Vec<Entry> {
    let items = spot.items().unwrap_or_default();
    if items.is_empty() && matches!(spot.value(), Value::List(_)) {
        spot.wrong("it is empty; write at least one entry, such as `- {devices: all, mig-enabled: false}`");
    }
    items.iter().filter_map(entry).collect()
}

fn entry(spot: &Spot<'_>) -> Option<Entry> {
    spot.entries()?;
    let mut section = spot.section();
    let filter = section.spot("device-filter").map(|spot| filter(&spot)).unwrap_or_default();
    let devices = section.spot("devices");
    if devices.is_none() {
        section.incomplete("`devices` is missing; write `devices: all`, or a list of GPUs");
    }
    let devices = devices.and_then(|spot| self::devices(&spot));
    let division = division(&mut section);
    section.finish();
    Some(Entry { place: place(spot), filter, devices: devices?, division: division? })
}

fn place(spot: &Spot<'_>) -> Place {
    Place { line: spot.line(), path: spot.path().to_owned() }
}

/// One model or a list of such; nothing written is no filter.
fn filter(spot: &Spot<'_>) -> Vec<DeviceFilter> {
    match spot.value() {
        Value::Null => Vec::new(),
        Value::Text(text) if text.is_empty() => Vec::new(),
        Value::List(_) => spot.items().unwrap_or_default().iter().filter_map(model).collect(),
        _ => model(spot).into_iter().collect(),
    }
}

fn model(spot: &Spot<'_>) -> Option<DeviceFilter> {
    // Without quotes it is a number.
    let number = |number: &i64| u32::try_from(*number).map(DeviceId).map_err(|_| spot.value().describe());
    let model = match spot.value() {
        Value::Text(text) => text.parse().map_err(|error: super::ParseDeviceFilterError| error.to_string()),
        Value::Integer(value) => number(value)
            .map(|device| DeviceFilter { device, subsystem: None })
            .map_err(|what| format!("{what} names no model; write it like \"0x233010DE\"")),
        other => Err(format!("{} names no model; write it like \"0x233010DE\"", other.describe())),
    };
    spot.noted(model)
}

fn devices(spot: &Spot<'_>) -> Option<Devices> {
    match spot.value() {
        Value::Text(text) if text == "all" => Some(Devices::All),
        Value::List(_) => {
            let items = spot.items()?;
            let targets: Vec<Target> = items.iter().filter_map(device).collect();
            (targets.len() == items.len()).then_some(Devices::These(targets))
        }
        other => {
            spot.wrong(&format!("{} is neither `all` nor a list of GPUs", other.describe()));
            None
        }
    }
}

fn device(spot: &Spot<'_>) -> Option<Target> {
    let target = match spot.value() {
        Value::Integer(index) => u32::try_from(*index)
            .map(Target::Index)
            .map_err(|_| format!("`{index}` is not the index of a GPU")),
        Value::Text(text) => named(text),
        other => Err(format!("{} is no GPU; {EXPECTED}", other.describe())),
    };
    spot.noted(target)
}

const EXPECTED: &str = "expected an index, a GPU-… UUID or a PCI address such as 0000:3b:00.0";

fn named(text: &str) -> Result<Target, String> {
    let short: String = text.chars().take(64).collect();
    if text.starts_with("GPU-") {
        return text.parse().map(Target::Uuid).map_err(|error| format!("{error}"));
    }
    text.parse().map(Target::Pci).map_err(|_| format!("`{short}` is no GPU; {EXPECTED}"))
}

/// A GPU that is named by a text: an index, a UUID or a PCI address.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    let is_index = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let index = is_index.then(|| text.parse().ok()).flatten();
    index.map_or_else(|| named(text), |index| Ok(Target::Index(index)))
}

/// The keys that tell how a GPU is to be divided. Absent where they are wrong, which is noted.
pub(crate) fn division(section: &mut Section<'_>) -> Option<AskedDivision> {
    let enabled = section.spot("mig-enabled");
    if enabled.is_none() {
        section.incomplete("`mig-enabled` is missing; write true or false");
    }
    let enabled = enabled.and_then(|spot| spot.noted(yaml::flag(spot.value())));
    let devices = section.spot("mig-devices").filter(|spot| *spot.value() != Value::Null);
    let asked = devices.as_ref().map(asked);
    match (enabled?, asked) {
        (true, Some(asked)) => asked.map(AskedDivision::On),
        (true, None) => {
            section.incomplete("`mig-devices` is missing; write which, or `mig-devices: {}` for none");
            None
        }
        (false, None) => Some(AskedDivision::Off),
        (false, Some(asked)) => {
            let is_empty = devices.is_some_and(|spot| *spot.value() == Value::Map(Vec::new()));
            if asked.is_some() && !is_empty {
                section.wrong("mig-devices", "must be empty where `mig-enabled` is false");
            }
            is_empty.then_some(AskedDivision::Off)
        }
    }
}

/// How many of which profiles, those of which there are to be none left out. Absent where something is wrong, which is noted.
fn asked(spot: &Spot<'_>) -> Option<Vec<Asked>> {
    let entries = spot.entries()?;
    let all: Vec<Asked> = entries.iter().filter_map(|(key, spot)| profile(&key.name, spot)).collect();
    if all.len() < entries.len() {
        return None;
    }
    if !all.is_empty() && all.iter().all(|asked| asked.count == 0) {
        spot.wrong("all counts are 0; write `{}` for a GPU in MIG mode with nothing on it");
        return None;
    }
    Some(all.into_iter().filter(|asked| asked.count > 0).collect())
}

fn profile(name: &str, spot: &Spot<'_>) -> Option<Asked> {
    let name = spot.noted(name.parse::<ProfileName>().map_err(|error| error.to_string()));
    let count = spot.noted(yaml::count(0, MOST)(spot.value()));
    Some(Asked { place: place(spot), name: name?, count: u32::try_from(count?).ok()? })
}
