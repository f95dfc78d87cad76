//! Names and numbers that look random and are the same each time.

/// Spreads a number over 64 bits (the finalizer of SplitMix64, a public-domain generator).
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A UUID in the usual spelling, from a text: the same text always gives the same one.
pub(crate) fn uuid(text: &str) -> String {
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
    fn uuids_are_well_formed_and_differ() {
        let (a, b) = (uuid("a"), uuid("b"));
        assert_ne!(a, b);
        assert_eq!(a.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_eq!(a.as_bytes()[14], b'4');
        assert!(matches!(a.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }
}
