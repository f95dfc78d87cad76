use std::collections::BTreeMap;
use std::error::Error;

use proptest::prelude::*;

use super::problem::Fault;
use super::*;

fn parse(text: &str) -> Result<Node, NodeError> {
    Node::parse("test", "test.yaml", text, Path::new("."))
}

/// A sound node of two divided GPUs that tests break.
const SOUND: &str = "\
about: two GPUs
driver: 580.105.08
cpu: {model: x, packages: 2, cores-per-package: 2, threads-per-core: 2}
numa:
- {id: 0, cpus: '0-1,4-5', memory: 8GiB, distances: [10, 21]}
- {id: 1, cpus: '2-3,6-7', memory: 8GiB, distances: [21, 10]}
pci:
- root: 0000:10
  numa: 0
  devices:
  - bridge: {at: 10:01.0, devices: [gpu: {at: 11:00.0, board: a100-sxm4-40gb, mig: {instances: [{profile: 1g.5gb+me, start: 0}, {profile: 2g.10gb, start: 2}]}}]}
- root: 0000:20
  numa: 1
  devices:
  - bridge: {at: 20:01.0, devices: [gpu: {at: 21:00.0, board: a100-sxm4-40gb}]}
  - bridge: {at: 20:02.0, devices: [nic: {at: 22:00.0, rdma: mlx5_0, net: eth0, rate-gbps: 100}]}
nvlink: {direct: [{gpus: [0, 1], links: 4}]}
loads: [{gpus: '1', load: training}]
";

#[test]
fn a_sound_node_is_read() {
    let node = parse(SOUND).unwrap();
    assert_eq!(node.gpus().len(), 2);
    assert_eq!(node.gpus()[1].function.path_max, (4, 16));
    assert_eq!(node.gpus()[1].function.above.len(), 1);
}

/// Replaces `from` by `to` in the sound node; answers all problems.
fn problems(changes: &[(&str, &str)]) -> Vec<Problem> {
    let mut text = SOUND.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    match parse(&text) {
        Err(NodeError::Invalid { problems, .. }) => problems,
        other => panic!("{changes:?}: {other:?}"),
    }
}

/// Expects one problem, at a place, of a wording.
fn refuses(from: &str, to: &str, place: &str, wording: &str) {
    let problems = problems(&[(from, to)]);
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let found = problems.iter().any(|p| p.place == place && p.fault.to_string().contains(wording));
    assert!(found, "{to}: expected {place}: …{wording}… in {shown:#?}");
    assert_eq!(problems.len(), 1, "{shown:#?}");
}

#[test]
fn bad_places_and_links_are_refused() {
    let root = "root: 0000:20\n";
    refuses(root, "root: 0000:20\n  within: ../x\n", "pci[1].within", "`../x` is no directory");
    refuses(root, "root: 0000:20\n  within: /ACPI\n", "pci[1].within", "`/ACPI` is no directory");
    let gpu = "at: 21:00.0, ";
    refuses(gpu, "at: 21:00.0, memory-nodes: '7', ", GPU_1, "no NUMA node 7");
    refuses(gpu, "at: 21:00.0, memory-nodes: '1', ", GPU_1, "NUMA node 1 cannot be this GPU's memory");
    refuses(gpu, "at: 21:00.0, dark-nvlinks: 11-12, ", GPU_1, "no NVLink 12: the board has 12");
    let affinity = "at: 21:00.0, driver-affinity: {cpus: 7-8, numa: '1'}, ";
    refuses(gpu, affinity, GPU_1, "CPUs 8 do not exist");
    refuses(gpu, &affinity.replace("7-8, numa: '1'", "'7', numa: '2'"), GPU_1, "no NUMA node 2");
    let level =
        |gpus: &str, level: &str| format!("driver-levels: [{{gpus: {gpus}, level: {level}}}]\npci:\n");
    refuses("pci:\n", &level("0-1", "X"), "driver-levels[0]", "that of a GPU and itself");
    refuses("pci:\n", &level("'0'", "SYS"), "driver-levels[0]", "about two GPUs at least");
    refuses("pci:\n", &level("0-2", "SYS"), "driver-levels[0]", "no GPU 2");
    let functions = "rate-gbps: 100, virtual-functions: [{at: 23:00.1}]";
    refuses("rate-gbps: 100", functions, &format!("{NIC}.virtual-functions[0]"), "not on bus 0000:22");
    refuses("pci:\n", "pcie-generation: 8\npci:\n", "pcie-generation", "PCIe generation 8");
    let boards = "{baseboards: [{gpus: 0-1, links: []}, {gpus: '5', links: []}]}";
    refuses("{direct: [{gpus: [0, 1], links: 4}]}", boards, "nvlink.baseboards[1]", "no GPU 5");
}

