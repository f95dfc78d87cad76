//! How much a zone has of something, counted so that no figure can be wrong: what is kept or taken comes off what is left.

use super::built::{Account, Share};

/// The most that a scheduler's quantity holds; a kubelet that tells more tells garbage.
pub(super) const MOST: u64 = i64::MAX as u64;

/// The figures of one resource in one zone while they are being counted: first what there is, then what is kept from
/// Pods, then what Pods have taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Figure {
    capacity: u64,
    source: &'static str,
    kept: Vec<Share>,
    allocatable: u64,
    taken: Vec<Share>,
    available: u64,
}

impl Figure {
    /// All of `capacity` is there for Pods.
    pub(super) fn of(capacity: u64, source: &'static str) -> Self {
        let capacity = capacity.min(MOST);
        Self { capacity, source, allocatable: capacity, available: capacity, ..Self::default() }
    }

    /// Keeps from Pods what `share` says, or what is left of it; returns how much was not there to be kept.
    pub(super) fn keep(&mut self, mut share: Share) -> u64 {
        let amount = share.amount.min(self.available);
        let missing = share.amount - amount;
        if amount > 0 {
            share.amount = amount;
            self.allocatable -= amount;
            self.available -= amount;
            self.kept.push(share);
        }
        missing
    }

    /// Lets a Pod take what `share` says, or what is left of it; returns how much was not there to be taken.
    pub(super) fn take(&mut self, mut share: Share) -> u64 {
        let amount = share.amount.min(self.available);
        let missing = share.amount - amount;
        if amount > 0 {
            share.amount = amount;
            self.available -= amount;
            self.taken.push(share);
        }
        missing
    }

    /// What nobody has.
    pub(super) fn available(&self) -> u64 {
        self.available
    }

    /// The figures as they are told.
    pub(super) fn account(mut self, zone: &str, resource: &str) -> Account {
        self.taken.sort();
        Account {
            zone: zone.to_owned(),
            resource: resource.to_owned(),
            capacity: self.capacity,
            source: self.source,
            kept: self.kept,
            allocatable: self.allocatable,
            taken: self.taken,
            available: self.available,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(amount: u64) -> Share {
        Share { whose: "a/b".to_owned(), amount, which: Vec::new() }
    }

    #[test]
    fn nothing_is_given_that_is_not_there() {
        let mut figure = Figure::of(10, "test");
        assert_eq!(figure.keep(share(4)), 0);
        assert_eq!(figure.take(share(5)), 0);
        assert_eq!(figure.take(share(5)), 4);
        assert_eq!(figure.take(share(1)), 1);
        let account = figure.account("node-0", "cpu");
        assert_eq!((account.capacity, account.allocatable, account.available), (10, 6, 0));
        assert_eq!(account.kept.iter().map(|share| share.amount).sum::<u64>(), 4);
        assert_eq!(account.taken.iter().map(|share| share.amount).sum::<u64>(), 6);
    }
}
