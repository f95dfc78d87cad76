//! Bundles: what is in them, what is left out of them, and what is refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use gpulet_host::recorded::Entry;
use gpulet_host::{Bundle, Recorded, Root, hardware};
use proptest::prelude::*;
use support::{BRIDGE, GPU, NIC, Tree};
use tar::{Builder, EntryType, Header};

/// A machine with what identifies it in every place that is read.
fn machine() -> Tree {
    let tree = Tree::new();
    let port = "pci0000:3a/0000:3a:00.0";
    tree.pci("pci0000:3a", "0000:3a:00.0", &BRIDGE);
    tree.pci(port, "0000:3b:00.0", &NIC);
    tree.pci(port, "0000:3c:00.0", &GPU);
    let nic = format!("sys/devices/{port}/0000:3b:00.0");
    tree.files(&format!("{nic}/infiniband/mlx5_0"), &[("node_guid", "506b:4b03:00a1:b2c3")]);
    tree.files(&format!("{nic}/net/enx506b4ba1b2c3"), &[("address", "50:6b:4b:a1:b2:c3")]);
    tree.files("sys/devices/system/node", &[("online", "0")]);
    tree.files("sys/devices/system/node/node0", &[("cpulist", "0-3"), ("distance", "10")]);
    tree.files("etc", &[("hostname", "rack7-gpu3"), ("shadow", "secret")]);
    tree
}

fn collected(tree: &Tree) -> Bundle {
    let root = Root::new(tree.path()).recorded();
    hardware::read(&root);
    Bundle { host: root.recording(), attachments: BTreeMap::new() }
}

fn packed(bundle: &Bundle) -> Vec<u8> {
    let mut packed = Vec::new();
    bundle.write(&mut packed).unwrap();
    packed
}

fn opened(bytes: &[u8]) -> Result<Bundle, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    Bundle::open(file.path()).map_err(|error| {
        assert_eq!(error.reason(), "BundleUnreadable");
        assert!(error.to_string().contains(&file.path().display().to_string()), "{error}");
        error.source().unwrap().to_string()
    })
}

#[test]
fn only_what_was_read_is_in_it() {
    let bundle = collected(&machine());
    assert!(bundle.host.get("etc/shadow").is_none() && bundle.host.get("etc/hostname").is_none());
    let gpu = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3c:00.0";
    assert_eq!(bundle.host.get(&format!("{gpu}/class")), Some(&Entry::File(b"0x030200\n".to_vec())));
    assert!(bundle.host.get(&format!("{gpu}/numa_node")).is_none(), "missing files are not in it");
    let link = Entry::Link("../../../devices/pci0000:3a/0000:3a:00.0/0000:3c:00.0".to_owned());
    assert_eq!(bundle.host.get("sys/bus/pci/devices/0000:3c:00.0"), Some(&link));
    assert!(bundle.host.iter().all(|(path, _)| !path.ends_with("address")), "nobody read it");
}

#[test]
fn names_of_people_and_places_are_left_out_and_the_rest_is_the_same() {
    let mut bundle = collected(&machine());
    bundle
        .attachments
        .insert("driver.json".to_owned(), b"{\"on\":\"rack7-gpu3\",\"mac\":\"50:6b:4b:a1:b2:c3\"}".to_vec());
    let before = hardware::read(&Root::replay(bundle.clone()));
    let scrubbed = bundle.scrubbed(&["rack7-gpu3".to_owned()]);
    let everything = format!("{scrubbed:?}") + &String::from_utf8_lossy(&scrubbed.attachments["driver.json"]);
    for name in ["506b", "4b03", "a1b2c3", "rack7"] {
        assert!(!everything.contains(name), "{name} is in {everything}");
    }
    let mut after = hardware::read(&Root::replay(scrubbed));
    let nic = &mut after.nics[0];
    assert_eq!(nic.interfaces, ["enx020000000002"]);
    let guid = nic.rdma.as_mut().unwrap().node_guid.replace("506b:4b03:00a1:b2c3".to_owned());
    assert_eq!(guid.as_deref(), Some("0000:0200:0000:0001"));
    nic.interfaces = vec!["enx506b4ba1b2c3".to_owned()];
    assert_eq!(after, before);
}

