//! Whether the node is rebooted for a change of mode: only where that is permitted, and once for each thing that is wanted.

use serde::{Deserialize, Serialize};

use crate::protocol::RebootMarker;

/// What is permitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// A person reboots.
    #[default]
    Never,
    /// Once for each content that is wanted.
    Once,
}

/// What to do where a change of mode waits for a reboot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Write this down, so that it survives, and then reboot.
    Reboot(RebootMarker),
    /// It was asked for in this boot already, and has not come yet. It may be asked for again: that makes no second one.
    Asked,
    /// The node was rebooted for this, and that did not help.
    DidNotHelp,
    /// It is not permitted.
    NotPermitted,
}

impl Decision {
    /// The stable word for what keeps it from being done; absent where it is.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Reboot(_) | Self::Asked => None,
            Self::DidNotHelp => Some("RebootDidNotHelp"),
            Self::NotPermitted => Some("RebootRequired"),
        }
    }
}

/// Decides, from the marker of the last time, the boot that this is (its `boot_id`), and the hash of what is wanted now.
pub fn decide(permission: Permission, marker: Option<&RebootMarker>, boot_id: &str, hash: &str) -> Decision {
    match marker.filter(|marker| marker.hash == hash) {
        // A reboot that was asked for comes, whatever is permitted by now.
        Some(marker) if marker.boot_id == boot_id => Decision::Asked,
        Some(_) => Decision::DidNotHelp,
        None if permission == Permission::Never => Decision::NotPermitted,
        None => Decision::Reboot(RebootMarker { boot_id: boot_id.to_owned(), hash: hash.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(n: u32) -> String {
        format!("{n:08x}-1111-2222-3333-444444444444")
    }

    /// What comes of asking for `hash` over and over, the node coming up again each time that it is rebooted.
    fn reboots(
        permission: Permission,
        marker: &mut Option<RebootMarker>,
        boots: &mut u32,
        hash: &str,
    ) -> (u32, Decision) {
        let first = *boots;
        for _ in 0..10 {
            match decide(permission, marker.as_ref(), &boot(*boots), hash) {
                Decision::Reboot(written) => {
                    *marker = Some(written);
                    assert_eq!(decide(permission, marker.as_ref(), &boot(*boots), hash), Decision::Asked);
                    *boots += 1;
                }
                other => return (*boots - first, other),
            }
        }
        panic!("it never ends");
    }

    #[test]
    fn at_most_one_for_each_content() {
        let (mut marker, mut boots) = (None, 0);
        let mut reboots = |hash| reboots(Permission::Once, &mut marker, &mut boots, hash);
        assert_eq!(reboots("a"), (1, Decision::DidNotHelp));
        assert_eq!(reboots("a"), (0, Decision::DidNotHelp));
        assert_eq!(reboots("b"), (1, Decision::DidNotHelp), "someone wants something else");
    }

    #[test]
    fn none_where_it_is_not_permitted() {
        let (mut marker, mut boots) = (None, 0);
        let refused = reboots(Permission::Never, &mut marker, &mut boots, "a");
        assert_eq!(refused, (0, Decision::NotPermitted));
        assert_eq!(refused.1.reason(), Some("RebootRequired"));
        assert_eq!(marker, None);
    }

    #[test]
    fn a_reboot_by_someone_else_is_none_for_this() {
        let marker = RebootMarker { boot_id: boot(1), hash: "a".to_owned() };
        assert!(matches!(decide(Permission::Once, Some(&marker), &boot(2), "b"), Decision::Reboot(_)));
        assert_eq!(decide(Permission::Never, Some(&marker), &boot(2), "a"), Decision::DidNotHelp);
    }
}
