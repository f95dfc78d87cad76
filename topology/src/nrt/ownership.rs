//! Who wrote what of a NodeResourceTopology object, from its `metadata.managedFields` and labels.
//!
//! The API server keeps, for each field manager, which fields it set last. Every list of the object is atomic, so
//! whoever owns `zones` owns all of them, and two publishers that both write them undo each other's work for ever.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Our field manager, and what the label [`MANAGED_BY`] says of our objects.
pub const FIELD_MANAGER: &str = "gpulet";
/// The label that names the program that manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// One entry of `metadata.managedFields`, as the API server gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedFields {
    /// The field manager's name: what a server-side apply gave, else the first word of the client's user agent.
    #[serde(default)]
    pub manager: String,
    /// `Apply` or `Update`.
    #[serde(default)]
    pub operation: String,
    /// When it last set one of them, RFC 3339.
    #[serde(default)]
    pub time: Option<String>,
    /// The fields.
    #[serde(default, rename = "fieldsV1")]
    pub fields: Fields,
}

/// A set of fields in the form `FieldsV1`: a tree whose keys are `f:NAME` (a field), `k:{…}` and `v:…` (items of a
/// list) or `.` (the thing itself).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Fields(BTreeMap<String, Fields>);

impl Fields {
    fn under(&self, name: &str) -> Option<&Fields> {
        self.0.get(&format!("f:{name}"))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|key| key.strip_prefix("f:"))
    }
}

/// A program that is known to write NodeResourceTopology objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Publisher {
    /// This program.
    Gpulet,
    /// The topology updater of Node Feature Discovery.
    NodeFeatureDiscovery,
    /// The resource-topology-exporter.
    ResourceTopologyExporter,
    /// Koordinator's koordlet.
    Koordinator,
    /// Someone with kubectl, oc or k9s: not a publisher, and not going to write again by itself.
    Person,
    /// None of these.
    Unknown,
}

impl Publisher {
    /// The publisher that writes under this field manager.
    pub fn of_manager(manager: &str) -> Self {
        match manager {
            FIELD_MANAGER => Self::Gpulet,
            // By server-side apply since 2026, and by plain updates under the program's name before.
            "node-feature-discovery-topology-updater" | "nfd-topology-updater" | "node-feature-discovery" => {
                Self::NodeFeatureDiscovery
            }
            "resource-topology-exporter" | "rte" => Self::ResourceTopologyExporter,
            "koordlet" | "koord-manager" => Self::Koordinator,
            "kubectl" | "oc" | "k9s" => Self::Person,
            other if other.starts_with("kubectl-") => Self::Person,
            _ => Self::Unknown,
        }
    }

    /// The publisher that puts this value into the label [`MANAGED_BY`].
    pub fn of_label(value: &str) -> Self {
        match value {
            FIELD_MANAGER => Self::Gpulet,
            "Koordinator" | "koordinator" | "koordlet" => Self::Koordinator,
            "node-feature-discovery" => Self::NodeFeatureDiscovery,
            "resource-topology-exporter" => Self::ResourceTopologyExporter,
            _ => Self::Unknown,
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpulet => "gpulet",
            Self::NodeFeatureDiscovery => "the topology updater of Node Feature Discovery",
            Self::ResourceTopologyExporter => "resource-topology-exporter",
            Self::Koordinator => "Koordinator's koordlet",
            Self::Person => "someone with kubectl",
            Self::Unknown => "an unknown program",
        }
    }
}

/// One field manager and what it owns of the object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// The field manager's name.
    pub manager: String,
    /// Which program that is.
    pub publisher: Publisher,
    /// It writes by server-side apply; otherwise by updates or plain patches.
    pub applies: bool,
    /// It owns `zones`.
    pub zones: bool,
    /// It owns `attributes`.
    pub attributes: bool,
    /// The names of the labels that it owns.
    pub labels: BTreeSet<String>,
    /// When it last wrote, RFC 3339.
    pub time: Option<String>,
}

/// Whose an object is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ownership {
    /// All field managers, as the API server orders them.
    pub owners: Vec<Owner>,
    /// What the label [`MANAGED_BY`] says.
    pub managed_by: Option<String>,
}

/// Another publisher to whom an object belongs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Contender {
    /// Which program it is.
    pub publisher: Publisher,
    /// How it was recognised: its field manager, or the label's value.
    pub manager: String,
}

impl Ownership {
    /// Reads it from an object's metadata.
    pub fn new<'a>(
        managed: &[ManagedFields],
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Self {
        let managed_by =
            labels.into_iter().find(|(name, _)| *name == MANAGED_BY).map(|(_, value)| value.clone());
        Self { owners: managed.iter().map(owner).collect(), managed_by }
    }

    /// Whether `zones` are ours, alone or among others.
    pub fn is_ours(&self) -> bool {
        self.owners.iter().any(|owner| owner.publisher == Publisher::Gpulet && owner.zones)
    }

