//! Names of MIG profiles: `[<C>c.]<G>g.<GB>gb[suffix]`, such as `1g.10gb+me` and `1c.3g.20gb`.
//!
//! The memory in a name is rounded from the board's, so it differs between boards, drivers and settings of one model:
//! `3g.39gb` and `3g.40gb`, `7g.79gb` and `7g.80gb`. People name what they saw on another board. So what they say is matched
//! against what the GPU has, and taken where it can mean only one of its profiles.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::observed::{ComputeProfile, Profile};

/// A name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName {
    /// Compute slices of the compute instance, where it is told apart from its GPU instance.
    pub computes: Option<u32>,
    /// Compute slices of the GPU instance.
    pub slices: u32,
    /// Memory as named, GB.
    pub gigabytes: u32,
    /// What it has besides, or lacks: `+me`, `+me.all`, `+gfx`, `-me`; empty for most.
    suffix: String,
}

/// Why a text is not a profile's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a MIG profile's name; expected one like 1g.10gb, 1g.10gb+me, 1g.24gb-me or 1c.3g.40gb"
)]
pub struct ParseProfileNameError {
    text: String,
}

impl ParseProfileNameError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "InvalidProfileName"
    }
}

impl ProfileName {
    /// The name of the GPU instance: without the compute instance.
    pub fn instance(&self) -> Self {
        Self { computes: None, ..self.clone() }
    }

    /// What it has besides, or lacks: `+me`, `+me.all`, `+gfx`, `-me`; empty for most.
    pub fn suffix(&self) -> &str {
        &self.suffix
    }
}

impl FromStr for ProfileName {
    type Err = ParseProfileNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParseProfileNameError { text: text.chars().take(64).collect() })
    }
}

fn parse(text: &str) -> Option<ProfileName> {
    let (head, suffix) = text.split_once("gb")?;
    let mut parts: Vec<&str> = head.split('.').collect();
    let gigabytes = number(parts.pop()?)?;
    let slices = number(parts.pop()?.strip_suffix('g')?)?;
    let computes = match parts.pop() {
        Some(part) => Some(number(part.strip_suffix('c')?)?),
        None => None,
    };
    let is_possible = slices > 0 && computes.is_none_or(|computes| (1..=slices).contains(&computes));
    let name = ProfileName { computes, slices, gigabytes, suffix: canonical(suffix)? };
    (parts.is_empty() && is_possible).then_some(name)
}

/// Up to four digits.
fn number(digits: &str) -> Option<u32> {
    let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// Where a `+` cannot stand (in labels, in names of resources) a `.` stands for it.
fn canonical(suffix: &str) -> Option<String> {
    let Some(first) = suffix.chars().next() else { return Some(String::new()) };
    let words = suffix.strip_prefix(first)?;
    let are_words = words.split(['.', '+', ',']).all(|word| {
        !word.is_empty() && word.len() <= 16 && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let sign = match first {
        '+' | '.' => '+',
        '-' => '-',
        _ => return None,
    };
    (are_words && words.len() <= 32).then(|| format!("{sign}{}", words.replace(['+', ','], ".")))
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.computes.iter().try_for_each(|computes| write!(f, "{computes}c."))?;
        write!(f, "{}g.{}gb{}", self.slices, self.gigabytes, self.suffix)
    }
}

impl Serialize for ProfileName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The name of a GPU instance profile: the driver's own word for it (without `MIG `), else the computed one.
///
/// `kind`, `slices` and `memory_mib` are the argument and fields of `nvmlDeviceGetGpuInstanceProfileInfo`; `total_bytes` is
/// the whole memory of the GPU as `nvmlDeviceGetMemoryInfo` tells it.
pub fn profile(word: Option<&str>, kind: u32, slices: u32, memory_mib: u64, total_bytes: u64) -> String {
    let word = word.unwrap_or_default().trim();
    let own = Some(word.strip_prefix("MIG").unwrap_or(word).trim()).filter(|own| !own.is_empty());
    own.map_or_else(|| computed(kind, slices, memory_mib, total_bytes), str::to_owned)
}

/// The name that a GPU instance profile has by the rule that NVIDIA's tools follow: memory in eighths of the whole, rounded
/// up, of the whole in GB, rounded up, rounded. 0 GB where the GPU has no memory of its own.
pub fn computed(kind: u32, slices: u32, memory_mib: u64, total_bytes: u64) -> String {
    let total = u128::from(total_bytes);
    let bytes = u128::from(memory_mib) << 20;
    let eighths = (bytes * 8).checked_div(total).map_or(0, |whole| {
        let has_rest = (bytes * 8) % total != 0;
        whole + u128::from(has_rest)
    });
    let gigabytes = (eighths * total.div_ceil(1 << 30) + 4) / 8;
    format!("{slices}g.{gigabytes}gb{}", suffix(kind))
}

/// What tells profiles of the same slices apart (source: the names and values of `NVML_GPU_INSTANCE_PROFILE_*`).
fn suffix(kind: u32) -> &'static str {
    match kind {
        7 | 8 => "+me",
        10..=12 | 17 => "+gfx",
        13 | 14 => "-me",
        15 | 16 => "+me.all",
        _ => "",
    }
}

/// The name of a compute instance profile of this many slices in a GPU instance profile: that one's own where it is all of it.
pub fn compute(slices: u32, instance: &str, instance_slices: u32) -> String {
    if slices == instance_slices { instance.to_owned() } else { format!("{slices}c.{instance}") }
}

/// A profile that a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match<'a> {
    /// Which.
    pub profile: &'a Profile,
    /// It has this very name; else one near it, which no other has.
    pub exact: bool,
}

