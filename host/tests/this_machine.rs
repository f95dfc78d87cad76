//! The machine that the tests run on, against what other programs say of it.
//!
//! They need the Debian packages util-linux, pciutils, numactl and hwloc-nox, and root for the configuration space.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use gpulet_host::{Root, hardware};
use gpulet_inventory::host::{Host, PciDevice, PciKind};

/// What a program prints.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output();
    let output = output.unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
    assert!(output.status.success(), "{program} failed: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn host() -> Host {
    let host = hardware::read(&Root::new("/"));
    assert_eq!(host.oddities, []);
    host
}

type Groups = BTreeSet<BTreeSet<u32>>;

/// CPUs with the same key, in one group each. Other programs number cores and packages in their own way.
fn grouped<K: Ord>(cpus: impl Iterator<Item = (K, u32)>) -> Groups {
    let mut groups: BTreeMap<K, BTreeSet<u32>> = BTreeMap::new();
    cpus.for_each(|(key, cpu)| {
        groups.entry(key).or_default().insert(cpu);
    });
    groups.into_values().collect()
}

#[test]
#[ignore = "needs lscpu (Debian package util-linux)"]
fn cpus_are_those_of_lscpu() {
    let text = output("lscpu", &["-p"]);
    // CPU,Core,Socket,Node,,L1d,L1i,L2,L3
    let rows: Vec<Vec<&str>> =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(',').collect()).collect();
    let cpu = |row: &[&str]| row[0].parse::<u32>().unwrap();
    let by = |column: usize| grouped(rows.iter().map(|row| (row[column], cpu(row))));
    let host = host();
    let online: Vec<_> = host.cpus.online.iter().collect();
    assert_eq!(online, rows.iter().map(|row| cpu(row)).collect::<Vec<_>>());
    assert_eq!(host.cpus.places.len(), online.len());
    let places = &host.cpus.places;
    assert_eq!(places.iter().map(|place| place.siblings.iter().collect()).collect::<Groups>(), by(1));
    assert_eq!(grouped(places.iter().map(|place| (place.package, place.cpu))), by(2));
    let nodes = host.numa_nodes.iter().flat_map(|node| node.cpus.iter().map(move |cpu| (node.id, cpu)));
    assert_eq!(grouped(nodes), by(3));
    if rows[0].len() > 5 {
        let caches: Groups = host.cpus.last_level_caches.iter().map(|cache| cache.iter().collect()).collect();
        assert_eq!(caches, by(rows[0].len() - 1));
    }
}

#[test]
#[ignore = "needs numactl (Debian package numactl)"]
fn numa_nodes_are_those_of_numactl() {
    // Memory may come and go while a virtual machine runs: the truth is between two readings.
    let (before, text, after) = (host(), output("numactl", &["-H"]), host());
    let line = |start: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(start));
        line.unwrap_or_else(|| panic!("no line `{start}` in {text}")).trim().to_owned()
    };
    let numbers =
        |text: &str| text.split_whitespace().map(|word| word.parse().unwrap()).collect::<Vec<u32>>();
    assert_eq!(line("available: ").split(' ').next(), Some(before.numa_nodes.len().to_string().as_str()));
    for (before, after) in before.numa_nodes.iter().zip(&after.numa_nodes) {
        let id = before.id;
        assert_eq!(before.cpus.iter().collect::<Vec<_>>(), numbers(&line(&format!("node {id} cpus:"))));
        let mib: u64 = line(&format!("node {id} size:")).strip_suffix(" MB").unwrap().parse().unwrap();
        let told = [before, after].map(|node| node.memory_bytes.unwrap() >> 20);
        let (least, most) = (told.iter().min().unwrap(), told.iter().max().unwrap());
        assert!((least..=most).contains(&&mib), "node {id}: {mib} MiB is not between {told:?}");
        // The table of distances: `  0:  10  21`.
        assert_eq!(before.distances, numbers(&line(&format!("{id:3}:"))));
    }
}

/// What `lspci` says of one function.
struct Listed<'t> {
    class: u32,
    /// Its addresses from the root port down, itself last.
    way: Vec<&'t str>,
    ids: [u16; 2],
    /// The verbose block.
    block: &'t str,
}

impl Listed<'_> {
    fn value(&self, key: &str) -> Option<&str> {
        self.block.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim)
    }

    /// Speed (megatransfers per second) and width in `LnkCap: Port #0, Speed 2.5GT/s, Width x1, …`.
    fn link(&self, key: &str) -> Option<(u32, u32)> {
        let line = self.value(key)?;
        let after = |word: &str| {
            let (_, rest) = line.split_once(word)?;
            Some(rest.split([',', ' ']).next().unwrap_or(rest))
        };
        let speed: f64 = after("Speed ")?.strip_suffix("GT/s")?.parse().ok()?;
        Some(((speed * 1000.0).round() as u32, after("Width x")?.parse().ok()?))
    }
}

fn listed<'t>(plain: &'t str, ways: &'t str, verbose: &'t str) -> BTreeMap<&'t str, Listed<'t>> {
    let hexadecimal = |word: &str| u32::from_str_radix(word.trim_matches('"'), 16).unwrap();
    let functions = plain.lines().zip(ways.lines()).map(|(line, way)| {
        let words: Vec<_> = line.split_whitespace().collect();
        let id = |word: &str| u16::try_from(hexadecimal(word)).unwrap();
        let block = verbose.split("\n\n").find(|block| block.starts_with(words[0])).unwrap();
        let way = way.split_whitespace().next().unwrap().split('/').collect();
        (words[0], Listed { class: hexadecimal(words[1]), way, ids: [id(words[2]), id(words[3])], block })
    });
    functions.collect()
}

