//! The messages and the service of PodResources v1, made from `cluster/proto/podresources.proto`;
//! `tests/kubelet_proto.rs` says how.

#[rustfmt::skip]
#[allow(clippy::all, unreachable_pub, missing_docs)]
pub(super) mod v1;
