//! The service: answers from the allocator, or what a fault makes of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use gpulet_inventory::kubelet::PodAllocation;
use prost::Message;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use super::allocator::{Allocator, Stage};
use super::answer::{self, Disorder};
use super::behaviour::{Behaviour, Fault, GetOffer};
use super::limiter::Limiter;
use super::pod_resources::v1;
use super::pod_resources::v1::pod_resources_lister_server::PodResourcesLister;

/// What is shared between the kubelet as a value and those who ask it.
pub(super) struct Shared {
    pub(super) allocator: Mutex<Allocator>,
    limiter: Mutex<Limiter>,
    /// Calls so far.
    pub(super) calls: std::sync::atomic::AtomicU64,
}

impl Shared {
    pub(super) fn new(allocator: Allocator) -> Self {
        Self {
            allocator: Mutex::new(allocator),
            limiter: Mutex::new(Limiter::new()),
            calls: Default::default(),
        }
    }

    /// Does something with the allocator alone.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Allocator) -> T) -> T {
        act(&mut self.allocator.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// PodResources v1.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) shared: Arc<Shared>,
    pub(super) behaviour: watch::Receiver<Behaviour>,
}

impl Service {
    /// What every call goes through; gives how to behave and in which order to answer.
    async fn enter(&self) -> Result<(Behaviour, Disorder), Status> {
        let number = self.shared.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut behaviour = self.behaviour.clone();
        let settled = behaviour.wait_for(|behaviour| behaviour.fault != Some(Fault::Hang)).await;
        let behaviour = settled.map_err(|_| Status::unavailable("the kubelet ends"))?.clone();
        let limited = !behaviour.unlimited && {
            let mut limiter = self.shared.limiter.lock().unwrap_or_else(PoisonError::into_inner);
            !limiter.admits(Instant::now())
        };
        if limited || behaviour.fault == Some(Fault::Exhausted) {
            return Err(Status::resource_exhausted("rejected by rate limit"));
        }
        if behaviour.fault == Some(Fault::Broken) {
            return Err(Status::unknown("the kubelet fails as it was told to"));
        }
        Ok((behaviour, Disorder::new(number)))
    }
}

/// Fills an answer up to a number of bytes with Pods that have nothing.
fn fill(answer: &mut v1::ListPodResourcesResponse, bytes: usize) {
    let mut length = answer.encoded_len();
    for number in 0_u64.. {
        let pod = v1::PodResources {
            name: format!("filler-{number:08}-{}", "x".repeat(200)),
            namespace: "filler".to_owned(),
            containers: vec![v1::ContainerResources { name: "c".to_owned(), ..Default::default() }],
        };
        // Two bytes more for the length, one for the field.
        length += pod.encoded_len() + 3;
        answer.pod_resources.push(pod);
        if length >= bytes {
            break;
        }
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Service {
    async fn list(
        &self,
        _request: Request<v1::ListPodResourcesRequest>,
    ) -> Result<Response<v1::ListPodResourcesResponse>, Status> {
        let (behaviour, mut disorder) = self.enter().await?;
        let pods = self.shared.with(|allocator| listed(allocator, behaviour.lists_ended));
        let mut answer = answer::list(pods, &mut disorder);
        if let Some(Fault::Large { bytes }) = behaviour.fault {
            fill(&mut answer, bytes);
        }
        Ok(Response::new(answer))
    }

    async fn get_allocatable_resources(
        &self,
        _request: Request<v1::AllocatableResourcesRequest>,
    ) -> Result<Response<v1::AllocatableResourcesResponse>, Status> {
        let (_, mut disorder) = self.enter().await?;
        let allocation = self.shared.with(|allocator| allocator.allocation());
        Ok(Response::new(answer::allocatable(allocation, &mut disorder)))
    }

    async fn get(
        &self,
        request: Request<v1::GetPodResourcesRequest>,
    ) -> Result<Response<v1::GetPodResourcesResponse>, Status> {
        let (behaviour, mut disorder) = self.enter().await?;
        let v1::GetPodResourcesRequest { pod_name: name, pod_namespace: namespace } = request.into_inner();
        match behaviour.get {
            GetOffer::Offered => {}
            GetOffer::Disabled => return Err(Status::unknown("PodResources API Get method disabled")),
            GetOffer::Unknown => {
                let message = "unknown method Get for service v1.PodResourcesLister";
                return Err(Status::unimplemented(message));
            }
        }
        let pods = self.shared.with(|allocator| listed(allocator, true));
        let found = pods.into_iter().find(|pod| pod.name == name && pod.namespace == namespace);
        let absent = || Status::unknown(format!("pod {name} in namespace {namespace} not found"));
        let pod_resources = Some(answer::pod(found.ok_or_else(absent)?, &mut disorder));
        Ok(Response::new(v1::GetPodResourcesResponse { pod_resources }))
    }
}

/// What each Pod has; of those that have ended what they had, if wanted.
fn listed(allocator: &Allocator, ended: bool) -> Vec<PodAllocation> {
    let pods = allocator.pods.iter();
    let told = pods.filter(|known| ended || known.stage != Stage::Ended);
    told.map(|known| known.had.clone().unwrap_or_else(|| allocator.of(known))).collect()
}
