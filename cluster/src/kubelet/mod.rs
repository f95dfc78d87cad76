//! The kubelet of this node.
