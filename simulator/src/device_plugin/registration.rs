//! Making oneself known to a kubelet: its one call, on its socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::Endpoint;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::v1beta1::messages::{DevicePluginOptions, Empty, RegisterRequest};
use crate::kubelet::serving::within_reach;

/// The only version there is.
const VERSION: &str = "v1beta1";
/// The kubelet answers at once or not at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Registers a resource whose plugin serves on the socket `endpoint`, beside the kubelet's.
pub(super) async fn register(
    kubelet: &Path,
    endpoint: &str,
    resource: &str,
    options: DevicePluginOptions,
) -> Result<(), Status> {
    let path: PathBuf = kubelet.to_owned();
    let connect = tower::service_fn(move |_| {
        let path = path.clone();
        async move { Ok::<_, io::Error>(TokioIo::new(connect(&path)?)) }
    });
    // The address is never looked up: the connector knows where to go.
    let channel = Endpoint::from_static("http://kubelet").connect_timeout(PATIENCE).timeout(PATIENCE);
    let channel = channel.connect_with_connector(connect).await;
    let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let request = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint: endpoint.to_owned(),
        resource_name: resource.to_owned(),
        options: Some(options),
    };
    let path = http::uri::PathAndQuery::from_static("/v1beta1.Registration/Register");
    let codec = ProstCodec::<RegisterRequest, Empty>::default();
    client.unary(Request::new(request), path, codec).await.map(drop)
}

fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = within_reach(path, |path| std::os::unix::net::UnixStream::connect(path))?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
