//! Asks the API server as curl would: paths in, JSON out.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use super::keys::Signed;

/// Asks in somebody's name.
#[derive(Debug, Clone)]
pub struct Client {
    agent: ureq::Agent,
    url: String,
    token: Option<String>,
}

/// What the API server answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The object, or a `Status` that says why there is none. Null when it is not JSON.
    pub body: Value,
    text: String,
}

impl Answer {
    /// The object; panics when the answer is no success.
    pub fn ok(self) -> Value {
        assert!(self.is_ok(), "{}: {}", self.status, self.text);
        self.body
    }

    /// Whether it is a success.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// What a `Status` says in words; empty in an object.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Client {
    pub(super) fn with_certificate(url: &str, ca: &str, signed: &Signed) -> Self {
        let certificate = Certificate::from_pem(signed.certificate.as_bytes()).unwrap();
        let key = PrivateKey::from_pem(signed.key.as_bytes()).unwrap();
        Self::new(url, ca, Some(ClientCert::new_with_certs(&[certificate], key)), None)
    }

    pub(super) fn with_token(url: &str, ca: &str, token: &str) -> Self {
        Self::new(url, ca, None, Some(token.to_owned()))
    }

    fn new(url: &str, ca: &str, certificate: Option<ClientCert>, token: Option<String>) -> Self {
        let roots = RootCerts::new_with_certs(&[Certificate::from_pem(ca.as_bytes()).unwrap()]);
        let tls = TlsConfig::builder().root_certs(roots).client_cert(certificate).build();
        let config = ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false).proxy(None);
        let config =
            config.timeout_global(Some(Duration::from_secs(60))).max_idle_connections_per_host(16).build();
        Self { agent: ureq::Agent::new_with_config(config), url: url.to_owned(), token }
    }

    /// `GET path`.
    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "", None).unwrap()
    }

    /// `GET path`; nothing when the API server is not there.
    pub fn try_get(&self, path: &str) -> Option<Answer> {
        self.call("GET", path, "", None).ok()
    }

    /// The body of `GET path` as it is.
    pub fn text(&self, path: &str) -> String {
        self.get(path).text
    }

    /// Creates `object` in the collection at `path`.
    pub fn create(&self, path: &str, object: &Value) -> Answer {
        self.call("POST", path, "application/json", Some(object)).unwrap()
    }

    /// Replaces the object at `path`.
    pub fn replace(&self, path: &str, object: &Value) -> Answer {
        self.call("PUT", path, "application/json", Some(object)).unwrap()
    }

    /// JSON merge patch.
    pub fn merge(&self, path: &str, patch: &Value) -> Answer {
        self.call("PATCH", path, "application/merge-patch+json", Some(patch)).unwrap()
    }

    /// Strategic merge patch, which merges lists by their keys; for built-in kinds only.
    pub fn strategic(&self, path: &str, patch: &Value) -> Answer {
        self.call("PATCH", path, "application/strategic-merge-patch+json", Some(patch)).unwrap()
    }

    /// Server-side apply; `path` with the query `fieldManager=…`, and `force=true` where that is meant.
    pub fn apply(&self, path: &str, object: &Value) -> Answer {
        self.call("PATCH", path, "application/apply-patch+yaml", Some(object)).unwrap()
    }

    /// Strategic merge patch; nothing when the API server is not there.
    pub fn try_strategic(&self, path: &str, patch: &Value) -> Option<Answer> {
        self.call("PATCH", path, "application/strategic-merge-patch+json", Some(patch)).ok()
    }

    /// Deletes what is at `path`; nothing when the API server is not there.
    pub fn try_delete(&self, path: &str) -> Option<Answer> {
        self.call("DELETE", path, "", None).ok()
    }

    /// Deletes what is at `path`.
    pub fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, "", None).unwrap()
    }

    fn call(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ureq::Error> {
        let mut request = http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut response = match body {
            Some(body) => {
                let request = request.header("Content-Type", kind).body(serde_json::to_vec(body).unwrap());
                self.agent.run(request.unwrap())?
            }
            None => self.agent.run(request.body(()).unwrap())?,
        };
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(64 << 20).read_to_string()?;
        Ok(Answer { status, body: serde_json::from_str(&text).unwrap_or_default(), text })
    }
}

/// A kubeconfig, in the JSON that is YAML too.
pub(super) fn kubeconfig(url: &str, ca: &Path, user: Value) -> String {
    let cluster = json!({ "server": url, "certificate-authority": ca });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "tests",
        "clusters": [{ "name": "tests", "cluster": cluster }],
        "users": [{ "name": "tests", "user": user }],
        "contexts": [{ "name": "tests", "context": { "cluster": "tests", "user": "tests" } }],
    });
    format!("{config:#}\n")
}
