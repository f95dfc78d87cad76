//! The vocabulary of a GPU node: what a node consists of, in plain data.
//!
//! Every other crate speaks in these words, and this crate uses nobody's. There is no I/O here, no clock and
//! no thread: time comes in as an argument.
//!
//! - [`gpu`], [`mig`], [`link`], [`process`]: one GPU and what is on it
//! - [`pci`], [`numa`], [`host`]: where things sit in the machine, as the kernel tells it
//! - [`locality`]: where GPUs sit, as the driver tells it
//! - [`reading`]: a value that the driver gave, or why it did not
//! - [`sample`]: everything read from one GPU at one instant
//! - [`topology`]: where everything sits and how near it is, as concluded from kernel and driver
//! - [`snapshot`]: everything known about the node, in parts with an age each
//! - [`dra`]: devices that drivers publish for claims, as the API tells it
//! - [`kubelet`], [`pod`]: the node's Pods and what they were given, as kubelet and API tell it
//! - [`holders`]: who holds which GPU, and what was given to whom
//! - [`yaml`]: what people write, read so that all that is wrong with it is told at once
//! - [`record`]: what the driver said, to be written and read back; [`word`]: its vocabulary

pub mod dra;
pub mod gpu;
pub mod holders;
pub mod host;
pub mod kubelet;
pub mod link;
pub mod locality;
pub mod mig;
pub mod numa;
pub mod pci;
pub mod pod;
pub mod process;
pub mod reading;
pub mod record;
pub mod sample;
pub mod snapshot;
pub mod topology;
pub mod word;
pub mod yaml;
