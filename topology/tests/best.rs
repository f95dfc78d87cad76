//! The best set of GPUs: named cases, and brute force.

use gpulet_inventory::topology::Topology;
use gpulet_topology::best::{BestError, Request, parse_gpus};
use gpulet_topology::{best, largest_free_sets};
use proptest::prelude::*;

use crate::support::machine::Machine;
use crate::support::machines;

fn take(topology: &Topology, count: usize, free: &[usize]) -> Vec<usize> {
    best(topology, &Request { count, free: Some(free.to_vec()), must: Vec::new() }).unwrap().gpus
}

#[test]
fn two_gpus_are_an_nvlink_pair() {
    let topology = machines::a100_pcie_nvlink_pairs().topology();
    assert_eq!(take(&topology, 2, &[0, 1, 2, 3, 4, 5, 6, 7]), [0, 2]);
    assert_eq!(take(&topology, 2, &[0, 1, 4, 5]), [4, 5]);
    assert_eq!(take(&topology, 4, &[1, 2, 3, 4, 5, 6, 7]), [4, 5, 6, 7]);
}

#[test]
fn a_single_takes_a_leftover_and_keeps_nvlink_pairs_whole() {
    let topology = machines::a100_pcie_nvlink_pairs().topology();
    assert_eq!(take(&topology, 1, &[0, 1, 2]), [1]);
    assert_eq!(take(&topology, 1, &[0, 2, 4, 5, 7]), [7]);
    assert_eq!(
        take(&topology, 3, &[0, 1, 2, 3, 4]),
        [0, 1, 2],
        "a pair, and a third that parts one pair at most"
    );
    assert_eq!(take(&topology, 3, &[0, 1, 2, 4, 5]), [0, 1, 2], "the third is the one without its pair");
}

#[test]
fn a_near_nic_does_not_break_an_nvlink_pair() {
    let mut machine = Machine::new("NVIDIA RTX A6000");
    machine.node(0, "0-31", 252);
    for gpu in 0..3 {
        let slot = machine.slot(Some(0));
        let switch = machine.switch(&slot);
        let port = machine.port(&switch);
        machine.gpu(&port);
        if gpu == 0 {
            let port = machine.port(&switch);
            machine.nic(&port, "mlx5_0", 200_000);
        }
    }
    machine.linked(0, 1, 2);
    assert_eq!(take(&machine.topology(), 1, &[0, 1, 2]), [2]);
    assert_eq!(take(&machine.topology(), 1, &[0, 2]), [0], "now the NIC decides");
}

#[test]
fn where_the_driver_says_sys_for_all_numa_decides() {
    let topology = machines::pcie_8x4090().topology();
    assert_eq!(take(&topology, 2, &[3, 4, 5]), [4, 5]);
    assert_eq!(take(&topology, 4, &[0, 1, 3, 4, 5, 6, 7]), [4, 5, 6, 7]);
    assert_eq!(take(&topology, 1, &[0, 4, 5, 7]), [0], "a single leaves the larger NUMA node whole");
}

#[test]
fn four_of_a_node_with_nvswitches_stay_on_one_numa_node_and_its_switch_pairs() {
    let topology = machines::dgx_h100().topology();
    assert_eq!(take(&topology, 4, &[0, 2, 3, 4, 5, 6, 7]), [4, 5, 6, 7]);
    assert_eq!(take(&topology, 2, &[1, 2, 4, 5]), [4, 5]);
    assert_eq!(take(&topology, 1, &[0, 1, 2]), [2], "a single leaves the switch pair whole");
    let answer = best(&topology, &Request { count: 4, ..Request::default() }).unwrap();
    assert_eq!(answer.gpus, [0, 1, 2, 3]);
    assert_eq!(
        answer.reason,
        "GPU0, GPU1, GPU2 and GPU3: 18 NVLinks between every two; NUMA node 0; a near NIC of their own for 4 of 4; \
         leaves 4 free"
    );
}

