//! NUMA nodes and sets of CPUs.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kernel's number of a NUMA node. Numbers may have gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NumaNodeId(pub u32);

impl fmt::Display for NumaNodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One NUMA node as the kernel reports it (source: `/sys/devices/system/node/nodeN`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NumaNode {
    /// The kernel's number.
    pub id: NumaNodeId,
    /// CPUs of this node; empty for a memory-only node.
    pub cpus: CpuSet,
    /// `MemTotal` in bytes; absent where the kernel does not say.
    pub memory_bytes: Option<u64>,
    /// SLIT distances to the online nodes in their order; 10 is local.
    pub distances: Vec<u32>,
}

/// The highest CPU number that a list may name; the kernel's own limit is 8,192 (`NR_CPUS`).
const MAX_CPU: u32 = 65_535;

/// A set of CPU (or NUMA node) numbers, written as the kernel writes lists: `0-3,8,10-11`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// How many CPUs the set has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Whether every CPU of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

/// Why a text is not a CPU list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` is not a CPU list; expected numbers up to {MAX_CPU} and ascending ranges, such as 0-3,8")]
pub struct ParseCpuSetError {
    part: String,
}

impl ParseCpuSetError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "InvalidCpuList"
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let mut cpus = BTreeSet::new();
        if text.is_empty() {
            return Ok(Self(cpus));
        }
        // A long list that names the same CPUs over and over must not cost more than naming all of them once.
        let mut left = MAX_CPU + 1;
        for part in text.split(',') {
            let refused = || ParseCpuSetError { part: part.chars().take(64).collect() };
            let range = parse_range(part.trim()).ok_or_else(refused)?;
            left = left.checked_sub(range.end() - range.start() + 1).ok_or_else(refused)?;
            cpus.extend(range);
        }
        Ok(Self(cpus))
    }
}

fn parse_range(part: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse::<u32>().ok()).flatten().filter(|n| *n <= MAX_CPU)
    };
    match part.split_once('-') {
        None => number(part).map(|n| n..=n),
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        }
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut cpus = self.0.iter().copied().peekable();
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| *next == last + 1) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_read_and_print_as_the_kernel_writes_them() {
        let cpus: CpuSet = "0-55,112-167\n".parse().unwrap();
        assert_eq!(cpus.len(), 112);
        assert_eq!(cpus.to_string(), "0-55,112-167");
        assert_eq!("".parse::<CpuSet>().unwrap().to_string(), "");
        assert_eq!("3,1,2,7".parse::<CpuSet>().unwrap().to_string(), "1-3,7");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["a", "1-", "-1", "3-1", "1,,2", "0-4294967295", "+1", "1-2-3", "0-65535,0-65535"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "[0-9,\\- a\n]{0,20}") {
            let _ = text.parse::<CpuSet>();
        }

        #[test]
        fn printing_and_parsing_agree(cpus in proptest::collection::btree_set(0u32..300, 0..60)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }
    }
}
