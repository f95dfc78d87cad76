//! Each area's trees, measured: who hangs below whom and how wide that makes it.

use std::collections::BTreeMap;

use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{Device, NumaKind, Place, Topology};

use super::canvas::text_width;
use super::leaf;
use crate::label;

/// Blank between two neighbours.
pub(super) const GAP: i32 = 8;
/// Blank between the border of an area and what is in it.
pub(super) const PADDING: i32 = 12;

/// The width from which on a picture is hard to read on a page.
const PAGE: i32 = 1300;

/// One area: a NUMA node, or the devices of which nobody knows the node.
pub(super) struct Area {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) known: bool,
    pub(super) roots: Vec<Node>,
    pub(super) width: i32,
}

impl Area {
    /// Switches above each other, at most.
    pub(super) fn switch_rows(&self) -> usize {
        self.roots.iter().map(|root| root.depth().saturating_sub(1)).max().unwrap_or(0)
    }
}

/// What a box stands for.
pub(super) enum Kind {
    Root(String),
    Switch(usize),
    Gpu(usize),
    /// One NIC, or two above each other.
    Nics(Vec<usize>),
}

/// A box and what hangs below it.
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) children: Vec<Node>,
    pub(super) width: i32,
}

impl Node {
    fn leaf(kind: Kind) -> Self {
        let width = match kind {
            Kind::Gpu(_) => leaf::GPU_WIDTH,
            _ => leaf::NIC_WIDTH,
        };
        Self { kind, children: Vec::new(), width }
    }

    fn inner(kind: Kind, children: Vec<Self>) -> Self {
        let width = side_by_side(&children);
        Self { kind, children, width }
    }

    /// Boxes above the lowest leaf, this one included.
    fn depth(&self) -> usize {
        match self.children.iter().map(Self::depth).max() {
            Some(below) => below + 1,
            None => 0,
        }
    }
}

/// The width of boxes beside each other.
pub(super) fn side_by_side(nodes: &[Node]) -> i32 {
    let gaps = GAP * i32::try_from(nodes.len().saturating_sub(1)).unwrap_or(0);
    nodes.iter().map(|node| node.width).sum::<i32>() + gaps
}

/// A device on its way down from the root.
struct Hanging {
    device: Device,
    address: PciAddress,
    root: String,
    switches: Vec<usize>,
}

/// All areas: NUMA nodes with CPUs or devices, ascending, then devices without a node.
pub(super) fn areas(topology: &Topology) -> Vec<Area> {
    let mut hanging: BTreeMap<Option<NumaNodeId>, Vec<Hanging>> = BTreeMap::new();
    for area in topology.numa_nodes.iter().filter(|area| area.kind == NumaKind::Cpu) {
        hanging.entry(Some(area.node.id)).or_default();
    }
    for device in topology.devices() {
        let Some(place) = place_of(topology, device) else { continue };
        hanging.entry(place.numa.node).or_default().push(Hanging {
            device,
            address: place.pci,
            root: place.path.as_ref().map_or("not in sysfs", |path| &path.root).to_owned(),
            switches: switches_above(topology, place),
        });
    }
    let unknown = hanging.remove(&None);
    let known = hanging.into_iter().map(|(node, hanging)| area(topology, node, hanging));
    let areas = known.chain(unknown.map(|hanging| area(topology, None, hanging))).collect();
    broken(areas)
}

/// Where one area has all devices and is wider than a page, it becomes two.
fn broken(mut areas: Vec<Area>) -> Vec<Area> {
    if areas.iter().filter(|area| !area.roots.is_empty()).count() != 1 {
        return areas;
    }
    let wide = areas.iter().position(|area| area.width > PAGE && area.roots.len() > 1);
    let Some((at, area)) = wide.and_then(|at| Some((at, areas.get_mut(at)?))) else { return areas };
    let half = side_by_side(&area.roots) / 2;
    let fits = |count: &usize| area.roots.get(..*count).is_some_and(|first| side_by_side(first) <= half);
    let upper = (2..area.roots.len()).take_while(fits).last().unwrap_or(1);
    let roots = area.roots.split_off(upper);
    let width = |roots: &[Node]| side_by_side(roots).max(240) + 2 * PADDING;
    area.width = width(&area.roots);
    let rest = Area {
        title: format!("{}, continued", area.title),
        subtitle: area.subtitle.clone(),
        known: area.known,
        width: width(&roots),
        roots,
    };
    areas.insert(at + 1, rest);
    areas
}

