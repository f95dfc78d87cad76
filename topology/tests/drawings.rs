//! The pictures: well-formed, nothing over anything else, and everything in them.

use std::collections::BTreeSet;

use gpulet_inventory::topology::Topology;
use gpulet_topology::best::Request;
use gpulet_topology::expected::Profile;
use gpulet_topology::{best, dot, findings, svg, table};

use crate::support::machine::Machine;
use crate::support::machines;

fn all() -> Vec<(&'static str, Topology)> {
    let mut all = machines::all();
    all.push(("trouble", machines::trouble()));
    all.push(("dgx-2", machines::dgx_2()));
    all.push(("one wide node", one_wide_node()));
    all.push(("nothing", Machine::default()));
    let mut unknown = machines::dgx_h100();
    unknown.host.pci.iter_mut().for_each(|device| (device.numa_node, device.local_cpus) = (None, None));
    all.push(("unknown", unknown));
    all.into_iter().map(|(name, machine)| (name, machine.topology())).collect()
}

fn one_wide_node() -> Machine {
    let mut machine = machines::dgx_h100();
    machine.host.numa_nodes.truncate(1);
    machine.host.pci.iter_mut().for_each(|device| device.numa_node = None);
    machine
}

/// Every tag closed in order, no character that XML forbids, no bare `&`.
pub fn assert_well_formed(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some((between, after)) = rest.split_once('<') {
        assert!(!between.contains('>'), "bare > in {between:?}");
        for entity in between.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|known| entity.starts_with(known)));
        }
        assert!(!between.chars().any(|c| c.is_control() && c != '\n'), "{between:?}");
        let (tag, after) = after.split_once('>').expect("a closed tag");
        let name = tag.trim_start_matches('/').split_whitespace().next().unwrap();
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (false, false) => open.push(name),
            (false, true) => {}
        }
        rest = after;
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest:?}");
}

/// Rectangles of the classes, as x, y, width and height.
fn rects(svg: &str, classes: &[&str]) -> Vec<[i32; 4]> {
    let attribute = |tag: &str, name: &str| {
        let (_, value) = tag.split_once(&format!(" {name}=\"")).unwrap();
        value.split_once('"').unwrap().0.to_owned()
    };
    let tags = svg.split("<rect").skip(1).filter(|tag| classes.contains(&attribute(tag, "class").as_str()));
    tags.map(|tag| ["x", "y", "width", "height"].map(|name| attribute(tag, name).parse().unwrap())).collect()
}

#[test]
fn pictures_are_well_formed_and_their_boxes_do_not_touch() {
    let boxes = ["gpu", "nic", "nic plain", "down", "undriven", "switch", "root", "nvswitch"];
    for (name, topology) in all() {
        let svg = svg(&topology);
        assert_well_formed(&svg);
        let [page] = rects(&svg, &["back"])[..] else { panic!("{name}: no page") };
        let rects = rects(&svg, &boxes);
        for (at, [x, y, width, height]) in rects.iter().enumerate() {
            assert!(*x > 0 && *y > 0 && x + width < page[2] && y + height < page[3], "{name}: off the page");
            for [x2, y2, width2, height2] in &rects[at + 1..] {
                let apart = x + width <= *x2 || x2 + width2 <= *x || y + height <= *y2 || y2 + height2 <= *y;
                assert!(apart, "{name}: boxes at {x},{y} and {x2},{y2}");
            }
        }
    }
}

#[test]
fn every_device_is_in_both_pictures() {
    for (name, topology) in all() {
        let (svg, dot) = (svg(&topology), dot(&topology));
        for device in topology.devices() {
            let label = topology.label(device);
            assert!(svg.contains(&format!(">{label}<")), "{name}: {label}");
            assert!(dot.contains(&format!("[label=\"{label}\\n")), "{name}: {label}");
        }
        let count = topology.gpus.len() + topology.nics.len();
        let classes = ["gpu", "nic", "nic plain", "down", "undriven"];
        let swatches = classes.iter().filter(|class| svg.contains(&format!("class=\"{class}\""))).count();
        assert_eq!(rects(&svg, &classes).len(), count + swatches, "{name}");
    }
}

#[test]
fn what_is_below_its_possible_is_marked() {
    let mut machine = machines::trouble();
    machine.gpus[2].down = Some("Unresponsive");
    machine.gpus[1].down = Some("ResetRequired");
    let topology = machine.topology();
    let svg = svg(&topology);
    for words in [
        "x8 of x16",
        "x4 of x16",
        "0 of 18",
        "16 of 18",
        "down: Lost",
        "down: Unresponsive",
        "down: ResetRequired",
        "vfio-pci",
        "+4 functions",
    ] {
        assert!(svg.contains(words), "{words}");
    }
    let sound = gpulet_topology::svg(&machines::dgx_h100().topology());
    assert!(!sound.contains("class=\"edge-bad\"") && !sound.contains(" of x"));
}

