//! Pods as far as it matters to the kubelet where they lie.

use std::collections::BTreeMap;

use gpulet_inventory::pod::QosClass;
use serde::Deserialize;

use super::quantity::Quantity;

/// Amounts by the name of the resource: `cpu`, `memory`, `hugepages-2Mi`, `nvidia.com/gpu`.
pub type Amounts = BTreeMap<String, Quantity>;

/// A Pod that is bound to the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID; empty: the kubelet makes one up.
    pub uid: String,
    /// Containers that run before the others, one after the other.
    pub init_containers: Vec<Container>,
    /// Its containers.
    pub containers: Vec<Container>,
}

/// A container of a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// What it is promised.
    pub requests: Amounts,
    /// What it cannot exceed.
    pub limits: Amounts,
    /// An init container that goes on running beside the others (`restartPolicy: Always`).
    pub restartable: bool,
}

impl Pod {
    /// A Pod without containers.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: String::new(),
            init_containers: Vec::new(),
            containers: Vec::new(),
        }
    }

    /// With one more container.
    #[must_use]
    pub fn container(mut self, container: Container) -> Self {
        self.containers.push(container);
        self
    }

    /// With one more init container.
    #[must_use]
    pub fn init_container(mut self, container: Container) -> Self {
        self.init_containers.push(container);
        self
    }

    /// Init containers, then the others: the order in which they get what they ask for.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }

    /// Its quality of service.
    pub fn qos(&self) -> QosClass {
        let counts = |amounts: &Amounts, resource: &str| amounts.get(resource).is_some_and(|a| !a.is_zero());
        let of = |container: &Container, resource: &str| {
            (container.requests.get(resource).copied(), container.limits.get(resource).copied())
        };
        let mut any = false;
        let mut guaranteed = true;
        let mut sums: BTreeMap<&str, (Quantity, Quantity)> = BTreeMap::new();
        for container in self.all_containers() {
            for resource in ["cpu", "memory"] {
                any |= counts(&container.requests, resource) || counts(&container.limits, resource);
                guaranteed &= counts(&container.limits, resource);
                let (request, limit) = of(container, resource);
                let sum = sums.entry(resource).or_default();
                sum.0 += request.unwrap_or_default();
                sum.1 += limit.unwrap_or_default();
            }
        }
        // Only what they ask for in all is compared.
        guaranteed &= sums.values().all(|(request, limit)| request == limit);
        match (any, guaranteed) {
            (false, _) => QosClass::BestEffort,
            (true, true) => QosClass::Guaranteed,
            (true, false) => QosClass::Burstable,
        }
    }

    /// How much of something the whole Pod needs at its peak: its containers together with the restartable init
    /// containers, or an init container together with the restartable ones before it, whichever is more.
    pub fn peak<T: Copy + Default + Ord + std::iter::Sum>(&self, of: impl Fn(&Container) -> T) -> T {
        let mut beside = T::default();
        let mut highest = T::default();
        for container in &self.init_containers {
            let together = [beside, of(container)].into_iter().sum();
            if container.restartable {
                beside = together;
            }
            highest = highest.max(together);
        }
        let running: T = self.containers.iter().map(of).sum();
        highest.max([beside, running].into_iter().sum())
    }
}

impl Container {
    /// A container that asks for nothing.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), requests: Amounts::new(), limits: Amounts::new(), restartable: false }
    }

    /// With as much promised as it can have at most.
    #[must_use]
    pub fn with(mut self, resource: &str, amount: Quantity) -> Self {
        self.requests.insert(resource.to_owned(), amount);
        self.limits.insert(resource.to_owned(), amount);
        self
    }

    /// With whole CPUs and memory (bytes) of its own: a Pod of such containers is `Guaranteed`.
    #[must_use]
    pub fn guaranteed(self, cpus: u64, memory_bytes: u64) -> Self {
        self.with("cpu", Quantity::of(cpus)).with("memory", Quantity::of(memory_bytes))
    }

    /// With devices of a plugin.
    #[must_use]
    pub fn devices(self, resource: &str, count: u64) -> Self {
        self.with(resource, Quantity::of(count))
    }

    /// As one that goes on running beside the others, if it is an init container.
    #[must_use]
    pub fn restartable(mut self) -> Self {
        self.restartable = true;
        self
    }
}

