//! How many layouts there are: the numbers that the published tables give, by the rules that people are told and by the
//! planner's own.

use super::layouts::Layouts;
use super::tables::{FOUR, ONE, ONE_DOUBLE, SEVEN, THREE, TWO, a30, a100, rtx_pro_6000, seven_slices};
use crate::grid::{Grid, Taken};
use crate::observed::GpuDivision;

/// Layouts and multisets.
fn counts(division: &GpuDivision) -> (usize, usize) {
    let layouts = Layouts::of(division);
    assert_eq!(by_grid(division), layouts.all.len(), "the planner's rules are those that people are told");
    (layouts.all.len(), layouts.by_counts.len())
}

fn by_grid(division: &GpuDivision) -> usize {
    fn grow(grid: &Grid, spots: &[(usize, crate::grid::Place)], taken: &mut Taken) -> usize {
        let mut found = 1;
        for (at, (shape, place)) in spots.iter().enumerate() {
            if taken.take(grid, *shape, *place) {
                found += grow(grid, &spots[at + 1..], taken);
                taken.give_back(grid, *shape, *place);
            }
        }
        found
    }
    let grid = Grid::of_gpu(division);
    let of = |(at, shape): (usize, &crate::grid::Shape)| {
        shape.places.iter().map(move |place| (at, *place)).collect::<Vec<_>>()
    };
    let spots: Vec<_> = grid.shapes.iter().enumerate().flat_map(of).collect();
    grow(&grid, &spots, &mut Taken::none(&grid))
}

#[test]
fn of_seven_slices() {
    assert_eq!(counts(&seven_slices(&[ONE, TWO, THREE, FOUR, SEVEN])), (298, 38));
    assert_eq!(counts(&seven_slices(&[ONE, ONE_DOUBLE, TWO, THREE, FOUR, SEVEN])), (723, 78));
    assert_eq!(counts(&a100()), (2319, 128));
}

#[test]
fn of_four_slices() {
    let mut base = a30();
    base.profiles.retain(|profile| !profile.name.ends_with("+me"));
    assert_eq!(counts(&base), (26, 10));
    // Each layout once, and once for each instance that may have the media extensions; those of four slices have them.
    let with = Layouts::of(&base);
    let extended: u32 = with
        .all
        .iter()
        .map(|layout| {
            let [_, _, four] = with.counts(*layout)[..] else { panic!("three profiles") };
            if four == 1 { 0 } else { layout.count_ones() }
        })
        .sum();
    assert_eq!(counts(&a30()).0, 26 + usize::try_from(extended).unwrap());
}

#[test]
fn of_twelve_units() {
    counts(&rtx_pro_6000());
}

#[test]
fn what_excludes_each_other_without_sharing_a_unit() {
    let fits = |division: &GpuDivision, pair: [(u32, u32); 2]| {
        let grid = Grid::of_gpu(division);
        let mut taken = Taken::none(&grid);
        pair.into_iter().all(|(id, place)| {
            let shape = grid.position(id).unwrap();
            let place = grid.shapes[shape].places[usize::try_from(place).unwrap()];
            taken.take(&grid, shape, place)
        })
    };
    // One of one slice and one of two, both with media extensions; then with plain ones.
    assert!(!fits(&a30(), [(21, 0), (6, 1)]));
    assert!(fits(&a30(), [(21, 0), (5, 1)]));
    assert!(fits(&a30(), [(14, 0), (6, 1)]));
    // Beside one with all media engines there are only such with none.
    for other in [14, 21, 47] {
        assert!(!fits(&rtx_pro_6000(), [(65, 0), (other, 1)]), "{other}");
    }
    for other in [5, 35, 64] {
        assert!(!fits(&rtx_pro_6000(), [(65, 0), (other, 1)]), "{other}");
    }
    assert!(fits(&rtx_pro_6000(), [(65, 0), (67, 1)]));
    assert!(fits(&rtx_pro_6000(), [(65, 0), (66, 1)]));
    assert!(fits(&rtx_pro_6000(), [(64, 0), (67, 3)]));
}
