//! What the node should look like, and what is wrong with it.

mod checks;
mod compare;
mod links;
mod profile;

use std::collections::BTreeSet;

use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{Finding, FindingReason, Severity, Topology};

use crate::label;

pub use profile::{ExpectedGpu, ExpectedNic, Profile, UnsupportedVersion, VERSION};

/// All that is wrong or worth knowing, faults first, then by reason and subject.
///
/// `busy` has the addresses of the GPUs that are under load: only their PCIe speed can be judged, for an idle GPU
/// lowers it to save power. Without a profile the checks that need none are made.
pub fn findings(profile: Option<&Profile>, topology: &Topology, busy: &BTreeSet<PciAddress>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(profile) = profile {
        compare::all(profile, topology, &mut findings);
    }
    checks::all(topology, &mut findings);
    links::all(profile, topology, busy, &mut findings);
    findings.sort_by(|a, b| {
        b.severity.cmp(&a.severity).then(a.reason.cmp(&b.reason)).then_with(|| a.subject.cmp(&b.subject))
    });
    findings
}

/// Subject and evidence may have names from sysfs, the driver or a profile in them.
fn finding(
    reason: FindingReason,
    severity: Severity,
    subject: &str,
    evidence: String,
    remedy: &str,
) -> Finding {
    let (subject, evidence) = (label::visible(subject), label::visible(&evidence));
    Finding { reason, severity, subject, evidence, remedy: remedy.to_owned() }
}
