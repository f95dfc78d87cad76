//! The kubelet's own account of its settings, `/configz` of its HTTPS port: what it runs with, all sources merged.
//!
//! It takes a token that may `get` `nodes/configz` (a kubelet of 1.33 or later; an earlier one wants `nodes/proxy`, which
//! would let gpulet do anything on the node and is never asked for).
//!
//! The token is a secret, and whoever listens on the port gets it: any program on the host's network may, while the
//! kubelet is away. So the certificate is verified before the token is sent: against the cluster's authority, and against
//! the kubelet's own certificate file, since most kubelets sign for themselves. A kubelet that does so names the host, and
//! not `127.0.0.1`; so the names that are expected are given. Unverified is a choice that someone has to make, and the
//! settings' source says so.

mod error;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::uri::Authority;
use http::{HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

pub use error::ConfigzError;

/// The kubelet's usual port.
const PORT: u16 = 10250;

/// As much as is read of the answer, bytes. It is some 5 kB.
const MAX_BODY: usize = 1 << 20;

/// Where and how to ask the kubelet for its settings. Files are read anew each time.
#[derive(Debug, Clone)]
pub struct Configz {
    /// Its address, and its port where that is not 10250: `127.0.0.1`, `10.0.0.7:10250`, `[fd00::7]:10250`. A Pod that is
    /// not on the host's network needs the node's address.
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
    /// One of the authorities has signed it, for one of these names or for the address.
    Verified {
        /// PEM files: the cluster's authority, the kubelet's own certificate (`pki/kubelet.crt` below its root). Those
        /// that are missing are passed over; one must be there.
        authorities: Vec<PathBuf>,
        /// Names that may be in the certificate: the node's, the host's.
        names: Vec<String>,
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
        let address = self.address()?;
        let place = format!("https://{address}/configz");
        let asked = tokio::time::timeout(self.deadline, self.ask(&address, &place)).await;
        let body = asked.unwrap_or_else(|_| {
            Err(ConfigzError::TimedOut { place: place.clone(), deadline: self.deadline })
        })?;
        let place = match self.trust {
            Trust::Verified { .. } => place,
            Trust::Unverified => format!("{place}, its certificate not verified"),
        };
        Ok(Told { body, place })
    }

    /// With the port.
    fn address(&self) -> Result<Authority, ConfigzError> {
        let with_port = match self.address.parse::<IpAddr>() {
            Ok(address) => SocketAddr::new(address, PORT).to_string(),
            Err(_) => self.address.clone(),
        };
        let authority =
            Authority::try_from(with_port).ok().filter(|authority| !authority.as_str().contains('@'));
        authority.ok_or_else(|| ConfigzError::BadAddress { address: self.address.clone() })
    }

    /// Asks for each name that the certificate may be for, until it is.
    async fn ask(&self, address: &Authority, place: &str) -> Result<Vec<u8>, ConfigzError> {
        let Trust::Verified { authorities, names } = &self.trust else {
            let mut config = config(address)?;
            config.accept_invalid_certs = true;
            return self.ask_by(config, place).await;
        };
        let root_cert = Some(certificates(authorities)?);
        let host = address.host().trim_matches(['[', ']']);
        let mut refused = None;
        for name in names.iter().map(String::as_str).chain([host]) {
            let mut config = config(address)?;
            (config.root_cert, config.tls_server_name) = (root_cert.clone(), Some(name.to_owned()));
            match self.ask_by(config, place).await {
                Err(error) if error.is_of_another_name() => drop(refused.get_or_insert(error)),
                asked => return asked,
            }
        }
        Err(refused.unwrap_or_else(|| ConfigzError::BadAddress { address: self.address.clone() }))
    }

    async fn ask_by(&self, config: Config, place: &str) -> Result<Vec<u8>, ConfigzError> {
        let request = Request::get("/configz").header(header::AUTHORIZATION, self.authorization()?);
        let request = request.body(Body::empty()).map_err(|error| unreachable_by(place, error))?;
        let client = Client::try_from(config).map_err(|error| unreachable_by(place, error))?;
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
}

/// How to connect, without the certificate's verification.
fn config(address: &Authority) -> Result<Config, ConfigzError> {
    crate::tls::provide();
    let uri = Uri::builder().scheme("https").authority(address.clone()).path_and_query("/").build();
    let mut config = Config::new(uri.map_err(|_| ConfigzError::BadAddress { address: address.to_string() })?);
    config.default_retry = false;
    // The deadline holds for all of it.
    (config.connect_timeout, config.read_timeout, config.write_timeout) = (None, None, None);
    Ok(config)
}

/// All certificates of the files; a file that is not there or not ours to read has none.
fn certificates(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, ConfigzError> {
    let mut found = Vec::new();
    for file in files {
        let certificates = match CertificateDer::pem_file_iter(file) {
            Ok(certificates) => certificates,
            Err(error) => {
                tracing::debug!(file = %file.display(), %error, "no authority for the kubelet's certificate");
                continue;
            }
        };
        for certificate in certificates {
            let broken = |source| ConfigzError::BrokenAuthority { path: file.clone(), source };
            found.push(certificate.map_err(broken)?.to_vec());
        }
    }
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