#[test]
fn what_the_driver_says_beside_sysfs_is_in_the_state() {
    let text = SOUND
        .replace("at: 11:00.0, ", "at: 11:00.0, dark-nvlinks: '3', ")
        .replace("at: 21:00.0, ", "at: 21:00.0, driver-affinity: {cpus: 0-7, numa: 0-1}, ")
        .replace("pci:\n", "driver-levels: [{gpus: 0-1, level: PIX}]\npci:\n");
    let engine = crate::engine::Engine::new(&parse(&text).unwrap(), 1, 0).unwrap();
    let [first, second] = &engine.state().gpus[..] else { panic!("two GPUs") };
    assert_eq!(
        (&first.identity.cpu_affinity[..], &first.identity.memory_affinity[..]),
        (&[0x33][..], &[1][..])
    );
    assert_eq!(
        (&second.identity.cpu_affinity[..], &second.identity.memory_affinity[..]),
        (&[0xff][..], &[3][..])
    );
    assert_eq!(first.identity.told_levels, BTreeMap::from([(1, 10)]));
    assert_eq!(second.identity.told_levels, BTreeMap::from([(0, 10)]));
    for gpu in [first, second] {
        let up: Vec<bool> = gpu.nvlinks.iter().take(5).map(|link| link.up).collect();
        assert_eq!(
            up,
            [true, true, true, false, false],
            "of four links the last does not come up, at either end"
        );
    }
}

const GPU_0: &str = "pci[0].devices[0].devices[0]";
const GPU_1: &str = "pci[1].devices[0].devices[0]";
const NIC: &str = "pci[1].devices[1].devices[0]";

#[test]
fn bad_processors_and_nodes_are_refused() {
    refuses("'0-1,4-5'", "'0-2,4-5'", "numa[1].cpus", "CPUs 2 belong to NUMA node 0 too");
    refuses("'0-1,4-5'", "'0-1,4-5,8-9'", "numa[0].cpus", "CPUs 8-9 do not exist: the processors have 8");
    refuses("'0-1,4-5'", "'0-1,4'", "numa", "CPUs 5 belong to no NUMA node");
    refuses("[10, 21]", "[10]", "numa 0.distances", "1 distances for 2");
    refuses("[10, 21]", "[10, 9]", "numa 0.distances", "distance 9 to node 1");
    refuses("[10, 21]", "[11, 21]", "numa 0.distances", "distance 11 to node 0");
    refuses("8GiB,", "8GiB, hugepages-2mib: 4097,", "numa 0", "more than the node's 8192 MiB");
    refuses("packages: 2", "packages: 0", "cpu", "0 CPUs are impossible");
    refuses("numa: 1\n", "numa: 7\n", "pci[1].numa", "no NUMA node 7: name one of the `numa` list");
    let far = problems(&[("id: 1,", "id: 1024,"), ("numa: 1\n", "numa: 1024\n")]);
    assert!(matches!(far[..], [Problem { fault: Fault::NumaNumber { numa: 1024 }, .. }]), "{far:?}");
    assert!(problems(&[("id: 1", "id: 0")]).iter().any(|p| p.fault == Fault::TwinNumaNodes { numa: 0 }));
}

#[test]
fn a_bad_tree_is_refused() {
    refuses(
        "at: 20:02.0",
        "at: 20:01.0",
        "pci[1].devices[1]",
        "0000:20:01.0 is the address of pci[1].devices[0] too",
    );
    refuses(
        "at: 10:01.0",
        "at: 0f:01.0",
        "pci[0].devices[0]",
        "0000:0f:01.0 is not on the bus of pci0000:10",
    );
    refuses("at: 22:00.0", "at: 21:00.1", "pci[1].devices[1]", "bus 0000:21 is at pci[1].devices[0] too");
    refuses("at: 11:00.0", "at: 0f:00.0", "pci[0].devices[0]", "a bus behind a bridge has a higher number");
    let twins = problems(&[("root: 0000:20", "root: 0000:10")]);
    assert!(twins.iter().any(|p| p.place == "pci[1]" && matches!(p.fault, Fault::TwinRoots { .. })));
    refuses("rate-gbps: 100", "rate-gbps: 100, link: {width: 12}", NIC, "12 PCIe lanes");
    refuses("rate-gbps: 100", "rate-gbps: 100, link: {generation: 6}", NIC, "PCIe generation 6");
    refuses("rdma: mlx5_0", "rdma: eth0", NIC, "`eth0` is the name of");
    refuses("rdma: mlx5_0", "rdma: ../x", NIC, "no name for a device");
    refuses("rate-gbps: 100", "rate-gbps: 100, driver: a/b", NIC, "no name for a device");
    refuses("rate-gbps: 100", "rate-gbps: 100, ports: 9", NIC, "9 ports are impossible: expected 1 to 2");
}