fn place_of(topology: &Topology, device: Device) -> Option<&Place> {
    match device {
        Device::Gpu(gpu) => topology.gpus.get(gpu).map(|gpu| &gpu.place),
        Device::Nic(nic) => topology.nics.get(nic).map(|nic| &nic.place),
    }
}

/// From the root down.
fn switches_above(topology: &Topology, place: &Place) -> Vec<usize> {
    let mut above = place.pcie_switch;
    let mut switches = Vec::new();
    while let Some(at) = above {
        let Some(switch) = topology.pcie_switches.get(at) else { break };
        switches.push(at);
        above = switch.parent.filter(|parent| *parent < at);
    }
    switches.reverse();
    switches
}

fn area(topology: &Topology, node: Option<NumaNodeId>, mut hanging: Vec<Hanging>) -> Area {
    hanging.sort_by_key(|device| device.address);
    let mut by_root: Vec<(String, Vec<Hanging>)> = Vec::new();
    for device in hanging {
        match by_root.iter_mut().find(|(root, _)| *root == device.root) {
            Some((_, devices)) => devices.push(device),
            None => by_root.push((device.root.clone(), vec![device])),
        }
    }
    let roots: Vec<Node> =
        by_root.into_iter().map(|(root, devices)| Node::inner(Kind::Root(root), grow(devices, 0))).collect();
    let (title, subtitle) = titles(topology, node);
    let words = text_width(&title, 13).max(text_width(&subtitle, 10));
    let width = side_by_side(&roots).max(words).max(120) + 2 * PADDING;
    Area { title, subtitle, known: node.is_some(), roots, width }
}

/// Boxes below the root, or below a switch at `depth`.
fn grow(devices: Vec<Hanging>, depth: usize) -> Vec<Node> {
    let mut order: Vec<Branch> = Vec::new();
    for hanging in devices {
        match (hanging.switches.get(depth).copied(), hanging.device) {
            (Some(switch), _) => {
                let known = order.iter_mut().find_map(|branch| match branch {
                    Branch::Switch(at, devices) if *at == switch => Some(devices),
                    _ => None,
                });
                match known {
                    Some(devices) => devices.push(hanging),
                    None => order.push(Branch::Switch(switch, vec![hanging])),
                }
            }
            (None, Device::Gpu(gpu)) => order.push(Branch::Gpu(gpu)),
            (None, Device::Nic(nic)) => order.push(Branch::Nic(nic)),
        }
    }
    let nics = order.iter().filter(|branch| matches!(branch, Branch::Nic(_))).count();
    let mut nodes: Vec<Node> = Vec::new();
    for branch in order {
        match branch {
            Branch::Switch(switch, devices) => {
                nodes.push(Node::inner(Kind::Switch(switch), grow(devices, depth + 1)));
            }
            Branch::Gpu(gpu) => nodes.push(Node::leaf(Kind::Gpu(gpu))),
            Branch::Nic(nic) => match nodes.last_mut() {
                Some(Node { kind: Kind::Nics(column), .. }) if nics > 2 && column.len() == 1 => {
                    column.push(nic);
                }
                _ => nodes.push(Node::leaf(Kind::Nics(vec![nic]))),
            },
        }
    }
    nodes
}

enum Branch {
    Switch(usize, Vec<Hanging>),
    Gpu(usize),
    Nic(usize),
}

fn titles(topology: &Topology, node: Option<NumaNodeId>) -> (String, String) {
    let Some(area) = node.and_then(|id| topology.numa_node(id)) else {
        let subtitle = match topology.numa_nodes.as_slice() {
            [] => "the kernel lists no NUMA nodes",
            _ => "nobody says which node these belong to",
        };
        return (label::numa_node(node), subtitle.to_owned());
    };
    let mut facts = Vec::new();
    if !area.node.cpus.is_empty() {
        facts.push(format!("CPUs {}", label::cut(&area.node.cpus.to_string(), 40)));
    }
    facts.extend(area.node.memory_bytes.map(|bytes| format!("{} GiB", bytes >> 30)));
    (label::numa_node(node), facts.join(" · "))
}
