//! What was left out of the object or is odd about it, collected by what it is about.

use std::collections::BTreeMap;

use super::built::{Note, NoteReason};
use crate::label;

/// How many of a kind are named; the rest are counted.
const NAMED: usize = 4;

/// How many subjects are named for one reason; the rest are counted in one more note. A node has a few resources.
const SUBJECTS: usize = 64;

/// What the note is about that counts the others.
const OTHERS: &str = "others";

/// Notes while they are being collected. Two about the same are one.
#[derive(Debug, Default)]
pub(super) struct Notes {
    found: BTreeMap<(NoteReason, String), Vec<String>>,
}

impl Notes {
    /// Adds one thing, such as a device, to the note about `subject`.
    pub(super) fn add(&mut self, reason: NoteReason, subject: &str, thing: String) {
        self.found.entry((reason, label::name(subject))).or_default().push(thing);
    }

    /// The notes, by reason and subject.
    pub(super) fn finish(self) -> Vec<Note> {
        let mut notes: Vec<Note> = Vec::new();
        let mut subjects: BTreeMap<NoteReason, usize> = BTreeMap::new();
        for ((reason, subject), mut things) in self.found {
            let count = subjects.entry(reason).or_default();
            *count += 1;
            if *count <= SUBJECTS {
                things.sort();
                things.dedup();
                notes.push(Note {
                    reason,
                    subject,
                    message: message(reason, &things),
                    remedy: remedy(reason),
                });
            }
        }
        for (reason, count) in subjects.into_iter().filter(|(_, count)| *count > SUBJECTS) {
            let message = format!("{}: the same of {} more", what(reason), count - SUBJECTS);
            notes.push(Note { reason, subject: OTHERS.to_owned(), message, remedy: remedy(reason) });
        }
        // The one about the others is behind those of its reason.
        notes.sort_by_key(|note| note.reason);
        notes
    }
}

fn message(reason: NoteReason, things: &[String]) -> String {
    let mut named: Vec<String> = things.iter().take(NAMED).map(|thing| label::name(thing)).collect();
    if things.len() > NAMED {
        named.push(format!("{} more", things.len() - NAMED));
    }
    format!("{}: {}", what(reason), label::list(named))
}

fn what(reason: NoteReason) -> &'static str {
    match reason {
        NoteReason::NoCpuNodes => "no NUMA node with CPUs is shown, so there is no zone of type Node",
        NoteReason::TooManyNodes => "schedulers count 64 NUMA nodes and stumble over the next; left out",
        NoteReason::ManyNumaNodes => {
            "the kubelet's topology manager weighs every set of so many NUMA nodes, which may take it forever"
        }
        NoteReason::DeviceWithoutZone => {
            "in no zone, for no NUMA node with CPUs is told for it; counts for the node as a whole"
        }
        NoteReason::UnknownNumaNode => "on a NUMA node that is not online or has no CPUs",
        NoteReason::DeviceGone => "held by a Pod, and not among the devices that the kubelet may give",
        NoteReason::CpuOffline => "may be given by the kubelet, and is not online",
        NoteReason::UnknownMemory => "memory that cannot be counted for any NUMA node",
        NoteReason::MemoryOvercommitted => "more than there is to give on these NUMA nodes",
        NoteReason::ReservedTooMuch => "reserved for the machine beyond what is there",
        NoteReason::OddResourceName => {
            "devices of a resource whose name is not that of an extended resource; left out"
        }
        NoteReason::CostsLeftOut => "too many zones of this type to tell the costs between every two",
        NoteReason::SettingsUnknown => {
            "not known, so that schedulers take the kubelet for one that aligns nothing"
        }
    }
}

fn remedy(reason: NoteReason) -> &'static str {
    match reason {
        NoteReason::NoCpuNodes => "mount /sys of the host, or use a kernel with CONFIG_NUMA",
        NoteReason::TooManyNodes => "let the firmware make fewer NUMA nodes (NPS1, SNC off)",
        NoteReason::ManyNumaNodes => {
            "set topologyManagerPolicy to none, or let the driver keep GPU memory off the NUMA nodes (CDMM mode)"
        }
        NoteReason::DeviceWithoutZone => {
            "if the device has a place, see that its plugin tells it (for GPUs: numa_node in sysfs is not -1)"
        }
        NoteReason::UnknownNumaNode => {
            "see what numa_node says in sysfs and what the device plugin tells the kubelet; update its firmware or plugin"
        }
        NoteReason::DeviceGone => {
            "see the device plugin's log and the health of the device; the Pod may have to be restarted"
        }
        NoteReason::CpuOffline => "bring the CPU online, or restart the kubelet so that it counts anew",
        NoteReason::UnknownMemory => "restart the kubelet so that it counts anew",
        NoteReason::MemoryOvercommitted => {
            "restart the kubelet so that it counts anew; if it stays, drain the node and remove memory_manager_state"
        }
        NoteReason::ReservedTooMuch => {
            "correct reservedMemory, kubeReserved and systemReserved of the kubelet"
        }
        NoteReason::OddResourceName => "correct the name that the device plugin registers: DOMAIN/NAME",
        NoteReason::CostsLeftOut => "nothing: use `gpulet topo` to see them",
        NoteReason::SettingsUnknown => {
            "let gpulet read the kubelet's configuration, or ask the kubelet (`get` on `nodes/configz`); gpulet's log says what is in the way"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_subjects_some_are_named_and_the_rest_counted() {
        let mut notes = Notes::default();
        for number in 0..300_000 {
            notes.add(NoteReason::OddResourceName, &format!("odd name {number:06}"), "0".to_owned());
        }
        notes.add(NoteReason::DeviceGone, "a/b", "1".to_owned());
        let notes = notes.finish();
        assert_eq!((notes.len(), notes[0].subject.as_str()), (1 + SUBJECTS + 1, "a/b"));
        let last = &notes[1 + SUBJECTS];
        assert_eq!((last.reason, last.subject.as_str()), (NoteReason::OddResourceName, OTHERS));
        assert!(last.message.ends_with("of 299936 more"), "{}", last.message);
        assert!(notes.is_sorted_by_key(|note| note.reason));
    }
}
