//! Words of a fixed vocabulary, read back from a record.
//!
//! In the program they are literals: names of the driver's calls, reasons. Whoever reads a record made by another
//! version meets words that this one does not have. They are kept once each, for the life of the process, and only so
//! many and so long that a record made up by someone cannot fill the memory.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A word that lives as long as the process.
pub type Word = &'static str;

/// Longest word, bytes. The longest name of a call with its field has some 100.
const LONGEST: usize = 160;
/// Most words. The program itself has some 200.
const MOST: usize = 2048;

static WORDS: Mutex<BTreeSet<Word>> = Mutex::new(BTreeSet::new());

/// Why a text is no word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum WordError {
    #[error("a word longer than {LONGEST} bytes")]
    TooLong,
    #[error("a word with something else than printable ASCII")]
    NotPrintable,
    #[error("more than {MOST} different words")]
    TooMany,
}

/// The word that reads so.
fn word(text: &str, words: &mut BTreeSet<Word>) -> Result<Word, WordError> {
    if let Some(known) = words.get(text) {
        return Ok(known);
    }
    if text.len() > LONGEST {
        return Err(WordError::TooLong);
    }
    if !text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return Err(WordError::NotPrintable);
    }
    if words.len() >= MOST {
        return Err(WordError::TooMany);
    }
    let kept: Word = Box::leak(text.into());
    words.insert(kept);
    Ok(kept)
}

/// For `deserialize_with`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
    Key::deserialize(deserializer).map(|key| key.0)
}

/// For `deserialize_with`: counts by two words.
pub(crate) fn deserialize_counts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Word, BTreeMap<Word, u64>>, D::Error> {
    let counts = BTreeMap::<Key, BTreeMap<Key, u64>>::deserialize(deserializer)?;
    let inner = |counts: BTreeMap<Key, u64>| counts.into_iter().map(|(key, count)| (key.0, count)).collect();
    Ok(counts.into_iter().map(|(key, counts)| (key.0, inner(counts))).collect())
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key(Word);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(WordVisitor).map(Self)
    }
}

struct WordVisitor;

impl Visitor<'_> for WordVisitor {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
        word(text, &mut WORDS.lock().unwrap_or_else(PoisonError::into_inner)).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_kept_once() {
        let mut words = BTreeSet::new();
        let first = word("nvmlDeviceGetUUID", &mut words).unwrap();
        let read = String::from("nvmlDeviceGetUUID");
        let second = word(&read, &mut words).unwrap();
        assert!(std::ptr::eq(first, second));
        assert_eq!(words.len(), 1);
    }

    #[test]
    fn what_no_program_says_is_refused_and_not_kept() {
        let mut words = BTreeSet::new();
        assert_eq!(word(&"x".repeat(LONGEST + 1), &mut words), Err(WordError::TooLong));
        assert_eq!(word("a\nb", &mut words), Err(WordError::NotPrintable));
        assert_eq!(word("\u{e9}", &mut words), Err(WordError::NotPrintable));
        assert!(words.is_empty());
        assert_eq!(word(&"x".repeat(LONGEST), &mut words).unwrap().len(), LONGEST);
    }

    #[test]
    fn there_is_an_end_to_new_words_but_not_to_known_ones() {
        let mut words = BTreeSet::new();
        for number in 0..MOST {
            word(&number.to_string(), &mut words).unwrap();
        }
        assert_eq!(word("one more", &mut words), Err(WordError::TooMany));
        assert_eq!(word("17", &mut words), Ok("17"));
    }
}
