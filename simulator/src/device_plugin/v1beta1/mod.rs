//! The messages and services between device plugins and the kubelet, made from `proto/deviceplugin.proto`;
//! `tests/kubelet_proto.rs` says how.

#[rustfmt::skip]
#[allow(clippy::all, unreachable_pub, missing_docs)]
pub(super) mod messages;
#[rustfmt::skip]
#[allow(clippy::all, unreachable_pub, missing_docs)]
pub(super) mod service;
