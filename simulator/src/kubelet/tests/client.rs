//! A client of PodResources that is none of gpulet's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpulet_inventory::kubelet::{
    Allocatable, ContainerAllocation, KubeletDevice, MemoryBlock, PodAllocation,
};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::kubelet::pod_resources::v1;

const MOST_BYTES: usize = 64 << 20;

pub(super) struct Client {
    runtime: Runtime,
    socket: PathBuf,
}

impl Client {
    pub(super) fn new(socket: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, socket: socket.to_owned() }
    }

    /// A connection of its own.
    pub(super) fn connect(&self) -> Result<Grpc<Channel>, Status> {
        let socket = self.socket.clone();
        let connect = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        self.runtime.block_on(async {
            let channel = Endpoint::from_static("http://kubelet").connect_with_connector(connect).await;
            let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
            Ok(Grpc::new(channel).max_decoding_message_size(MOST_BYTES))
        })
    }

    fn call<Q, A>(&self, client: &mut Grpc<Channel>, method: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = http::uri::PathAndQuery::from_static(method);
        self.runtime.block_on(async {
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let answer = client.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await;
            answer.map(tonic::Response::into_inner)
        })
    }

    fn raw_list(&self, client: &mut Grpc<Channel>) -> Result<v1::ListPodResourcesResponse, Status> {
        self.call(client, "/v1.PodResourcesLister/List", v1::ListPodResourcesRequest {})
    }

    pub(super) fn list(&self) -> Result<Vec<PodAllocation>, Status> {
        self.list_over(self.connect()?)
    }

    pub(super) fn list_over(&self, mut client: Grpc<Channel>) -> Result<Vec<PodAllocation>, Status> {
        let answer = self.raw_list(&mut client)?;
        Ok(sorted(answer.pod_resources.into_iter().map(pod).collect()))
    }

    pub(super) fn list_bytes(&self) -> Result<usize, Status> {
        Ok(self.raw_list(&mut self.connect()?)?.encoded_len())
    }

    /// Gives up after a while.
    pub(super) fn list_within(&self, patience: Duration) -> Result<(), ()> {
        let mut client = self.connect().unwrap();
        let path = http::uri::PathAndQuery::from_static("/v1.PodResourcesLister/List");
        let codec = ProstCodec::<v1::ListPodResourcesRequest, v1::ListPodResourcesResponse>::default();
        self.runtime.block_on(async {
            client.ready().await.unwrap();
            let call = client.unary(Request::new(v1::ListPodResourcesRequest {}), path, codec);
            tokio::time::timeout(patience, call).await.map(drop).map_err(drop)
        })
    }

    /// One call after the other, over one connection.
    pub(super) fn list_often(&self, count: usize) -> Vec<Code> {
        let mut client = self.connect().unwrap();
        let code = |_| self.raw_list(&mut client).map_or_else(|status| status.code(), |_| Code::Ok);
        (0..count).map(code).collect()
    }

    pub(super) fn allocatable(&self) -> Result<Allocatable, Status> {
        let method = "/v1.PodResourcesLister/GetAllocatableResources";
        let request = v1::AllocatableResourcesRequest {};
        let answer: v1::AllocatableResourcesResponse = self.call(&mut self.connect()?, method, request)?;
        Ok(Allocatable {
            devices: devices(answer.devices),
            cpus: answer.cpu_ids.into_iter().map(|cpu| u32::try_from(cpu).unwrap()).collect(),
            memory: answer.memory.into_iter().map(block).collect(),
        })
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Result<PodAllocation, Status> {
        let request =
            v1::GetPodResourcesRequest { pod_name: name.to_owned(), pod_namespace: namespace.to_owned() };
        let method = "/v1.PodResourcesLister/Get";
        let answer: v1::GetPodResourcesResponse = self.call(&mut self.connect()?, method, request)?;
        Ok(pod(answer.pod_resources.unwrap()))
    }
}

/// In the order of names.
pub(super) fn sorted(mut pods: Vec<PodAllocation>) -> Vec<PodAllocation> {
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    pods
}

fn pod(pod: v1::PodResources) -> PodAllocation {
    let container = |container: v1::ContainerResources| ContainerAllocation {
        name: container.name,
        devices: devices(container.devices),
        cpus: container.cpu_ids.into_iter().map(|cpu| u32::try_from(cpu).unwrap()).collect(),
        memory: container.memory.into_iter().map(block).collect(),
        claims: Vec::new(),
    };
    let containers = pod.containers.into_iter().map(container).collect();
    PodAllocation { namespace: pod.namespace, name: pod.name, containers }
}

fn devices(entries: Vec<v1::ContainerDevices>) -> Vec<KubeletDevice> {
    let mut devices: BTreeMap<(String, String), Option<Vec<i64>>> = BTreeMap::new();
    for entry in entries {
        let [id] = entry.device_ids.as_slice() else { panic!("one id per entry") };
        let known = devices.entry((entry.resource_name, id.clone())).or_default();
        if let Some(topology) = entry.topology {
            assert_eq!(topology.nodes.len(), 1, "one node per entry");
            let nodes = known.get_or_insert_default();
            nodes.extend(topology.nodes.iter().map(|node| node.id));
            nodes.sort_unstable();
        }
    }
    let device = |((resource, id), numa_nodes)| KubeletDevice { resource, id, numa_nodes };
    devices.into_iter().map(device).collect()
}

fn block(memory: v1::ContainerMemory) -> MemoryBlock {
    MemoryBlock {
        kind: memory.memory_type,
        bytes: memory.size,
        numa_nodes: memory.topology.unwrap().nodes.iter().map(|node| node.id).collect(),
    }
}
