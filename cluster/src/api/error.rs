//! Why something of the API server was not had.

use std::fmt::Write as _;
use std::time::Duration;

use kube::core::Status;

/// Why something of the API server was not had. `what` names the call, such as `apply noderesourcetopologies node-a`.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// There are no credentials for any API server.
    #[error(
        "no way to a Kubernetes API server; tried {}. \
         Give `kubernetes.kubeconfig`, or run as a Pod with a service account", listed(.tried)
    )]
    NoAccess {
        /// All places that were tried.
        tried: Vec<Tried>,
    },
    /// The client could not be made from the credentials that were found.
    #[error(
        "the credentials of {place} cannot be used: {source}. Correct them, or give `kubernetes.kubeconfig`"
    )]
    Credentials {
        /// Where they were found.
        place: String,
        /// What is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The API server could not be connected to, or the connection was lost.
    #[error("{what}: the API server cannot be reached: {}. Check its address and the network", chain(.source.as_ref()))]
    Unreachable {
        /// The call.
        what: String,
        /// What the connection said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There was no answer in time.
    #[error("{what}: no answer within {} s. Check the API server's load and the network", .after.as_secs_f32())]
    TimedOut {
        /// The call.
        what: String,
        /// How long was waited.
        after: Duration,
    },
    /// The credentials are not accepted, even after they were read again.
    #[error(
        "{what}: the credentials of {place} are not accepted: {message}. Check that they have not expired"
    )]
    Unauthorized {
        /// The call.
        what: String,
        /// Where the credentials are from.
        place: String,
        /// What the server said.
        message: String,
    },
    /// The identity may not do this.
    #[error("{what}: not permitted: {message}. Grant what docs/kubernetes.md lists")]
    Forbidden {
        /// The call.
        what: String,
        /// What the server said, which names identity, verb and resource.
        message: String,
        /// Nobody may: the namespace is being deleted, and takes everything in it along.
        namespace_ends: bool,
    },
    /// The object does not exist.
    #[error("{what}: there is no such object")]
    NotFound {
        /// The call.
        what: String,
    },
    /// The server does not have this kind of object.
    #[error(
        "{what}: the API server does not have {resource}. Install its CustomResourceDefinition if it is needed"
    )]
    NotInstalled {
        /// The call.
        what: String,
        /// The resource, with its group.
        resource: &'static str,
    },
    /// Other field managers own what was to be written, or the object has changed since.
    #[error("{what}: in conflict{}: {message}", with(.managers))]
    Conflict {
        /// The call.
        what: String,
        /// The field managers that own it; none where it is not about ownership.
        managers: Vec<String>,
        /// What the server said.
        message: String,
    },
    /// The server calls what was sent wrong: its form, or an admission policy.
    #[error("{what}: not accepted: {message}{}", because(.causes))]
    Invalid {
        /// The call.
        what: String,
        /// What the server said.
        message: String,
        /// Each thing that is wrong, with its field.
        causes: Vec<String>,
    },
    /// The server asks for fewer requests, or for patience.
    #[error("{what}: the API server asks to wait (HTTP {code}): {message}{}", because(.causes))]
    Throttled {
        /// The call.
        what: String,
        /// 429 or 503.
        code: u16,
        /// How long it asks to wait.
        retry_after: Duration,
        /// What it said.
        message: String,
        /// Each reason for it, with its word.
        causes: Vec<String>,
    },
    /// What was seen last is too old to go on from: everything is to be listed again.
    #[error("{what}: the version is too old to go on from")]
    Gone {
        /// The call.
        what: String,
    },
    /// The server failed.
    #[error("{what}: the API server failed (HTTP {code}): {message}")]
    ServerError {
        /// The call.
        what: String,
        /// HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
    /// The server refused for a reason that is none of the above.
    #[error("{what}: refused (HTTP {code}): {message}")]
    Rejected {
        /// The call.
        what: String,
        /// HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
    /// The answer is longer than any that the API gives to this.
    #[error(
        "{what}: the answer is longer than {limit} bytes, so no more of it was read. Something else than an API server may \
         answer there"
    )]
    TooLarge {
        /// The call.
        what: String,
        /// The limit, bytes.
        limit: usize,
    },
    /// The answer is not in the form that the API promises.
    #[error(
        "{what}: the answer cannot be read: {source}. Something else than an API server may answer there"
    )]
    Garbled {
        /// The call.
        what: String,
        /// Where it is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ApiError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoAccess { .. } => "NoAccess",
            Self::Credentials { .. } => "Credentials",
            Self::Unreachable { .. } => "Unreachable",
            Self::TimedOut { .. } => "TimedOut",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::Forbidden { .. } => "Forbidden",
            Self::NotFound { .. } => "NotFound",
            Self::NotInstalled { .. } => "NotInstalled",
            Self::Conflict { .. } => "Conflict",
            Self::Invalid { .. } => "Invalid",
            Self::Throttled { .. } => "Throttled",
            Self::Gone { .. } => "Gone",
            Self::ServerError { .. } => "ServerError",
            Self::Rejected { .. } => "Rejected",
            Self::TooLarge { .. } => "TooLarge",
            Self::Garbled { .. } => "Garbled",
        }
    }

    /// What a PodDisruptionBudget says, where one is why an eviction has to wait.
    pub fn budget(&self) -> Option<String> {
        match self {
            Self::Throttled { message, causes, .. } => {
                let own = causes.iter().find_map(|cause| cause.strip_prefix(BUDGET)?.strip_prefix(": "));
                own.map(str::to_owned)
                    .or_else(|| message.contains("disruption budget").then(|| message.clone()))
            }
            // There is no word for it: the server calls it a failure of its own.
            Self::ServerError { message, .. } if message.contains("more than one PodDisruptionBudget") => {
                Some(message.clone())
            }
            _ => None,
        }
    }

    /// How long the server asks to wait before anything is tried again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }
}

