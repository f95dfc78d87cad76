//! Events about the node (`events.k8s.io/v1`).
//!
//! An event that says the same as one of the last minutes is not written again: that one's count grows. The API's own
//! clients do so too, and `kubectl describe node` shows it as `x3 over 5m`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long an event counts as the same.
const SAME: Duration = Duration::from_secs(360);
/// How many events are remembered.
const REMEMBERED: usize = 32;
/// How much of the node's name stands in the event's.
const LONGEST_NODE_PART: usize = 200;
/// Longest note that the API takes, bytes.
const LONGEST_NOTE: usize = 1024;
/// Longest reason and action that the API takes, bytes.
const LONGEST_WORD: usize = 128;

/// Something that happened to the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Whether someone should look.
    pub kind: EventKind,
    /// Why it happened, in one word.
    pub reason: String,
    /// What was done or failed to be done, in one word.
    pub action: String,
    /// The same for people; cut at 1024 bytes.
    pub note: String,
}

/// Whether someone should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// All is well.
    Normal,
    /// Someone should look.
    Warning,
}

impl EventKind {
    fn word(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The events of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    events: VecDeque<Told>,
}

#[derive(Debug)]
struct Told {
    event: Event,
    name: String,
    count: u32,
    last: Instant,
}

/// How an event is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// As a new object of this name.
    New(String),
    /// As the so-manieth of the object of this name.
    Again(String, u32),
}

impl Recent {
    /// How this event is to be told at `now`; `name` is for a new object.
    pub(crate) fn tell(&mut self, event: &Event, name: impl FnOnce() -> String, now: Instant) -> Telling {
        self.events.retain(|told| now.saturating_duration_since(told.last) < SAME);
        if let Some(told) = self.events.iter_mut().find(|told| told.event == *event) {
            told.count = told.count.saturating_add(1);
            told.last = now;
            return Telling::Again(told.name.clone(), told.count);
        }
        if self.events.len() >= REMEMBERED {
            self.events.pop_front();
        }
        let name = name();
        self.events.push_back(Told { event: event.clone(), name: name.clone(), count: 1, last: now });
        Telling::New(name)
    }

    /// The object is gone, or was never made: the next such event is a new one.
    pub(crate) fn forget(&mut self, name: &str) {
        self.events.retain(|told| told.name != name);
    }
}

/// A name for a new event about `node`, made different from others by `random`.
pub(crate) fn name(node: &str, random: u64) -> String {
    // A name has 253 characters at most, and each of its parts ends with a letter or digit.
    let node: String = node.chars().take(LONGEST_NODE_PART).collect();
    let node = node.trim_end_matches(|last: char| !last.is_ascii_alphanumeric());
    format!("{node}.{random:016x}")
}

/// The object of a new event.
pub(crate) fn object(node: &str, name: &str, event: &Event, now: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": now,
        "reportingController": "gpulet",
        "reportingInstance": cut(node, LONGEST_WORD),
        "action": cut(&event.action, LONGEST_WORD),
        "reason": cut(&event.reason, LONGEST_WORD),
        // The kubelet names the Node so in its events, and `kubectl describe node` looks for that.
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
        "note": cut(&event.note, LONGEST_NOTE),
        "type": event.kind.word(),
    })
}

/// The patch that makes an event the so-manieth.
pub(crate) fn series(count: u32, now: &str) -> Value {
    json!({"series": {"count": count, "lastObservedTime": now}})
}

/// The text, cut at a character, with an ellipsis if it was.
fn cut(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let room = longest.saturating_sub('…'.len_utf8());
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= room).last().unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(note: &str) -> Event {
        Event {
            kind: EventKind::Warning,
            reason: "OtherPublisher".into(),
            action: "Publish".into(),
            note: note.into(),
        }
    }

    #[test]
    fn the_same_event_is_told_as_a_series_until_it_is_old() {
        let (mut recent, begun) = (Recent::default(), Instant::now());
        let mut names = (0..).map(|number| format!("node-a.{number}"));
        let mut tell = |note: &str, seconds| {
            recent.tell(&event(note), || names.next().unwrap(), begun + Duration::from_secs(seconds))
        };
        assert_eq!(tell("a", 0), Telling::New("node-a.0".into()));
        assert_eq!(tell("a", 300), Telling::Again("node-a.0".into(), 2));
        assert_eq!(tell("b", 301), Telling::New("node-a.1".into()));
        assert_eq!(tell("a", 600), Telling::Again("node-a.0".into(), 3), "counted from the last time");
        assert_eq!(tell("a", 960), Telling::New("node-a.2".into()));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (mut recent, now) = (Recent::default(), Instant::now());
        for number in 0..100 {
            recent.tell(&event(&number.to_string()), || number.to_string(), now);
        }
        assert_eq!(recent.events.len(), REMEMBERED);
        recent.forget("99");
        assert_eq!(recent.events.len(), REMEMBERED - 1);
    }

    #[test]
    fn names_are_names_whatever_the_node_is_called() {
        assert_eq!(name("node-a", 10), "node-a.000000000000000a");
        let long = format!("{}-.{}", "a".repeat(198), "b".repeat(50));
        assert_eq!(name(&long, 0), format!("{}.0000000000000000", "a".repeat(198)));
    }

    #[test]
    fn notes_are_cut_between_characters() {
        let note = cut(&"ä".repeat(600), LONGEST_NOTE);
        assert!(note.len() <= LONGEST_NOTE);
        assert!(note.ends_with("ä…"));
        assert_eq!(cut("short", LONGEST_NOTE), "short");
    }
}
