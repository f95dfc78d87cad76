//! Chance without state: the same seed, GPU, tick and channel always give the same number.

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

/// Spreads a number over 64 bits (the finalizer of SplitMix64, a public-domain generator).
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A UUID in the usual spelling, from a text: the same text always gives the same one.
pub(super) fn uuid(text: &str) -> String {
    let absorb = |start: u64| text.bytes().fold(start, |hash, byte| mix(hash ^ u64::from(byte)));
    let (high, low) = (absorb(0x6770_756c_6574), absorb(0x7369_6d75_6c61));
    // Version 4, variant 1, as the driver's own.
    let (high, low) = (high & !0xf000 | 0x4000, low & !(0b11 << 62) | 0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
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

    #[test]
    fn uuids_are_well_formed_and_differ() {
        let (a, b) = (uuid("a"), uuid("b"));
        assert_ne!(a, b);
        assert_eq!(a.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_eq!(a.as_bytes()[14], b'4');
        assert!(matches!(a.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }
}
