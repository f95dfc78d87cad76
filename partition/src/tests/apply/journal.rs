//! The journal as bytes.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::world::{Crash, World, all_ways};
use crate::journal::{Journal, Phase};

static WRITTEN: LazyLock<String> = LazyLock::new(|| {
    let way = &all_ways()[50];
    let mut world = World { crash: Some(Crash { at: 2, after: false }), ..way.world() };
    assert_eq!(world.run(way.machine()), None);
    world.disk.unwrap()
});

#[test]
fn it_comes_back_as_it_was() {
    let text = WRITTEN.as_str();
    let journal: Journal = serde_json::from_str(text).unwrap();
    let Journal::V1(entry) = &journal;
    assert_eq!(entry.phase, Phase::Forward);
    assert_eq!(serde_json::to_string(&journal).unwrap(), text);
}

/// A form of later is not taken for this one.
#[test]
fn another_version_is_refused() {
    let text = WRITTEN.as_str();
    assert!(text.starts_with(r#"{"version":"1","#), "{text}");
    let later = text.replacen(r#""1""#, r#""2""#, 1);
    let refusal = serde_json::from_str::<Journal>(&later).unwrap_err().to_string();
    assert!(refusal.contains("unknown variant `2`"), "{refusal}");
}

proptest! {
    /// Half-written or altered, it is refused or read; nothing else.
    #[test]
    fn damage_does_no_harm(cut in 0_usize..2000, byte in any::<u8>(), at in 0_usize..2000) {
        let mut bytes = WRITTEN.clone().into_bytes();
        bytes.truncate(cut);
        let length = bytes.len().max(1);
        if let Some(place) = bytes.get_mut(at % length) {
            *place = byte;
        }
        let _ = serde_json::from_slice::<Journal>(&bytes);
    }
}
