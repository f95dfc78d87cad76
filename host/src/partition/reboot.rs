//! The reboot of the node, and how it is known that there was one.
//!
//! Whether it may be is decided in [`gpulet_partition::reboot`].

use std::time::Duration;

use crate::program::{Program, ProgramError};
use crate::reader::Reader;
use crate::root::Root;
use crate::text::Unexpected;

/// How long systemd may take to say that it is going to.
const DEADLINE: Duration = Duration::from_secs(30);

/// Why the node is not rebooted, or it is not known which boot this is.
#[derive(Debug, thiserror::Error)]
pub enum RebootError {
    /// The kernel's name for this boot is not to be had.
    #[error("/proc/sys/kernel/random/boot_id cannot be read below the host's root; is /proc mounted there?")]
    NoBootId,
    /// systemd was not told, or refused.
    #[error("the node cannot be rebooted from here; reboot it by hand")]
    Refused {
        /// Why.
        #[source]
        source: ProgramError,
    },
}

impl RebootError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoBootId => "BootIdUnknown",
            Self::Refused { .. } => "RebootRefused",
        }
    }
}

/// The kernel's name for this boot, a UUID.
///
/// # Errors
/// If it cannot be read: then nothing may be rebooted, for it could not be told whether it has been.
pub fn boot_id(root: &Root) -> Result<String, RebootError> {
    let reader = Reader::new(root);
    let directory = reader.directory("proc/sys/kernel/random").ok_or(RebootError::NoBootId)?;
    let id = directory.read("boot_id", |text| match is_uuid(text) {
        true => Ok(text.to_owned()),
        false => Err(Unexpected::new(text, "the name of a boot, a UUID")),
    });
    id.ok_or(RebootError::NoBootId)
}

fn is_uuid(text: &str) -> bool {
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    text.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && text.split('-').all(digits)
}

/// Tells systemd to reboot the node. It stops all services first, this one too: it comes back from here before that.
///
/// # Errors
/// If there is no systemd, or it refuses.
pub fn reboot(root: &Root) -> Result<(), RebootError> {
    let program = Program::find(root, "systemctl").map_err(|source| RebootError::Refused { source })?;
    program
        .run(&["reboot", "--no-block"], DEADLINE)
        .map(drop)
        .map_err(|source| RebootError::Refused { source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::made_up::MadeUp;

    const BOOT: &str = "4c6fa2d5-0000-4111-8222-933344445555";

    #[test]
    fn the_boot_has_a_name_or_nothing_is_rebooted() {
        let tree = MadeUp::new();
        assert_eq!(boot_id(&tree.root()).unwrap_err().reason(), "BootIdUnknown");
        for text in ["", "4c6fa2d5", "zc6fa2d5-0000-4111-8222-933344445555"] {
            tree.file("proc/sys/kernel/random/boot_id", text);
            assert!(boot_id(&tree.root()).is_err(), "{text}");
        }
        tree.file("proc/sys/kernel/random/boot_id", &format!("{BOOT}\n"));
        assert_eq!(boot_id(&tree.root()).unwrap(), BOOT);
        assert_eq!(boot_id(&Root::new("/")).unwrap(), boot_id(&Root::new("/")).unwrap());
    }

    #[test]
    fn systemd_is_asked() {
        let tree = MadeUp::new();
        assert_eq!(reboot(&tree.root()).unwrap_err().reason(), "RebootRefused");
        tree.program("usr/bin/systemctl", &format!("echo \"$@\" >> {}", tree.at("calls").display()));
        reboot(&tree.root()).unwrap();
        assert_eq!(tree.text("calls"), "reboot --no-block\n");
        tree.program("usr/bin/systemctl", "echo 'Access denied' >&2; exit 1");
        let error = reboot(&tree.root()).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("Access denied"), "{source}");
    }
}