#[test]
fn a_device_that_is_named_by_its_guid_has_one_stand_in_everywhere() {
    let tree = machine();
    let nic = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/infiniband";
    fs::rename(tree.path().join(nic).join("mlx5_0"), tree.path().join(nic).join("rocex506b4b0300a1b2c3"))
        .unwrap();
    tree.link("sys/class/infiniband/one", &format!("../../../{nic}/rocex506b4b0300a1b2c3"));
    let root = Root::new(tree.path()).recorded();
    hardware::read(&root);
    let class = "sys/class/infiniband/one".to_owned();
    let target = Entry::Link(format!("../../../{nic}/rocex506b4b0300a1b2c3"));
    let recorded = root.recording();
    let host = recorded.iter().map(|(path, entry)| (path.clone(), entry.clone()));
    let host = host.chain([(class.clone(), target)]).collect();
    let said = b"{\"device\": \"rocex506b4b0300a1b2c3\"}".to_vec();
    let scrubbed = Bundle { host, attachments: [("driver.json".to_owned(), said)].into() }.scrubbed(&[]);
    let rdma = hardware::read(&Root::replay(scrubbed.clone())).nics[0].rdma.clone().unwrap();
    assert_eq!(rdma.name, "rocex0000020000000001");
    assert_eq!(rdma.node_guid.as_deref(), Some("0000:0200:0000:0001"), "the digits of the name");
    assert_eq!(scrubbed.host.get(&class), Some(&Entry::Link(format!("../../../{nic}/{}", rdma.name))));
    let said = format!("{{\"device\": \"{}\"}}", rdma.name);
    assert_eq!(String::from_utf8_lossy(&scrubbed.attachments["driver.json"]), said);
}

#[test]
fn attachments_come_back_and_the_same_makes_the_same() {
    let mut bundle = collected(&machine());
    bundle.attachments.insert("driver.json".to_owned(), b"{}".to_vec());
    bundle.attachments.insert("empty".to_owned(), Vec::new());
    assert_eq!(opened(&packed(&bundle)), Ok(bundle.clone()));
    assert_eq!(packed(&bundle), packed(&bundle));
    bundle.attachments.insert("../name".to_owned(), Vec::new());
    let error = bundle.write(Vec::new()).unwrap_err();
    assert!(error.to_string().contains("../name") && error.reason() == "BundleNotWritten", "{error}");
}

#[test]
fn other_tools_can_look_into_it() {
    let bundle = collected(&machine());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bundle.tar.gz");
    bundle.write(fs::File::create(&file).unwrap()).unwrap();
    let listed = std::process::Command::new("tar").arg("-tzf").arg(&file).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.starts_with("gpulet-bundle\n") && listed.contains("host/sys/devices/system/node/online\n")
    );
}

/// An archive of one's own making, after a good mark.
fn archive(add: impl FnOnce(&mut Builder<GzEncoder<Vec<u8>>>)) -> Vec<u8> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    raw(&mut archive, b"gpulet-bundle", EntryType::Regular, b"", b"1\n");
    add(&mut archive);
    archive.into_inner().unwrap().finish().unwrap()
}

/// An entry whose names the library would refuse to write.
fn raw(archive: &mut Builder<impl Write>, path: &[u8], kind: EntryType, target: &[u8], content: &[u8]) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    header.set_cksum();
    archive.append(&header, content).unwrap();
}

#[test]
fn what_leads_out_is_refused_or_leads_nowhere() {
    for path in [
        "host/../../etc/passwd",
        "/etc/passwd",
        "host//etc",
        "host/./x",
        "../x",
        "host/a/../b",
        "elsewhere/x",
    ] {
        let error = opened(&archive(|archive| raw(archive, path.as_bytes(), EntryType::Regular, b"", b"x")));
        assert!(error.unwrap_err().contains(path), "{path}");
    }
    for kind in [EntryType::Link, EntryType::Char, EntryType::Fifo] {
        let error =
            opened(&archive(|archive| raw(archive, b"host/x", kind, b"/etc/passwd", b""))).unwrap_err();
        assert!(error.contains("neither file"), "{error}");
    }
    // Links may point anywhere: they are followed within the bundle only.
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("online"), "0-7").unwrap();
    let target = outside.path().to_str().unwrap().to_owned();
    for target in [target.clone(), format!("../../../../../../../../../..{target}")] {
        let bytes = archive(|archive| {
            raw(archive, b"host/sys/devices/system/node", EntryType::Symlink, target.as_bytes(), b"");
        });
        let host = hardware::read(&Root::replay(opened(&bytes).unwrap()));
        assert!(host.numa_nodes.is_empty() && host.oddities.is_empty());
    }
}

