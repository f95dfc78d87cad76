//! Plans carried out on a GPU of its own kind, with everything that can go wrong.

mod crashes;
mod faults;
mod journal;
mod mode;
mod others;
mod persistence;
mod sampled;
mod world;
