//! What the Node's conditions should say.

use gpulet_cluster::api::{Condition, ConditionStatus};
use gpulet_inventory::snapshot::Driver;
use gpulet_inventory::topology::{Finding, NodeTopology, Severity};
use gpulet_partition::protocol::{Standing as Division, State as DivisionState};
use gpulet_topology::nrt::publisher::{Failure, State};

use super::Shared;
use crate::loops::kubernetes::{Publication, Standing};

/// The condition that tells of the division of GPUs.
pub(super) const PARTITIONED: &str = "GpuPartitioned";

/// Its reason where nothing is declared.
pub(super) const NOT_DECLARED: &str = "NotDeclared";

/// Longest message, bytes: conditions are kept with the Node, which everyone reads.
const LONGEST: usize = 1000;

/// The conditions as they should be; those of which nothing is known yet are left out.
pub(super) fn wanted(shared: &Shared) -> Vec<Condition> {
    let topology = shared.topology.borrow().clone();
    let gpus = shared.gpus.borrow().clone();
    let healthy = topology.zip(gpus).map(|(topology, gpus)| healthy(&topology.value, &gpus.driver));
    let published = shared.kubernetes.publication.borrow().as_ref().and_then(published);
    let partitioned = partitioned(&shared.kubernetes.partition.borrow());
    healthy.into_iter().chain(published).chain(partitioned).collect()
}

/// Whether the GPUs are divided as is declared. While that is being changed, and where another program does it, nobody can
/// say.
fn partitioned(standing: &Division) -> Option<Condition> {
    let told = match standing {
        Division::Unknown => return None,
        Division::NotDeclared => {
            let message = "no label nvidia.com/mig.config: gpulet leaves the GPUs as they are".to_owned();
            return Some(condition(PARTITIONED, ConditionStatus::Unknown, NOT_DECLARED, message));
        }
        Division::Of(told) => told,
    };
    let status = match told.state {
        DivisionState::Success => ConditionStatus::True,
        DivisionState::Failed => ConditionStatus::False,
        DivisionState::Pending | DivisionState::Rebooting | DivisionState::HandsOff => {
            ConditionStatus::Unknown
        }
    };
    Some(condition(PARTITIONED, status, &told.reason, told.message.clone()))
}

/// Whether the GPUs are as they should be. While the driver does not answer, nobody can say.
fn healthy(topology: &NodeTopology, driver: &Driver) -> Condition {
    let faults: Vec<&Finding> =
        topology.findings.iter().filter(|finding| finding.severity == Severity::Fault).collect();
    let (status, reason, message) = match (driver, &*faults) {
        (Driver::Down(down), _) => {
            let message = format!("the driver does not answer: {}; {}", down.message, down.remedy);
            (ConditionStatus::Unknown, down.reason, message)
        }
        (Driver::Up(_), []) => {
            let gpus = topology.model.gpus.len();
            (
                ConditionStatus::True,
                "AsExpected",
                format!("{gpus} GPUs, and nothing wrong with where they are"),
            )
        }
        (Driver::Up(_), [first, ..]) => {
            let each = faults.iter().map(|fault| {
                format!("{}: {}: {}; {}", fault.subject, fault.reason.as_str(), fault.evidence, fault.remedy)
            });
            (ConditionStatus::False, first.reason.as_str(), each.collect::<Vec<_>>().join(" | "))
        }
    };
    condition("GpuHealthy", status, reason, message)
}

/// Whether the topology is published. What says that the API server cannot be asked cannot be told there either, and is
/// old when it can; so it is where the object goes into a file. Before anything was tried there is nothing to say.
fn published(publication: &Publication) -> Option<Condition> {
    let standing = &publication.standing;
    let status = match standing {
        Standing::NoAccess | Standing::NoNode | Standing::Unwritable => return None,
        Standing::NoKubelet => ConditionStatus::Unknown,
        Standing::Publisher(State::Starting) => return None,
        Standing::Publisher(State::Published) => ConditionStatus::True,
        Standing::Publisher(State::OtherPublisher { .. } | State::Contested { .. }) => ConditionStatus::False,
        Standing::Publisher(State::Failing(failure)) => match failure {
            Failure::Unreachable | Failure::Throttled { .. } => return None,
            Failure::Conflict
            | Failure::Unauthorized
            | Failure::Forbidden
            | Failure::NotInstalled
            | Failure::Invalid
            | Failure::Other => ConditionStatus::False,
        },
    };
    Some(condition("GpuTopologyPublished", status, standing.reason(), publication.message.clone()))
}