/// Why a name means no profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoMatch {
    /// None is near it.
    Unknown,
    /// Several may be meant: their names.
    Ambiguous(Vec<String>),
}

/// The profile that a name means: the one of this name, else the one with as many slices and the same suffix whose memory
/// differs by no more than 5 %, or by one GB.
///
/// # Errors
/// When there is none, or more than one.
pub fn matching<'a>(asked: &ProfileName, profiles: &'a [Profile]) -> Result<Match<'a>, NoMatch> {
    let asked = asked.instance();
    let named: Vec<(ProfileName, &Profile)> = profiles
        .iter()
        .filter_map(|profile| Some((profile.name.parse::<ProfileName>().ok()?, profile)))
        .filter(|(name, _)| name.computes.is_none())
        .collect();
    let exact: Vec<&Profile> =
        named.iter().filter(|(name, _)| *name == asked).map(|(_, profile)| *profile).collect();
    if !exact.is_empty() {
        return one(&exact, true);
    }
    let near = named.iter().filter(|(name, _)| is_near(&asked, name));
    one(&near.map(|(_, profile)| *profile).collect::<Vec<_>>(), false)
}

fn one<'a>(found: &[&'a Profile], exact: bool) -> Result<Match<'a>, NoMatch> {
    match found {
        [] => Err(NoMatch::Unknown),
        [profile] => Ok(Match { profile, exact }),
        several => {
            Err(NoMatch::Ambiguous(several.iter().map(|one| format!("{} ({})", one.name, one.id)).collect()))
        }
    }
}

/// Whether one may be the name on another board of what is the other here.
pub(crate) fn is_near(asked: &ProfileName, offered: &ProfileName) -> bool {
    let alike = asked.slices == offered.slices
        && asked.computes == offered.computes
        && asked.suffix == offered.suffix;
    let differ = asked.gigabytes.abs_diff(offered.gigabytes);
    alike && differ * 20 <= offered.gigabytes.max(20)
}

/// The compute instance profile with this many slices; absent: the one that takes most of the GPU instance.
///
/// Where several have as many slices, the one with the lowest number: the others have other engines, and the driver refuses
/// them on some GPUs.
pub fn compute_profile(profile: &Profile, slices: Option<u32>) -> Option<&ComputeProfile> {
    let slices = slices.or_else(|| profile.compute_profiles.iter().map(|own| own.slices).max())?;
    let alike = profile.compute_profiles.iter().filter(|own| own.slices == slices);
    alike.min_by_key(|own| own.id)
}

#[cfg(test)]
mod tests;