/// The word of a cause that is a PodDisruptionBudget.
const BUDGET: &str = "DisruptionBudget";

/// The word of a cause that is a namespace which is being deleted.
const NAMESPACE_ENDS: &str = "NamespaceTerminating";

/// A cause as it is kept: its word and what it says.
pub(crate) fn said(cause: &kube::core::response::StatusCause) -> String {
    format!("{}: {}", cause.reason, cause.message)
}

/// A place where credentials were looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The place.
    pub place: String,
    /// Why there are none.
    pub why: String,
}

fn listed(tried: &[Tried]) -> String {
    let each = tried.iter().map(|Tried { place, why }| format!("{place} ({why})"));
    each.collect::<Vec<_>>().join(", ")
}

fn with(managers: &[String]) -> String {
    if managers.is_empty() { String::new() } else { format!(" with {}", managers.join(", ")) }
}

fn because(causes: &[String]) -> String {
    if causes.is_empty() { String::new() } else { format!(" ({})", causes.join("; ")) }
}

/// The error and what it came from, each said once.
fn chain(error: &(dyn std::error::Error + Send + Sync)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            // Writing into a String does not fail.
            let _ = write!(text, ": {said}");
        }
        source = cause.source();
    }
    text
}

/// The server asked to wait: a 429 or 503 with `Retry-After`.
#[derive(Debug, thiserror::Error)]
#[error("HTTP {code}: {message}")]
pub(crate) struct Held {
    pub(crate) code: u16,
    pub(crate) retry_after: Duration,
    pub(crate) message: String,
    pub(crate) causes: Vec<String>,
}

/// The server did not begin to answer in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {after:?}")]
pub(crate) struct NoAnswer {
    pub(crate) after: Duration,
}

/// An answer, or an event of a watch, was longer than it may be, and was given up.
#[derive(Debug, thiserror::Error)]
#[error("longer than {limit} bytes")]
pub(crate) struct TooLong {
    pub(crate) limit: usize,
}

impl TooLong {
    /// The one that an error came from.
    fn behind<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Self> {
        std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
    }
}

/// What a failed call is called, and to whom it went.
pub(crate) struct Failed<'a> {
    /// The call, such as `apply noderesourcetopologies node-a`.
    pub(crate) what: String,
    /// The resource, with its group.
    pub(crate) resource: &'static str,
    /// It names one object; otherwise it is about a collection.
    pub(crate) one: bool,
    /// Where the credentials are from.
    pub(crate) place: &'a str,
}

impl Failed<'_> {
    /// The error that the client's error is.
    pub(crate) fn with(self, error: kube::Error) -> ApiError {
        let what = self.what.clone();
        if let Some(TooLong { limit }) = TooLong::behind(&error) {
            return ApiError::TooLarge { what, limit: *limit };
        }
        match error {
            kube::Error::Api(status) => self.answered(*status),
            kube::Error::Service(source) => match source.downcast::<Held>() {
                Ok(held) => {
                    let Held { code, retry_after, message, causes } = *held;
                    ApiError::Throttled { what, code, retry_after, message, causes }
                }
                Err(source) => match source.downcast::<NoAnswer>() {
                    Ok(none) => ApiError::TimedOut { what, after: none.after },
                    Err(source) => ApiError::Unreachable { what, source },
                },
            },
            kube::Error::SerdeError(source) => ApiError::Garbled { what, source: Box::new(source) },
            kube::Error::FromUtf8(source) => ApiError::Garbled { what, source: Box::new(source) },
            kube::Error::Auth(source) => {
                ApiError::Credentials { place: self.place.to_owned(), source: Box::new(source) }
            }
            other => ApiError::Unreachable { what, source: Box::new(other) },
        }
    }

    /// The error that the server's answer is.
    pub(crate) fn answered(self, status: Status) -> ApiError {
        let Self { what, resource, one, place } = self;
        let Status { code, message, details, reason, .. } = status;
        let causes = details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
        match code {
            401 => ApiError::Unauthorized { what, place: place.to_owned(), message },
            403 => {
                let namespace_ends = causes.iter().any(|cause| cause.reason == NAMESPACE_ENDS);
                ApiError::Forbidden { what, message, namespace_ends }
            }
            // Where a resource is not served, the answer does not name an object.
            404 if one
                && reason == "NotFound"
                && details.as_ref().is_some_and(|details| !details.name.is_empty()) =>
            {
                ApiError::NotFound { what }
            }
            404 => ApiError::NotInstalled { what, resource },
            409 => ApiError::Conflict { what, managers: managers(causes), message },
            410 => ApiError::Gone { what },
            400 | 422 => {
                let causes =
                    causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
                ApiError::Invalid { what, message, causes }
            }
            429 | 503 => {
                let seconds = details.as_ref().map_or(0, |details| details.retry_after_seconds);
                if code == 503 && seconds == 0 {
                    return ApiError::ServerError { what, code, message };
                }
                ApiError::Throttled {
                    what,
                    code,
                    retry_after: Duration::from_secs(seconds.max(1).into()),
                    message,
                    causes: causes.iter().map(said).collect(),
                }
            }
            500.. => ApiError::ServerError { what, code, message },
            _ => ApiError::Rejected { what, code, message },
        }
    }
}

/// The field managers that a conflict is with: `conflict with "NAME" using …`, each once.
fn managers(causes: &[kube::core::response::StatusCause]) -> Vec<String> {
    let conflicts = causes.iter().filter(|cause| cause.reason == "FieldManagerConflict");
    let mut names: Vec<String> =
        conflicts.filter_map(|cause| cause.message.split('"').nth(1).map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    names
}