#[test]
#[ignore = "needs lspci (Debian package pciutils) and root"]
fn pci_functions_are_those_of_lspci() {
    let (plain, ways) = (output("lspci", &["-Dnmm"]), output("lspci", &["-DnPP"]));
    let verbose = output("lspci", &["-Dnvvvk"]);
    let listed = listed(&plain, &ways, &verbose);
    let host = host();
    let wanted = |(address, function): (&&str, &Listed<'_>)| {
        let nvidia = function.ids[0] == 0x10de && matches!(function.class, 0x300 | 0x302 | 0x680);
        (nvidia || matches!(function.class, 0x200 | 0x207 | 0x208)).then(|| (*address).to_owned())
    };
    let found = host.pci.iter().filter(|device| device.kind != PciKind::Bridge);
    let found: Vec<_> = found.map(|device| device.address.to_string()).collect();
    assert_eq!(found, listed.iter().filter_map(wanted).collect::<Vec<_>>());
    for device in &host.pci {
        compare(device, &listed[device.address.to_string().as_str()]);
    }
}

fn compare(device: &PciDevice, listed: &Listed<'_>) {
    let address = device.address.to_string();
    println!("{address}: {device:?}");
    assert_eq!([device.vendor, device.device], listed.ids, "{address}");
    // `-PP` writes the domain once, and the last part without it.
    let tail = |address: &str| {
        address.rsplit_once(':').map_or(address.to_owned(), |(bus, rest)| {
            format!("{}:{rest}", bus.rsplit(':').next().unwrap_or(bus))
        })
    };
    let way = device.path.bridges.iter().map(ToString::to_string).chain([address.clone()]);
    let told: Vec<_> = listed.way.iter().map(|part| tail(part)).collect();
    assert_eq!(way.map(|part| tail(&part)).collect::<Vec<_>>(), told, "{address}");
    assert_eq!(device.driver.as_deref(), listed.value("Kernel driver in use: "), "{address}");
    let numa = listed.value("NUMA node: ").map(|node| node.parse().unwrap());
    assert_eq!(device.numa_node.map(|node| node.0), numa, "{address}");
    let link = device.link.unwrap_or(gpulet_inventory::host::PcieLink {
        speed_mts: None,
        width: None,
        max_speed_mts: None,
        max_width: None,
    });
    if let Some((speed, width)) = listed.link("LnkCap:") {
        assert_eq!((link.max_speed_mts, link.max_width), (Some(speed), Some(width)), "{address}");
    }
    // Of the upper end of a link (a root port or downstream port) how it runs now is not read.
    let upper = device.kind == PciKind::Bridge && device.path.bridges.len().is_multiple_of(2);
    if upper {
        assert_eq!((link.speed_mts, link.width), (None, None), "{address}");
    } else if let Some((speed, width)) = listed.link("LnkSta:").filter(|(_, width)| *width > 0) {
        assert_eq!((link.speed_mts, link.width), (Some(speed), Some(width)), "{address}");
    }
    let redirects =
        |control: &str| ["ReqRedir+", "CmpltRedir+", "UpstreamFwd+"].iter().any(|on| control.contains(on));
    let redirects = listed.value("ACSCtl:").map(redirects).filter(|_| device.kind == PciKind::Bridge);
    assert_eq!(device.acs_redirects, redirects, "{address}");
}

/// The value of an attribute in one line of XML.
fn attribute<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

#[test]
#[ignore = "needs lstopo (Debian package hwloc-nox)"]
fn nodes_and_interfaces_are_those_of_hwloc() {
    let xml = output("lstopo-no-graphics", &["--of", "xml", "--whole-io"]);
    let host = host();
    let (mut nodes, mut interfaces, mut rdma) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut function = "";
    for line in xml.lines().filter(|line| line.trim_start().starts_with("<object ")) {
        let name = attribute(line, "name").unwrap_or_default().to_owned();
        match (attribute(line, "type"), attribute(line, "osdev_type")) {
            (Some("NUMANode"), _) => {
                nodes.extend(attribute(line, "os_index").map(|id| id.parse::<u32>().unwrap()))
            }
            (Some("PCIDev" | "Bridge"), _) => function = attribute(line, "pci_busid").unwrap_or_default(),
            (Some("OSDev"), Some("2")) => interfaces.extend([(function.to_owned(), name)]),
            (Some("OSDev"), Some("3")) => rdma.extend([(function.to_owned(), name)]),
            _ => {}
        }
    }
    assert_eq!(host.numa_nodes.iter().map(|node| node.id.0).collect::<BTreeSet<u32>>(), nodes);
    let ours = host
        .nics
        .iter()
        .flat_map(|nic| nic.interfaces.iter().map(|name| (nic.pci.to_string(), name.clone())));
    // hwloc lists interfaces without a PCI function too.
    interfaces.retain(|(function, _)| !function.is_empty());
    assert_eq!(ours.collect::<BTreeSet<_>>(), interfaces);
    let ours =
        host.nics.iter().filter_map(|nic| Some((nic.pci.to_string(), nic.rdma.as_ref()?.name.clone())));
    assert_eq!(ours.collect::<BTreeSet<_>>(), rdma);
}
