//! Access control services of a bridge (source: the extended configuration space in its `config`).
//!
//! The capabilities form a list: 16 bits of id, 4 of version, 12 of the next one's offset. Only their headers are read,
//! since each word of this file is an access to the device. Without the right to do so the file ends after 64 bytes.

use crate::reader::Directory;

const CONFIG: &str = "config";

/// Where extended capabilities begin and end.
const FIRST: u32 = 0x100;
const END: u32 = 0x1000;

/// The id of access control services.
const ACS: u32 = 0x000d;

/// The most capabilities that fit.
const MAX_CAPABILITIES: u32 = (END - FIRST) / 8;

/// Bits of the control register: P2P request redirect, P2P completion redirect, upstream forwarding.
const REDIRECTS: u32 = 1 << 2 | 1 << 3 | 1 << 4;

/// Whether the bridge sends peer-to-peer traffic up; absent where it cannot be read or the bridge has no such services.
pub(super) fn redirects(bridge: &Directory<'_>) -> Option<bool> {
    bridge.words(CONFIG, |word| find(bridge, word))
}

fn find(bridge: &Directory<'_>, word: &dyn Fn(u32) -> Option<u32>) -> Option<bool> {
    let mut offset = FIRST;
    for _ in 0..MAX_CAPABILITIES {
        let header = word(offset)?;
        // No capability at all, or a device that does not answer.
        if header == 0 || header == u32::MAX {
            return None;
        }
        if header & 0xffff == ACS {
            // The upper half is the control register.
            return word(offset + 4).map(|registers| registers >> 16 & REDIRECTS != 0);
        }
        // The two lowest bits are reserved.
        match header >> 20 & 0xffc {
            0 => return None,
            next @ FIRST..END => offset = next,
            next => {
                bridge.odd(CONFIG, format!("an extended capability at {next:#x}, below {FIRST:#x}"));
                return None;
            }
        }
    }
    bridge.odd(CONFIG, "the list of extended capabilities does not end");
    None
}

#[cfg(test)]
mod tests {
    use gpulet_inventory::host::Oddity;

    use super::*;
    use crate::reader::Reader;
    use crate::root::Root;

    /// A configuration space with words at these offsets.
    fn read(words: &[(usize, u32)], size: usize) -> (Option<bool>, Vec<Oddity>) {
        let mut config = vec![0; size];
        for (offset, word) in words {
            config[*offset..*offset + 4].copy_from_slice(&word.to_le_bytes());
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(CONFIG), config).unwrap();
        let root = Root::new(directory.path());
        let reader = Reader::new(&root);
        let answer = redirects(&reader.directory("").unwrap());
        (answer, reader.oddities())
    }

    #[test]
    fn it_is_found_behind_other_capabilities() {
        let header = |id: u32, next: u32| id | 1 << 16 | next << 20;
        let first = (0x100, header(1, 0x148));
        for (control, expected) in
            [(0, false), (0b0000_0011, false), (0b0001_1101, true), (0b100, true), (0b1000, true)]
        {
            let acs = [first, (0x148, header(0xd, 0)), (0x14c, control << 16 | 0x5f)];
            assert_eq!(read(&acs, 4096), (Some(expected), vec![]), "{control:#b}");
        }
        assert_eq!(read(&[first, (0x148, header(0x19, 0))], 4096), (None, vec![]), "it has none");
    }

    #[test]
    fn what_cannot_be_read_is_absent() {
        assert_eq!(read(&[], 64), (None, vec![]), "without the right to it");
        assert_eq!(read(&[], 4096), (None, vec![]), "no extended capability");
        assert_eq!(read(&[(0x100, u32::MAX)], 4096), (None, vec![]), "it does not answer");
        assert_eq!(read(&[(0x100, 0x1480_0001)], 0x104), (None, vec![]), "truncated");
    }

    #[test]
    fn a_list_without_end_or_out_of_place_is_odd() {
        let (answer, oddities) = read(&[(0x100, 0x2001_0001), (0x200, 0x1001_0002)], 4096);
        assert_eq!((answer, oddities.len()), (None, 1));
        let (answer, oddities) = read(&[(0x100, 0x0401_0001)], 4096);
        assert_eq!((answer, oddities.len()), (None, 1));
        assert!(oddities[0].problem.contains("0x40"), "{oddities:?}");
    }
}
