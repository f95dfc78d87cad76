//! Manifests, as `kubectl apply --server-side` would apply them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{Answer, Client, ControlPlane};

/// The objects in the YAML file at `path`, or in all of a directory's in the order of their names.
pub fn documents(path: &Path) -> Vec<Value> {
    if path.is_dir() {
        let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|file| file.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
        assert!(!files.is_empty(), "{} has no manifest", path.display());
        return files.iter().flat_map(|file| documents(file)).collect();
    }
    let text = std::fs::read_to_string(path).unwrap();
    let parsed: Result<Vec<Value>, _> = serde_saphyr::from_multiple(&text);
    parsed.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Where objects of a kind are.
struct Kind {
    plural: String,
    namespaced: bool,
}

impl ControlPlane {
    /// Applies every object of `path` (see [`documents`]) in order; panics at the first that is refused.
    pub fn apply(&self, path: &Path) {
        for object in documents(path) {
            self.apply_object(&object, false).ok();
        }
    }

    /// Applies `object` by server-side apply as an administrator, or only tries whether it would be accepted.
    pub fn apply_object(&self, object: &Value, dry_run: bool) -> Answer {
        let mut path =
            format!("{}?fieldManager=tests&fieldValidation=Strict", object_path(self.admin(), object));
        if dry_run {
            path.push_str("&dryRun=All");
        }
        self.admin().apply(&path, object)
    }
}

/// The path of `object`, by what the API server says of its kind.
fn object_path(client: &Client, object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let base = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let kinds = kinds(client, &base);
    let known = kinds.get(&kind).unwrap_or_else(|| panic!("{version} has no {kind}"));
    let (plural, name) = (&known.plural, text(&object["metadata"]["name"]));
    if known.namespaced {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        return format!("{base}/namespaces/{namespace}/{plural}/{name}");
    }
    format!("{base}/{plural}/{name}")
}

fn kinds(client: &Client, base: &str) -> BTreeMap<String, Kind> {
    let listed = client.get(base).ok();
    let resources = listed["resources"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let whole = resources.iter().filter(|resource| !text(&resource["name"]).contains('/'));
    let kind = |resource: &Value| Kind {
        plural: text(&resource["name"]),
        namespaced: resource["namespaced"].as_bool().unwrap_or_default(),
    };
    whole.map(|resource| (text(&resource["kind"]), kind(resource))).collect()
}
