//! A KubeletConfiguration as data, and how one lies over another.

use serde_json::{Map, Value, json};

/// What the kubelet takes for its configuration.
const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";

/// The thresholds of a kubelet on Linux whose configuration file names none.
const EVICTION_HARD: [(&str, &str); 5] = [
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
];

/// The fields of a KubeletConfiguration by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Document(pub(super) Map<String, Value>);

/// Why bytes are no KubeletConfiguration.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is empty, which the kubelet does not take for an empty configuration.
    #[error("it is empty")]
    Empty,
    /// It is no text.
    #[error("it is no UTF-8 text")]
    NoText(#[source] std::str::Utf8Error),
    /// It is neither YAML nor JSON.
    #[error("it is no YAML")]
    NoYaml(#[source] Box<serde_saphyr::Error>),
    /// It describes something else.
    #[error("it is `{found}`, not `{API_VERSION}` `{KIND}`")]
    OtherKind {
        /// What it says that it is.
        found: String,
    },
}

impl Document {
    /// A configuration file, or a drop-in.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        let text = std::str::from_utf8(bytes).map_err(DocumentError::NoText)?;
        if text.trim().is_empty() {
            return Err(DocumentError::Empty);
        }
        let value = serde_saphyr::from_str::<Value>(text);
        let fields = match value.map_err(|error| DocumentError::NoYaml(Box::new(error)))? {
            Value::Object(fields) => fields,
            other => return Err(DocumentError::OtherKind { found: beginning(&other.to_string()) }),
        };
        let word = |name| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        match (word("apiVersion"), word("kind")) {
            (API_VERSION, KIND) => Ok(Self(fields)),
            (version, kind) => {
                Err(DocumentError::OtherKind { found: beginning(format!("{version} {kind}").trim()) })
            }
        }
    }

    /// Puts in the thresholds that the kubelet puts in when it has read its configuration file. What a drop-in or a flag
    /// removes afterwards stays removed.
    pub(super) fn default_thresholds(&mut self) {
        let fill = self.0.get("mergeDefaultEvictionSettings").and_then(Value::as_bool).unwrap_or(false);
        let thresholds = self.0.entry("evictionHard").or_insert(Value::Null);
        if thresholds.is_null() {
            *thresholds = json!({});
        } else if !fill {
            return;
        }
        if let Value::Object(thresholds) = thresholds {
            for (signal, value) in EVICTION_HARD {
                thresholds.entry(signal).or_insert_with(|| json!(value));
            }
        }
    }

    /// Lays a drop-in over it (JSON merge patch, RFC 7386).
    pub(super) fn merge(&mut self, patch: Self) {
        merge(&mut self.0, patch.0);
    }
}

fn merge(into: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match (into.get_mut(&name), value) {
            (_, Value::Null) => drop(into.remove(&name)),
            (Some(Value::Object(below)), Value::Object(patch)) => merge(below, patch),
            (_, Value::Object(patch)) => {
                // Nothing is removed from what was not there.
                let mut fresh = Map::new();
                merge(&mut fresh, patch);
                into.insert(name, Value::Object(fresh));
            }
            (_, value) => drop(into.insert(name, value)),
        }
    }
}

/// As much of a text as is shown.
pub(super) fn beginning(text: &str) -> String {
    text.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect()
}
