//! Words for people, shared by table, pictures and reasons.

use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::snapshot::DownReason;
use gpulet_inventory::topology::{PlacedGpu, PlacedNic, SlotLink, Topology};

/// Names are cut to this many characters; the driver's are shorter (`NVML_DEVICE_NAME_V2_BUFFER_SIZE`, 96 bytes).
const LONGEST_NAME: usize = 96;

/// A text without control characters, which could do anything to a terminal; one that comes from sysfs or a bundle may
/// hold any.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(visible_character).collect()
}

/// A character, or U+FFFD in place of a control character.
pub(crate) fn visible_character(character: char) -> char {
    if character.is_control() { char::REPLACEMENT_CHARACTER } else { character }
}

/// A name for people: [`visible`], and of a length that a line or a box can hold.
pub(crate) fn name(text: &str) -> String {
    cut(&visible(text), LONGEST_NAME)
}

/// The text, cut to a number of characters.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// `GPU0, GPU2 and GPU3`.
pub(crate) fn list(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let words: Vec<_> = words.into_iter().collect();
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        match at {
            0 => {}
            _ if at + 1 == words.len() => text.push_str(" and "),
            _ => text.push_str(", "),
        }
        text.push_str(word.as_ref());
    }
    text
}

/// Labels of GPUs, as a list.
pub(crate) fn gpus(topology: &Topology, gpus: &[usize]) -> String {
    list(gpus.iter().filter_map(|gpu| topology.gpus.get(*gpu)).map(|gpu| &gpu.label))
}

/// The PCIe generation of a speed in megatransfers per second; absent for speeds that are none.
pub(crate) fn generation(speed_mts: u32) -> Option<u32> {
    match speed_mts {
        2_500 => Some(1),
        5_000 => Some(2),
        8_000 => Some(3),
        16_000 => Some(4),
        32_000 => Some(5),
        64_000 => Some(6),
        128_000 => Some(7),
        _ => None,
    }
}

/// `Gen5 (32 GT/s)`.
pub(crate) fn speed(speed_mts: u32) -> String {
    let transfers = match speed_mts % 1000 {
        0 => format!("{} GT/s", speed_mts / 1000),
        rest => format!("{}.{} GT/s", speed_mts / 1000, rest / 100),
    };
    match generation(speed_mts) {
        Some(generation) => format!("Gen{generation} ({transfers})"),
        None => transfers,
    }
}

/// `x16`, or `x8 of x16` where lanes are missing.
pub(crate) fn width(link: &SlotLink) -> Option<String> {
    let now = link.width?;
    Some(match link.possible_width {
        Some(possible) if now < possible => format!("x{now} of x{possible}"),
        _ => format!("x{now}"),
    })
}

/// The fastest port's rate: `400G`.
pub(crate) fn rate(nic: &PlacedNic) -> Option<String> {
    let fastest = nic.ports.iter().filter_map(|port| port.rate_mbps).max().filter(|rate| *rate > 0)?;
    Some(match fastest {
        rate if rate % 1000 == 0 => format!("{}G", rate / 1000),
        rate if rate > 1000 => format!("{:.1}G", rate as f64 / 1000.0),
        rate => format!("{rate}M"),
    })
}

/// `NUMA node 1`, or that it is unknown.
pub(crate) fn numa_node(node: Option<NumaNodeId>) -> String {
    node.map_or_else(|| "NUMA node unknown".to_owned(), |node| format!("NUMA node {node}"))
}

/// Why a GPU does not answer, where the matter is the GPU and not the driver, which is down for all of them.
pub(crate) fn fault(gpu: &PlacedGpu) -> Option<&'static str> {
    gpu.down.filter(|reason| *reason != DownReason::DriverDown.reason())
}
