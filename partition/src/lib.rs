//! From a wanted to an applied division of GPUs, without touching any.
//!
//! ```text
//!   desired (what is asked for) --.
//!                                 +--> plan: steps, or a refusal that names what is in the way
//!   observed (what there is) -----'
//! ```
//!
//! - [`mod@file`], [`layouts`], [`overrides`]: what people ask for, in their words
//! - [`resolve`], [`names`]: what that means on the GPUs of this node; [`hash`]: one word for it
//! - [`desired`]: what a GPU is to be divided into
//! - [`observed`]: what a GPU can be divided into, what it is divided into, and who uses it
//! - [`plan`]: the way from one to the other for a GPU, and for a node
//! - [`step`]: what is done, in words that outlive the driver's numbers
//! - [`refusal`]: why there is no way
//! - [`apply`]: carries a plan out, and puts the former layout back where that fails
//! - [`reboot`]: whether the node is rebooted for it
//! - [`layout`], [`journal`]: what is put back, and what is written down so that a crash cannot prevent it
//! - [`protocol`]: from the labels of a node to all of this, and back to what the node tells
//! - [`export`]: what there is, in people's words again
//!
//! A plan keeps every instance that it can, and those in use always; it destroys and creates as few as possible; among
//! equals it leaves room for the largest profile. It is exact: all arrangements over the places that the GPU reports
//! count. There is no table of models here, and nothing is tried on hardware.

pub mod apply;
pub mod desired;
pub mod export;
pub mod file;
mod grid;
pub mod hash;
pub mod journal;
pub mod layout;
pub mod layouts;
pub mod names;
pub mod observed;
pub mod overrides;
pub mod plan;
pub mod protocol;
pub mod reboot;
pub mod refusal;
pub mod resolve;
mod search;
pub mod step;

#[cfg(test)]
mod tests;
