//! The kubelet's command line, as far as it decides where Pods may lie.
//!
//! A flag overrides the files. The kubelet takes `_` for `-`, and a flag that holds several values replaces all of those of
//! the files when it is first given, and adds to them when it is given again (source: the kubelet's own flag parsing).

use serde_json::{Map, Value, json};

use super::document::Document;

/// How a flag's value is written, and what it means for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The value itself.
    Text,
    /// `name=value`, several of them after commas.
    Pairs,
    /// `name=value`, one only.
    Pair,
    /// `name<value`, several of them after commas.
    Thresholds,
    /// `node:kind=quantity,kind=quantity;node:…`.
    Memory,
}

/// The flags that count, with the field that each stands for.
const FLAGS: [(&str, &str, Kind); 12] = [
    ("cgroup-driver", "cgroupDriver", Kind::Text),
    ("cpu-manager-policy", "cpuManagerPolicy", Kind::Text),
    ("cpu-manager-policy-options", "cpuManagerPolicyOptions", Kind::Pair),
    ("eviction-hard", "evictionHard", Kind::Thresholds),
    ("kube-reserved", "kubeReserved", Kind::Pairs),
    ("memory-manager-policy", "memoryManagerPolicy", Kind::Text),
    ("reserved-cpus", "reservedSystemCPUs", Kind::Text),
    ("reserved-memory", "reservedMemory", Kind::Memory),
    ("system-reserved", "systemReserved", Kind::Pairs),
    ("topology-manager-policy", "topologyManagerPolicy", Kind::Text),
    ("topology-manager-policy-options", "topologyManagerPolicyOptions", Kind::Pairs),
    ("topology-manager-scope", "topologyManagerScope", Kind::Text),
];

/// Leaves the eviction threshold out of what is reserved. It has no field.
const IGNORE_EVICTION: &str = "experimental-allocatable-ignore-eviction";

/// Why a flag cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--{flag}={value} of the kubelet's command line: expected {expected}")]
pub struct FlagError {
    flag: &'static str,
    value: String,
    expected: &'static str,
}

/// What the command line decided.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decided {
    /// How many flags of it count.
    pub(super) flags: usize,
    /// The eviction threshold is no part of what is reserved.
    pub(super) ignore_eviction: bool,
}

/// Puts what the arguments say into the document.
pub(super) fn apply(arguments: &[String], document: &mut Document) -> Result<Decided, FlagError> {
    let mut decided = Decided::default();
    let mut given: Map<String, Value> = Map::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next().filter(|argument| *argument != "--") {
        let Some(flag) = argument.strip_prefix("--") else { continue };
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let name = name.replace('_', "-");
        if name == IGNORE_EVICTION {
            decided.ignore_eviction =
                matches!(value, None | Some("1" | "t" | "T" | "true" | "TRUE" | "True"));
            decided.flags += 1;
        } else if let Some((flag, field, kind)) = FLAGS.iter().find(|(known, ..)| *known == name) {
            let value = match value {
                Some(value) => value,
                None => rest.next().map_or("", String::as_str),
            };
            let refused = |expected| FlagError { flag, value: value.to_owned(), expected };
            set(&mut given, field, *kind, value).map_err(refused)?;
            decided.flags += 1;
        }
    }
    document.0.extend(given);
    Ok(decided)
}

/// Sets a field, or adds to what an earlier flag has set.
fn set(given: &mut Map<String, Value>, field: &str, kind: Kind, value: &str) -> Result<(), &'static str> {
    match kind {
        Kind::Text => drop(given.insert(field.to_owned(), json!(value))),
        Kind::Pair => add_pairs(given, field, [value], '=')?,
        Kind::Pairs => add_pairs(given, field, value.split(','), '=')?,
        Kind::Thresholds => add_pairs(given, field, value.split(','), '<')?,
        // Without a value the kubelet keeps what the files say.
        Kind::Memory if value.is_empty() => {}
        Kind::Memory => {
            let nodes = value.split(';').map(memory_of_node).collect::<Option<Vec<_>>>();
            let nodes = nodes.ok_or("0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=1Gi")?;
            if let Value::Array(all) = given.entry(field).or_insert_with(|| json!([])) {
                all.extend(nodes);
            }
        }
    }
    Ok(())
}

fn add_pairs<'t>(
    given: &mut Map<String, Value>,
    field: &str,
    pairs: impl IntoIterator<Item = &'t str>,
    separator: char,
) -> Result<(), &'static str> {
    let entry = given.entry(field).or_insert_with(|| json!({}));
    for pair in pairs.into_iter().filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once(separator).ok_or(match separator {
            '<' => "pairs such as memory.available<100Mi",
            _ => "pairs such as cpu=500m",
        })?;
        if let Value::Object(all) = entry {
            all.insert(name.trim().to_owned(), json!(value.trim()));
        }
    }
    Ok(())
}

/// `0:memory=1Gi,hugepages-1Gi=2Gi`, as the field would have it.
fn memory_of_node(text: &str) -> Option<Value> {
    let (node, amounts) = text.split_once(':')?;
    let node: i32 = node.parse().ok()?;
    let amount = |text: &str| text.split_once('=').map(|(kind, amount)| (kind.to_owned(), json!(amount)));
    let limits = amounts.split(',').map(amount).collect::<Option<Map<_, _>>>()?;
    Some(json!({"numaNode": node, "limits": limits}))
}
