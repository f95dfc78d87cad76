//! The name of the node.

use std::fmt;
use std::str::FromStr;

/// A node's name as Kubernetes allows it: a DNS subdomain in small letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeName(String);

/// Why a text is not a node's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a node name; expected at most 253 small letters, digits, `-` and `.`, each part between dots beginning \
     and ending with a letter or digit"
)]
pub(crate) struct ParseNodeNameError {
    text: String,
}

impl FromStr for NodeName {
    type Err = ParseNodeNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let label = |label: &str| {
            let bytes = label.as_bytes();
            let ends = bytes.first().zip(bytes.last());
            ends.is_some_and(|(first, last)| alphanumeric(*first) && alphanumeric(*last))
                && bytes.iter().all(|b| alphanumeric(*b) || *b == b'-')
        };
        let good = text.len() <= 253 && text.split('.').all(label);
        good.then(|| Self(text.to_owned()))
            .ok_or_else(|| ParseNodeNameError { text: text.chars().take(64).collect() })
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl NodeName {
    /// The machine's host name in the form of a node name, as the kubelet derives its own.
    pub(crate) fn of_this_machine() -> Option<Self> {
        let name = nix::unistd::gethostname().ok()?;
        name.to_str()?.trim().to_ascii_lowercase().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_kubernetes_checks_them() {
        for good in ["a", "gpu-node-7", "ip-10-0-0-1.eu.compute.internal", "7"] {
            assert_eq!(good.parse::<NodeName>().unwrap().to_string(), good);
        }
        for bad in ["", "-a", "a-", "a..b", "A", "a_b", "a/b", "ä", &"a".repeat(254)] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
        }
    }
}
