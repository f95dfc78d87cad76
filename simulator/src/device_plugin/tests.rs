//! The plugin beside a kubelet of the test's own.

use std::path::Path;
use std::sync::mpsc;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::v1beta1::messages as v1;
use super::v1beta1::messages::registration_server::{Registration, RegistrationServer};
use super::{DevicePlugin, Naming};
use crate::command::Command;
use crate::kubelet::serving::Serving;
use crate::{ClockMode, SimulatedNode};

/// The kubelet's side of the registration.
struct Kubelet(mpsc::Sender<v1::RegisterRequest>);

#[tonic::async_trait]
impl Registration for Kubelet {
    async fn register(&self, request: Request<v1::RegisterRequest>) -> Result<Response<v1::Empty>, Status> {
        self.0.send(request.into_inner()).unwrap();
        Ok(Response::new(v1::Empty {}))
    }
}

fn kubelet(root: &Path) -> (Serving, mpsc::Receiver<v1::RegisterRequest>) {
    let (told, hears) = mpsc::channel();
    let (_, steady) = watch::channel(Default::default());
    let socket = root.join("device-plugins/kubelet.sock");
    (Serving::start(&socket, RegistrationServer::new(Kubelet(told)), steady).unwrap(), hears)
}

async fn connect(socket: &Path) -> tonic::client::Grpc<Channel> {
    let socket = socket.to_owned();
    let connect = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://plugin").connect_with_connector(connect).await.unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    client
}

fn path(method: &'static str) -> http::uri::PathAndQuery {
    http::uri::PathAndQuery::from_static(method)
}

struct Bench {
    _dir: tempfile::TempDir,
    root: std::path::PathBuf,
    node: SimulatedNode,
    plugin: DevicePlugin,
    runtime: Runtime,
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let node = SimulatedNode::start("a30-2x", &dir.path().join("node"), ClockMode::Stepped).unwrap();
    let root = dir.path().join("kubelet");
    let plugin = DevicePlugin::new(&root, &node.host_root(), Naming::default(), true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Bench { _dir: dir, root, node, plugin, runtime }
}

#[test]
fn without_a_kubelet_it_waits_and_registers_at_each_new_one() {
    let mut bench = bench();
    assert!(bench.plugin.step(&bench.node.state()).unwrap().is_empty());
    for _ in 0..2 {
        let (_kubelet, hears) = kubelet(&bench.root);
        assert_eq!(bench.plugin.step(&bench.node.state()).unwrap(), ["nvidia.com/gpu"]);
        let request = hears.recv().unwrap();
        assert_eq!((request.version.as_str(), request.resource_name.as_str()), ("v1beta1", "nvidia.com/gpu"));
        assert!(request.options.unwrap().get_preferred_allocation_available);
        assert!(bench.root.join("device-plugins").join(request.endpoint).exists());
        assert!(bench.plugin.step(&bench.node.state()).unwrap().is_empty(), "once for each kubelet");
    }
}

#[test]
fn a_lost_gpu_becomes_unhealthy_while_the_kubelet_watches() {
    let mut bench = bench();
    let (_kubelet, hears) = kubelet(&bench.root);
    bench.plugin.step(&bench.node.state()).unwrap();
    let socket = bench.root.join("device-plugins").join(hears.recv().unwrap().endpoint);
    let codec = ProstCodec::<v1::Empty, v1::ListAndWatchResponse>::default;
    let mut list = bench.runtime.block_on(async {
        let mut client = connect(&socket).await;
        let method = path("/v1beta1.DevicePlugin/ListAndWatch");
        client.server_streaming(Request::new(v1::Empty {}), method, codec()).await.unwrap().into_inner()
    });
    let devices = bench.runtime.block_on(list.message()).unwrap().unwrap().devices;
    let health: Vec<_> = devices.iter().map(|device| device.health.as_str()).collect();
    assert_eq!(health, ["Healthy", "Healthy"]);
    assert!(devices[0].id.starts_with("GPU-") && devices[0].topology.is_some());

    bench.node.command(Command::Lose { gpu: 1 }).unwrap();
    bench.plugin.step(&bench.node.state()).unwrap();
    let devices = bench.runtime.block_on(list.message()).unwrap().unwrap().devices;
    let health: Vec<_> = devices.iter().map(|device| device.health.as_str()).collect();
    assert_eq!(health, ["Healthy", "Unhealthy"]);
}

#[test]
fn it_gives_what_a_container_needs_and_says_what_it_would_rather_give() {
    let mut bench = bench();
    let (_kubelet, hears) = kubelet(&bench.root);
    bench.plugin.step(&bench.node.state()).unwrap();
    let socket = bench.root.join("device-plugins").join(hears.recv().unwrap().endpoint);
    let ids: Vec<String> = bench.node.state().gpus.iter().map(|gpu| gpu.identity.uuid.clone()).collect();
    let mut client = bench.runtime.block_on(connect(&socket));
    let allocate = |ids: &[String]| v1::AllocateRequest {
        container_requests: vec![v1::ContainerAllocateRequest { devices_ids: ids.to_vec() }],
    };
    let method = || path("/v1beta1.DevicePlugin/Allocate");
    let codec = ProstCodec::<v1::AllocateRequest, v1::AllocateResponse>::default;
    let answer = bench.runtime.block_on(client.unary(Request::new(allocate(&ids[..1])), method(), codec()));
    let answer = answer.unwrap().into_inner();
    assert_eq!(answer.container_responses[0].envs["NVIDIA_VISIBLE_DEVICES"], ids[0]);
    bench.runtime.block_on(client.ready()).unwrap();
    let unknown = allocate(&["GPU-none".to_owned()]);
    let refused = bench.runtime.block_on(client.unary(Request::new(unknown), method(), codec())).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);

    bench.runtime.block_on(client.ready()).unwrap();
    let asked = v1::ContainerPreferredAllocationRequest {
        available_device_i_ds: ids.iter().rev().cloned().collect(),
        must_include_device_i_ds: vec![],
        allocation_size: 1,
    };
    let request = v1::PreferredAllocationRequest { container_requests: vec![asked] };
    let codec = ProstCodec::<v1::PreferredAllocationRequest, v1::PreferredAllocationResponse>::default();
    let method = path("/v1beta1.DevicePlugin/GetPreferredAllocation");
    let answer = bench.runtime.block_on(client.unary(Request::new(request), method, codec)).unwrap();
    assert_eq!(answer.into_inner().container_responses[0].device_i_ds, [ids[0].clone()]);
}
