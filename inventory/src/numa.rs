//! NUMA nodes and sets of CPUs.

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
///
/// It is kept as such a list: a set costs what its text costs, however many CPUs a range has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet {
    /// First and last of each range, ascending, with a gap before each but the first.
    ranges: Vec<(u32, u32)>,
}

impl CpuSet {
    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= cpu);
        after.checked_sub(1).and_then(|at| self.ranges.get(at)).is_some_and(|(_, last)| cpu <= *last)
    }

    /// How many CPUs the set has.
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|(first, last)| (last - first) as usize + 1).sum()
    }

    /// Whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The highest number.
    pub fn last(&self) -> Option<u32> {
        self.ranges.last().map(|(_, last)| *last)
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Whether every CPU of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        let within = |(first, last): &(u32, u32)| {
            let after = other.ranges.partition_point(|(start, _)| start <= first);
            let at = after.checked_sub(1).and_then(|at| other.ranges.get(at));
            at.is_some_and(|(_, end)| last <= end)
        };
        self.ranges.iter().all(within)
    }

    /// Of ranges in any order, overlapping or not.
    fn of_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        if !ranges.is_sorted() {
            ranges.sort_unstable();
        }
        ranges.dedup_by(|next, before| {
            let joins = next.0 <= before.1.saturating_add(1);
            if joins {
                before.1 = before.1.max(next.1);
            }
            joins
        });
        Self { ranges }
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self::of_ranges(cpus.into_iter().map(|cpu| (cpu, cpu)).collect())
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
        if text.is_empty() {
            return Ok(Self::default());
        }
        let range = |part: &str| {
            parse_range(part.trim()).ok_or_else(|| ParseCpuSetError { part: part.chars().take(64).collect() })
        };
        Ok(Self::of_ranges(text.split(',').map(range).collect::<Result<_, _>>()?))
    }
}

fn parse_range(part: &str) -> Option<(u32, u32)> {
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse::<u32>().ok()).flatten().filter(|n| *n <= MAX_CPU)
    };
    match part.split_once('-') {
        None => number(part).map(|n| (n, n)),
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some((first, last))
        }
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{separator}{first}")?,
                false => write!(f, "{separator}{first}-{last}")?,
            }
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
    use std::collections::BTreeSet;

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
        for text in ["a", "1-", "-1", "3-1", "1,,2", "0-4294967295", "+1", "1-2-3"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "[0-9,\\- a\n]{0,20}") {
            let _ = text.parse::<CpuSet>();
        }

        #[test]
        fn it_is_the_set_of_its_numbers(
            cpus in proptest::collection::vec(0u32..80, 0..60),
            others in proptest::collection::vec(0u32..80, 0..90),
        ) {
            let (set, other): (CpuSet, CpuSet) = (cpus.iter().copied().collect(), others.iter().copied().collect());
            let (model, other_model): (BTreeSet<u32>, BTreeSet<u32>) =
                (cpus.iter().copied().collect(), others.into_iter().collect());
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!((set.len(), set.is_empty(), set.last()), (model.len(), model.is_empty(), model.last().copied()));
            prop_assert!((0..90).all(|cpu| set.contains(cpu) == model.contains(&cpu)));
            prop_assert_eq!(set.is_subset(&other), model.is_subset(&other_model));
            // However it is written, it is the same set.
            let text: Vec<String> = cpus.iter().map(u32::to_string).collect();
            prop_assert_eq!(text.join(",").parse::<CpuSet>().unwrap(), set);
        }

        #[test]
        fn printing_and_parsing_agree(cpus in proptest::collection::btree_set(0u32..300, 0..60)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }
    }
}
