//! What a PCI function is, and which driver it has (source: its `uevent`, one file for what stands in four others).
//!
//! Where `uevent` is missing (hand-made trees, bundles of before it was read) or does not tell, the files `class`,
//! `vendor` and `device` and the link `driver` do.

use crate::reader::Directory;
use crate::text::{Unexpected, hexadecimal, id};

/// What a function says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// Base class and subclass.
    pub(super) class: u32,
    pub(super) vendor: u16,
    pub(super) device: u16,
    /// Name of the kernel driver bound to it, as the kernel has it.
    pub(super) driver: Option<String>,
}

/// Reads it; absent where a part is missing or garbage.
pub(super) fn read(function: &Directory<'_>) -> Option<Identity> {
    function.read("uevent", uevent).flatten().or_else(|| files(function))
}

fn files(function: &Directory<'_>) -> Option<Identity> {
    Some(Identity {
        class: function.read("class", hexadecimal)? >> 8,
        vendor: function.read("vendor", id)?,
        device: function.read("device", id)?,
        driver: function.link_name("driver"),
    })
}

/// The lines `DRIVER=nvidia`, `PCI_CLASS=30200` and `PCI_ID=10DE:2330`; absent where one of the latter two is missing.
fn uevent(text: &str) -> Result<Option<Identity>, Unexpected> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let (Some(class), Some(ids)) = (value("PCI_CLASS"), value("PCI_ID")) else { return Ok(None) };
    let number = |digits: &str| hexadecimal(&format!("0x{digits}"));
    let expected = || Unexpected::new(ids, "two numbers such as 10DE:2330");
    let (vendor, device) = ids.split_once(':').ok_or_else(expected)?;
    let id = |digits| number(digits).ok().and_then(|id| u16::try_from(id).ok()).ok_or_else(expected);
    Ok(Some(Identity {
        class: number(class)? >> 8,
        vendor: id(vendor)?,
        device: id(device)?,
        driver: value("DRIVER").map(str::to_owned),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn as_kernels_write_it() {
        let gpu = "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SUBSYS_ID=10DE:16C1\n\
                   PCI_SLOT_NAME=0000:1b:00.0\nMODALIAS=pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00";
        let identity =
            Identity { class: 0x0302, vendor: 0x10de, device: 0x2330, driver: Some("nvidia".to_owned()) };
        assert_eq!(uevent(gpu).unwrap(), Some(identity));
        let unbound = uevent("PCI_CLASS=60000\nPCI_ID=8086:0D57").unwrap().unwrap();
        assert_eq!((unbound.class, unbound.device, unbound.driver), (0x0600, 0x0d57, None));
    }

    #[test]
    fn what_does_not_tell_is_left_to_the_files_and_what_is_wrong_is_refused() {
        for text in ["", "DRIVER=nvidia", "PCI_CLASS=30200", "PCI_ID=10DE:2330"] {
            assert_eq!(uevent(text), Ok(None), "{text}");
        }
        for ids in ["10DE", "10DE:", "110DE:2330", "10DE:2330:1", "+1:2"] {
            assert!(uevent(&format!("PCI_CLASS=30200\nPCI_ID={ids}")).is_err(), "{ids}");
        }
        assert!(uevent("PCI_CLASS=display\nPCI_ID=10DE:2330").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "((DRIVER|PCI_CLASS|PCI_ID)=[0-9A-F:x]{0,9}\n?){0,4}.{0,9}") {
            let _ = uevent(&text);
        }

        #[test]
        fn written_identities_are_read(class in 0..=0x00ff_ffffu32, vendor: u16, device: u16) {
            let read = uevent(&format!("PCI_CLASS={class:04X}\nPCI_ID={vendor:04X}:{device:04X}")).unwrap();
            let expected = Identity { class: class >> 8, vendor, device, driver: None };
            prop_assert_eq!(read, Some(expected));
        }
    }
}
