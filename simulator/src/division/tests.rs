use std::collections::BTreeMap;

use super::*;
use crate::engine::Engine;
use crate::node::Node;

/// MIG of the GPUs of a shipped node, empty.
fn empty(node: &str) -> MigState {
    let engine = Engine::new(&Node::load(node).unwrap(), 1, 0).unwrap();
    engine.state().gpus[0].mig.clone().unwrap()
}

/// Creates instances of these ids one after the other where the driver would; where they are, or which found no room.
fn created(node: &str, ids: &[u32]) -> Result<Vec<Place>, usize> {
    let mut mig = empty(node);
    for (count, id) in ids.iter().enumerate() {
        let (enumerator, profile) = profile_by_id(&mig, *id).unwrap();
        if capacity(&mig, profile, 580) == 0 {
            return Err(count);
        }
        let placement = default_place(&mig, profile).unwrap();
        mig.instances.push(GpuInstanceState {
            id: 0,
            profile: enumerator,
            placement,
            compute: vec![],
            memory_used_bytes: 0,
        });
    }
    Ok(mig.instances.iter().map(|instance| instance.placement).collect())
}

#[test]
fn the_driver_places_as_the_user_guide_prints_it() {
    for node in ["dgx-a100", "dgx-h100", "hgx-b200"] {
        let places = |ids: &[u32]| created(node, ids);
        assert_eq!(
            places(&[14, 19, 19, 19, 19, 19]),
            Ok(vec![(4, 2), (6, 1), (0, 1), (1, 1), (2, 1), (3, 1)]),
            "{node}"
        );
        assert_eq!(places(&[19, 14, 5]), Ok(vec![(6, 1), (4, 2), (0, 4)]), "{node}");
        assert_eq!(places(&[19, 19, 14, 9]), Err(3), "{node}: the 3g must come first");
        assert!(places(&[9, 19, 14, 19]).is_ok(), "{node}");
        assert_eq!(places(&[9, 9]), Ok(vec![(4, 4), (0, 4)]), "{node}");
    }
}

#[test]
fn all_media_engines_exclude_whatever_has_one() {
    let named = |name: &str| GiProfileState {
        id: 0,
        name: name.to_owned(),
        slices: 1,
        max_instances: 1,
        memory_mib: 1,
        multiprocessors: 1,
        engines: [0; 5],
        p2p: false,
        placements: vec![],
        compute: BTreeMap::new(),
    };
    let excludes = |one: &str, other: &str| exclude_each_other(&named(one), &named(other), 580);
    assert!(excludes("1g.24gb+me.all", "1g.24gb") && excludes("1g.24gb", "1g.24gb+me.all"));
    assert!(excludes("1g.24gb+me.all", "2g.48gb+gfx") && excludes("2g.48gb+me.all", "1g.24gb+me"));
    assert!(!excludes("1g.24gb+me.all", "1g.24gb-me") && !excludes("1g.24gb-me", "1g.24gb+me.all"));
    assert!(!excludes("1g.24gb+me", "1g.24gb"));
}

#[test]
fn an_old_driver_does_not_put_three_beside_four() {
    let mut mig = empty("dgx-a100");
    mig.instances.push(GpuInstanceState {
        id: 1,
        profile: 3,
        placement: (0, 4),
        compute: vec![],
        memory_used_bytes: 0,
    });
    let (_, three) = profile_by_id(&mig, 9).unwrap();
    assert_eq!((capacity(&mig, three, 470), capacity(&mig, three, 510)), (0, 1));
}

#[test]
fn room_is_what_does_not_overlap() {
    let places = [(0, 4), (4, 4)];
    assert_eq!(room(&places, vec![]), 2);
    assert_eq!(room(&places, vec![(3, 1)]), 1);
    assert_eq!(room(&places, vec![(3, 2)]), 0);
}
