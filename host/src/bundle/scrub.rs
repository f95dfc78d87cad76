//! Taking names of people and places out of a bundle.
//!
//! What identifies is found by its form (hardware addresses, GUIDs), by the name of its file (serial numbers) or because
//! it is given (host names). Equal values get equal stand-ins of the same form, numbered in the order of paths, so that
//! nothing can be computed back from them.

use std::collections::BTreeMap;

use super::Bundle;
use crate::recorded::{Entry, Recorded};

/// Files that hold a serial number or another name of one machine or board, whole.
const SERIALS: [&str; 8] = [
    "serial",
    "serial_number",
    "board_serial",
    "chassis_serial",
    "product_serial",
    "product_uuid",
    "machine-id",
    "boot_id",
];

/// Hexadecimal digits of an Ethernet address. A GUID has 16, an InfiniBand address 40.
const ADDRESS_DIGITS: usize = 12;

#[derive(Debug, Default)]
struct Scrubber {
    /// Stand-ins by what they stand for.
    known: BTreeMap<String, u64>,
    host_names: Vec<String>,
}

pub(super) fn scrubbed(bundle: &Bundle, host_names: &[String]) -> Bundle {
    let host_names = host_names.iter().filter(|name| !name.is_empty()).cloned().collect();
    let mut scrubber = Scrubber { host_names, ..Scrubber::default() };
    let host: Recorded = bundle
        .host
        .iter()
        .map(|(path, entry)| (scrubber.addresses(path), scrubber.entry(path, entry)))
        .collect();
    let attachments = bundle.attachments.iter();
    let attachments = attachments.map(|(name, bytes)| (name.clone(), scrubber.bytes(bytes, true))).collect();
    Bundle { host, attachments }
}

impl Scrubber {
    fn entry(&mut self, path: &str, entry: &Entry) -> Entry {
        let name = path.rsplit('/').next().unwrap_or(path);
        match entry {
            Entry::Directory | Entry::Unread => entry.clone(),
            Entry::Link(target) => Entry::Link(self.addresses(target)),
            Entry::File(bytes) if SERIALS.contains(&name) => {
                let number = self.number(String::from_utf8_lossy(bytes).trim());
                Entry::File(format!("stand-in-{number}\n").into())
            }
            Entry::File(bytes) => Entry::File(self.bytes(bytes, !path.starts_with("sys/"))),
        }
    }

    /// What is no text (configuration space) holds no names.
    fn bytes(&mut self, bytes: &[u8], with_host_names: bool) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
        let text = self.addresses(text);
        let text = if with_host_names { self.without_host_names(&text) } else { text };
        text.into_bytes()
    }

    /// Replaces each run of hexadecimal digits and colons that is an address, and each of digits that is one in the name
    /// of a device.
    fn addresses(&mut self, text: &str) -> String {
        let mut scrubbed = String::with_capacity(text.len());
        let mut rest = text;
        let is_part = |c: char| c.is_ascii_hexdigit() || c == ':';
        while let Some(start) = rest.find(is_part) {
            let (before, from) = rest.split_at(start);
            let (run, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
            scrubbed.push_str(before);
            let ahead_of_run = text.get(..text.len() - from.len()).unwrap_or_default();
            // A colon around an address is the sentence's.
            let address = run.trim_matches(':');
            let (ahead, behind) = run.split_once(address).unwrap_or_default();
            let stand_in = match names_address(ahead_of_run)
                && address.len() >= ADDRESS_DIGITS
                && !address.contains(':')
            {
                true => Some(self.digits(&address.to_ascii_lowercase())),
                false => self.address(address),
            };
            scrubbed.extend([ahead, stand_in.as_deref().unwrap_or(address), behind]);
            rest = after;
        }
        scrubbed.push_str(rest);
        scrubbed
    }

    /// The stand-in of a hardware address (six groups of two, or more for InfiniBand) or a GUID or GID (four or eight
    /// groups of four). A PCI address has neither form.
    fn address(&mut self, run: &str) -> Option<String> {
        let groups: Vec<&str> = run.split(':').collect();
        let width = groups.first()?.len();
        let of_one_width = groups.iter().all(|group| group.len() == width);
        let is_address = of_one_width && matches!((width, groups.len()), (2, 6..=20) | (4, 4 | 8));
        if !is_address {
            return None;
        }
        let whole = groups.concat().to_ascii_lowercase();
        let digits = self.digits(&whole);
        // The stand-in has the form of what it stands for.
        let group = |(index, _): (usize, &&str)| digits.get(index * width..(index + 1) * width);
        Some(groups.iter().enumerate().filter_map(group).collect::<Vec<_>>().join(":"))
    }

    /// A stand-in of as many digits as `whole` has.
    fn digits(&mut self, whole: &str) -> String {
        // 00:00:… and ff:ff:… are the same everywhere and name nobody.
        if ['0', 'f'].iter().any(|same| whole.chars().all(|digit| digit == *same)) {
            return whole.to_owned();
        }
        let stand_in = format!("02{:010x}", self.number(whole));
        format!("{stand_in:0>width$}", width = whole.len())
    }

    fn number(&mut self, whole: &str) -> u64 {
        let next = self.known.len() as u64 + 1;
        *self.known.entry(whole.to_owned()).or_insert(next)
    }

    fn without_host_names(&self, text: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let mut scrubbed = text.to_owned();
        for (index, name) in self.host_names.iter().enumerate() {
            let mut kept = String::with_capacity(scrubbed.len());
            let mut rest = scrubbed.as_str();
            while let Some(at) = rest.find(name.as_str()) {
                let (before, from) = rest.split_at(at);
                let (found, after) = from.split_at(name.len());
                let alone = !before.ends_with(is_word) && !after.starts_with(is_word);
                kept.push_str(before);
                if alone && !(before.is_empty() && kept.ends_with(is_word)) {
                    kept.push_str(&format!("host-{}", index + 1));
                } else {
                    kept.push_str(found);
                }
                rest = after;
            }
            kept.push_str(rest);
            scrubbed = kept;
        }
        scrubbed
    }
}

