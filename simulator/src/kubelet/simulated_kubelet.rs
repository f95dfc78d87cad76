//! A running kubelet as a value.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpulet_inventory::kubelet::NodeAllocation;
use tokio::sync::watch;

use super::allocator::{Allocator, Stage};
use super::behaviour::{Behaviour, Fault};
use super::devices::{Choice, Device};
use super::files;
use super::machine::Machine;
use super::pod::Pod;
use super::pod_resources::v1::pod_resources_lister_server::PodResourcesListerServer;
use super::rejection::Rejection;
use super::service::{Service, Shared};
use super::serving::Serving;
use super::settings::{Settings, SettingsError};

/// A kubelet that this process simulates, until it is dropped.
///
/// It serves PodResources below a host's root (`--host-root`), keeps its state files there, and does what it is told:
/// admit and remove Pods, register devices, restart, fail.
pub struct SimulatedKubelet {
    shared: Arc<Shared>,
    behaviour: watch::Sender<Behaviour>,
    machine: Machine,
    host_root: PathBuf,
    running: Mutex<Running>,
}

struct Running {
    settings: Settings,
    /// None: the kubelet is stopped.
    serving: Option<Serving>,
    /// Those whose sockets were taken away, but who still hold their connections.
    replaced: Vec<Serving>,
    /// Plugins by resource, with what they offer: they register again when the kubelet has restarted.
    plugins: BTreeMap<String, Vec<Device>>,
}

/// Why a kubelet cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// With these settings it would not start on this machine.
    #[error("the kubelet does not start")]
    Settings(#[source] SettingsError),
    /// Other settings while Pods hold what was given away by the old ones.
    #[error("the kubelet does not start with other settings while {count} Pods are there: remove them first")]
    PodsLeft {
        /// How many.
        count: usize,
    },
    /// A file or the socket.
    #[error("cannot {operation} {}: check that the directory is writable and has room", .path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl KubeletError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Settings(error) => error.reason(),
            Self::PodsLeft { .. } => "PodsLeft",
            Self::File { .. } => "KubeletFile",
        }
    }

    pub(super) fn file(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { operation, path: path.to_owned(), source }
    }
}

impl SimulatedKubelet {
    /// Starts a kubelet on a machine, below a host's root. No plugin has registered yet.
    ///
    /// # Errors
    /// Settings with which it would not start, and files that cannot be made.
    pub fn start(machine: Machine, settings: Settings, host_root: &Path) -> Result<Self, KubeletError> {
        let allocator = Allocator::new(&machine, &settings).map_err(KubeletError::Settings)?;
        let (behaviour, _) = watch::channel(Behaviour::default());
        let running = Running { settings, serving: None, replaced: Vec::new(), plugins: BTreeMap::new() };
        let kubelet = Self {
            shared: Arc::new(Shared::new(allocator)),
            behaviour,
            machine,
            host_root: host_root.to_owned(),
            running: Mutex::new(running),
        };
        kubelet.write_state()?;
        kubelet.serve()?;
        Ok(kubelet)
    }

    /// Below this lie `var/lib/kubelet` and the rest of the host's files.
    pub fn host_root(&self) -> &Path {
        &self.host_root
    }

    /// `/var/lib/kubelet` below the root.
    pub fn directory(&self) -> PathBuf {
        self.host_root.join(files::DIRECTORY)
    }

    /// The socket of PodResources.
    pub fn socket(&self) -> PathBuf {
        self.directory().join("pod-resources/kubelet.sock")
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The settings in force.
    pub fn settings(&self) -> Settings {
        self.running().settings.clone()
    }

    /// The truth: what there is to give away and who has what. A reader of the socket must come to the same.
    pub fn allocation(&self) -> NodeAllocation {
        self.shared.with(|allocator| allocator.allocation())
    }

    /// Calls of PodResources so far.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Decides on a Pod. One that is refused stays in the API as failed, until it is removed.
    ///
    /// # Errors
    /// The refusal, in the kubelet's words.
    pub fn admit(&self, pod: Pod) -> Result<(), Rejection> {
        self.change(|allocator| allocator.admit(pod))
    }

    /// As [`SimulatedKubelet::admit`], with a say in which of equally good devices are taken.
    ///
    /// # Errors
    /// As there.
    pub fn admit_with(&self, pod: Pod, choice: Choice<'_>) -> Result<(), Rejection> {
        self.change(|allocator| allocator.admit_with(pod, choice))
    }

    /// Decides on a Pod, but stops in the midst: its devices and CPUs are visible, its memory is not, until
    /// [`SimulatedKubelet::complete`].
    ///
    /// # Errors
    /// As [`SimulatedKubelet::admit`].
    pub fn begin(&self, pod: Pod) -> Result<(), Rejection> {
        self.change(|allocator| allocator.begin(pod, &|_| Vec::new()))
    }

    /// A Pod in the midst of its admission gets through; false: there is none of the name.
    pub fn complete(&self, namespace: &str, name: &str) -> bool {
        self.change(|allocator| allocator.complete(namespace, name))
    }

    /// A Pod is deleted; false: there is none of the name.
    pub fn remove(&self, namespace: &str, name: &str) -> bool {
        self.change(|allocator| allocator.remove(namespace, name))
    }

    /// A Pod ends by itself (`Succeeded` or `Failed`) and stays in the API; false: there is none of the name.
    pub fn end(&self, namespace: &str, name: &str) -> bool {
        self.change(|allocator| allocator.end(namespace, name))
    }

    /// How far a Pod is, if it is known.
    pub fn stage(&self, namespace: &str, name: &str) -> Option<Stage> {
        self.shared.with(|allocator| allocator.stage(namespace, name))
    }

    /// A device plugin registers a resource, or tells anew which devices it has, healthy or not.
    pub fn register(&self, resource: &str, devices: Vec<Device>) {
        self.running().plugins.insert(resource.to_owned(), devices.clone());
        self.change(|allocator| allocator.update_devices(resource, &devices));
    }

    /// A device plugin ends: its devices count as unhealthy. It does not come back with the kubelet's next start.
    pub fn unregister(&self, resource: &str) {
        self.running().plugins.remove(resource);
        self.change(|allocator| allocator.disconnect(resource));
    }

    /// A plugin tells that a device is healthy, or not; false: no plugin has one of the name.
    pub fn set_health(&self, resource: &str, id: &str, healthy: bool) -> bool {
        let devices = {
            let mut running = self.running();
            let Some(devices) = running.plugins.get_mut(resource) else { return false };
            let Some(device) = devices.iter_mut().find(|device| device.id == id) else { return false };
            device.healthy = healthy;
            devices.clone()
        };
        self.change(|allocator| allocator.update_devices(resource, &devices));
        true
    }

    /// How PodResources is served from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        self.behaviour.send_replace(behaviour);
    }

