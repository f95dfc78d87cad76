//! Connects to the API server, where there is one for this node, and watches what concerns it: its Node, its Pods, the
//! devices that claims may give.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_cluster::api::{Access as Place, Api, ApiError, Count, Kind, Limits, Node, Seen};
use gpulet_exporter::{ApiCount, ApiRequest};
use gpulet_inventory::dra::PublishedDevice;
use gpulet_inventory::pod::Pod;
use tokio::task::JoinHandle;

use super::Shared;
use super::kubernetes::{Access, OwnNode};
use crate::config::node_name::NodeName;
use crate::config::publish::Publish;
use crate::kubelet::Kubelet;
use crate::report;
use crate::supervise::LoopError;

/// The loop's name.
pub(crate) const NAME: &str = "cluster";

/// Within this time, agents that were started together come to the API server. It bears their lists and watches; two
/// hundred first writes in one second kept one on two cores busy for a minute.
const START_SPREAD: Duration = Duration::from_secs(5);
/// Between two looks for credentials.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Longest time to find credentials: some are had from programs or slow disks.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// Between two readings of what was asked.
const COUNT_EVERY: Duration = Duration::from_secs(5);

/// Watches until it is time to end.
pub(crate) async fn run(shared: Shared) -> Result<(), LoopError> {
    tokio::select! {
        () = shared.shutdown.requested() => Ok(()),
        () = connect_and_watch(&shared) => Ok(()),
    }
}

async fn connect_and_watch(shared: &Shared) {
    let settings = Arc::clone(&shared.settings.borrow());
    if settings.kubernetes.publish == Publish::Never {
        shared.kubernetes.api.send_replace(Access::None);
        return std::future::pending().await;
    }
    let Some(name) = settings.node_name.clone().or_else(NodeName::of_this_machine) else {
        tracing::error!(
            reason = "NoNodeName",
            "this machine's host name is no node name, so its Node in the API is not known; set node-name"
        );
        shared.kubernetes.api.send_replace(Access::None);
        return std::future::pending().await;
    };
    let api = connect(shared, &name.to_string(), settings.kubernetes.publish).await;
    tokio::time::sleep(START_SPREAD.mul_f64(random_part())).await;
    tracing::info!(credentials = %api.place(), node = %name, "talking to the API server");
    shared.kubernetes.api.send_replace(Access::Api(api.clone()));
    watch(shared, &api).await;
}

/// From 0 up to 1.
fn random_part() -> f64 {
    f64::from(RandomState::new().hash_one(NAME) as u32) / f64::from(u32::MAX)
}