#[test]
fn bad_gpus_are_refused() {
    let board = "board: a100-sxm4-40gb}";
    refuses(
        board,
        "board: a101}",
        &format!("{GPU_1}.board"),
        "no board `a101`: name one of a100-pcie-80gb, a100-sxm4-40gb",
    );
    refuses(board, "board: no/such.yaml}", &format!("{GPU_1}.board"), "no/such.yaml");
    refuses(board, "board: a100-sxm4-40gb, minor: 0}", GPU_1, "/dev/nvidia0 is GPU 0 too");
    refuses(board, "board: a100-sxm4-40gb, link: {generation: 5}}", GPU_1, "PCIe generation 5");
    refuses(board, "board: a100-sxm4-40gb, minor: 255}", GPU_1, "minor numbers 0 to 254");
    refuses("driver: 580.105.08\n", "", "driver", "needs a driver");
    let t4 = problems(&[("board: a100-sxm4-40gb, mig", "board: t4, mig")]);
    assert!(t4.iter().any(|p| matches!(p.fault, Fault::NoMig { .. })));
    assert!(t4.iter().any(|p| matches!(p.fault, Fault::TooManyLinks { gpu: 0, wired: 4, links: 0 })));
}

#[test]
fn bad_wiring_and_loads_are_refused() {
    refuses("gpus: [0, 1]", "gpus: [0, 2]", "nvlink.direct[0]", "no GPU 2: this node has 2");
    refuses("gpus: [0, 1]", "gpus: [0, 0]", "nvlink.direct[0]", "linked with itself");
    refuses(
        "direct: [{gpus: [0, 1], links: 4}]",
        "switched: [12]",
        "nvlink.switched",
        "1 link counts for 0 NVSwitches",
    );
    assert_eq!(problems(&[("links: 4", "links: 13")]).len(), 2, "both ends have too many");
    refuses("gpus: '1'", "gpus: '2'", "loads[0]", "no GPU 2");
    refuses("load: training", "load: {steady: {percent: 101}}", "loads[0].load", "0 to 100");
    refuses(
        "load: training}",
        "load: training}, {gpus: '0-1', load: idle}",
        "loads[1]",
        "GPU 1 has a load already",
    );
    refuses("nvlink:", "fabric: {}\nnvlink:", "fabric", "no board of this node registers");
}

#[test]
fn bad_instances_are_refused() {
    let instances = |index: usize| format!("{GPU_0}.mig.instances[{index}]");
    refuses("2g.10gb, start: 2", "2g.10gb, start: 1", &instances(1), "can at 0, 2, 4");
    refuses("2g.10gb, start: 2", "2g.10gb, start: 0", &instances(1), "overlaps the instance of");
    refuses("2g.10gb, start: 2", "2g.12gb, start: 2", &instances(1), "no profile `2g.12gb`: it has 1g.5gb");
    refuses(
        "start: 2}",
        "start: 2, compute: [1, 2]}",
        &instances(1),
        "[1, 2] slices do not fit into `2g.10gb`",
    );
    let twice = problems(&[("2g.10gb, start: 2", "1g.5gb+me, start: 2")]);
    assert!(twice.iter().any(|p| matches!(p.fault, Fault::MediaEngines { .. })));
    assert!(twice.iter().any(|p| matches!(p.fault, Fault::TooManyInstances { count: 2, max: 1, .. })));
    refuses(
        "board: a100-sxm4-40gb}",
        "board: a100-sxm4-40gb, mig: {}}",
        "loads[0]",
        "GPU 1 is in MIG mode without a compute instance",
    );
}

#[test]
fn all_problems_come_at_once() {
    let problems =
        problems(&[("'0-1,4-5'", "'0-2,4-5'"), ("numa: 1\n", "numa: 7\n"), ("gpus: '1'", "gpus: '9'")]);
    assert_eq!(problems.len(), 3, "{problems:#?}");
}

