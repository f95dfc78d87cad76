//! From the text of `/proc/PID/cgroup` to what the process belongs to.
//!
//! Its lines read `number:controllers:path`; the path may hold colons. The unified hierarchy (v2) has the line `0::`;
//! where there are others too (v1, or both), it may say nothing. The kubelet calls a Pod's group `pod` and the Pod's UID,
//! with `_` for `-` and `.slice` behind where systemd makes it, and what comes before depends on quality of service and
//! configuration. A static Pod has in place of the UID the 32 digits of its file's hash. The container's group is below.
//!
//! Below its own group a Pod that may make groups makes any, also such as look like another Pod's. What stands further out
//! it cannot choose. A node in a Pod (kind) makes such groups too, rightly. So all Pods in a path are kept, and the join,
//! which knows the Pods of this node, takes the outermost one of them.

use serde::{Deserialize, Serialize};

use super::HostUnit;

/// What a process belongs to, as its cgroup tells it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupOwner {
    /// The Pods in the path, the outermost first: one, or several that lie in one another. Never empty.
    Pods(Vec<PodGroup>),
    /// A unit of the host.
    Host(HostUnit),
}

/// A Pod's group in a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PodGroup {
    /// The Pod's UID in the API, or for a static Pod its hash.
    pub uid: String,
    /// The runtime's id of the container, 64 hexadecimal digits; absent where the group is none of a container's: a
    /// sandbox of its own kind (kata), the runtime's monitor (conmon).
    pub container: Option<String>,
}

/// Controllers whose line is believed before those of others, where there is no unified hierarchy.
const PREFERRED: [&str; 4] = ["", "memory", "cpu", "name=systemd"];

/// The most Pods of one path that are kept: the outermost ones, which nobody below can push out. A node in a Pod makes two.
const MAX_PODS: usize = 8;

/// As much of a host's group is shown, bytes: names of units are at most 255.
const UNIT_BYTES: usize = 255;

impl CgroupOwner {
    /// What the process with this text in `/proc/PID/cgroup` belongs to; absent for a text that has no line of that kind.
    pub fn of(text: &str) -> Option<Self> {
        let mut paths: Vec<(usize, &str)> = text.lines().filter_map(line).collect();
        paths.sort_by_key(|(rank, _)| *rank);
        let mut paths = paths.into_iter().map(|(_, path)| path);
        let first = paths.clone().next()?;
        if let Some(pods) = paths.clone().find_map(self::pods) {
            return Some(Self::Pods(pods));
        }
        // The root of one hierarchy says nothing while another knows more.
        let told = paths.find(|path| *path != "/").unwrap_or(first);
        Some(Self::Host(HostUnit::new(&unit(told))))
    }
}

/// How much a line is believed, and its path.
fn line(line: &str) -> Option<(usize, &str)> {
    let mut parts = line.splitn(3, ':');
    let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let is_line = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) && path.starts_with('/');
    // The kernel says so of a group that was removed while the process lives.
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let rank = |controller| PREFERRED.iter().position(|preferred| *preferred == controller);
    let rank = controllers.split(',').filter_map(rank).min().unwrap_or(PREFERRED.len());
    is_line.then_some((rank, path))
}

/// The Pods in a path, the outermost first; absent without any.
fn pods(path: &str) -> Option<Vec<PodGroup>> {
    let parts: Vec<&str> = path.split('/').collect();
    let group = |(at, part): (usize, &&str)| {
        let (uid, rest) = pod_uid(part)?;
        // Where runtime and kubelet disagree about who makes groups, the container stands in the same part.
        let container = match rest.rsplit_once(':') {
            Some((_, id)) => container(id),
            None => parts.get(at + 1).and_then(|part| container(part)),
        };
        Some(PodGroup { uid, container })
    };
    let groups: Vec<PodGroup> = parts.iter().enumerate().filter_map(group).take(MAX_PODS).collect();
    (!groups.is_empty()).then_some(groups)
}

/// The UID in a part such as `kubepods-burstable-pod1234_….slice`, and what stands behind it.
fn pod_uid(part: &str) -> Option<(String, &str)> {
    part.rmatch_indices("pod").find_map(|(at, found)| {
        let before = part.get(..at)?;
        let (uid, rest) = uid(part.get(at + found.len()..)?)?;
        let rest = rest.strip_prefix(".slice").unwrap_or(rest);
        let alone = before.is_empty() || before.ends_with(['-', '_']);
        (alone && (rest.is_empty() || rest.starts_with(':'))).then_some((uid, rest))
    })
}

/// A UUID, of which dashes may be underscores, or 32 digits, and what stands behind.
fn uid(text: &str) -> Option<(String, &str)> {
    let digits = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if let Some((uid, rest)) = text.split_at_checked(36) {
        let groups = uid.split(['-', '_']);
        if groups.clone().map(str::len).eq([8, 4, 4, 4, 12]) && groups.clone().all(digits) {
            return Some((uid.replace('_', "-"), rest));
        }
    }
    let (hash, rest) = text.split_at_checked(32)?;
    digits(hash).then(|| (hash.to_owned(), rest))
}

/// The container's id in a part such as `cri-containerd-<id>.scope`, or the id alone.
fn container(part: &str) -> Option<String> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let id = match part.rsplit_once('-') {
        // A monitor outside the container, and a virtual machine that is no container by itself.
        Some(("crio-conmon", _)) => return None,
        Some((_, id)) => id,
        None => part,
    };
    let is_id = id.len() == 64 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_id.then(|| id.to_owned())
}

/// The unit in a path such as `/system.slice/nvidia-persistenced.service`: the first service or scope; else, where
/// systemd makes no groups, the whole path.
fn unit(path: &str) -> String {
    let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    let parts = || path.split('/').filter(|part| !part.is_empty() && *part != "..");
    let unit = match parts().find(is_unit) {
        Some(unit) => unit.to_owned(),
        None => parts().collect::<Vec<_>>().join("/"),
    };
    // A process may make groups of any name.
    let shown = unit.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' });
    match unit.is_empty() {
        true => "/".to_owned(),
        false => shown.take(UNIT_BYTES).collect(),
    }
}

#[cfg(test)]
mod tests;