/// Whether what follows is the address in a device's name, as in `enx0a1b2c3d4e5f` (systemd, by the hardware address) and
/// `rocex0a1b2c0003d4e5f6` (rdma-core, by the GUID): letters and an `x`.
fn names_address(before: &str) -> bool {
    before.strip_suffix('x').is_some_and(|prefix| prefix.ends_with(|c: char| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_found_by_their_form() {
        let mut scrubber = Scrubber::default();
        for (text, expected) in [
            ("506b:4b03:00a1:b2c3\n", "0000:0200:0000:0001\n"),
            (
                "link/ether 50:6B:4b:a1:b2:c3 brd ff:ff:ff:ff:ff:ff",
                "link/ether 02:00:00:00:00:02 brd ff:ff:ff:ff:ff:ff",
            ),
            ("again 50:6b:4b:a1:b2:c3.", "again 02:00:00:00:00:02."),
            (":50:6b:4b:a1:b2:c3: up", ":02:00:00:00:00:02: up"),
            ("rocex506B4b0300a1b2c3", "rocex0000020000000001"),
            ("INTERFACE=ibx506b4b0300a1b2c3\n", "INTERFACE=ibx0000020000000001\n"),
            ("../iwx506b4ba1b2c3: up", "../iwx020000000002: up"),
            (
                "\"opax506b4b0300a1b2c3\",unkxffffffffffffffff",
                "\"opax0000020000000001\",unkxffffffffffffffff",
            ),
            ("0x506b4b0300a1b2c3 x506b4b0300a1b2c3 mlx5_0", "0x506b4b0300a1b2c3 x506b4b0300a1b2c3 mlx5_0"),
            ("0000:0000:0000:0000", "0000:0000:0000:0000"),
            (
                "0000:1b:00.0 and 10000:e1:00.0 and pci0000:17",
                "0000:1b:00.0 and 10000:e1:00.0 and pci0000:17",
            ),
            ("12:34:56 on day 2024:01", "12:34:56 on day 2024:01"),
            ("Speed: 0-3,8 at 2.5 GT/s", "Speed: 0-3,8 at 2.5 GT/s"),
        ] {
            assert_eq!(scrubber.addresses(text), expected);
        }
        let path = scrubber.addresses("sys/devices/pci0000:00/0000:00:03.0/net/enx506b4ba1b2c3");
        assert_eq!(path, "sys/devices/pci0000:00/0000:00:03.0/net/enx020000000002", "the same one as before");
    }

    #[test]
    fn host_names_go_as_whole_words() {
        let scrubber =
            Scrubber { host_names: vec!["gpu7".into(), "gpu7.example".into()], ..Scrubber::default() };
        for (text, expected) in [
            ("on gpu7, not gpu70 or my-gpu7", "on host-1, not gpu70 or my-gpu7"),
            ("gpu7", "host-1"),
            ("gpu7gpu7 gpu7", "gpu7gpu7 host-1"),
        ] {
            assert_eq!(scrubber.without_host_names(text), expected);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_scrubbed(text in "[0-9a-f:]{0,60}|.{0,60}", name in "[a-z0-9.:-]{0,4}") {
            let mut scrubber = Scrubber { host_names: vec![name], ..Scrubber::default() };
            let once = scrubber.addresses(&text);
            prop_assert_eq!(once.chars().count(), text.chars().count());
            scrubber.host_names.retain(|name| !name.is_empty());
            let _ = (scrubber.without_host_names(&text), scrubber.addresses(&text));
        }

        #[test]
        fn no_address_survives(address in proptest::array::uniform6(1u8..0xff)) {
            let mut scrubber = Scrubber::default();
            let text = address.map(|byte| format!("{byte:02x}")).join(":");
            prop_assert_eq!(scrubber.addresses(&format!("a {text} z")), "a 02:00:00:00:00:01 z");
        }
    }
}
