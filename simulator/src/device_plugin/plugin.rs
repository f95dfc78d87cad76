//! The plugin beside a kubelet: a socket per resource, registered anew each time that the kubelet's own socket is another.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use futures_util::stream;
use tokio::sync::watch;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::answer::allocate_response;
use super::offer::{Naming, OfferError, files, offer, without_replica};
use super::registration::register;
use super::v1beta1::messages as v1;
use super::v1beta1::service::device_plugin_server::{DevicePlugin as Api, DevicePluginServer};
use crate::kubelet::Device;
use crate::kubelet::serving::Serving;
use crate::state::NodeState;

/// What identifies a socket's file; a number alone may be given again.
type Identity = (u64, u64, i64, i64);

/// A device plugin for the devices of a simulated node.
pub struct DevicePlugin {
    /// The kubelet's folder for plugins.
    directory: PathBuf,
    host_root: PathBuf,
    naming: Naming,
    /// Whether it says which devices it would rather give away.
    prefers: bool,
    runtime: tokio::runtime::Runtime,
    resources: BTreeMap<String, Resource>,
}

struct Resource {
    told: watch::Sender<Told>,
    serving: Option<Serving>,
    registered: Option<Identity>,
}

/// What a plugin tells of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Told {
    devices: Vec<Device>,
    files: BTreeMap<String, Vec<String>>,
}

/// Why a plugin does not get on. The next round may.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The node's devices cannot be read.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The plugin's socket, or what it needs to serve.
    #[error("cannot serve on {}: check that the kubelet's folder for plugins is writable", .path.display())]
    Serve {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kubelet does not accept it.
    #[error("the kubelet at {} does not register {resource}", .kubelet.display())]
    Register {
        /// Its socket.
        kubelet: PathBuf,
        /// For what.
        resource: String,
        /// Its answer.
        #[source]
        source: Box<Status>,
    },
}

impl PluginError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Offer(error) => error.reason(),
            Self::Serve { .. } => "PluginSocket",
            Self::Register { .. } => "NotRegistered",
        }
    }
}

impl DevicePlugin {
    /// For the kubelet whose root (`/var/lib/kubelet`) is given and a node's host tree. Nothing happens before
    /// [`DevicePlugin::step`].
    ///
    /// # Errors
    /// When the process cannot have what it needs.
    pub fn new(
        kubelet_root: &Path,
        host_root: &Path,
        naming: Naming,
        prefers: bool,
    ) -> Result<Self, PluginError> {
        let directory = kubelet_root.join("device-plugins");
        let failed = |source| PluginError::Serve { path: directory.clone(), source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (host_root, resources) = (host_root.to_owned(), BTreeMap::new());
        Ok(Self { directory, host_root, naming, prefers, runtime, resources })
    }

    /// Tells what the node has now, and registers what is not registered at the kubelet that is there. Gives the
    /// resources that were registered.
    ///
    /// # Errors
    /// A host tree that cannot be read, a socket that cannot be bound, a kubelet that refuses.
    pub fn step(&mut self, state: &NodeState) -> Result<Vec<String>, PluginError> {
        let mut offered = offer(state, &self.host_root, &self.naming)?;
        // A resource of which there is nothing any more is still offered: nothing of it.
        for resource in self.resources.keys() {
            offered.entry(resource.clone()).or_default();
        }
        for (resource, devices) in offered {
            let told = Told { devices, files: files(state) };
            let known = self.resources.entry(resource).or_insert_with(|| Resource {
                told: watch::channel(Told::default()).0,
                serving: None,
                registered: None,
            });
            known.told.send_if_modified(|old| {
                let changed = *old != told;
                *old = told;
                changed
            });
        }
        let kubelet = self.directory.join("kubelet.sock");
        let Some(identity) = identity(&kubelet) else { return Ok(Vec::new()) };
        let mut registered = Vec::new();
        for (name, resource) in &mut self.resources {
            if resource.registered == Some(identity) {
                continue;
            }
            // A kubelet that starts removes all sockets beside its own.
            let endpoint = format!("gpulet-sim-{}.sock", name.replace('/', "_"));
            let path = self.directory.join(&endpoint);
            resource.serving = None;
            let service = Service { told: resource.told.subscribe(), options: options(self.prefers) };
            let failed = |source| PluginError::Serve { path: path.clone(), source };
            let (_, steady) = watch::channel(Default::default());
            resource.serving =
                Some(Serving::start(&path, DevicePluginServer::new(service), steady).map_err(failed)?);
            let done = self.runtime.block_on(register(&kubelet, &endpoint, name, options(self.prefers)));
            done.map_err(|source| PluginError::Register {
                kubelet: kubelet.clone(),
                resource: name.clone(),
                source: Box::new(source),
            })?;
            resource.registered = Some(identity);
            registered.push(name.clone());
        }
        Ok(registered)
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.ctime(), file.ctime_nsec()))
}