#[test]
fn what_is_too_much_is_refused() {
    let large = vec![b' '; (1 << 20) + 1];
    let error = opened(&archive(|archive| raw(archive, b"host/x", EntryType::Regular, b"", &large)));
    assert!(error.unwrap_err().contains("1048577 bytes"));
    // 70 MiB of zeros, a few kilobytes when packed.
    let part = vec![0; 1 << 20];
    let bomb = archive(|archive| {
        for number in 0..70 {
            raw(archive, format!("host/{number}").as_bytes(), EntryType::Regular, b"", &part);
        }
    });
    assert!(bomb.len() < 1 << 20);
    assert!(opened(&bomb).unwrap_err().contains("unpacks to more than"));
    let long = "x/".repeat(600);
    let mut header = Header::new_gnu();
    header.set_size(0);
    let error = opened(&archive(|archive| {
        archive.append_data(&mut header, format!("host/{long}x"), &b""[..]).unwrap()
    }));
    assert!(error.unwrap_err().contains("too long"));
    let twice =
        archive(|archive| (0..2).for_each(|_| raw(archive, b"host/x", EntryType::Regular, b"", b"1")));
    assert!(opened(&twice).unwrap_err().contains("twice"));
}

#[test]
fn what_is_no_bundle_is_refused() {
    assert!(opened(b"").is_err() && opened(b"not compressed").is_err());
    let other = {
        let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        raw(&mut archive, b"README", EntryType::Regular, b"", b"");
        archive.into_inner().unwrap().finish().unwrap()
    };
    assert!(opened(&other).unwrap_err().contains("another archive"));
    let newer = {
        let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        raw(&mut archive, b"gpulet-bundle", EntryType::Regular, b"", b"2\n");
        archive.into_inner().unwrap().finish().unwrap()
    };
    assert!(opened(&newer).unwrap_err().contains("version `2`"));
    let whole = packed(&collected(&machine()));
    for cut in [1, 20, whole.len() / 2, whole.len() - 1] {
        assert!(opened(&whole[..cut]).is_err(), "cut at {cut} of {}", whole.len());
    }
    let error = Bundle::open(Path::new("/nonexistent/bundle")).unwrap_err();
    assert_eq!(error.reason(), "BundleNotOpened");
}

/// Names that mean something to the readers, so that random trees reach far into them.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("0000:00:01.0".to_owned()),
        Just("10000:e1:00.0".to_owned()),
        Just("pci0000:00".to_owned()),
        "(net|infiniband|mlx5_0|ports|1|uevent|class|vendor|device|config|numa_node|driver|physfn|rate|state)",
        "(online|present|node[01]|cpu[01]|topology|cache|index[03]|level|shared_cpu_list|hugepages|distance)",
        "[a-z]{1,3}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    let base = prop_oneof![
        Just("sys/bus/pci/devices"),
        Just("sys/devices"),
        Just("sys/devices/system/node"),
        Just("sys/devices/system/cpu"),
        Just("proc/driver/nvidia"),
        Just("proc/driver/nvidia/gpus"),
        Just("sys"),
    ];
    (base, proptest::collection::vec(part(), 0..4))
        .prop_map(|(base, parts)| std::iter::once(base.to_owned()).chain(parts).collect::<Vec<_>>().join("/"))
}

fn entry() -> impl Strategy<Value = Entry> {
    let text = prop_oneof![
        "(DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330|0x030200|0x020000|0x10de|0-8191|0-65535|0-1|1|-1|4: ACTIVE|Node: 1)\n?",
        ".{0,20}",
        "[0-9,-]{0,20}"
    ];
    prop_oneof![
        Just(Entry::Directory),
        Just(Entry::Unread),
        path().prop_map(Entry::Link),
        path().prop_map(|path| Entry::Link(format!("/{path}"))),
        path().prop_map(|path| Entry::Link(format!("../../../../{path}"))),
        text.prop_map(|text| Entry::File(text.into_bytes())),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Entry::File),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_tree_is_read(entries in proptest::collection::btree_map(path(), entry(), 0..80)) {
        let bundle = Bundle { host: entries.into_iter().collect::<Recorded>(), ..Bundle::default() };
        let host = hardware::read(&Root::replay(bundle.clone()));
        prop_assert!(host.pci.is_sorted_by_key(|device| device.address));
        prop_assert!(host.nics.iter().all(|nic| host.pci.iter().any(|device| device.address == nic.pci)));
        prop_assert_eq!(opened(&packed(&bundle)), Ok(bundle.clone()));
        hardware::read(&Root::replay(bundle.scrubbed(&[])));
    }

    #[test]
    fn any_bytes_are_a_bundle_or_refused(at in 0usize..2000, byte: u8, tail in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut bytes = packed(&collected_small());
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = opened(&bytes);
        bytes.truncate(at);
        bytes.extend(tail);
        let _ = opened(&bytes);
    }
}

fn collected_small() -> Bundle {
    let host = [("sys/a", Entry::File(b"1".to_vec())), ("sys/b", Entry::Link("a".to_owned()))];
    Bundle {
        host: host.map(|(path, entry)| (path.to_owned(), entry)).into_iter().collect(),
        ..Bundle::default()
    }
}
