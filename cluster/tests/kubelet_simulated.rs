//! The simulated kubelet, which decides as a real one does, asked and watched as the real one is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use gpulet_cluster::kubelet::pod_resources::{Answer, Limits};
use gpulet_cluster::kubelet::settings::of_files;
use gpulet_cluster::kubelet::watch::Change;
use gpulet_cluster::kubelet::{PodResources, Watch};
use gpulet_host::Root;
use gpulet_inventory::kubelet::NodeAllocation;
use gpulet_simulator::kubelet::{
    Behaviour, Container, Device, Fault, GetOffer, Machine, NumaNode, Pod, Settings, SimulatedKubelet,
};
use gpulet_simulator::node::Node;
use tempfile::TempDir;

const GPU: &str = "nvidia.com/gpu";

struct Kubelet {
    kubelet: SimulatedKubelet,
    root: TempDir,
}

impl Kubelet {
    /// The kubelet of an HGX H100 with its strictest settings and a GPU on each NUMA node, one on both and one anywhere.
    fn start() -> Self {
        let machine = Machine::of(&Node::load("hgx-h100").unwrap());
        let settings = Settings::strict(&machine);
        let root = tempfile::tempdir().unwrap();
        let kubelet = SimulatedKubelet::start(machine, settings, root.path()).unwrap();
        let device = |id: &str, numa: Option<&[i64]>| Device {
            id: id.to_owned(),
            numa: numa.map(<[i64]>::to_vec),
            healthy: true,
        };
        let devices =
            [("GPU-0", Some(&[0][..])), ("GPU-1", Some(&[1])), ("GPU-2", Some(&[0, 1])), ("GPU-3", None)];
        kubelet.register(GPU, devices.map(|(id, numa)| device(id, numa)).to_vec());
        Self { kubelet, root }
    }

    fn client(&self) -> PodResources {
        PodResources::new(self.kubelet.socket(), Limits::default())
    }

    fn impatient_client(&self) -> PodResources {
        let limits = Limits { deadline: Duration::from_millis(300), ..Limits::default() };
        PodResources::new(self.kubelet.socket(), limits)
    }

    async fn reason(&self) -> &'static str {
        self.client().read().await.unwrap_err().reason()
    }

    fn admit(&self, name: &str, cpus: u64, gpus: u64) {
        let container = Container::new("main").guaranteed(cpus, 1 << 30).devices(GPU, gpus);
        self.kubelet.admit(Pod::new("default", name).container(container)).unwrap();
    }
}

/// The simulated kubelet's own account, in the order in which it is read.
fn in_order(mut allocation: NodeAllocation) -> NodeAllocation {
    allocation.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let containers = allocation.pods.iter_mut().flat_map(|pod| &mut pod.containers);
    let memory =
        containers.map(|container| &mut container.memory).chain([&mut allocation.allocatable.memory]);
    memory.for_each(|blocks| blocks.sort_by(|a, b| (&a.kind, &a.numa_nodes).cmp(&(&b.kind, &b.numa_nodes))));
    allocation
}

async fn next(watch: &mut Watch) -> Change {
    tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.expect("a change").unwrap()
}

#[tokio::test]
async fn what_is_read_is_what_the_kubelet_has_given_away() {
    let node = Kubelet::start();
    let mut watch = Watch::new(node.kubelet.directory(), []).unwrap();
    for (name, cpus, gpus) in [("one", 2, 1), ("two", 4, 2), ("none", 1, 0)] {
        node.admit(name, cpus, gpus);
        assert!(next(&mut watch).await.allocation);
        let Answer { allocation, oddities } = node.client().read().await.unwrap();
        assert_eq!(oddities, []);
        assert_eq!(allocation, in_order(node.kubelet.allocation()));
    }
    let pod = node.client().get("default", "two").await.unwrap().unwrap();
    assert_eq!((pod.containers[0].devices.len(), pod.containers[0].cpus.len()), (2, 4));
    assert_eq!(node.client().get("default", "three").await.unwrap(), None);
    assert!(node.kubelet.remove("default", "two"));
    assert!(next(&mut watch).await.allocation);
    let allocation = node.client().read().await.unwrap().allocation;
    assert_eq!(allocation, in_order(node.kubelet.allocation()));
}

