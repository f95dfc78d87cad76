//! Virtual machines of clouds, against the topology files that their providers hand to NCCL: of the switches between
//! devices the machine itself shows nothing.

use std::collections::BTreeSet;

use super::place::Seen;
use super::*;

/// A device of such a file, with the switch and the CPU under which it stands.
#[derive(Debug)]
struct Listed<'a> {
    tag: &'a str,
    switch: &'a str,
    cpu: &'a str,
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    tag[start..].split('"').next()
}

/// The devices. The files have one tag in a line, switches have devices and devices have nothing below them.
fn listed(file: &str) -> Vec<Listed<'_>> {
    let (mut cpu, mut switch, mut found) = ("", "", Vec::new());
    for line in file.lines().map(str::trim) {
        let tag = line.split("<!--").next().unwrap();
        if tag.starts_with("<cpu ") {
            cpu = tag;
        } else if tag.starts_with("<pci ") && attribute(tag, "class") == Some("0x060400") {
            switch = tag;
        } else if tag.starts_with("<pci ") {
            found.push(Listed { tag, switch, cpu });
        }
    }
    found
}

/// CPUs of a mask as the kernel writes it: words of 32 bits, the highest first.
fn cpus(mask: &str) -> CpuSet {
    let words = mask.split(',').rev().map(|word| u32::from_str_radix(word, 16).unwrap());
    let bits = (0..)
        .zip(words)
        .flat_map(|(at, word)| (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 32 + bit));
    bits.collect()
}

fn gigatransfers(written: &Written, file: &str) -> f64 {
    written.read(file).split(' ').next().unwrap().parse().unwrap()
}

/// Every fact that the file gives of a device by itself; answers where it is.
fn check(written: &Written, listed: &Listed<'_>) -> Seen {
    let at = attribute(listed.tag, "busid").unwrap();
    let directory = format!("sys/bus/pci/devices/{at}");
    let file = |name: &str| written.read(&format!("{directory}/{name}"));
    for name in ["class", "vendor", "device", "subsystem_vendor", "subsystem_device"] {
        if let Some(expected) = attribute(listed.tag, name) {
            assert_eq!(file(name), expected, "{at} {name}");
        }
    }
    let speed =
        attribute(listed.tag, "link_speed").unwrap().split(' ').next().unwrap().parse::<f64>().unwrap();
    assert_eq!(gigatransfers(written, &format!("{directory}/max_link_speed")), speed, "{at}");
    assert_eq!(file("max_link_width"), attribute(listed.tag, "link_width").unwrap(), "{at}");
    let seen = Seen::at(written, &written.path(&directory));
    assert_eq!(seen.numa, attribute(listed.cpu, "numaid").unwrap(), "{at}");
    assert_eq!(seen.cpus, cpus(attribute(listed.cpu, "affinity").unwrap()).to_string(), "{at}");
    seen
}

/// Levels of two devices by the file and by sysfs, all that occur.
fn levels(node: &str, file: &str, count: usize) -> BTreeSet<(&'static str, &'static str)> {
    let written = Written::node(node);
    let devices = listed(file);
    assert_eq!(devices.len(), count);
    let gpus = devices.iter().filter(|device| attribute(device.tag, "class") == Some("0x030200")).count();
    assert_eq!(gpus, written.engine.node().gpus().len());
    let seen: Vec<Seen> = devices.iter().map(|device| check(&written, device)).collect();
    let mut levels = BTreeSet::new();
    for (a, at) in devices.iter().zip(&seen) {
        for (b, other) in devices.iter().zip(&seen).filter(|(b, _)| b.tag != a.tag) {
            let by_file = match (a.switch == b.switch, a.cpu == b.cpu) {
                (true, _) => "PIX",
                (_, true) => "NODE",
                _ => "SYS",
            };
            levels.insert((by_file, at.level(other)));
        }
    }
    levels
}

#[test]
fn p4d_is_as_its_provider_describes_it() {
    let found = levels("p4d-24xl", include_str!("../../../tests/fixtures/p4d-24xl-topo.xml"), 12);
    // The devices of a switch are on one root bus, without a switch.
    assert_eq!(found, BTreeSet::from([("PIX", "PHB"), ("NODE", "NODE"), ("SYS", "SYS")]));
}

#[test]
fn ndv4_is_as_its_provider_describes_it() {
    let found = levels("ndv4", include_str!("../../../tests/fixtures/ndv4-topo.xml"), 16);
    // Each device has a root of its own; what they have in common is the NUMA node.
    assert_eq!(found, BTreeSet::from([("PIX", "NODE"), ("SYS", "SYS")]));
    let written = Written::node("ndv4");
    let real = fs::canonicalize(written.path("sys/bus/pci/devices/0001:00:00.0")).unwrap();
    assert!(
        real.ends_with("VMBUS:00/47505500-0001-0000-3130-444532304230/pci0001:00/0001:00:00.0"),
        "{real:?}"
    );
}