#[test]
fn what_is_no_description_is_refused_with_its_place() {
    for (from, to, wording) in [
        ("about:", "colour: red\nabout:", "colour"),
        ("rate-gbps: 100", "rate-gbps: fast", "fast"),
        ("at: 22:00.0", "at: 22:00", "22:00"),
        ("memory: 8GiB", "memory: 8GB", "8GB"),
        ("driver: 580.105.08", "driver: new", "new"),
        ("root: 0000:10", "root: here", "here"),
    ] {
        let error = parse(&SOUND.replacen(from, to, 1)).unwrap_err();
        let text = format!("{error}: {}", error.source().unwrap());
        assert_eq!(error.reason(), "InvalidNodeSyntax", "{text}");
        assert!(text.starts_with("test.yaml is not a node description") && text.contains(wording), "{text}");
        assert!(text.contains("line"), "{text}");
    }
}

#[test]
fn unknown_names_list_the_known_ones() {
    let error = Node::load("dgx-h200").unwrap_err();
    assert_eq!(error.reason(), "UnknownNode");
    assert!(error.to_string().contains("cpu-only, dgx-1v, dgx-2, dgx-a100, dgx-h100"), "{error}");
    assert_eq!(Node::load("no/such.yaml").unwrap_err().reason(), "UnreadableNode");
}

#[test]
fn a_node_and_its_board_can_be_files() {
    let directory = tempfile::tempdir().unwrap();
    let board = board::shipped_text("t4").unwrap().replace("Tesla T4", "My board");
    std::fs::write(directory.path().join("mine.yaml"), board).unwrap();
    let node = SOUND.replacen("board: a100-sxm4-40gb}", "board: mine.yaml}", 1).replacen("nvlink:", "#", 1);
    let path = directory.path().join("my-node.yaml");
    std::fs::write(&path, &node).unwrap();
    let loaded = Node::load(path.to_str().unwrap()).unwrap();
    assert_eq!(loaded.name(), "my-node");
    assert_eq!(loaded.gpus()[1].board.name, "My board");

    let broken = board::shipped_text("t4").unwrap().replace("idle: 10,", "idle: 100,");
    std::fs::write(directory.path().join("mine.yaml"), broken).unwrap();
    let error = Node::load(path.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("board `mine.yaml`: power: expected idle < min-limit"), "{error}");
}

#[test]
fn every_shipped_node_and_board_loads() {
    for name in shipped() {
        let node = Node::load(name).unwrap();
        assert!(!node.description().about.is_empty());
    }
    for name in board::shipped() {
        let board = boards::read(name, board::shipped_text(name).unwrap()).unwrap();
        assert!(!board.name.is_empty());
        let text = SOUND
            .replacen("board: a100-sxm4-40gb}", &format!("board: {name}}}"), 1)
            .replacen("nvlink:", "#", 1);
        parse(&text).unwrap();
    }
    let files = |directory: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        let stem = |e: std::io::Result<std::fs::DirEntry>| {
            e.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()
        };
        let mut names: Vec<String> = std::fs::read_dir(path).unwrap().map(stem).collect();
        names.sort();
        names
    };
    assert_eq!(files("nodes"), shipped().collect::<Vec<_>>());
    assert_eq!(files("boards"), board::shipped().collect::<Vec<_>>());
}

/// Ids, enumerators, most instances, first slices and sizes that all boards of seven compute slices share, from
/// the driver's own listings (`nvidia-smi mig -lgip` and `-lgipp`).
const SEVEN_SLICES: [(u32, u32, u32, &[u32], u32); 7] = [
    (19, 0, 7, &[0, 1, 2, 3, 4, 5, 6], 1),
    (20, 7, 1, &[0, 1, 2, 3, 4, 5, 6], 1),
    (15, 9, 4, &[0, 2, 4, 6], 2),
    (14, 1, 3, &[0, 2, 4], 2),
    (9, 2, 2, &[0, 4], 4),
    (5, 3, 1, &[0], 4),
    (0, 4, 1, &[0], 8),
];