fn options(prefers: bool) -> v1::DevicePluginOptions {
    v1::DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: prefers }
}

/// The plugin as the kubelet sees it.
#[derive(Clone)]
struct Service {
    told: watch::Receiver<Told>,
    options: v1::DevicePluginOptions,
}

type List = Pin<Box<dyn Stream<Item = Result<v1::ListAndWatchResponse, Status>> + Send>>;

fn list(devices: &[Device]) -> v1::ListAndWatchResponse {
    let topology = |nodes: &Vec<i64>| v1::TopologyInfo {
        nodes: nodes.iter().map(|id| v1::NumaNode { id: *id }).collect(),
    };
    let device = |device: &Device| v1::Device {
        id: device.id.clone(),
        health: if device.healthy { "Healthy" } else { "Unhealthy" }.to_owned(),
        topology: device.numa.as_ref().map(topology),
    };
    v1::ListAndWatchResponse { devices: devices.iter().map(device).collect() }
}

#[tonic::async_trait]
impl Api for Service {
    type ListAndWatchStream = List;

    async fn get_device_plugin_options(
        &self,
        _request: Request<v1::Empty>,
    ) -> Result<Response<v1::DevicePluginOptions>, Status> {
        Ok(Response::new(self.options))
    }

    async fn list_and_watch(
        &self,
        _request: Request<v1::Empty>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let mut told = self.told.clone();
        told.mark_changed();
        let next = |mut told: watch::Receiver<Told>| async move {
            // Ends with the plugin.
            told.changed().await.ok()?;
            let answer = list(&told.borrow_and_update().devices);
            Some((Ok(answer), told))
        };
        Ok(Response::new(Box::pin(stream::unfold(told, next))))
    }

    /// Those that must be, then the others in the order in which they are offered.
    async fn get_preferred_allocation(
        &self,
        request: Request<v1::PreferredAllocationRequest>,
    ) -> Result<Response<v1::PreferredAllocationResponse>, Status> {
        let offered: Vec<String> =
            self.told.borrow().devices.iter().map(|device| device.id.clone()).collect();
        let answer = |asked: v1::ContainerPreferredAllocationRequest| {
            let mut ids = asked.must_include_device_i_ds;
            let others = offered.iter().filter(|id| asked.available_device_i_ds.contains(*id));
            let missing = usize::try_from(asked.allocation_size).unwrap_or(0).saturating_sub(ids.len());
            let chosen: Vec<_> = others.filter(|id| !ids.contains(*id)).take(missing).cloned().collect();
            ids.extend(chosen);
            v1::ContainerPreferredAllocationResponse { device_i_ds: ids }
        };
        let container_responses = request.into_inner().container_requests.into_iter().map(answer).collect();
        Ok(Response::new(v1::PreferredAllocationResponse { container_responses }))
    }

    async fn allocate(
        &self,
        request: Request<v1::AllocateRequest>,
    ) -> Result<Response<v1::AllocateResponse>, Status> {
        let told = self.told.borrow().clone();
        let mut answers = Vec::new();
        for asked in request.into_inner().container_requests {
            let unknown =
                asked.devices_ids.iter().find(|id| !told.devices.iter().any(|device| device.id == **id));
            if let Some(id) = unknown {
                return Err(Status::invalid_argument(format!("there is no device {id}")));
            }
            let ids: Vec<&str> = asked.devices_ids.iter().map(String::as_str).collect();
            let files = ids.iter().filter_map(|id| told.files.get(without_replica(id)));
            let files: Vec<String> = files.flatten().cloned().collect();
            answers.push(allocate_response(&ids, &files, Path::new("/dev")));
        }
        Ok(Response::new(v1::AllocateResponse { container_responses: answers }))
    }

    async fn pre_start_container(
        &self,
        _request: Request<v1::PreStartContainerRequest>,
    ) -> Result<Response<v1::PreStartContainerResponse>, Status> {
        Ok(Response::new(v1::PreStartContainerResponse {}))
    }
}
