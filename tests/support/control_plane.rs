//! etcd and kube-apiserver, the real ones, on this machine's loopback.
//!
//! RBAC, the Node authorizer, NodeRestriction, ValidatingAdmissionPolicy and the audit log are on. There are no
//! controllers unless a test starts them: nothing schedules Pods, and objects stay as they were written.

mod audit;
mod client;
mod keys;
mod manifest;
mod objects;
pub(crate) mod process;
mod workload;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tempfile::TempDir;

pub use audit::Request;
pub use client::{Answer, Client};
use keys::{Keys, Signed};
pub use manifest::documents;
pub use objects::Bound;
use process::{Process, free_port};
pub use workload::{Stage, pod};

use crate::program::wait_within;
use crate::scrape::Scrape;

/// How long a program may take to answer on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the audit log keeps: one line a request, and two for a watch.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}"#;

/// A running control plane; ended when dropped, and when the process that started it ends.
#[derive(Debug)]
pub struct ControlPlane {
    // The order matters: fields are dropped in it, and without etcd the API server does not end by itself.
    controllers: Mutex<Vec<Process>>,
    api_server: Mutex<Option<Process>>,
    _etcd: Process,
    programs: PathBuf,
    keys: Keys,
    etcd_port: u16,
    port: u16,
    admin: Client,
    directory: TempDir,
}

/// Somebody that the API server knows.
#[derive(Debug)]
pub struct Identity {
    /// Asks the API server in their name.
    pub client: Client,
    /// What makes other programs ask in their name. A token stands in a file beside it, with the extension `token`.
    pub kubeconfig: PathBuf,
}

