//! Words that Node labels say.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

/// The longest value of a label that Kubernetes takes, bytes.
const LONGEST: usize = 63;

/// What `nvidia.com/mig.config` says: the name of a layout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayoutName(String);

impl LayoutName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is done where someone uses what would have to go: `gpulet.dev/when-busy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenBusy {
    /// It is refused.
    #[default]
    Refuse,
    /// It is waited for, for so long.
    Wait,
    /// Pods on the GPUs concerned are evicted.
    Drain,
}

/// Why a label says nothing that can be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// It is empty.
    #[error("it is empty; give it the name of a layout, or remove the label to leave the GPUs as they are")]
    Empty,
    /// It is nothing that a label can say.
    #[error(
        "`{text}` is no value of a label: up to 63 of A-Z a-z 0-9 . _ -, a letter or digit first and last; \
         in the name of a layout a `.` stands for a `+`"
    )]
    NoValue {
        /// What is there.
        text: String,
    },
    /// It is none of the words.
    #[error("`{text}` is none of refuse, wait, drain")]
    UnknownWord {
        /// What is there.
        text: String,
    },
}

impl LabelError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Empty => "LabelEmpty",
            Self::NoValue { .. } => "LabelInvalid",
            Self::UnknownWord { .. } => "LabelUnknownWord",
        }
    }
}

impl FromStr for LayoutName {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Err(LabelError::Empty);
        }
        let ends = is_end(bytes.first()) && is_end(bytes.last());
        if bytes.len() > LONGEST || !ends || !bytes.iter().all(is_part) {
            return Err(LabelError::NoValue { text: shortened(text) });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for LayoutName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for LayoutName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl WhenBusy {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Wait => "wait",
            Self::Drain => "drain",
        }
    }
}

impl fmt::Display for WhenBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for WhenBusy {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Refuse, Self::Wait, Self::Drain];
        let found = all.into_iter().find(|word| word.as_str() == text);
        found.ok_or_else(|| LabelError::UnknownWord { text: shortened(text) })
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_layout_is_named_in_what_a_label_can_say() {
        for good in ["all-1g.10gb.me", "a", "all_1g.24gb-me", &"x".repeat(63)] {
            assert_eq!(good.parse::<LayoutName>().unwrap().as_str(), good);
        }
        assert_eq!("".parse::<LayoutName>(), Err(LabelError::Empty));
        for wrong in ["all-1g.10gb+me", "-a", "a.", "a b", "ä", &"x".repeat(64)] {
            assert_eq!(wrong.parse::<LayoutName>().unwrap_err().reason(), "LabelInvalid", "{wrong}");
        }
    }

    #[test]
    fn what_is_done_when_busy_is_one_of_three_words() {
        for word in [WhenBusy::Refuse, WhenBusy::Wait, WhenBusy::Drain] {
            assert_eq!(word.to_string().parse(), Ok(word));
        }
        for wrong in ["", "Wait", "evict"] {
            let error = wrong.parse::<WhenBusy>().unwrap_err();
            assert!(error.to_string().contains("refuse, wait, drain"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_word_or_refused(text in ".{0,80}") {
            if let Ok(name) = text.parse::<LayoutName>() {
                prop_assert_eq!(name.as_str(), &text);
            }
            let _ = text.parse::<WhenBusy>();
        }
    }
}
