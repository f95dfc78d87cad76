//! The kubelet's own account of its settings, `/configz` of its HTTPS port: what it runs with, all sources merged.
//!
//! It takes a token that may `get` `nodes/configz` (a kubelet of 1.33 or later; an earlier one wants `nodes/proxy`, which
//! would let gpulet do anything on the node and is never asked for).
//!
//! The token is a secret, and whoever listens on the port gets it: any program on the host's network may, while the
//! kubelet is away. So the certificate is verified: against the cluster's authority, and against the kubelet's own
//! certificate file, since most kubelets sign for themselves. Certificates name the node and not `127.0.0.1`, so the name
//! that is expected is given. Unverified is a choice that someone has to make, and the settings' source says so.

mod error;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

pub use error::ConfigzError;

/// As much as is read of the answer, bytes. It is some 5 kB.
const MAX_BODY: usize = 1 << 20;

/// Where and how to ask the kubelet for its settings. Files are read anew each time.
#[derive(Debug, Clone)]
pub struct Configz {
    /// Its address and port, usually `127.0.0.1:10250`.
    pub address: String,
    /// The file with the token, usually that of the service account.
    pub token_file: PathBuf,
    /// How its certificate is verified.
    pub trust: Trust,
    /// How long it may take in all.
    pub deadline: Duration,
}

/// How the kubelet's certificate is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// One of the authorities has signed it, for this name.
    Verified {
        /// PEM files: the cluster's authority, the kubelet's own certificate (`pki/kubelet.crt` below its root). Those
        /// that are missing are passed over; one must be there.
        authorities: Vec<PathBuf>,
        /// The name in the certificate: the host's, or the node's where the kubelet was told one.
        name: String,
    },
    /// Whoever answers is believed, and given the token.
    Unverified,
}

/// The kubelet's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) body: Vec<u8>,
    /// Where it was read, in words.
    pub(super) place: String,
}

impl Configz {
    /// Asks the kubelet.
    pub(super) async fn read(&self) -> Result<Told, ConfigzError> {
        let place = format!("https://{}/configz", self.address);
        let asked = tokio::time::timeout(self.deadline, self.ask(&place)).await;
        let body = asked.unwrap_or_else(|_| {
            Err(ConfigzError::TimedOut { place: place.clone(), deadline: self.deadline })
        })?;
        let place = match self.trust {
            Trust::Verified { .. } => place,
            Trust::Unverified => format!("{place}, its certificate not verified"),
        };
        Ok(Told { body, place })
    }

    async fn ask(&self, place: &str) -> Result<Vec<u8>, ConfigzError> {
        let request = Request::get("/configz").header(header::AUTHORIZATION, self.authorization()?);
        let request = request.body(Body::empty()).map_err(|error| unreachable_by(place, error))?;
        let client = Client::try_from(self.config()?).map_err(|error| unreachable_by(place, error))?;
        let response = client.send(request).await.map_err(|error| unreachable_by(place, error))?;
        let place = || place.to_owned();
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Err(ConfigzError::Unauthorized { place: place() }),
            StatusCode::FORBIDDEN => return Err(ConfigzError::Forbidden { place: place() }),
            status => return Err(ConfigzError::Answered { place: place(), status }),
        }
        match Limited::new(response.into_body(), MAX_BODY).collect().await {
            Ok(body) => Ok(body.to_bytes().into()),
            Err(error) if error.is::<LengthLimitError>() => Err(ConfigzError::TooLarge { place: place() }),
            Err(source) => Err(ConfigzError::Unreachable { place: place(), source }),
        }
    }

    fn authorization(&self) -> Result<HeaderValue, ConfigzError> {
        let refused = |source| ConfigzError::NoToken { path: self.token_file.clone(), source };
        let token = std::fs::read_to_string(&self.token_file).map_err(refused)?;
        let bad = |problem: &str| refused(io::Error::new(io::ErrorKind::InvalidData, problem));
        let token = token.trim();
        if token.is_empty() {
            return Err(bad("it is empty"));
        }
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        let mut value = value.map_err(|_| bad("it is no token"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn config(&self) -> Result<Config, ConfigzError> {
        let bad = |_| ConfigzError::BadAddress { address: self.address.clone() };
        let uri = Uri::builder().scheme("https").authority(self.address.as_str()).path_and_query("/");
        let mut config = Config::new(uri.build().map_err(bad)?);
        config.default_retry = false;
        // The deadline holds for all of it.
        (config.connect_timeout, config.read_timeout, config.write_timeout) = (None, None, None);
        match &self.trust {
            Trust::Unverified => config.accept_invalid_certs = true,
            Trust::Verified { authorities, name } => {
                config.root_cert = Some(certificates(authorities)?);
                config.tls_server_name = Some(name.clone());
            }
        }
        Ok(config)
    }
}

/// All certificates of the files; a file that cannot be read has none.
fn certificates(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, ConfigzError> {
    let of_file = |file: &PathBuf| match CertificateDer::pem_file_iter(file) {
        Ok(found) => found.filter_map(Result::ok).map(|certificate| certificate.to_vec()).collect(),
        Err(error) => {
            tracing::debug!(file = %file.display(), %error, "no authority for the kubelet's certificate");
            Vec::new()
        }
    };
    let found: Vec<Vec<u8>> = files.iter().flat_map(of_file).collect();
    if found.is_empty() { Err(ConfigzError::NoAuthority { files: files.to_vec() }) } else { Ok(found) }
}

/// Why nobody could be asked: a certificate that is not to be trusted stands deep in the chain of causes.
fn unreachable_by(place: &str, error: impl Into<Box<dyn Error + Send + Sync>>) -> ConfigzError {
    let (place, source) = (place.to_owned(), error.into());
    let mut cause: Option<&(dyn Error + 'static)> = Some(source.as_ref());
    while let Some(error) = cause {
        if let Some(refused @ rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
            return ConfigzError::Untrusted { place, source: Box::new(refused.clone()) };
        }
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = wrapped.map(|error| error as &(dyn Error + 'static)).or_else(|| error.source());
    }
    ConfigzError::Unreachable { place, source }
}