    /// The publisher, other than us, to whom the object belongs: who owns `zones`, or whom the label names where nobody's
    /// ownership is on record. What someone wrote with kubectl belongs to no publisher.
    pub fn contender(&self) -> Option<Contender> {
        let publishes = |owner: &&Owner| !matches!(owner.publisher, Publisher::Gpulet | Publisher::Person);
        if let Some(owner) = self.owners.iter().filter(|owner| owner.zones).find(publishes) {
            return Some(Contender { publisher: owner.publisher, manager: owner.manager.clone() });
        }
        if self.is_ours() {
            return None;
        }
        let label = self.managed_by.as_deref()?;
        let publisher = Publisher::of_label(label);
        (publisher != Publisher::Gpulet).then(|| Contender { publisher, manager: label.to_owned() })
    }
}

fn owner(entry: &ManagedFields) -> Owner {
    let labels = entry.fields.under("metadata").and_then(|metadata| metadata.under("labels"));
    Owner {
        manager: entry.manager.clone(),
        publisher: Publisher::of_manager(&entry.manager),
        applies: entry.operation == "Apply",
        zones: entry.fields.under("zones").is_some(),
        attributes: entry.fields.under("attributes").is_some(),
        labels: labels.map(|labels| labels.names().map(str::to_owned).collect()).unwrap_or_default(),
        time: entry.time.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "topology.node.k8s.io/v1alpha2",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn ours() -> Value {
        entry(
            "gpulet",
            "Apply",
            json!({"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}},
                "f:ownerReferences": {"k:{\"uid\":\"1\"}": {}}}, "f:attributes": {}, "f:zones": {}}),
        )
    }

    fn zones(manager: &str, operation: &str) -> Value {
        entry(manager, operation, json!({"f:zones": {}}))
    }

    fn ownership(entries: &[Value], label: Option<&str>) -> Ownership {
        let entries: Vec<ManagedFields> = serde_json::from_value(json!(entries)).unwrap();
        let labels: BTreeMap<String, String> =
            label.into_iter().map(|value| (MANAGED_BY.to_owned(), value.to_owned())).collect();
        Ownership::new(&entries, &labels)
    }

    #[test]
    fn what_we_applied_is_ours() {
        let ownership = ownership(&[ours()], Some("gpulet"));
        assert!(ownership.is_ours());
        assert_eq!(ownership.contender(), None);
        let owner = &ownership.owners[0];
        assert!(owner.applies && owner.zones && owner.attributes);
        assert_eq!(owner.labels, BTreeSet::from([MANAGED_BY.to_owned()]));
    }

    #[test]
    fn each_publisher_is_known_by_its_field_manager() {
        for (manager, operation, publisher) in [
            ("node-feature-discovery-topology-updater", "Apply", Publisher::NodeFeatureDiscovery),
            ("nfd-topology-updater", "Update", Publisher::NodeFeatureDiscovery),
            ("resource-topology-exporter", "Update", Publisher::ResourceTopologyExporter),
            ("koordlet", "Update", Publisher::Koordinator),
            ("something", "Apply", Publisher::Unknown),
        ] {
            let contender = ownership(&[zones(manager, operation)], None).contender().unwrap();
            assert_eq!((contender.publisher, contender.manager.as_str()), (publisher, manager));
        }
    }

    #[test]
    fn another_that_shares_zones_with_us_is_a_contender() {
        let contender = ownership(&[ours(), zones("koordlet", "Update")], Some("gpulet")).contender();
        assert_eq!(contender.unwrap().publisher, Publisher::Koordinator);
    }

    #[test]
    fn who_only_sets_labels_or_attributes_is_none() {
        let labels = entry("helm", "Update", json!({"f:metadata": {"f:labels": {".": {}, "f:team": {}}}}));
        let ownership = ownership(&[ours(), labels], Some("gpulet"));
        assert_eq!(ownership.contender(), None);
        assert_eq!(ownership.owners[1].labels, BTreeSet::from(["team".to_owned()]));
    }

    #[test]
    fn a_person_is_no_publisher() {
        for manager in ["kubectl", "k9s", "kubectl-edit", "kubectl-client-side-apply", "kubectl-patch"] {
            let ownership = ownership(&[zones(manager, "Update")], Some("gpulet"));
            assert_eq!(ownership.owners[0].publisher, Publisher::Person, "{manager}");
            assert_eq!(ownership.contender(), None);
            assert!(!ownership.is_ours());
        }
    }

    #[test]
    fn where_nobody_is_on_record_the_label_speaks() {
        let contender = ownership(&[], Some("Koordinator")).contender().unwrap();
        assert_eq!(contender, Contender { publisher: Publisher::Koordinator, manager: "Koordinator".into() });
        assert_eq!(ownership(&[], Some("Helm")).contender().unwrap().publisher, Publisher::Unknown);
        assert_eq!(ownership(&[], Some("gpulet")).contender(), None);
        assert_eq!(ownership(&[], None).contender(), None);
        assert_eq!(
            ownership(&[ours()], Some("Helm")).contender(),
            None,
            "who wrote it counts, not who named it"
        );
    }

    #[test]
    fn odd_entries_are_read_as_far_as_they_go() {
        let odd = json!({"manager": "odd", "operation": "Update", "fieldsV1": {"f:zones": {".": {}, "k:{\"name\":\"a\"}": {}}}});
        assert!(ownership(&[odd, json!({})], None).owners[0].zones);
    }
}