#[test]
fn boards_of_seven_slices_have_the_published_grid() {
    let names = [
        ("a100-sxm4-40gb", ["1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]),
        ("a100-pcie-80gb", ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
        ("h100-sxm-80gb", ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
        ("h200-sxm-141gb", ["1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"]),
        ("b200", ["1g.23gb", "1g.23gb+me", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"]),
        ("gb200", ["1g.23gb", "1g.23gb+me", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"]),
    ];
    for (name, profiles) in names {
        let board = boards::read(name, board::shipped_text(name).unwrap()).unwrap();
        let mig = board.mig.unwrap();
        assert_eq!(mig.slices, 8);
        let state = mig::profiles(&mig, &"580.105.08".parse().unwrap());
        assert_eq!(state.len(), 7);
        for ((id, enumerator, max, starts, size), profile) in SEVEN_SLICES.into_iter().zip(profiles) {
            let found = &state[&enumerator];
            assert_eq!((found.id, found.max_instances, found.name.as_str()), (id, max, profile), "{name}");
            assert_eq!(
                found.placements,
                starts.iter().map(|start| (*start, size)).collect::<Vec<_>>(),
                "{name} {profile}"
            );
            assert_eq!(
                gigabytes(found.memory_mib, board.memory.total),
                published_gigabytes(profile),
                "{name} {profile}"
            );
        }
    }
}

/// A grid of four slices, whose profiles have ids of their own, and one of twelve.
#[test]
fn boards_of_other_grids_have_the_published_one() {
    type Listed = (u32, u32, u32, &'static [u32], u32, &'static str);
    let a30: &[Listed] = &[
        (14, 0, 4, &[0, 1, 2, 3], 1, "1g.6gb"),
        (21, 7, 1, &[0, 1, 2, 3], 1, "1g.6gb+me"),
        (5, 1, 2, &[0, 2], 2, "2g.12gb"),
        (6, 8, 1, &[0, 2], 2, "2g.12gb+me"),
        (0, 3, 1, &[0], 4, "4g.24gb"),
    ];
    let rtx: &[Listed] = &[
        (14, 0, 4, &[0, 3, 6, 9], 3, "1g.24gb"),
        (65, 15, 1, &[0, 3, 6, 9], 3, "1g.24gb+me.all"),
        (66, 14, 2, &[0, 6], 6, "2g.48gb-me"),
        (32, 12, 1, &[0], 12, "4g.96gb+gfx"),
    ];
    for (name, slices, profiles) in [("a30", 4, a30), ("rtx-pro-6000-server", 12, rtx)] {
        let board = boards::read(name, board::shipped_text(name).unwrap()).unwrap();
        let mig = board.mig.unwrap();
        assert_eq!(mig.slices, slices);
        let state = mig::profiles(&mig, &"580.105.08".parse().unwrap());
        for (id, enumerator, max, starts, size, profile) in profiles {
            let found = &state[enumerator];
            assert_eq!((found.id, found.max_instances, found.name.as_str()), (*id, *max, *profile));
            assert_eq!(found.placements, starts.iter().map(|start| (*start, *size)).collect::<Vec<_>>());
            assert_eq!(
                gigabytes(found.memory_mib, board.memory.total),
                published_gigabytes(profile),
                "{profile}"
            );
        }
    }
}

/// The size in a profile's name, by the rule that tools compute it with.
fn gigabytes(memory_mib: u64, total: units::Bytes) -> u64 {
    let total_gib = (total.0 as f64 / f64::from(1 << 30)).ceil();
    let eighths = ((memory_mib << 20) as f64 / total.0 as f64 * 8.0).ceil();
    (eighths / 8.0 * total_gib).round() as u64
}

fn published_gigabytes(profile: &str) -> u64 {
    let (_, size) = profile.split_once('.').unwrap();
    size.split("gb").next().unwrap().parse().unwrap()
}

#[test]
fn compute_instances_have_the_published_sizes() {
    let board = boards::read("a100", board::shipped_text("a100-sxm4-40gb").unwrap()).unwrap();
    let state = mig::profiles(&board.mig.unwrap(), &"580.105.08".parse().unwrap());
    let sizes = |enumerator: u32| -> Vec<(u32, u32, u32, String)> {
        let compute = state[&enumerator].compute.iter();
        compute.map(|(e, c)| (*e, c.slices, c.max_instances, c.name.clone())).collect()
    };
    assert_eq!(sizes(0), [(0, 1, 1, "1g.5gb".to_owned())]);
    assert_eq!(
        sizes(2),
        [
            (0, 1, 3, "1c.3g.20gb".to_owned()),
            (1, 2, 1, "2c.3g.20gb".to_owned()),
            (2, 3, 1, "3g.20gb".to_owned())
        ]
    );
    let whole: Vec<(u32, u32, u32)> =
        sizes(4).into_iter().map(|(e, slices, max, _)| (e, slices, max)).collect();
    assert_eq!(whole, [(0, 1, 7), (1, 2, 3), (2, 3, 2), (3, 4, 1), (4, 7, 1)]);
    assert_eq!(state[&4].compute[&2].placements, [(0, 3), (4, 3)]);
    assert_eq!(state[&4].compute[&2].multiprocessors, 42);
}

#[test]
fn older_drivers_have_fewer_profiles() {
    let board = boards::read("a100", board::shipped_text("a100-sxm4-40gb").unwrap()).unwrap();
    let names = |driver: &str| -> Vec<String> {
        let profiles = mig::profiles(board.mig.as_ref().unwrap(), &driver.parse().unwrap());
        profiles.into_values().map(|profile| profile.name).collect()
    };
    assert!(!names("470.256.02").contains(&"1g.10gb".to_owned()));
    assert!(names("525.60.13").contains(&"1g.10gb".to_owned()));
}

#[test]
fn the_smallest_description_is_one() {
    let lines = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("//!"));
    let inside =
        lines.skip_while(|line| line.trim() != "```yaml").skip(1).take_while(|line| line.trim() != "```");
    let text: Vec<&str> = inside.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    assert_eq!(parse(&text.join("\n")).unwrap().gpus().len(), 1);
}

#[test]
fn bad_boards_are_refused() {
    let refuses = |from: &str, to: &str, wording: &str| {
        let text = board::shipped_text("h100-sxm-80gb").unwrap();
        assert!(text.contains(from), "{from}");
        let faults = boards::read("mine", &text.replacen(from, to, 1)).unwrap_err();
        assert!(faults.iter().any(|fault| fault.to_string().contains(wording)), "{wording} in {faults:?}");
    };
    refuses("reserved: 551MiB", "reserved: 90GiB", "memory.reserved: more memory is reserved");
    refuses("idle: 72", "idle: 720", "power: expected idle <");
    refuses("slowdown: 87", "slowdown: 60", "temperature: expected 25 <");
    refuses("clocks-mhz: [345,", "clocks-mhz: [3450,", "idle.clocks-mhz: a clock at rest");
    refuses("generation: 5, width: 16", "generation: 8, width: 16", "pcie.generation: PCIe generation 8");
    refuses("generation: 5, width: 16", "generation: 5, width: 3", "pcie.width: 3 PCIe lanes");
    refuses("links: 18", "links: 37", "nvlink.links: 37 links are impossible: expected 1 to 36");
    refuses(
        "starts: [0, 4], size: 4",
        "starts: [0, 5], size: 4",
        "mig.profiles[4]: `3g.40gb` leaves the grid of 8",
    );
    refuses("slices: 7", "slices: 9", "9 compute slices are impossible");
    refuses("id: 20, enumerator: 7", "id: 19, enumerator: 7", "shares its id or enumerator");
    refuses("brand: nvidia", "brand: unknown", "unknown");
}

/// Replaces the `which`-th number of a text.
fn with_number(text: &str, which: usize, number: u64) -> String {
    let digit =
        |(at, c): (usize, char)| c.is_ascii_digit() && !text[..at].ends_with(|c: char| c.is_ascii_digit());
    let starts: Vec<usize> = text.char_indices().filter(|found| digit(*found)).map(|(at, _)| at).collect();
    let start = starts[which % starts.len()];
    let end = text[start..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |length| start + length);
    format!("{}{number}{}", &text[..start], &text[end..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_number_is_taken_or_refused(
        node in 0..=shipped::NODES.len(),
        board in 0..board::shipped().count(),
        changes in proptest::collection::vec((any::<usize>(), prop_oneof![0..20_u64, any::<u64>()]), 1..3),
    ) {
        let node = shipped::NODES.get(node).map_or(SOUND, |(_, text)| text);
        let board = board::shipped_text(board::shipped().nth(board).unwrap()).unwrap();
        let change = |text: &str| changes.iter().fold(text.to_owned(), |text, (which, to)| with_number(&text, *which, *to));
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("mine.yaml"), change(board)).unwrap();
        let with_board = SOUND.replacen("board: a100-sxm4-40gb}", "board: mine.yaml}", 1);
        for text in [change(node), with_board] {
            if let Ok(node) = Node::parse("any", "any.yaml", &text, directory.path())
                && let Ok(mut engine) = crate::engine::Engine::new(&node, 1, 0)
            {
                engine.advance(std::time::Duration::from_secs(2));
            }
        }
    }
}