fn condition(kind: &str, status: ConditionStatus, reason: &str, mut message: String) -> Condition {
    if message.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
        message.truncate(end);
        message.push('…');
    }
    Condition { kind: kind.to_owned(), status, reason: reason.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use gpulet_inventory::snapshot::DriverDown;
    use gpulet_inventory::topology::FindingReason;

    use super::*;

    fn finding(severity: Severity, evidence: &str) -> Finding {
        Finding {
            reason: FindingReason::NvlinkDegraded,
            severity,
            subject: "GPU3".into(),
            evidence: evidence.into(),
            remedy: "look for Xid 74".into(),
        }
    }

    fn told(findings: Vec<Finding>, driver: &Driver) -> (ConditionStatus, String, String) {
        let condition = healthy(&NodeTopology { findings, ..NodeTopology::default() }, driver);
        (condition.status, condition.reason, condition.message)
    }

    #[test]
    fn faults_make_the_node_unhealthy_and_notes_do_not() {
        let up = gpulet_benches::snapshot(1, 0).gpus.value.driver.clone();
        let (status, reason, message) = told(vec![finding(Severity::Note, "a note")], &up);
        assert_eq!((status, reason.as_str()), (ConditionStatus::True, "AsExpected"), "{message}");
        let faults = vec![finding(Severity::Fault, "17 links"), finding(Severity::Fault, "16 links")];
        let (status, reason, message) = told(faults, &up);
        assert_eq!((status, reason.as_str()), (ConditionStatus::False, "NvlinkDegraded"));
        assert!(message.contains("17 links; look for Xid 74") && message.contains("16 links"), "{message}");
    }

    #[test]
    fn what_nobody_can_say_is_unknown() {
        let down = Driver::Down(DriverDown {
            reason: "Quiesced",
            message: "gpulet has let go of it".into(),
            remedy: "gpulet resume".into(),
        });
        let (status, reason, _) = told(vec![finding(Severity::Fault, "x")], &down);
        assert_eq!((status, reason.as_str()), (ConditionStatus::Unknown, "Quiesced"));
    }

    #[test]
    fn how_gpus_are_divided_is_told_where_something_is_declared() {
        let told = |state| {
            let (config, reason, message) = ("a".into(), "Word".into(), "m".into());
            let status = gpulet_partition::protocol::Status {
                state,
                config,
                hash: None,
                reason,
                message,
                gpus: vec![],
            };
            partitioned(&Division::Of(status)).map(|condition| condition.status)
        };
        assert_eq!(told(DivisionState::Success), Some(ConditionStatus::True));
        assert_eq!(told(DivisionState::Failed), Some(ConditionStatus::False));
        assert_eq!(told(DivisionState::Pending), Some(ConditionStatus::Unknown));
        assert_eq!(told(DivisionState::HandsOff), Some(ConditionStatus::Unknown));
        assert_eq!(partitioned(&Division::Unknown), None);
        assert_eq!(partitioned(&Division::NotDeclared).unwrap().status, ConditionStatus::Unknown);
    }

    #[test]
    fn long_messages_are_cut() {
        let up = gpulet_benches::snapshot(1, 0).gpus.value.driver.clone();
        let (_, _, message) = told(vec![finding(Severity::Fault, &"ä".repeat(5000))], &up);
        assert!(message.len() < 1010 && message.ends_with('…'));
    }

    #[test]
    fn the_state_of_publication_is_told_where_it_can_be() {
        let told = |standing| {
            let publication = Publication { standing, message: "m".into() };
            published(&publication).map(|condition| (condition.status, condition.reason))
        };
        let status = |standing| told(standing).map(|(status, _)| status);
        let of = |state| status(Standing::Publisher(state));
        let failing = |failure| of(State::Failing(failure));
        assert_eq!(of(State::Published), Some(ConditionStatus::True));
        assert_eq!(failing(Failure::Forbidden), Some(ConditionStatus::False));
        assert_eq!((of(State::Starting), failing(Failure::Unreachable)), (None, None));
        assert_eq!((status(Standing::NoNode), status(Standing::NoAccess)), (None, None));
        assert_eq!(told(Standing::NoKubelet), Some((ConditionStatus::Unknown, "NoKubelet".into())));
    }
}
