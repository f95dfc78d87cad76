//! Where something could lie, and what the managers' opinions come to together.

use std::collections::BTreeMap;

/// A set of NUMA nodes, the kernel's numbers 0 to 63. The order is the kubelet's: of two sets the one with the lower
/// value has more low numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Mask(u64);

impl Mask {
    /// Of node numbers; those that no mask can hold are left out.
    pub(super) fn of(nodes: impl IntoIterator<Item = u32>) -> Self {
        Self(nodes.into_iter().filter(|node| *node < 64).fold(0, |mask, node| mask | 1 << node))
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn count(self) -> u32 {
        self.0.count_ones()
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn has(self, node: u32) -> bool {
        node < 64 && self.0 >> node & 1 == 1
    }

    /// Whether a device that belongs to these nodes is among the set's. Plugins may name nodes that there are not.
    pub(super) fn has_any(self, nodes: &[i64]) -> bool {
        nodes.iter().any(|node| u32::try_from(*node).is_ok_and(|node| self.has(node)))
    }

    /// Whether all of these are in `other`.
    pub(super) fn is_within(self, other: Self) -> bool {
        self.and(other) == self
    }

    /// Ascending.
    pub(super) fn nodes(self) -> Vec<u32> {
        (0..64).filter(|node| self.has(*node)).collect()
    }

    /// Fewer nodes; as many, but lower ones.
    pub(super) fn is_narrower(self, other: Self) -> bool {
        (self.count(), self.0) < (other.count(), other.0)
    }

    /// Every set of these nodes but the empty one: small sets first, and of one size in the order of their nodes.
    pub(super) fn all(nodes: &[u32]) -> impl Iterator<Item = Self> {
        (1..=nodes.len()).flat_map(|size| {
            let mut sets = Vec::new();
            combinations(nodes, size, &mut Vec::new(), &mut |chosen| {
                sets.push(Self::of(chosen.iter().copied()))
            });
            sets
        })
    }
}

/// Calls back with every choice of `size` from `items`, in their order.
pub(super) fn combinations<T: Copy>(
    items: &[T],
    size: usize,
    chosen: &mut Vec<T>,
    each: &mut impl FnMut(&[T]),
) {
    if chosen.len() == size {
        return each(chosen);
    }
    let mut rest = items;
    while let Some((first, after)) = rest.split_first() {
        chosen.push(*first);
        combinations(after, size, chosen, each);
        chosen.pop();
        rest = after;
    }
}

/// One way in which a resource could lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Hint {
    /// The nodes; `None` is any.
    pub(super) affinity: Option<Mask>,
    /// Whether it is as good as it could be on such a machine.
    pub(super) preferred: bool,
}

/// What one manager says: by resource the ways there are (none: it cannot be), or that it does not matter.
pub(super) type Opinion = BTreeMap<String, Option<Vec<Hint>>>;

/// All ways of all resources of all managers, one list each. A manager without opinion has one too: anywhere is fine.
pub(super) fn lists(opinions: Vec<Opinion>) -> Vec<Vec<Hint>> {
    let anywhere = || vec![Hint { affinity: None, preferred: true }];
    let nowhere = || vec![Hint { affinity: None, preferred: false }];
    let mut lists = Vec::new();
    for opinion in opinions {
        if opinion.is_empty() {
            lists.push(anywhere());
        }
        for hints in opinion.into_values() {
            lists.push(match hints {
                None => anywhere(),
                Some(hints) if hints.is_empty() => nowhere(),
                Some(hints) => hints,
            });
        }
    }
    lists
}

/// Which of two sets of nodes is better, beyond being preferred.
pub(super) enum Compare<'a> {
    /// The narrower one.
    Narrowest,
    /// Of two of one size the one whose nodes are closer together, by distance from node to node.
    Closest(&'a BTreeMap<u32, Vec<u64>>),
}

impl Compare<'_> {
    fn prefers(&self, candidate: Mask, current: Mask) -> bool {
        match self {
            Self::Closest(distances) if candidate.count() == current.count() => {
                let (new, old) = (average(distances, candidate), average(distances, current));
                if new == old { candidate < current } else { new < old }
            }
            _ => candidate.is_narrower(current),
        }
    }
}

fn average(distances: &BTreeMap<u32, Vec<u64>>, mask: Mask) -> f64 {
    let nodes = mask.nodes();
    let between = |from: &u32| {
        let row = distances.get(from);
        let to = |to: &u32| row.and_then(|row| row.get(*to as usize)).copied().unwrap_or(0) as f64;
        nodes.iter().map(to).sum::<f64>()
    };
    nodes.iter().map(between).sum::<f64>() / (nodes.len() * nodes.len()).max(1) as f64
}

/// What all lists come to: one way is taken of each, in every combination; the nodes that all have are the result of a
/// combination, which is preferred if all are and name the same nodes. The best of the results is the answer.
pub(super) fn merge(all: Mask, lists: &[Vec<Hint>], compare: &Compare<'_>) -> Hint {
    // The list that needs the most nodes says how many it takes when nothing is preferred.
    let target = lists.iter().filter_map(|hints| narrowest(hints)).map(Mask::count).max().unwrap_or(0);
    let mut best: Option<(Mask, bool)> = None;
    for (mask, preferred) in results(all, lists) {
        if !mask.is_empty() && best.is_none_or(|best| is_better((mask, preferred), best, target, compare)) {
            best = Some((mask, preferred));
        }
    }
    let (mask, preferred) = best.unwrap_or((all, false));
    Hint { affinity: Some(mask), preferred }
}

