//! How many devices a topology has room for.

use gpulet_inventory::host::Oddity;

/// More than any machine has. Every two devices are a pair, so without an end a machine that shows thousands of
/// functions, or a record that claims them, would cost minutes and gigabytes.
const MOST_DEVICES: usize = 256;

/// What is left of the room, and what did not fit.
pub(super) struct Room {
    left: usize,
    refused: usize,
}

impl Room {
    pub(super) fn new() -> Self {
        Self { left: MOST_DEVICES, refused: 0 }
    }

    /// Those of the devices that fit: the first ones.
    pub(super) fn keep<T>(&mut self, mut devices: Vec<T>) -> Vec<T> {
        let all = devices.len();
        devices.truncate(self.left);
        self.left -= devices.len();
        self.refused += all - devices.len();
        devices
    }

    /// What is to be told, where something did not fit.
    pub(super) fn oddity(&self) -> Option<Oddity> {
        (self.refused > 0).then(|| Oddity {
            path: "sys/bus/pci/devices".to_owned(),
            problem: format!(
                "{} GPUs, NICs and NVSwitches are listed by kernel and driver, more than {MOST_DEVICES}; the last {} \
                 are left out",
                MOST_DEVICES + self.refused,
                self.refused
            ),
        })
    }
}
