//! What the Node annotation `gpulet.dev/mig-config` says of single GPUs, in place of what the layout says of them.
//!
//! ```json
//! {"0": {"mig-enabled": true, "mig-devices": {"1g.10gb": 7}}, "0000:3b:00.0": {"mig-enabled": false}}
//! ```

use gpulet_inventory::yaml::{self, Notes, Problems, Spot, Value};

use crate::file::{AskedDivision, Devices, Entry, Place, division, target};
use crate::protocol::OVERRIDES;

/// What is said of single GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// An entry for each GPU that is named.
    pub entries: Vec<Entry>,
}

impl Overrides {
    /// Reads the annotation's value; empty, it says nothing.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Problems> {
        let document = yaml::document(text)?;
        let notes = Notes::default();
        let top = Spot::top(&document, &notes);
        let entries = match top.value() {
            Value::Null => Vec::new(),
            _ => top.entries().unwrap_or_default(),
        };
        let entries = entries.iter().filter_map(|(key, spot)| entry(&key.name, spot)).collect();
        let problems = notes.into_problems();
        if problems.first.is_empty() { Ok(Self { entries }) } else { Err(problems) }
    }
}

fn entry(name: &str, spot: &Spot<'_>) -> Option<Entry> {
    let target = spot.noted(target(name));
    spot.entries()?;
    let mut section = spot.section();
    let division = division(&mut section);
    section.finish();
    let mut division = division?;
    // Its lines are no one's: it is written without any.
    let place = |path: &str| Place { line: 0, path: format!("annotation {OVERRIDES}: {path}") };
    if let AskedDivision::On(asked) = &mut division {
        asked.iter_mut().for_each(|asked| asked.place = place(&asked.place.path));
    }
    Some(Entry {
        place: place(spot.path()),
        filter: Vec::new(),
        devices: Devices::These(vec![target?]),
        division,
    })
}

#[cfg(test)]
mod tests;
