//! Dividing GPUs by labels, at a real API server: what is asked for by labels and files, what is said of it by labels, an
//! annotation, a condition and Events, and what becomes of Pods and of the Node meanwhile.
//!
//! The node is simulated. Its kubelet is played by the tests: Pods that are bound to it run, and end when they are deleted.
//! NVIDIA's device plugin and exporter are DaemonSets of the real controllers, so pausing them by labels does what it does
//! in a cluster. gpulet has a token of its node, under the rights and policies that are shipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod busy;
mod clients;
mod cluster;
mod flips;
mod history;
mod kubelet;
mod labels;
mod managers;
mod outages;
mod speed;
mod world;
