//! Modules of the kernel that hold GPUs.

use std::convert::Infallible;

use super::Module;
use crate::reader::Reader;
use crate::root::{MAX_FILE_BYTES, Root};

/// Lines such as `nvidia_drm 77824 4 - Live 0x0`: name, size, users, and among them other modules.
pub(super) fn read(root: &Root) -> Vec<Module> {
    let reader = &Reader::new(root);
    let mut bytes = Vec::new();
    if root.fetch("proc/modules", 0, MAX_FILE_BYTES, &mut bytes).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let held = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().filter(|name| *name == "nvidia_drm")?;
        let references: u32 = words.nth(1)?.parse().ok()?;
        let modules = words.next()?.split(',').filter(|name| !name.is_empty() && *name != "-").count();
        let references = references.saturating_sub(u32::try_from(modules).unwrap_or(u32::MAX));
        Some(Module { name: name.to_owned(), references, modeset: modeset(reader, name) })
    });
    held.filter(|module| module.references > 0 || module.modeset).collect()
}

fn modeset(reader: &Reader<'_>, module: &str) -> bool {
    let parameters = reader.directory(&format!("sys/module/{module}/parameters"));
    let value = parameters
        .and_then(|parameters| parameters.read("modeset", |text| Ok::<_, Infallible>(text.to_owned())));
    value.is_some_and(|value| matches!(value.as_str(), "Y" | "1"))
}
