//! What a scripted load asks of a GPU at an instant.

use super::noise::{Channel, Noise};
use crate::command::Load;

/// What is asked of a GPU. Shares are from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Demand {
    /// Streaming multiprocessors.
    pub(super) sm: f64,
    /// Memory bandwidth.
    pub(super) memory: f64,
    /// Encoder.
    pub(super) encoder: f64,
    /// Decoder.
    pub(super) decoder: f64,
    /// Of the PCIe link, to the host and from it.
    pub(super) pcie: (f64, f64),
    /// Of the NVLinks, each way.
    pub(super) nvlink: f64,
}

impl Demand {
    /// Whether anything runs.
    pub(super) fn is_idle(&self) -> bool {
        self.sm <= 0.0 && self.encoder <= 0.0 && self.decoder <= 0.0
    }
}

/// Seconds of one training step, and the part of it that computes.
const STEP: f64 = 1.6;
const COMPUTING: f64 = 1.2;

/// Seconds from one checkpoint to the next, and how long one takes.
const CHECKPOINT: f64 = 600.0;
const CHECKPOINTING: f64 = 8.0;

impl Load {
    /// What the load asks `seconds` after it began.
    pub(super) fn demand(self, seconds: f64, noise: Noise) -> Demand {
        match self {
            Self::Idle => Demand::default(),
            Self::Steady { percent } => even(share(percent), noise),
            Self::Ramp { from, to, seconds: length } => {
                let done = (seconds / f64::from(length.max(1))).min(1.0);
                even(share(from) + (share(to) - share(from)) * done, noise)
            }
            Self::Burst { low, high, period, duty } => {
                let into = seconds % f64::from(period.max(1));
                let bursting = into < f64::from(period) * share(duty);
                even(share(if bursting { high } else { low }), noise)
            }
            Self::Training => training(seconds, noise),
            Self::Inference => inference(seconds, noise),
        }
    }

    /// Share of the memory that the load's process holds.
    pub(super) fn memory(self) -> f64 {
        match self {
            Self::Idle => 0.0,
            Self::Steady { percent } => 0.2 + 0.5 * share(percent),
            Self::Ramp { from, to, .. } => 0.2 + 0.5 * share(from.max(to)),
            Self::Burst { low, high, .. } => 0.2 + 0.5 * share(low.max(high)),
            Self::Training => 0.87,
            Self::Inference => 0.72,
        }
    }

    /// The program that its process runs.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Training => "/usr/bin/python3 train.py",
            Self::Inference => "/usr/bin/python3 serve.py",
            _ => "/usr/local/bin/work",
        }
    }
}

fn share(percent: u32) -> f64 {
    f64::from(percent.min(100)) / 100.0
}

fn even(level: f64, noise: Noise) -> Demand {
    if level <= 0.0 {
        return Demand::default();
    }
    let sm = (level + 0.01 * noise.swing(Channel::Utilization)).clamp(0.005, 1.0);
    let traffic = (1.0 + 0.1 * noise.swing(Channel::Traffic)) * sm;
    Demand { sm, memory: 0.6 * sm, pcie: (0.02 * traffic, 0.05 * traffic), ..Demand::default() }
}

fn training(seconds: f64, noise: Noise) -> Demand {
    let swing = noise.swing(Channel::Utilization);
    if seconds % CHECKPOINT > CHECKPOINT - CHECKPOINTING {
        return Demand { sm: 0.04 + 0.02 * swing, memory: 0.1, pcie: (0.6, 0.01), ..Demand::default() };
    }
    let traffic = 1.0 + 0.08 * noise.swing(Channel::Traffic);
    let computing = seconds % STEP < COMPUTING;
    let memory = 0.04 * noise.swing(Channel::Memory);
    match computing {
        true => Demand {
            sm: 0.985 + 0.015 * swing,
            memory: 0.55 + memory,
            pcie: (0.01 * traffic, 0.06 * traffic),
            nvlink: 0.12 * traffic,
            ..Demand::default()
        },
        false => Demand {
            sm: 0.7 + 0.1 * swing,
            memory: 0.3 + memory,
            pcie: (0.01 * traffic, 0.01 * traffic),
            nvlink: 0.8 * traffic,
            ..Demand::default()
        },
    }
}

fn inference(seconds: f64, noise: Noise) -> Demand {
    let into = (seconds % 120.0) / 120.0;
    // A tide without a sine, whose last bit differs between machines.
    let tide = if into < 0.5 { 2.0 * into } else { 2.0 - 2.0 * into };
    let sm = (0.25 + 0.45 * tide + 0.12 * noise.swing(Channel::Utilization)).clamp(0.02, 1.0);
    let memory = (sm * 0.9 + 0.05 * noise.swing(Channel::Memory)).clamp(0.0, 1.0);
    let traffic = sm * (1.0 + 0.2 * noise.swing(Channel::Traffic));
    Demand { sm, memory, decoder: 0.15 * tide, pcie: (0.03 * traffic, 0.04 * traffic), ..Demand::default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_load() -> impl Strategy<Value = Load> {
        prop_oneof![
            Just(Load::Idle),
            Just(Load::Training),
            Just(Load::Inference),
            (0..=100_u32).prop_map(|percent| Load::Steady { percent }),
            (0..=100_u32, 0..=100_u32, 1..1000_u32).prop_map(|(from, to, seconds)| Load::Ramp {
                from,
                to,
                seconds
            }),
            (0..=100_u32, 0..=100_u32, 1..1000_u32, 0..=100_u32)
                .prop_map(|(low, high, period, duty)| Load::Burst { low, high, period, duty }),
        ]
    }

    proptest! {
        #[test]
        fn shares_are_shares(load in any_load(), seconds in 0.0..1e6_f64, tick: u64) {
            let demand = load.demand(seconds, Noise::at(1, 2, tick));
            for share in [demand.sm, demand.memory, demand.encoder, demand.decoder, demand.pcie.0, demand.nvlink] {
                prop_assert!((0.0..=1.0).contains(&share), "{demand:?}");
            }
            prop_assert!((0.0..0.95).contains(&load.memory()));
        }
    }

    #[test]
    fn a_ramp_ends_where_it_should() {
        let ramp = Load::Ramp { from: 0, to: 80, seconds: 10 };
        let at = |seconds: f64| ramp.demand(seconds, Noise::at(0, 0, 0)).sm;
        assert!(at(5.0) > 0.35 && at(5.0) < 0.45);
        assert!(at(100.0) > 0.75);
    }
}