#[test]
fn a_driver_that_is_not_open_is_no_fault_of_its_gpus() {
    let mut machine = machines::l40s_4x();
    machine.gpus.iter_mut().for_each(|gpu| gpu.down = Some("DriverDown"));
    let topology = machine.topology();
    let svg = svg(&topology);
    assert_eq!(svg.matches(">driver not open<").count(), 4);
    assert!(!svg.contains("class=\"down\"") && !svg.contains("class=\"small bad\""));
    assert!(svg.contains("class=\"undriven\"") && svg.contains("the driver does not have now"));
    assert!(!dot(&topology).contains("lightpink"));
}

#[test]
fn a_picture_needs_nothing_from_outside_and_follows_the_reader_s_colours() {
    let svg = svg(&machines::trouble().topology());
    assert!(svg.contains("@media (prefers-color-scheme:dark)"));
    for outside in ["href", "url(", "@import", "<script", "<image"] {
        assert!(!svg.contains(outside), "{outside}");
    }
    assert!(!svg.contains("<b>") && svg.contains("&lt;b&gt;"));
    assert_eq!(svg, gpulet_topology::svg(&machines::trouble().topology()));
}

#[test]
fn a_single_node_that_is_too_wide_is_broken_in_two() {
    let svg = svg(&one_wide_node().topology());
    assert!(svg.contains("NUMA node 0, continued"));
    assert!(rects(&svg, &["back"])[0][2] < 1300);
    let mut machine = machines::dgx_h100();
    machine.host.pci.iter_mut().for_each(|device| (device.numa_node, device.local_cpus) = (None, None));
    let svg = gpulet_topology::svg(&machine.topology());
    assert!(svg.contains("NUMA node 1") && svg.contains("NUMA node unknown, continued"));
}

#[test]
fn dot_is_balanced_and_quotes_what_it_must() {
    let text = dot(&machines::trouble().topology());
    assert!(text.starts_with("graph topology {") && text.ends_with("}\n"));
    assert_eq!(text.matches('{').count(), text.matches('}').count());
    assert!(text.contains("<b>\\\"A & B\\\"</b>\u{fffd}"));
    assert!(dot(&machines::dgx_1v().topology()).contains("gpu_0 -- gpu_3 [label=\"NV2\""));
    assert!(dot(&machines::dgx_h100().topology()).contains("gpu_7 -- nvlink_0 [label=\"NV18\""));
}

#[test]
fn no_control_character_of_a_name_reaches_a_terminal_and_no_name_is_endless() {
    const EVIL: &str = "\u{1b}]0;gone\u{7}\u{9b}2J\r\n";
    let mut before = machines::dgx_h100();
    let evil = |text: &str| format!("{EVIL}{text}");
    for nic in &mut before.host.nics {
        nic.interfaces = vec![evil("eth0"), "e".repeat(20_000)];
        nic.rdma.iter_mut().for_each(|rdma| rdma.name = evil(&rdma.name));
    }
    before.gpus.iter_mut().for_each(|gpu| gpu.name = evil(&"N".repeat(20_000)));
    for device in &mut before.host.pci {
        device.path.root = evil(&device.path.root);
    }
    let mut now = before.clone();
    now.host.nics[0].rdma = None;
    let gone = now.host.nics[1].pci;
    now.host.nics.retain(|nic| nic.pci != gone);
    now.host.pci.retain(|device| device.address != gone);
    for gpu in [2, 3] {
        now.gpus[gpu].name = evil("other");
        now.gpus[gpu].uuid = format!("GPU-aaaaaaaa-0000-0000-0000-00000000000{gpu}").parse().unwrap();
    }
    let lost = now.gpus.remove(7).pci;
    now.pci(lost).driver = Some(evil("driver"));
    let topology = now.topology();
    let found = findings(Some(&Profile::of(&before.topology())), &topology, &BTreeSet::new());
    assert!(found.len() >= 4, "{found:?}");
    let best = best(&topology, &Request { count: 2, ..Request::default() }).unwrap();
    let mut texts = vec![table(&topology), dot(&topology), svg(&topology), best.reason];
    texts.extend(found.iter().flat_map(|found| [found.subject.clone(), found.evidence.clone()]));
    for text in &texts {
        let control = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(control, None, "{}", text.chars().take(2_000).collect::<String>());
        let longest = text.lines().map(str::len).max().unwrap_or(0);
        assert!(longest < 4_000, "{longest}");
    }
    assert!(texts[0].contains("\u{fffd}]0;gone") && texts[1].contains("\u{fffd}]0;gone"));
}

#[test]
#[ignore = "keeps the pictures in GPULET_PICTURES, to be looked at"]
#[allow(clippy::disallowed_methods, reason = "a person runs it")]
fn keep_pictures() {
    let dir = std::env::var("GPULET_PICTURES").unwrap();
    for (name, topology) in all() {
        std::fs::write(format!("{dir}/{name}.svg"), svg(&topology)).unwrap();
        std::fs::write(format!("{dir}/{name}.dot"), dot(&topology)).unwrap();
    }
}