    /// What goes wrong from now on; `None`: nothing. Connections that are open stay so.
    pub fn fault(&self, fault: Option<Fault>) {
        self.behaviour.send_modify(|behaviour| behaviour.fault = fault);
    }

    /// The kubelet is killed: connections break, the socket's file stays, nobody answers.
    pub fn stop(&self) {
        let mut running = self.running();
        running.serving = None;
        running.replaced.clear();
        drop(running);
        files::remove_process(&self.host_root);
        self.shared.with(Allocator::restart);
    }

    /// Starts a kubelet that was stopped. What it had given away it still knows, but no device, until the plugins have
    /// registered again: [`SimulatedKubelet::plugins_return`].
    ///
    /// # Errors
    /// When the socket cannot be bound.
    pub fn resume(&self) -> Result<(), KubeletError> {
        self.serve()
    }

    /// All plugins register again.
    pub fn plugins_return(&self) {
        let plugins = self.running().plugins.clone();
        self.change(|allocator| {
            plugins.iter().for_each(|(resource, devices)| allocator.update_devices(resource, devices));
        });
    }

    /// Stops, takes other settings and starts again, plugins included. Every Pod must be gone before: a kubelet refuses
    /// state that other settings have made.
    ///
    /// # Errors
    /// Pods that are left, and as [`SimulatedKubelet::start`]; the kubelet then goes on with the old settings.
    pub fn reconfigure(&self, settings: Settings) -> Result<(), KubeletError> {
        let count = self.shared.with(|allocator| allocator.pods.len());
        if count > 0 {
            return Err(KubeletError::PodsLeft { count });
        }
        let allocator = Allocator::new(&self.machine, &settings).map_err(KubeletError::Settings)?;
        self.stop();
        self.shared.with(|old| *old = allocator);
        self.running().settings = settings;
        self.serve()?;
        self.plugins_return();
        Ok(())
    }

    /// The socket's file is taken away; connections that are open go on.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove_socket(&self) -> Result<(), KubeletError> {
        let socket = self.socket();
        std::fs::remove_file(&socket).map_err(|source| KubeletError::file("remove", &socket, source))
    }

    /// Another socket comes in the place of the old one; connections to the old one go on.
    ///
    /// # Errors
    /// When it cannot be bound.
    pub fn replace_socket(&self) -> Result<(), KubeletError> {
        let mut running = self.running();
        let old = running.serving.take();
        running.replaced.extend(old);
        drop(running);
        self.serve()
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Allocator) -> T) -> T {
        let result = self.shared.with(change);
        // A kubelet goes on, too, when it cannot write its state.
        if let Err(error) = self.write_state() {
            eprintln!("simulated kubelet: {error}");
        }
        result
    }

    fn write_state(&self) -> Result<(), KubeletError> {
        let settings = self.settings();
        self.shared.with(|allocator| files::write_state(&self.host_root, allocator, &settings))
    }

    fn serve(&self) -> Result<(), KubeletError> {
        files::write_start(&self.host_root, &self.settings())?;
        let service = Service { shared: Arc::clone(&self.shared), behaviour: self.behaviour.subscribe() };
        let socket = self.socket();
        let serving =
            Serving::start(&socket, PodResourcesListerServer::new(service), self.behaviour.subscribe());
        let serving = serving.map_err(|source| KubeletError::file("serve on", &socket, source))?;
        self.running().serving = Some(serving);
        Ok(())
    }
}

impl Drop for SimulatedKubelet {
    fn drop(&mut self) {
        files::remove_process(&self.host_root);
    }
}
