//! The sections `labels` and `partition` of the configuration file.

use std::collections::BTreeMap;

use gpulet_inventory::yaml::{self, Section, Value};
use gpulet_partition::protocol::{MIG_CONFIG, WHEN_BUSY, WhenBusy};
use gpulet_partition::reboot::Permission;

use super::file::span;
use super::settings::Partition;

/// The longest value of a label that Kubernetes takes, bytes.
const LONGEST: usize = 63;

/// Labels, as a Node would have them.
pub(super) fn labels(mut section: Section<'_>) -> BTreeMap<String, String> {
    let layout = section.value(MIG_CONFIG, layout);
    let when_busy = section.value(WHEN_BUSY, yaml::parsed::<WhenBusy>);
    section.finish();
    let layout = layout.map(|name| (MIG_CONFIG.to_owned(), name));
    let when_busy = when_busy.map(|word| (WHEN_BUSY.to_owned(), word.to_string()));
    layout.into_iter().chain(when_busy).collect()
}

/// The name of a layout, in what a label can say.
fn layout(value: &Value) -> Result<String, String> {
    let name: String = yaml::parsed(value)?;
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let bytes = name.as_bytes();
    if bytes.len() <= LONGEST && is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_part) {
        return Ok(name);
    }
    let shown: String = name.chars().take(64).collect();
    Err(format!(
        "`{shown}` is no value of a label: up to {LONGEST} of A-Z a-z 0-9 . _ -, a letter or digit first and last; in the \
         name of a layout a `.` stands for a `+`"
    ))
}

pub(super) fn partition(mut section: Section<'_>) -> Partition {
    let default = Partition::default();
    let partition = Partition {
        file: section.value("file", yaml::absolute_path),
        when_busy: section.value("when-busy", yaml::parsed).unwrap_or(default.when_busy),
        reboot: section.value("reboot", permission).unwrap_or(default.reboot),
        drift: section.value("drift", yaml::parsed).unwrap_or(default.drift),
        wait: section.value("wait", span("1s", "168h")).unwrap_or(default.wait),
    };
    section.finish();
    partition
}

fn permission(value: &Value) -> Result<Permission, String> {
    match yaml::parsed::<String>(value)?.as_str() {
        "never" => Ok(Permission::Never),
        "once" => Ok(Permission::Once),
        other => Err(format!("`{}` is not never or once", other.chars().take(64).collect::<String>())),
    }
}