/// Looks for credentials until there are some.
async fn connect(shared: &Shared, name: &str, publish: Publish) -> Api {
    let mut said: Option<&'static str> = None;
    // One that hangs is waited for, and no second one is begun: each would take a thread.
    let mut looking: Option<JoinHandle<Result<Api, ApiError>>> = None;
    loop {
        let look = looking.get_or_insert_with(|| {
            let (shared, name) = (shared.clone(), name.to_owned());
            tokio::spawn(async move { Api::connect(place(&shared).await, &name, Limits::default()).await })
        });
        let looked = tokio::time::timeout(CONNECT_WITHIN, look).await;
        if looked.is_ok() {
            looking = None;
        }
        let error = match looked.map(Result::ok) {
            Ok(Some(Ok(api))) => return api,
            Ok(Some(Err(error))) => Some(error),
            Ok(None) | Err(_) => None,
        };
        let reason = error.as_ref().map_or("TimedOut", ApiError::reason);
        if said.replace(reason) != Some(reason) {
            say(error.as_ref(), reason, publish);
        }
        shared.kubernetes.api.send_if_modified(|access| {
            let news = matches!(access, Access::Unknown);
            *access = Access::None;
            news
        });
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn say(error: Option<&ApiError>, reason: &str, publish: Publish) {
    let error = error
        .map_or_else(|| "looking for credentials takes too long".to_owned(), |error| report::chain(error));
    match (reason, publish) {
        // A machine without Kubernetes is none the worse for it.
        ("NoAccess", Publish::Auto) => tracing::info!(
            reason,
            error,
            "there is no API server for this node; its NodeResourceTopology goes into a file"
        ),
        _ => tracing::error!(
            reason,
            error,
            "the API server cannot be talked to; it is tried again each minute"
        ),
    }
}

async fn place(shared: &Shared) -> Place {
    let settings = Arc::clone(&shared.settings.borrow());
    let mut place = Place::new(settings.kubernetes.kubeconfig.clone(), shared.root.path().to_owned());
    if place.kubeconfig.is_none()
        && let Ok(kubelet) = Kubelet::new(&shared.root, &settings.kubelet)
    {
        let finding = tokio::task::spawn_blocking(move || kubelet.find().kubeconfig());
        place.kubelet_kubeconfig = finding.await.ok().flatten();
    }
    place
}

/// Hands on what the watches see.
async fn watch(shared: &Shared, api: &Api) {
    let (mut node, mut pods, mut devices) = (api.node(), api.pods(), api.resource_slices());
    let mut troubles = Troubles::default();
    let traffic = api.traffic();
    let mut count = tokio::time::interval(COUNT_EVERY);
    loop {
        shared.progress.made(NAME, Instant::now(), COUNT_EVERY * 4 + Duration::from_secs(30));
        tokio::select! {
            seen = node.changed() => {
                troubles.of_node.told("nodes", &seen);
                own_node(shared, api, seen);
            }
            seen = pods.changed() => {
                troubles.of_pods.told("pods", &seen);
                own_pods(shared, seen);
            }
            seen = devices.changed() => {
                troubles.of_devices.told("resourceslices", &seen);
                own_devices(shared, seen);
            }
            _ = count.tick() => {
                let request = |kind: Kind| {
                    ApiRequest { verb: kind.verb, resource: kind.resource, code: kind.code }
                };
                let amount = |count: Count| ApiCount {
                    requests: count.requests,
                    sent_bytes: count.sent_bytes,
                    received_bytes: count.received_bytes,
                };
                let counts = traffic.counts();
                shared.own.kubernetes.requests(
                    counts.into_iter().map(|(kind, count)| (request(kind), amount(count))),
                );
            }
        }
    }
}

fn own_node(shared: &Shared, api: &Api, seen: Seen<Option<Node>>) {
    let Some(value) = seen.value else { return };
    let node = match &*value {
        Some(node) => OwnNode::Known(Arc::new(node.clone())),
        None => OwnNode::Missing,
    };
    shared.kubernetes.node.send_if_modified(|known| {
        let differs = *known != node;
        if differs && node == OwnNode::Missing {
            tracing::error!(
                node = api.node_name(),
                reason = "NoNode",
                "the API server has no Node of this name; set node-name to the Node's name"
            );
        }
        *known = node;
        differs
    });
}

fn own_pods(shared: &Shared, seen: Seen<Vec<Pod>>) {
    shared.kubernetes.pods.send_if_modified(|known| {
        let differs = *known != seen.value;
        *known = seen.value;
        differs
    });
}

fn own_devices(shared: &Shared, seen: Seen<Vec<PublishedDevice>>) {
    let devices = seen.value.unwrap_or_default();
    shared.kubernetes.devices.send_if_modified(|known| {
        let differs = *known != devices;
        *known = devices;
        differs
    });
}

/// Why each watch does not stand, so that each reason is said once.
#[derive(Default)]
struct Troubles {
    of_node: Trouble,
    of_pods: Trouble,
    of_devices: Trouble,
}

#[derive(Default)]
struct Trouble(Option<&'static str>);

impl Trouble {
    fn told<V>(&mut self, resource: &'static str, seen: &Seen<V>) {
        let reason = seen.trouble.as_ref().map(|error| error.reason());
        if std::mem::replace(&mut self.0, reason) == reason {
            return;
        }
        match &seen.trouble {
            // Most clusters have no ResourceSlices.
            Some(error) if error.reason() == "NotInstalled" && resource == "resourceslices" => {
                tracing::debug!(resource, error = report::chain(&**error), "nothing to watch");
            }
            Some(error) => {
                tracing::warn!(
                    resource,
                    error = report::chain(&**error),
                    reason = error.reason(),
                    "a watch of the API server does not stand; what it saw last does"
                );
            }
            None => tracing::info!(resource, "watching"),
        }
    }
}
