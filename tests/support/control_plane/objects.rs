//! Nodes, Pods and service accounts.

use serde_json::{Value, json};

use super::{Client, ControlPlane, Identity};

/// What a service account's token is bound to. With it gone the token is worthless.
#[derive(Debug, Clone, Copy)]
pub enum Bound<'a> {
    /// A Node; the API server then knows that the token is of it.
    Node(&'a str),
    /// A Pod, by namespace and name; the API server then knows its Node too.
    Pod(&'a str, &'a str),
    /// Nothing.
    Nothing,
}

impl ControlPlane {
    /// Creates Node `name`, and gives its uid.
    pub fn create_node(&self, name: &str) -> String {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        });
        uid(&self.admin().create("/api/v1/nodes", &node).ok())
    }

    /// Creates namespace `name` if it is absent, with the service account that its Pods run as.
    pub fn create_namespace(&self, name: &str) {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.apply_object(&namespace, false).ok();
        self.service_account(name, "default");
    }

    /// Creates service account `name` if it is absent.
    pub fn service_account(&self, namespace: &str, name: &str) {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": namespace },
        });
        self.apply_object(&account, false).ok();
    }

    /// Creates a Pod with one container on Node `node`, which runs from the begin as far as the API server knows, and gives
    /// its uid. Its service account is `account`, which must exist.
    pub fn create_pod(&self, namespace: &str, name: &str, node: &str, account: &str) -> String {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": namespace },
            "spec": {
                "nodeName": node,
                "serviceAccountName": account,
                "containers": [{ "name": "main", "image": "none", "resources": { "limits": { "cpu": "1", "memory": "64Mi" } } }],
            },
        });
        self.create_running(namespace, &pod)
    }

    /// Creates `pod`, whose `spec.nodeName` must be there, and lets it run; gives its uid.
    pub fn create_running(&self, namespace: &str, pod: &Value) -> String {
        let created = self.admin().create(&format!("/api/v1/namespaces/{namespace}/pods"), pod).ok();
        let name = created["metadata"]["name"].as_str().unwrap();
        self.set_phase(namespace, name, "Running");
        uid(&created)
    }

    /// Sets the phase of a Pod, such as `Succeeded`.
    pub fn set_phase(&self, namespace: &str, name: &str, phase: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
        self.admin().merge(&path, &json!({ "status": { "phase": phase } })).ok();
    }

    /// Deletes a Pod at once.
    pub fn delete_pod(&self, namespace: &str, name: &str) {
        self.admin().delete(&format!("/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0")).ok();
    }

    /// Service account `name`, which must exist, by a token bound to `bound`, which must exist too.
    pub fn account(&self, namespace: &str, name: &str, bound: Bound<'_>) -> Identity {
        let token = self.token(namespace, name, bound);
        let file = match bound {
            Bound::Node(node) => format!("{namespace}-{name}-node-{node}"),
            Bound::Pod(space, pod) => format!("{namespace}-{name}-pod-{space}-{pod}"),
            Bound::Nothing => format!("{namespace}-{name}"),
        };
        let path = self.write(&format!("{file}.token"), &token);
        Identity {
            client: Client::with_token(&self.url(), &self.keys.ca_pem(), &token),
            kubeconfig: self.write_kubeconfig(&file, json!({ "tokenFile": path })),
        }
    }

    /// A token of service account `name`.
    pub fn token(&self, namespace: &str, name: &str, bound: Bound<'_>) -> String {
        let reference = match bound {
            Bound::Node(node) => self.reference("Node", node, &format!("/api/v1/nodes/{node}")),
            Bound::Pod(space, pod) => {
                self.reference("Pod", pod, &format!("/api/v1/namespaces/{space}/pods/{pod}"))
            }
            Bound::Nothing => Value::Null,
        };
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "boundObjectRef": reference },
        });
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let answer = self.admin().create(&path, &request).ok();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    fn reference(&self, kind: &str, name: &str, path: &str) -> Value {
        let uid = uid(&self.admin().get(path).ok());
        json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": uid })
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}