#[test]
fn free_gpus_split_over_numa_nodes_are_counted_for_what_they_are() {
    let topology = machines::dgx_h100().topology();
    let sets = largest_free_sets(&topology, &[0, 1, 4, 6]);
    assert_eq!(sets.numa_node, [0, 1]);
    assert_eq!(sets.pcie_switch, [0, 1]);
    assert_eq!(sets.nvlink_island, [0, 1, 4, 6]);
    let answer =
        best(&topology, &Request { count: 4, free: Some(vec![0, 1, 4, 6]), must: Vec::new() }).unwrap();
    assert!(answer.reason.contains("NUMA nodes 0 and 1"), "{}", answer.reason);
}

#[test]
fn a_cube_mesh_gives_the_double_links_first() {
    let topology = machines::dgx_1v().topology();
    assert_eq!(take(&topology, 2, &[0, 1, 3]), [0, 3]);
    assert_eq!(take(&topology, 4, &[0, 1, 2, 3, 4, 5, 6, 7]), [0, 1, 2, 3]);
    assert_eq!(
        largest_free_sets(&topology, &[0, 6, 7]).nvlink_island,
        [6, 7],
        "GPU 0 reaches them through others"
    );
}

#[test]
fn a_lost_gpu_is_passed_over() {
    let mut machine = machines::a100_pcie_nvlink_pairs();
    machine.gpus[2].down = Some("Lost");
    machine.gpus[2].nvlinks = gpulet_inventory::reading::Reading::Failed(crate::support::machine::LOST);
    let topology = machine.topology();
    let request = Request { count: 2, free: Some(vec![0, 1, 2, 3]), must: Vec::new() };
    let answer = best(&topology, &request).unwrap();
    assert_eq!((answer.gpus, answer.passed_over), (vec![1, 3], vec![2]));
    let all = best(&topology, &Request { count: 7, ..Request::default() }).unwrap();
    assert_eq!((all.gpus, all.passed_over), (vec![0, 1, 3, 4, 5, 6, 7], vec![]));
}

#[test]
fn asymmetric_links_count_by_the_lesser_end() {
    let mut machine = machines::l40s_4x();
    machine.linked_from(0, 2, 4);
    machine.linked(0, 3, 1);
    assert_eq!(take(&machine.topology(), 2, &[0, 2, 3]), [0, 3]);
}

#[test]
fn what_must_be_in_the_set_is() {
    let topology = machines::a100_pcie_nvlink_pairs().topology();
    let request = Request { count: 2, free: Some(vec![0, 1, 3, 4, 5]), must: vec![3] };
    assert_eq!(best(&topology, &request).unwrap().gpus, [1, 3]);
    let request = Request { count: 3, free: None, must: vec![7, 1] };
    assert_eq!(best(&topology, &request).unwrap().gpus, [1, 3, 7]);
}

#[test]
fn every_error_has_its_word() {
    let topology = machines::l40s_4x().topology();
    let reason = |count, free: Option<&[usize]>, must: &[usize]| {
        let request = Request { count, free: free.map(<[usize]>::to_vec), must: must.to_vec() };
        let error = best(&topology, &request).unwrap_err();
        (error.reason(), error.to_string())
    };
    assert_eq!(reason(0, None, &[]).0, "NoneWanted");
    assert_eq!(
        reason(3, Some(&[0, 2]), &[]),
        ("NotEnoughFree", "3 GPUs were asked for and 2 are free and answer (GPU0 and GPU2)".to_owned())
    );
    assert_eq!(
        reason(2, Some(&[0, 2]), &[1]),
        ("MustNotFree", "GPU1 must be in the set and is not free".to_owned())
    );
    assert_eq!(reason(2, None, &[9]).0, "MustNotFree");
    assert_eq!(reason(1, None, &[0, 1]).0, "TooManyMust");
    let error = parse_gpus(&topology, "0,7").unwrap_err();
    assert_eq!(error.reason(), "UnknownGpu");
    assert_eq!(error.to_string(), "there is no GPU `7`; this node has GPU0, GPU1, GPU2 and GPU3");
    let of_range = |range| parse_gpus(&topology, range).unwrap_err().to_string();
    assert!(of_range("2-5").starts_with("there is no GPU `4` and `5`;"), "{}", of_range("2-5"));
    assert!(of_range("0-9999").starts_with("there is no GPU `4`, `5`, `6`, `7` and 9992 more;"));
}

