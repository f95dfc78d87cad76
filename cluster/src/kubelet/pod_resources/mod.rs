//! The kubelet's PodResources service (`<kubelet's root>/pod-resources/kubelet.sock`), version 1.
//!
//! Each reading connects anew: the kubelet makes its socket again when it starts, and a connection to the old one would
//! hang without a word. A reading costs two calls, and ends by its deadline whatever the other side does.

mod bounds;
mod convert;
mod error;
#[cfg(test)]
mod tests;
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "made from proto/podresources.proto")]
#[rustfmt::skip]
mod v1;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpulet_inventory::kubelet::{NodeAllocation, PodAllocation};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

pub use convert::Oddity;
pub use error::PodResourcesError;
use v1::pod_resources_lister_client::PodResourcesListerClient;

/// What a reading may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a reading may take in all, connecting included.
    pub deadline: Duration,
    /// How large one answer may be, bytes.
    pub message_bytes: usize,
}

impl Default for Limits {
    /// What the kubelet's own client allows itself: 10 s and 16 MiB.
    fn default() -> Self {
        Self { deadline: Duration::from_secs(10), message_bytes: 16 << 20 }
    }
}

/// What a reading brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// What the kubelet told, as far as it makes sense.
    pub allocation: NodeAllocation,
    /// What made none, and was left out.
    pub oddities: Vec<Oddity>,
}

/// The kubelet's PodResources service.
#[derive(Debug, Clone)]
pub struct PodResources {
    socket: PathBuf,
    limits: Limits,
}

impl PodResources {
    /// The service behind the socket at `socket`, which need not be there yet.
    pub fn new(socket: impl Into<PathBuf>, limits: Limits) -> Self {
        Self { socket: socket.into(), limits }
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What there is to give away, and who has what.
    ///
    /// The two are asked for one after the other: what is given away in between is told by the second only.
    ///
    /// # Errors
    /// Whatever keeps the kubelet from answering by the deadline; see [`PodResourcesError`].
    pub async fn read(&self) -> Result<Answer, PodResourcesError> {
        self.by_the_deadline(async {
            let mut client = self.connect().await?;
            let allocatable = client.get_allocatable_resources(v1::AllocatableResourcesRequest {}).await;
            let allocatable = self.answer("GetAllocatableResources", allocatable)?;
            bounds::allocatable(&allocatable)
                .map_err(PodResourcesError::too_many("GetAllocatableResources"))?;
            let listed = self.answer("List", client.list(v1::ListPodResourcesRequest {}).await)?;
            bounds::pods(&listed.pod_resources).map_err(PodResourcesError::too_many("List"))?;
            Ok(convert::node(allocatable, listed))
        })
        .await
    }

    /// What one Pod has; `None` where the kubelet knows no such Pod.
    ///
    /// # Errors
    /// As [`PodResources::read`]. A kubelet before 1.34 does not offer this unless it is told to:
    /// [`PodResourcesError::Unimplemented`].
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<PodAllocation>, PodResourcesError> {
        let request =
            v1::GetPodResourcesRequest { pod_name: name.to_owned(), pod_namespace: namespace.to_owned() };
        self.by_the_deadline(async {
            let answer = self.connect().await?.get(request).await;
            if answer.as_ref().is_err_and(is_unknown_pod) {
                return Ok(None);
            }
            let pod = self.answer("Get", answer)?.pod_resources;
            bounds::pods(&pod).map_err(PodResourcesError::too_many("Get"))?;
            Ok(pod.map(convert::one_pod))
        })
        .await
    }

    async fn by_the_deadline<T>(
        &self,
        reading: impl Future<Output = Result<T, PodResourcesError>>,
    ) -> Result<T, PodResourcesError> {
        tokio::time::timeout(self.limits.deadline, reading).await.unwrap_or_else(|_| {
            Err(PodResourcesError::TimedOut { socket: self.socket.clone(), deadline: self.limits.deadline })
        })
    }

    async fn connect(&self) -> Result<PodResourcesListerClient<Channel>, PodResourcesError> {
        let stream = UnixStream::connect(&self.socket).await;
        let stream = stream.map_err(|source| PodResourcesError::connecting(&self.socket, source))?;
        // The channel wants a way to connect; this one has been gone, and is gone once.
        let mut stream = Some(TokioIo::new(stream));
        let once = tower::service_fn(move |_| {
            let stream = stream.take().ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset));
            std::future::ready(stream)
        });
        let channel = Endpoint::from_static("http://kubelet").connect_with_connector(once).await;
        let channel = channel.map_err(|error| PodResourcesError::talking(&self.socket, "connect", error))?;
        Ok(PodResourcesListerClient::new(channel).max_decoding_message_size(self.limits.message_bytes))
    }

    fn answer<T>(
        &self,
        call: &'static str,
        answer: Result<Response<T>, Status>,
    ) -> Result<T, PodResourcesError> {
        match answer {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(PodResourcesError::answered(&self.socket, call, self.limits, status)),
        }
    }
}

/// The kubelet gives this no code of its own.
fn is_unknown_pod(status: &Status) -> bool {
    status.code() == Code::NotFound
        || (status.code() == Code::Unknown && status.message().ends_with("not found"))
}
