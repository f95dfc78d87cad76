//! The nodes that come with the simulator.

/// Names and descriptions, in the order of the names.
pub(super) const NODES: &[(&str, &str)] = &[
    ("a100-cpuset-restricted", include_str!("../../nodes/a100-cpuset-restricted.yaml")),
    ("a100-pcie-nvlink-pairs", include_str!("../../nodes/a100-pcie-nvlink-pairs.yaml")),
    ("a30-2x", include_str!("../../nodes/a30-2x.yaml")),
    ("b200-gpu2-nvlink-down", include_str!("../../nodes/b200-gpu2-nvlink-down.yaml")),
    ("consumer-numa-unknown", include_str!("../../nodes/consumer-numa-unknown.yaml")),
    ("cpu-only", include_str!("../../nodes/cpu-only.yaml")),
    ("dgx-1v", include_str!("../../nodes/dgx-1v.yaml")),
    ("dgx-2", include_str!("../../nodes/dgx-2.yaml")),
    ("dgx-a100", include_str!("../../nodes/dgx-a100.yaml")),
    ("dgx-h100", include_str!("../../nodes/dgx-h100.yaml")),
    ("gb200-tray", include_str!("../../nodes/gb200-tray.yaml")),
    ("h100-reversed-nics", include_str!("../../nodes/h100-reversed-nics.yaml")),
    ("hgx-a100-2numa", include_str!("../../nodes/hgx-a100-2numa.yaml")),
    ("hgx-a100-nps4", include_str!("../../nodes/hgx-a100-nps4.yaml")),
    ("hgx-b200", include_str!("../../nodes/hgx-b200.yaml")),
    ("hgx-h100", include_str!("../../nodes/hgx-h100.yaml")),
    ("hgx-h200", include_str!("../../nodes/hgx-h200.yaml")),
    ("l40s-4x", include_str!("../../nodes/l40s-4x.yaml")),
    ("ndv4", include_str!("../../nodes/ndv4.yaml")),
    ("p4d-24xl", include_str!("../../nodes/p4d-24xl.yaml")),
    ("pcie-8x4090", include_str!("../../nodes/pcie-8x4090.yaml")),
    ("rtx-pro-6000", include_str!("../../nodes/rtx-pro-6000.yaml")),
];

/// Names of the nodes that come with the simulator.
pub fn names() -> impl Iterator<Item = &'static str> {
    NODES.iter().map(|(name, _)| *name)
}