fn narrowest(hints: &[Hint]) -> Option<Mask> {
    let masks = hints.iter().filter_map(|hint| hint.affinity);
    masks.reduce(|best, mask| if mask.is_narrower(best) { mask } else { best })
}

/// What each combination comes to, each result once, in the order in which the combinations give it. There may be
/// billions of combinations but few results: all hints of a preferred one name the same nodes, and of the others only
/// the nodes count that they have in common.
fn results(all: Mask, lists: &[Vec<Hint>]) -> Vec<(Mask, bool)> {
    // Nodes in common, and, while all are preferred and equal, which nodes they name.
    type Partial = (Mask, Option<Option<Mask>>);
    let mut partial: Vec<Partial> = vec![(all, Some(None))];
    for hints in lists {
        let mut next: Vec<Partial> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for (common, same) in &partial {
            for hint in hints {
                let Some(mask) = hint.affinity else {
                    let kept = same.filter(|_| hint.preferred);
                    push(&mut next, &mut seen, (*common, kept));
                    continue;
                };
                let agrees = same.is_some_and(|named| named.is_none_or(|named| named == mask));
                let kept = (hint.preferred && agrees).then_some(Some(mask));
                push(&mut next, &mut seen, (common.and(mask), kept));
            }
        }
        partial = next;
    }
    partial.into_iter().map(|(mask, same)| (mask, same.is_some())).collect()
}

fn push<T: Copy + Eq + std::hash::Hash>(list: &mut Vec<T>, seen: &mut std::collections::HashSet<T>, item: T) {
    if seen.insert(item) {
        list.push(item);
    }
}

/// Whether a result is better than the best so far. Preferred goes before not preferred; among those that are not, the
/// number of nodes should be `target`, else as close below it as can be, else as few above it as can be.
fn is_better(candidate: (Mask, bool), best: (Mask, bool), target: u32, compare: &Compare<'_>) -> bool {
    let ((candidate, preferred), (best, best_preferred)) = (candidate, best);
    let closer = || compare.prefers(candidate, best);
    if preferred != best_preferred {
        return preferred;
    }
    if preferred {
        return closer();
    }
    let (count, best_count) = (candidate.count(), best.count());
    if best_count > target {
        closer()
    } else if best_count == target {
        count == target && closer()
    } else if count > target {
        false
    } else {
        count > best_count || count == best_count && closer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(nodes: &[u32], preferred: bool) -> Hint {
        Hint { affinity: Some(Mask::of(nodes.iter().copied())), preferred }
    }

    fn merged(all: &[u32], lists: &[Vec<Hint>]) -> Hint {
        merge(Mask::of(all.iter().copied()), lists, &Compare::Narrowest)
    }

    #[test]
    fn sets_come_small_ones_first() {
        let masks: Vec<_> = Mask::all(&[0, 1, 3]).map(Mask::nodes).collect();
        let expected: [&[u32]; 7] = [&[0], &[1], &[3], &[0, 1], &[0, 3], &[1, 3], &[0, 1, 3]];
        assert_eq!(masks, expected);
    }

    #[test]
    fn a_preferred_way_that_all_share_is_taken() {
        let both = vec![hint(&[0], true), hint(&[1], true), hint(&[0, 1], false)];
        let second = vec![hint(&[1], true), hint(&[0, 1], false)];
        assert_eq!(merged(&[0, 1], &[both.clone(), second]), hint(&[1], true));
        assert_eq!(merged(&[0, 1], &[both.clone(), both]), hint(&[0], true));
    }

    #[test]
    fn ways_that_do_not_meet_are_not_preferred() {
        let first = vec![hint(&[0], true), hint(&[0, 1], false)];
        let second = vec![hint(&[1], true), hint(&[0, 1], false)];
        // Node 0 of {0} and {0,1}; node 1 likewise; {0,1} of both. One node is what each needs at least.
        assert_eq!(merged(&[0, 1], &[first, second]), hint(&[0], false));
        assert_eq!(merged(&[0, 1], &[vec![hint(&[0], true)], vec![hint(&[1], true)]]), hint(&[0, 1], false));
    }

    #[test]
    fn without_opinions_all_nodes_are_preferred() {
        let nothing = lists(vec![Opinion::new(), Opinion::new()]);
        assert_eq!(merged(&[0, 1], &nothing), hint(&[0, 1], true));
        let none = lists(vec![[("cpu".to_owned(), Some(Vec::new()))].into()]);
        assert_eq!(merged(&[0, 1], &none), hint(&[0, 1], false));
    }

    #[test]
    fn closer_nodes_go_before_lower_ones_if_asked_for() {
        let rows = [(0, vec![10, 31, 12]), (1, vec![31, 10, 31]), (2, vec![12, 31, 10])];
        let distances: BTreeMap<u32, Vec<u64>> = rows.into_iter().collect();
        let ways = vec![vec![hint(&[0, 1], true), hint(&[0, 2], true)]];
        let all = Mask::of([0, 1, 2]);
        assert_eq!(merge(all, &ways, &Compare::Narrowest), hint(&[0, 1], true));
        assert_eq!(merge(all, &ways, &Compare::Closest(&distances)), hint(&[0, 2], true));
    }
}