#[tokio::test]
async fn a_kubelet_that_ends_starts_and_loses_its_devices_for_a_while() {
    let node = Kubelet::start();
    node.admit("one", 2, 1);
    let mut watch = Watch::new(node.kubelet.directory(), []).unwrap();
    let before = node.client().read().await.unwrap().allocation;
    node.kubelet.stop();
    assert_eq!(node.reason().await, "Refused");
    node.kubelet.resume().unwrap();
    assert!(next(&mut watch).await.socket_replaced);
    let started = node.client().read().await.unwrap().allocation;
    assert_eq!((started.allocatable.devices.len(), &started.pods), (0, &before.pods));
    node.kubelet.plugins_return();
    assert_eq!(node.client().read().await.unwrap().allocation, before);
    node.kubelet.remove_socket().unwrap();
    assert_eq!(node.reason().await, "SocketAbsent");
}

#[tokio::test]
async fn what_goes_wrong_is_told_apart() {
    let node = Kubelet::start();
    for (fault, reason) in [
        (Fault::Hang, "TimedOut"),
        (Fault::Exhausted, "RateLimited"),
        (Fault::Broken, "Failed"),
        (Fault::Large { bytes: 17 << 20 }, "TooLarge"),
    ] {
        node.kubelet.fault(Some(fault));
        let client = if fault == Fault::Hang { node.impatient_client() } else { node.client() };
        assert_eq!(client.read().await.unwrap_err().reason(), reason, "{fault:?}");
    }
    node.kubelet.fault(Some(Fault::Garbage));
    let reason = node.client().read().await.unwrap_err().reason();
    assert!(["Garbled", "HungUp"].contains(&reason), "{reason}");
    node.kubelet.fault(Some(Fault::Large { bytes: 6 << 20 }));
    assert!(node.client().read().await.unwrap().allocation.pods.len() > 100);
    for get in [GetOffer::Disabled, GetOffer::Unknown] {
        node.kubelet.behave(Behaviour { get, ..Behaviour::default() });
        assert_eq!(
            node.client().get("default", "one").await.unwrap_err().reason(),
            "Unimplemented",
            "{get:?}"
        );
    }
    assert!(node.client().read().await.is_ok());
}

#[tokio::test]
async fn its_settings_are_those_that_it_runs_with() {
    let node = Kubelet::start();
    let root = Root::new(node.root.path());
    let memory: u64 = node.kubelet.machine().memory_bytes();
    let read = of_files(&gpulet_host::kubelet::find(&root).unwrap(), Some(memory)).unwrap();
    let settings = node.kubelet.settings();
    assert_eq!(read.topology_manager_policy, settings.topology_manager_policy.as_str());
    assert_eq!((read.cpu_manager_policy.as_str(), read.memory_manager_policy.as_str()), ("static", "Static"));
    assert_eq!(read.cgroup_driver, "systemd");
    assert_eq!(read.source, "/var/lib/kubelet/config.yaml");
    // What is kept on the NUMA nodes is what is kept in all, or the memory manager would not start.
    let kept: u64 = read.reserved_memory.values().filter_map(|kinds| kinds.get("memory")).sum();
    assert_eq!((read.reserved_milli_cpus, read.reserved_memory_bytes), (1000, kept));
    let allocatable = node.kubelet.allocation().allocatable;
    let given: u64 =
        allocatable.memory.iter().filter(|block| block.kind == "memory").map(|block| block.bytes).sum();
    let of_nodes = |numa: &[NumaNode]| numa.iter().map(|numa| numa.memory_bytes).sum::<u64>();
    assert_eq!(given + kept, of_nodes(&node.kubelet.machine().numa));
    drop(node.kubelet);
    assert_eq!(gpulet_host::kubelet::find(&root).unwrap_err().reason(), "KubeletNotFound");
}
