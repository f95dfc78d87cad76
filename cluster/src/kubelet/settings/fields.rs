//! From a configuration's fields to the settings that decide where Pods may lie.

use std::collections::BTreeMap;

use gpulet_inventory::kubelet::KubeletSettings;
use gpulet_inventory::numa::CpuSet;
use serde_json::{Map, Value};

use super::document::{Document, beginning};
use super::quantity::Quantity;

/// What a field's value must be known with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Given {
    /// Memory of the whole machine, bytes.
    pub(super) memory_bytes: Option<u64>,
    /// The eviction threshold is no part of what is reserved.
    pub(super) ignore_eviction: bool,
}

/// Why a field cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// It holds something else.
    #[error("{field}: `{value}` is not {expected}")]
    Unexpected {
        /// The field's name.
        field: String,
        /// Its value, as far as it is shown.
        value: String,
        /// What it should be.
        expected: String,
    },
    /// It is a part of the machine's memory, and that is not known.
    #[error(
        "evictionHard: `memory.available: {value}` is a part of the machine's memory, which /proc/meminfo does not tell"
    )]
    MemoryUnknown {
        /// The threshold.
        value: String,
    },
}

fn unexpected(field: &str, value: &Value, expected: impl Into<String>) -> FieldError {
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    FieldError::Unexpected { field: field.to_owned(), value: beginning(&value), expected: expected.into() }
}

/// The settings, still without the words on where they were found.
pub(super) fn settings(document: &Document, given: Given) -> Result<KubeletSettings, FieldError> {
    let fields = &document.0;
    let reserved_cpus = reserved_cpus(fields)?;
    let reserved = [amounts(fields, "kubeReserved")?, amounts(fields, "systemReserved")?];
    let sum = |name: &str| {
        let amounts = reserved.iter().filter_map(|amounts| amounts.get(name).copied());
        amounts.fold(Quantity::default(), |sum, amount| sum + amount)
    };
    // CPUs that are reserved by number stand in place of both amounts.
    let cpus = reserved_cpus.as_ref().map_or_else(|| sum("cpu"), |cpus| Quantity::units(cpus.len() as u64));
    let memory = sum("memory") + threshold(fields, given)?;
    Ok(KubeletSettings {
        topology_manager_policy: word(fields, "topologyManagerPolicy", "none")?,
        topology_manager_scope: word(fields, "topologyManagerScope", "container")?,
        topology_manager_options: words(fields, "topologyManagerPolicyOptions")?,
        cpu_manager_policy: word(fields, "cpuManagerPolicy", "none")?,
        cpu_manager_options: words(fields, "cpuManagerPolicyOptions")?,
        memory_manager_policy: word(fields, "memoryManagerPolicy", "None")?,
        reserved_cpus,
        reserved_milli_cpus: cpus.thousandths().unwrap_or(u64::MAX),
        reserved_memory: reserved_memory(fields)?,
        reserved_memory_bytes: memory.whole().unwrap_or(u64::MAX),
        cgroup_driver: word(fields, "cgroupDriver", "cgroupfs")?,
        source: String::new(),
    })
}

/// A word; the kubelet takes an empty one for its default.
fn word(fields: &Map<String, Value>, field: &str, default: &str) -> Result<String, FieldError> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(default.to_owned()),
        Some(Value::String(word)) if word.is_empty() => Ok(default.to_owned()),
        Some(Value::String(word)) => Ok(word.clone()),
        Some(other) => Err(unexpected(field, other, "a word")),
    }
}

/// Words by name.
fn words(fields: &Map<String, Value>, field: &str) -> Result<BTreeMap<String, String>, FieldError> {
    let words = match fields.get(field) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(words)) => words,
        Some(other) => return Err(unexpected(field, other, "a map of words")),
    };
    let word = |(name, value): (&String, &Value)| match value {
        Value::String(word) => Ok((name.clone(), word.clone())),
        // Numbers and truths without quotes, which the kubelet refuses in some of its versions.
        Value::Number(_) | Value::Bool(_) => Ok((name.clone(), value.to_string())),
        other => Err(unexpected(&format!("{field}.{name}"), other, "a word")),
    };
    words.iter().map(word).collect()
}

