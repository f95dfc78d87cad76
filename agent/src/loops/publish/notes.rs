//! What was left out of the object or is odd about it, logged once each.

use std::collections::BTreeSet;

use gpulet_topology::nrt::Note;

/// The notes on the object as it is.
#[derive(Debug, Default)]
pub(super) struct Notes {
    logged: BTreeSet<String>,
    in_words: String,
}

impl Notes {
    /// Takes the notes on the object as it is now, and logs those that are new.
    pub(super) fn tell(&mut self, notes: &[Note]) {
        let mut logged = BTreeSet::new();
        for note in notes {
            let (reason, subject) = (note.reason.as_str(), &note.subject);
            let key = format!("{reason} {subject}");
            if !self.logged.contains(&key) {
                tracing::warn!(
                    reason,
                    subject,
                    found = note.message,
                    remedy = note.remedy,
                    "NodeResourceTopology note"
                );
            }
            logged.insert(key);
        }
        self.logged = logged;
        let in_words = |note: &Note| {
            format!(" | {} ({}): {}; {}", note.reason.as_str(), note.subject, note.message, note.remedy)
        };
        self.in_words = notes.iter().map(in_words).collect();
    }

    /// All of them, for the Node's condition; empty where there are none.
    pub(super) fn in_words(&self) -> &str {
        &self.in_words
    }
}