/// A Pod's manifest, as far as it is read.
#[derive(Deserialize)]
struct Manifest {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default = "default_namespace")]
    namespace: String,
    name: String,
    #[serde(default)]
    uid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    init_containers: Vec<ContainerManifest>,
    containers: Vec<ContainerManifest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerManifest {
    name: String,
    #[serde(default)]
    resources: Resources,
    restart_policy: Option<String>,
}

#[derive(Default, Deserialize)]
struct Resources {
    #[serde(default)]
    requests: Amounts,
    #[serde(default)]
    limits: Amounts,
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// A Pod is read from its manifest in the Kubernetes API, JSON or YAML; what is not known here is passed over. As the API
/// server does, what is limited but not asked for is asked for.
impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let manifest = Manifest::deserialize(deserializer)?;
        let Metadata { namespace, name, uid } = manifest.metadata;
        let container = |manifest: ContainerManifest| {
            let Resources { mut requests, limits } = manifest.resources;
            for (resource, amount) in &limits {
                requests.entry(resource.clone()).or_insert(*amount);
            }
            let restartable = manifest.restart_policy.as_deref() == Some("Always");
            Container { name: manifest.name, requests, limits, restartable }
        };
        let all = |manifests: Vec<ContainerManifest>| manifests.into_iter().map(container).collect();
        let (init_containers, containers) =
            (all(manifest.spec.init_containers), all(manifest.spec.containers));
        Ok(Self { namespace, name, uid, init_containers, containers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_of_service_is_what_kubernetes_computes() {
        let pod = |container: Container| Pod::new("default", "p").container(container);
        let half = Quantity::of_milli(500);
        assert_eq!(pod(Container::new("c")).qos(), QosClass::BestEffort);
        assert_eq!(pod(Container::new("c").devices("nvidia.com/gpu", 1)).qos(), QosClass::BestEffort);
        assert_eq!(pod(Container::new("c").guaranteed(2, 1 << 20)).qos(), QosClass::Guaranteed);
        assert_eq!(pod(Container::new("c").with("cpu", half)).qos(), QosClass::Burstable);
        let mut more = Container::new("c").guaranteed(2, 1 << 20);
        more.requests.insert("cpu".to_owned(), Quantity::of(1));
        assert_eq!(pod(more).qos(), QosClass::Burstable);
        let beside = pod(Container::new("c").guaranteed(2, 1 << 20)).container(Container::new("side"));
        assert_eq!(beside.qos(), QosClass::Burstable);
    }

    #[test]
    fn a_peak_counts_init_containers_as_they_run() {
        let pod = Pod::new("default", "p")
            .init_container(Container::new("a").guaranteed(3, 1))
            .init_container(Container::new("b").guaranteed(1, 1).restartable())
            .init_container(Container::new("c").guaranteed(4, 1))
            .container(Container::new("d").guaranteed(2, 1));
        let cpus = |c: &Container| c.requests.get("cpu").map_or(0, |cpus| cpus.value());
        assert_eq!(pod.peak(cpus), 5);
    }

    #[test]
    fn a_manifest_is_read_with_the_defaults_of_the_api() {
        let text = r#"{"metadata": {"name": "a"}, "spec": {"nodeName": "n",
            "initContainers": [{"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": 2, "memory": "64Mi", "x.y/z": "1"}}}]}}"#;
        let pod: Pod = serde_json::from_str(text).unwrap();
        assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("default", "a"));
        assert!(pod.init_containers[0].restartable);
        assert_eq!(pod.containers[0], Container::new("c").guaranteed(2, 64 << 20).devices("x.y/z", 1));
    }
}
