//! What a GPU is to be divided into.

use serde::{Deserialize, Serialize};

/// What is wanted of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// Not in MIG mode.
    Off,
    /// In MIG mode with these GPU instances, in no order; with none it is empty.
    On(Vec<WantedInstance>),
}

/// A GPU instance that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WantedInstance {
    /// Id of its profile on this GPU.
    pub profile: u32,
    /// Ids of the profiles of its compute instances, in no order.
    pub computes: Vec<u32>,
}
