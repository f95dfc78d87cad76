//! A node to be divided: GPUs of one's own choice, gpulet's commands on it, and what the hardware has become.

mod changes;
mod description;
mod division;
mod host;
mod site;

pub use changes::Moment;
pub use description::Gpu;
pub use division::{Division, Instance};
pub use site::{Finished, Running, Site};