impl ControlPlane {
    /// Starts one and waits until it is ready. Builds the programs where this machine has none: that takes minutes.
    pub fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("control-plane-").tempdir().unwrap();
        let programs = programs();
        let keys = Keys::generate(directory.path());
        std::fs::write(directory.path().join("audit-policy.json"), AUDIT_POLICY).unwrap();
        let [etcd_port, peer_port, port] = free_ports();
        let etcd = start_etcd(&programs, directory.path(), etcd_port, peer_port);
        let admin = Client::with_certificate(&url(port), &keys.ca_pem(), &keys.admin());
        let plane = Self {
            controllers: Mutex::default(),
            api_server: Mutex::default(),
            _etcd: etcd,
            programs,
            keys,
            etcd_port,
            port,
            admin,
            directory,
        };
        plane.start_api_server();
        plane.service_account("default", "default");
        plane
    }

    /// The one that the tests of this process share while any of them uses it.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<ControlPlane>> = Mutex::new(Weak::new());
        // A test that failed while it started one leaves nothing half-made here.
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let plane = Arc::new(Self::start());
            *shared = Arc::downgrade(&plane);
            plane
        })
    }

    /// Where the API server is: `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// The API server's port on the loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate of who signed the API server's, as a PEM file.
    pub fn ca(&self) -> PathBuf {
        self.keys.ca_path()
    }

    /// Its directory, with the logs `etcd.log`, `kube-apiserver.log` and `audit.log`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A client that may do everything (`system:masters`).
    pub fn admin(&self) -> &Client {
        &self.admin
    }

    /// A kubeconfig for other programs that may do everything.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.certified("admin", &self.keys.admin()).kubeconfig
    }

    /// The kubelet of node `name`, by a client certificate, as the Node authorizer and NodeRestriction know it. Its Node need
    /// not exist yet.
    pub fn kubelet_of(&self, name: &str) -> Identity {
        let user = format!("system:node:{name}");
        self.certified(&format!("kubelet-{name}"), &self.keys.sign(&user, Some("system:nodes")))
    }

    /// User `name` without any group, by a client certificate.
    pub fn user(&self, name: &str) -> Identity {
        self.certified(&format!("user-{name}"), &self.keys.sign(name, None))
    }

    /// Ends the API server as a crash would. etcd stays, and with it all objects.
    pub fn stop_api_server(&self) {
        drop(self.api_server.lock().unwrap().take());
    }

    /// Starts the API server at the same address as before, and waits until it is ready.
    pub fn start_api_server(&self) {
        let mut api_server = self.api_server.lock().unwrap();
        assert!(api_server.is_none(), "the API server runs");
        let command = self.api_server_command();
        let process = Process::start(command, self.directory.path().join("kube-apiserver.log"));
        wait_within(PATIENCE, "kube-apiserver is ready", || {
            process.assert_runs();
            let ready = self.admin.try_get("/readyz").is_some_and(|answer| answer.status == 200);
            let namespace = || self.admin.try_get("/api/v1/namespaces/default");
            (ready && namespace().is_some_and(|answer| answer.status == 200)).then_some(())
        });
        *api_server = Some(process);
    }

    /// Starts kube-controller-manager with `controllers`, such as `daemonset-controller`; it ends with the rest.
    pub fn start_controllers(&self, controllers: &[&str]) {
        let mut command = Command::new(self.program("kube-controller-manager"));
        command.arg(format!("--kubeconfig={}", self.admin_kubeconfig().display()));
        command.arg(format!("--controllers={}", controllers.join(",")));
        command.arg(format!("--root-ca-file={}", self.keys.ca_path().display()));
        command.arg(format!("--service-account-private-key-file={}", self.keys.service_accounts().display()));
        command.arg(format!("--secure-port={}", free_port()));
        command.arg(format!("--cert-dir={}", self.directory.path().join("controllers").display()));
        command.args(["--bind-address=127.0.0.1", "--leader-elect=false"]);
        let process = Process::start(command, self.directory.path().join("kube-controller-manager.log"));
        self.controllers.lock().unwrap().push(process);
    }

    /// Starts kube-scheduler; it ends with the rest.
    pub fn start_scheduler(&self) {
        let mut command = Command::new(self.program("kube-scheduler"));
        command.arg(format!("--kubeconfig={}", self.admin_kubeconfig().display()));
        command.arg(format!("--secure-port={}", free_port()));
        command.arg(format!("--cert-dir={}", self.directory.path().join("scheduler").display()));
        command.args(["--bind-address=127.0.0.1", "--leader-elect=false"]);
        let process = Process::start(command, self.directory.path().join("kube-scheduler.log"));
        self.controllers.lock().unwrap().push(process);
    }

    /// Every request that was answered since the start, in the order of the answers; a watch is there from its begin.
    pub fn requests(&self) -> Vec<Request> {
        audit::read(&self.directory.path().join("audit.log"))
    }

    /// What the API server measures of itself.
    pub fn metrics(&self) -> Scrape {
        Scrape::parse(&self.admin.text("/metrics"))
    }

    fn program(&self, name: &str) -> PathBuf {
        let program = self.programs.join(name);
        assert!(
            program.exists(),
            "{} is not there: unset KUBEBUILDER_ASSETS to have it built",
            program.display()
        );
        program
    }

    fn certified(&self, file: &str, signed: &Signed) -> Identity {
        let client = Client::with_certificate(&self.url(), &self.keys.ca_pem(), signed);
        let certificate = self.write(&format!("{file}.crt"), &signed.certificate);
        let key = self.write(&format!("{file}.key"), &signed.key);
        let user = serde_json::json!({ "client-certificate": certificate, "client-key": key });
        Identity { client, kubeconfig: self.write_kubeconfig(file, user) }
    }

    fn write_kubeconfig(&self, file: &str, user: serde_json::Value) -> PathBuf {
        let text = client::kubeconfig(&self.url(), &self.keys.ca_path(), user);
        self.write(&format!("{file}.kubeconfig"), &text)
    }

    /// Writes a file of its directory, replaced whole, since another test may be reading it.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        let new = tempfile::NamedTempFile::new_in(self.directory.path()).unwrap();
        std::fs::write(new.path(), text).unwrap();
        new.persist(&path).unwrap();
        path
    }

    fn api_server_command(&self) -> Command {
        let mut command = Command::new(self.program("kube-apiserver"));
        let mut flag = |name: &str, value: &dyn std::fmt::Display| {
            command.arg(format!("--{name}={value}"));
        };
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        flag("etcd-servers", &format!("http://127.0.0.1:{}", self.etcd_port));
        flag("bind-address", &"127.0.0.1");
        flag("secure-port", &self.port);
        // There are no other servers to be told of, and a loopback address may not be told.
        flag("advertise-address", &"127.0.0.1");
        flag("endpoint-reconciler-type", &"none");
        flag("tls-cert-file", &path("server.crt"));
        flag("tls-private-key-file", &path("server.key"));
        flag("client-ca-file", &self.keys.ca_path().display());
        flag("service-account-issuer", &"https://kubernetes.default.svc");
        flag("service-account-signing-key-file", &self.keys.service_accounts().display());
        flag("service-account-key-file", &path("service-accounts.pub"));
        flag("service-cluster-ip-range", &"10.0.0.0/24");
        flag("authorization-mode", &"Node,RBAC");
        flag("enable-admission-plugins", &"NodeRestriction");
        // As every cluster has it: who may have privileged Pods is for admission to say.
        flag("allow-privileged", &"true");
        flag("audit-policy-file", &path("audit-policy.json"));
        flag("audit-log-path", &path("audit.log"));
        flag("cert-dir", &path("certificates"));
        command
    }
}

/// The folder of the programs, built where there is none.
fn programs() -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/control-plane/build");
    let output = Command::new(script).stderr(std::process::Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{script} failed: {}", output.status);
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let mut ports = [0; COUNT];
    for position in 0..COUNT {
        while ports[position] == 0 || ports[..position].contains(&ports[position]) {
            ports[position] = free_port();
        }
    }
    ports
}

fn start_etcd(programs: &Path, directory: &Path, port: u16, peer_port: u16) -> Process {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let mut command = Command::new(programs.join("etcd"));
    command.arg("--data-dir").arg(directory.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("default={peer}")]);
    // What is written here need not outlive the machine.
    command.args(["--unsafe-no-fsync", "--log-level", "warn"]);
    Process::start(command, directory.join("etcd.log"))
}
