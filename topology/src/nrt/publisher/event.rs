//! What the publisher hears, what it asks for, and how it says it gets on.

use std::sync::Arc;
use std::time::Duration;

use super::super::object::Body;
use super::super::observed::Observed;
use super::super::ownership::{Contender, Publisher};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// This is what should be published now. Saying the same again is nothing new.
    Desired(Arc<Body>),
    /// Nothing should be published now; what is there stays. [`Event::Desired`] ends it.
    NothingDesired,
    /// The UID of the Node that is to own the object, as writes give it from now on; absent where nobody need own it.
    Owner(Option<String>),
    /// The kubelet was started anew, its socket was replaced, or it does not answer: what it said before may be missing
    /// from what it says next, until its plugins have registered again.
    KubeletUnsettled,
    /// Whether what should be published was made without Pods that run: the kubelet does not list them (yet).
    KubeletForgets(bool),
    /// The answer to [`Command::Read`]; absent: there is no such object.
    Looked(Option<Observed>),
    /// What a watch of the object tells by itself; it may be old. Absent: the object was deleted.
    Noticed(Option<Observed>),
    /// The answer to [`Command::Write`]: it was taken, and the object has this version now; empty where there are none.
    Written(String),
    /// The answer to [`Command::Read`] or [`Command::Write`]: it failed.
    Failed(Failure),
    /// Whether the object of another publisher may be taken over.
    TakeOver(bool),
    /// The API server answers again and knows the kind, as a watch of the object shows.
    ApiBack,
    /// Time has passed.
    Woken,
}

/// How a read or a write failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failure {
    /// Another manager owns something that was to be written.
    Conflict,
    /// The API server does not know who asks.
    Unauthorized,
    /// The API server does not allow it.
    Forbidden,
    /// The API server does not know the kind: its CustomResourceDefinition is not installed.
    NotInstalled,
    /// Too many requests.
    Throttled {
        /// How long the API server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The API server does not answer, or not in time.
    Unreachable,
    /// The API server finds the object invalid, or an admission policy refuses it.
    Invalid,
    /// Something else.
    Other,
}

/// What is to be done. At most one of [`Command::Read`] and [`Command::Write`] is under way at any time.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Get the object; answered by [`Event::Looked`] or [`Event::Failed`].
    Read,
    /// Apply the object; answered by [`Event::Written`] or [`Event::Failed`].
    Write(Write),
    /// How publishing gets on is this from now on.
    Tell(State),
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// What.
    pub body: Arc<Body>,
    /// Whether fields of other managers are taken from them.
    pub force: bool,
    /// Why.
    pub why: Why,
}

/// Why the object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// It is not there.
    Absent,
    /// What it should say has changed.
    Changed,
    /// Someone who is no publisher has edited it.
    Restored,
    /// It is taken over from another publisher.
    TakenOver,
    /// It has not been written for long.
    Refreshed,
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Absent, Self::Changed, Self::Restored, Self::TakenOver, Self::Refreshed];

    /// The stable word for metric labels and the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Changed => "changed",
            Self::Restored => "restored",
            Self::TakenOver => "taken-over",
            Self::Refreshed => "refreshed",
        }
    }
}

/// How publishing gets on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nothing was published yet, or nothing should be, and nothing has gone wrong.
    Starting,
    /// The object says what it should, or will within seconds.
    Published,
    /// Another publisher owns the object, so that it is left alone.
    OtherPublisher {
        /// Which.
        contender: Contender,
        /// It was taken over, or restored, and the other has come back each time.
        contested: bool,
    },
    /// What was written is undone each time, though no other publisher owns the object. Restoring it goes on, at the pace of
    /// looking.
    Contested {
        /// Who has written it since, as far as it is known: two gpulets under one node name are both gpulet. Absent where
        /// the object was deleted.
        by: Option<Contender>,
    },
    /// The last read or write failed.
    Failing(Failure),
}

impl State {
    /// Every word that [`State::reason`] can be.
    pub const REASONS: [&'static str; 12] = [
        "Starting",
        "Published",
        "OtherPublisher",
        "Contested",
        "Conflict",
        "Unauthorized",
        "Forbidden",
        "NotInstalled",
        "Throttled",
        "Unreachable",
        "Invalid",
        "Failed",
    ];

    /// The stable word for conditions, events and metric labels.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Published => "Published",
            Self::OtherPublisher { .. } => "OtherPublisher",
            Self::Contested { .. } => "Contested",
            Self::Failing(failure) => failure.reason(),
        }
    }

    /// What that means and what a person can do.
    pub fn message(&self) -> String {
        match self {
            Self::Starting => "nothing was published yet".to_owned(),
            Self::Published => "the NodeResourceTopology object is kept up to date".to_owned(),
            Self::OtherPublisher { contender, contested: false } => format!(
                "the NodeResourceTopology object of this node is owned by {}, so gpulet leaves it alone; stop that \
                 publisher on this node, or let gpulet take over (kubernetes.take-over, --take-over)",
                named(contender)
            ),
            Self::OtherPublisher { contender, contested: true } => format!(
                "{} writes the NodeResourceTopology object of this node again and again, so gpulet leaves it alone for \
                 now; stop that publisher on this node",
                named(contender)
            ),
            Self::Contested { by: Some(Contender { publisher: Publisher::Gpulet, .. }) } => {
                "another gpulet writes the NodeResourceTopology object of this node again and again, and something else \
                 into it; see that no two machines have the same node name (node-name, --node-name), and that no second \
                 gpulet runs on this one"
                    .to_owned()
            }
            Self::Contested { by: Some(contender) } => format!(
                "{} changes the NodeResourceTopology object of this node again and again, so gpulet restores it every few \
                 minutes only; see to who does it",
                named(contender)
            ),
            Self::Contested { by: None } => {
                "someone deletes the NodeResourceTopology object of this node again and again, so gpulet restores it every \
                 few minutes only; see to who does it"
                    .to_owned()
            }
            Self::Failing(failure) => failure.message().to_owned(),
        }
    }
}

impl Failure {
    /// The stable word for conditions, events and metric labels.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Conflict => "Conflict",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotInstalled => "NotInstalled",
            Self::Throttled { .. } => "Throttled",
            Self::Unreachable => "Unreachable",
            Self::Invalid => "Invalid",
            Self::Other => "Failed",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Conflict => {
                "another manager owns fields of the NodeResourceTopology object; it is looked at again"
            }
            Self::Unauthorized => {
                "the API server does not accept gpulet's credentials; see to its token or kubeconfig"
            }
            Self::Forbidden => {
                "the API server does not let gpulet write the NodeResourceTopology object of this node; see to its role"
            }
            Self::NotInstalled => {
                "the API server does not know NodeResourceTopology objects; install the CustomResourceDefinition \
                 noderesourcetopologies.topology.node.k8s.io"
            }
            Self::Throttled { .. } => "the API server asks for fewer requests; publishing waits",
            Self::Unreachable => "the API server does not answer; the last object stands",
            Self::Invalid => {
                "the API server refuses the NodeResourceTopology object; the log says what it finds wrong"
            }
            Self::Other => "the NodeResourceTopology object could not be read or written; the log says why",
        }
    }
}

fn named(Contender { publisher, manager }: &Contender) -> String {
    format!("{} (`{manager}`)", publisher.name())
}