fn reserved_cpus(fields: &Map<String, Value>) -> Result<Option<CpuSet>, FieldError> {
    const FIELD: &str = "reservedSystemCPUs";
    let list = match fields.get(FIELD) {
        // One CPU without quotes.
        Some(Value::Number(number)) => number.to_string(),
        _ => word(fields, FIELD, "")?,
    };
    let cpus: CpuSet =
        list.parse().map_err(|_| unexpected(FIELD, &Value::String(list), "a list of CPUs such as 0-3,8"))?;
    Ok(Some(cpus).filter(|cpus| !cpus.is_empty()))
}

/// Amounts by the resource's name; none is negative.
fn amounts(fields: &Map<String, Value>, field: &str) -> Result<BTreeMap<String, Quantity>, FieldError> {
    let amount = |(name, text): (String, String)| {
        let amount = amount(&format!("{field}.{name}"), &text)?;
        Ok((name, amount))
    };
    words(fields, field)?.into_iter().map(amount).collect()
}

fn amount(field: &str, text: &str) -> Result<Quantity, FieldError> {
    let refused =
        |problem: &dyn ToString| unexpected(field, &Value::String(text.to_owned()), problem.to_string());
    let amount: Quantity =
        text.parse().map_err(|_| refused(&"a quantity such as 500m, 1.5 or 2Gi, below 2^63"))?;
    match amount.whole() {
        Some(_) => Ok(amount),
        None => Err(refused(&"a quantity that is not negative")),
    }
}

/// How much memory must stay free.
fn threshold(fields: &Map<String, Value>, given: Given) -> Result<Quantity, FieldError> {
    let thresholds = words(fields, "evictionHard")?;
    let threshold = thresholds.get("memory.available").filter(|_| !given.ignore_eviction);
    match threshold.map(String::as_str) {
        // The kubelet takes these two for no threshold.
        None | Some("0%" | "100%") => Ok(Quantity::default()),
        Some(part) if part.ends_with('%') => part_of_memory(part, given.memory_bytes),
        Some(amount) => self::amount("evictionHard.memory.available", amount),
    }
}

/// The kubelet reckons this in floating point, of 32 bits and then of 64; so does this, to come to the same byte.
fn part_of_memory(part: &str, memory_bytes: Option<u64>) -> Result<Quantity, FieldError> {
    let number = part.trim_end_matches('%').parse::<f32>().ok().map(|percent| percent / 100.0);
    let share = number.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| {
        unexpected("evictionHard.memory.available", &Value::String(part.to_owned()), "a part from 0% to 100%")
    })?;
    let memory = memory_bytes.ok_or_else(|| FieldError::MemoryUnknown { value: part.to_owned() })?;
    Ok(Quantity::units((memory as f64 * f64::from(share)) as u64))
}

fn reserved_memory(fields: &Map<String, Value>) -> Result<BTreeMap<i64, BTreeMap<String, u64>>, FieldError> {
    const FIELD: &str = "reservedMemory";
    let entries = match fields.get(FIELD) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Array(entries)) => entries,
        Some(other) => return Err(unexpected(FIELD, other, "a list")),
    };
    let mut reserved: BTreeMap<i64, BTreeMap<String, u64>> = BTreeMap::new();
    for entry in entries {
        let entry = entry.as_object().ok_or_else(|| unexpected(FIELD, entry, "numaNode and limits"))?;
        // The kubelet takes a missing number for 0, as for every number.
        let node = entry.get("numaNode").unwrap_or(&Value::Null);
        let node = if node.is_null() { Some(0) } else { node.as_i64() };
        let node = node.ok_or_else(|| {
            unexpected(
                &format!("{FIELD}.numaNode"),
                &entry.get("numaNode").cloned().unwrap_or_default(),
                "a number",
            )
        })?;
        let of_node = reserved.entry(node).or_default();
        for (kind, amount) in amounts(entry, "limits")? {
            let bytes = amount.whole().unwrap_or(u64::MAX);
            let known = kind == "memory" || kind.starts_with("hugepages-");
            if !known || of_node.insert(kind.clone(), bytes).is_some() {
                let expected = "`memory` or `hugepages-` and a size, once for each NUMA node";
                return Err(unexpected(&format!("{FIELD}.limits"), &Value::String(kind), expected));
            }
        }
    }
    Ok(reserved)
}
