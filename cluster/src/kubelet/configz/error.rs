//! Why the kubelet did not tell its settings.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::StatusCode;

use super::MAX_BODY;

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
    /// A file with certificates is damaged.
    #[error("cannot read the certificates in {}; write the file anew", path.display())]
    BrokenAuthority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The certificate is not the kubelet's, as far as can be told.
    #[error(
        "the certificate of {place} is not to be trusted; name the authority that has signed it, and the name that it \
         was signed for"
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
            Self::BrokenAuthority { .. } => "BrokenAuthority",
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

    /// The certificate may be good, but is not for the name that was expected.
    pub(super) fn is_of_another_name(&self) -> bool {
        use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
        let Self::Untrusted { source, .. } = self else { return false };
        matches!(**source, rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }))
    }
}

fn shown(files: &[impl AsRef<Path>]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.as_ref().display().to_string()).collect();
    if names.is_empty() { "no file".to_owned() } else { names.join(" or ") }
}
