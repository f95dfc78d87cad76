//! The picture of the topology, kept until the topology changes.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use gpulet_inventory::topology::NodeTopology;
use hyper::body::Bytes;

/// The last picture that was drawn, and of what. That is held weakly, so that an old topology does not stay for want of
/// requests; its address is not used again while it is held.
#[derive(Default)]
pub(super) struct Picture(Mutex<(Weak<NodeTopology>, Bytes)>);

impl Picture {
    /// The picture as SVG: drawn by the first request after a change of the topology.
    pub(super) fn of(&self, topology: &Arc<NodeTopology>) -> Bytes {
        // Whoever panicked while holding the lock left a picture that the next change replaces.
        let mut drawn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::ptr::eq(drawn.0.as_ptr(), Arc::as_ptr(topology)) {
            *drawn = (Arc::downgrade(topology), gpulet_topology::svg(&topology.model).into());
        }
        drawn.1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_topology_is_drawn_once_and_not_kept() {
        let picture = Picture::default();
        let one = gpulet_benches::snapshot(1, 0).topology.value;
        let first = picture.of(&one);
        assert!(first.starts_with(b"<svg "), "{first:?}");
        assert_eq!(first.as_ptr(), picture.of(&one).as_ptr());
        let other = gpulet_benches::snapshot(2, 0).topology.value;
        assert_ne!(first, picture.of(&other));
        let kept = Arc::downgrade(&other);
        drop(other);
        assert!(kept.upgrade().is_none());
    }
}
