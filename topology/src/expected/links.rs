//! Checks of links.

use std::collections::BTreeSet;

use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{Finding, Topology};

use super::Profile;

pub(super) fn all(
    _profile: Option<&Profile>,
    _topology: &Topology,
    _busy: &BTreeSet<PciAddress>,
    _findings: &mut Vec<Finding>,
) {
}
