//! The kubelet's own account of its settings, `/configz` of its HTTPS port: what it runs with, all sources merged.
//!
//! It takes a token that may `get` `nodes/configz` (a kubelet of 1.33 or later; an earlier one wants `nodes/proxy`, which
//! would let gpulet do anything on the node and is never asked for).
//!
//! The token is a secret, and whoever listens on the port gets it: any program on the host's network may, while the
//! kubelet is away. So the certificate is verified: against the cluster's authority, and against the kubelet's own
//! certificate file, since most kubelets sign for themselves. Certificates name the node and not `127.0.0.1`, so the name
//! that is expected is given. Unverified is a choice that someone has to make, and the settings' source says so.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

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

/// Why the kubelet did not tell its settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigzError {
    /// The address is none.
    #[error("`{address}` is no address of a kubelet; expected one such as 127.0.0.1:10250")]
    BadAddress {
        /// The address.
        address: String,
    },
    /// There is no token.
    #[error("cannot read the token {}; is it a file with a service account's token?", path.display())]
    NoToken {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is nothing to verify the kubelet's certificate by.
    #[error(
        "no certificate in {}, so the kubelet's own cannot be verified; name the cluster's authority",
        shown(files)
    )]
    NoAuthority {
        /// The files that were looked into.
        files: Vec<PathBuf>,
    },
    /// The certificate is not the kubelet's, as far as can be told.
    #[error(
        "the certificate of {place} is not to be trusted ({source}); name the authority that has signed it, and the \
         name that it was signed for"
    )]
    Untrusted {
        /// Where.
        place: String,
        /// What is wrong with it.
        #[source]
        source: Box<rustls::Error>,
    },
    /// Nobody answers.
    #[error("cannot ask {place}; does the kubelet run, and is this its address?")]
    Unreachable {
        /// Where.
        place: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// It did not answer in time.
    #[error("{place} did not answer within {} s; see the kubelet's log", deadline.as_secs_f32())]
    TimedOut {
        /// Where.
        place: String,
        /// How long it was waited for.
        deadline: Duration,
    },
    /// The kubelet does not know the token.
    #[error("{place} does not accept the token (401); is it the one of this cluster, and not expired?")]
    Unauthorized {
        /// Where.
        place: String,
    },
    /// The token's owner may not.
    #[error(
        "{place} does not allow it (403); give gpulet's account `get` on `nodes/configz`, which takes a kubelet of 1.33 \
         or later, or let gpulet read the kubelet's files"
    )]
    Forbidden {
        /// Where.
        place: String,
    },
    /// It answered something else.
    #[error("{place} answered with status {status}; is it a kubelet?")]
    Answered {
        /// Where.
        place: String,
        /// The status.
        status: StatusCode,
    },
    /// The answer is larger than any such.
    #[error("the answer of {place} is larger than {MAX_BODY} bytes; is it a kubelet?")]
    TooLarge {
        /// Where.
        place: String,
    },
    /// The answer is no account of settings.
    #[error("the answer of {place} is no account of a kubelet's settings; is it a kubelet?")]
    Garbled {
        /// Where.
        place: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

impl ConfigzError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadAddress { .. } => "BadAddress",
            Self::NoToken { .. } => "NoToken",
            Self::NoAuthority { .. } => "NoAuthority",
            Self::Untrusted { .. } => "Untrusted",
            Self::Unreachable { .. } => "Unreachable",
            Self::TimedOut { .. } => "TimedOut",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::Forbidden { .. } => "Forbidden",
            Self::Answered { .. } => "UnexpectedStatus",
            Self::TooLarge { .. } => "TooLarge",
            Self::Garbled { .. } => "Garbled",
        }
    }
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
        let value = HeaderValue::try_from(format!("Bearer {}", token.trim()));
        let mut value = value.map_err(|error| refused(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn config(&self) -> Result<Config, ConfigzError> {
        let bad = |_| ConfigzError::BadAddress { address: self.address.clone() };
        let uri = Uri::builder().scheme("https").authority(self.address.as_str()).path_and_query("/");
        let mut config = Config::new(uri.build().map_err(bad)?);
        config.default_retry = false;
        config.connect_timeout = Some(self.deadline);
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

fn shown(files: &[impl AsRef<Path>]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.as_ref().display().to_string()).collect();
    if names.is_empty() { "no file".to_owned() } else { names.join(" or ") }
}
