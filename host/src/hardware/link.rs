//! A function's PCIe link (source: `current_link_*` and `max_link_*` in its directory).

use gpulet_inventory::host::PcieLink;

use crate::reader::Directory;
use crate::text::{Unexpected, number, thousandths};

/// Which end of its link a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The port that it hangs from: how the link runs now is told by what hangs there.
    Upper,
    /// What hangs from a port.
    Lower,
}

/// The link; absent for a function that has none.
pub(super) fn read(function: &Directory<'_>, end: End) -> Option<PcieLink> {
    let runs = end == End::Lower;
    let link = PcieLink {
        speed_mts: runs.then(|| function.read("current_link_speed", speed)?).flatten(),
        width: runs.then(|| function.read("current_link_width", width)?).flatten(),
        max_speed_mts: function.read("max_link_speed", speed).flatten(),
        max_width: function.read("max_link_width", width).flatten(),
    };
    let PcieLink { speed_mts, width, max_speed_mts, max_width } = link;
    [speed_mts, width, max_speed_mts, max_width].iter().any(Option::is_some).then_some(link)
}

/// Megatransfers per second; absent where the kernel does not know. Older kernels leave out `PCIe`.
fn speed(text: &str) -> Result<Option<u32>, Unexpected> {
    if text == "Unknown" || text == "Unknown speed" {
        return Ok(None);
    }
    let speed = thousandths(text, "GT/s").and_then(|speed| u32::try_from(speed).ok());
    speed.map(Some).ok_or_else(|| Unexpected::new(text, "a speed such as 16.0 GT/s PCIe"))
}

/// Lanes; absent where the link is down (0), the device does not answer (63: all ones) or has no link (255).
fn width(text: &str) -> Result<Option<u32>, Unexpected> {
    match number(text)? {
        0 | 63 | 255 => Ok(None),
        lanes @ 1..=32 => Ok(u32::try_from(lanes).ok()),
        _ => Err(Unexpected::new(text, "a number of lanes up to 32")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds() {
        for (text, expected) in [
            ("2.5 GT/s PCIe", Some(2_500)),
            ("5 GT/s", Some(5_000)),
            ("64.0 GT/s PCIe", Some(64_000)),
            ("Unknown", None),
            ("Unknown speed", None),
        ] {
            assert_eq!(speed(text), Ok(expected), "{text}");
        }
        assert!(["", "fast", "5 MT/s", "99999999.0 GT/s"].iter().all(|text| speed(text).is_err()));
    }

    #[test]
    fn widths() {
        for (text, expected) in [("16", Some(16)), ("0", None), ("63", None), ("255", None)] {
            assert_eq!(width(text), Ok(expected), "{text}");
        }
        assert!(["", "33", "-1", "x16"].iter().all(|text| width(text).is_err()));
    }
}