#[test]
fn gpus_go_by_number_range_label_uuid_and_address() {
    let machine = machines::l40s_4x();
    let topology = machine.topology();
    let list = format!("gpu3, {} ,0000:{:02x}:00.0", machine.gpus[1].uuid, machine.gpus[0].pci.bus);
    assert_eq!(parse_gpus(&topology, &list).unwrap(), [0, 1, 3]);
    assert_eq!(parse_gpus(&topology, "1-3,2").unwrap(), [1, 2, 3]);
    assert_eq!(parse_gpus(&topology, "").unwrap(), [] as [usize; 0]);
    for wrong in ["3-1", "0-99999", "-1", "GPU-", "x", "0000:ff:00.0", "1-"] {
        assert!(matches!(parse_gpus(&topology, wrong), Err(BestError::UnknownGpu { .. })), "{wrong}");
    }
}

fn row_of(gpus: usize) -> Topology {
    let mut machine = Machine::new("NVIDIA Test");
    machine.node(0, "0-7", 8);
    machine.node(1, "8-15", 8);
    for gpu in 0..gpus {
        let slot = machine.slot(Some((gpu % 2) as u32));
        machine.gpu(&slot);
    }
    machine.topology()
}

#[test]
fn sixteen_gpus_are_compared_and_too_many_sets_are_refused() {
    let topology = row_of(16);
    let answer = best(&topology, &Request { count: 8, ..Request::default() }).unwrap();
    assert_eq!(answer.gpus, [0, 2, 4, 6, 8, 10, 12, 14]);
    let topology = row_of(32);
    let error = best(&topology, &Request { count: 16, ..Request::default() }).unwrap_err();
    assert_eq!(error.reason(), "TooManySets");
    assert_eq!(best(&topology, &Request { count: 2, ..Request::default() }).unwrap().gpus, [0, 2]);
}

/// All sets, scored each by itself; the first of the best.
fn brute_force(topology: &Topology, count: usize, free: &[usize], must: &[usize]) -> Vec<usize> {
    let mut found: Option<(u64, Vec<usize>)> = None;
    for mask in 0u32..1 << free.len() {
        let set: Vec<usize> =
            free.iter().enumerate().filter(|(at, _)| mask & 1 << at != 0).map(|(_, gpu)| *gpu).collect();
        if set.len() != count || must.iter().any(|gpu| !set.contains(gpu)) {
            continue;
        }
        // A request for exactly this set gives its score among these free GPUs.
        let request = Request { count, free: Some(free.to_vec()), must: set.clone() };
        let total = best(topology, &request).unwrap().score.total;
        let better =
            found.as_ref().is_none_or(|(most, first)| total > *most || (total == *most && set < *first));
        if better {
            found = Some((total, set));
        }
    }
    found.unwrap().1
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_answer_is_that_of_brute_force(
        machine in 0..8usize,
        free in proptest::collection::btree_set(0..8usize, 1..8),
        must in proptest::collection::vec(any::<prop::sample::Index>(), 0..2),
        lost in proptest::option::of(0..4usize),
        cut in proptest::option::of(0..4usize),
    ) {
        let (_, mut machine) = machines::all().swap_remove(machine);
        let gpus = machine.gpus.len();
        if let Some(gpu) = cut.filter(|gpu| *gpu < gpus) {
            machine.links_down(gpu, 2);
        }
        if let Some(gpu) = lost.filter(|gpu| *gpu < gpus) {
            machine.gpus[gpu].down = Some("Lost");
        }
        let topology = machine.topology();
        let free: Vec<usize> = free.into_iter().filter(|gpu| *gpu < gpus && lost != Some(*gpu)).collect();
        prop_assume!(!free.is_empty());
        let mut must: Vec<usize> = must.iter().map(|at| *at.get(&free)).collect();
        must.dedup();
        for count in must.len().max(1)..=free.len() {
            let request = Request { count, free: Some(free.clone()), must: must.clone() };
            let answer = best(&topology, &request).unwrap();
            prop_assert_eq!(&answer.gpus, &brute_force(&topology, count, &free, &must));
        }
    }
}
