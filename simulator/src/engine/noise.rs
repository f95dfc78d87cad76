//! Chance without state: the same seed, GPU, tick and channel always give the same number.

use crate::uuid::mix;

/// A source of numbers for one GPU at one tick.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noise {
    key: u64,
}

/// What a number is for, so that two uses do not move together.
#[derive(Debug, Clone, Copy)]
pub(super) enum Channel {
    /// Utilisation.
    Utilization = 1,
    /// Memory bandwidth.
    Memory = 2,
    /// Traffic.
    Traffic = 3,
}

impl Noise {
    /// For `gpu` at `tick` of a node with `seed`.
    pub(super) fn at(seed: u64, gpu: u64, tick: u64) -> Self {
        Self { key: mix(seed ^ mix(gpu.wrapping_add(1) << 48 ^ tick)) }
    }

    /// A number from -1 to 1.
    pub(super) fn swing(self, channel: Channel) -> f64 {
        let bits = mix(self.key ^ channel as u64) >> 11;
        // 53 bits are exact in a double.
        bits as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swings_stay_within_one() {
        let swings: Vec<f64> = (0..1000).map(|tick| Noise::at(7, 3, tick).swing(Channel::Traffic)).collect();
        assert!(swings.iter().all(|swing| (-1.0..=1.0).contains(swing)));
        assert!(swings.iter().any(|swing| *swing < -0.5) && swings.iter().any(|swing| *swing > 0.5));
    }
}
