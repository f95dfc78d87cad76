//! The journals on disk: one that is no journal is refused, and with one that is it is gone on.

#![no_main]

use std::time::{Duration, Instant};

use gpulet_fuzz::divisions;
use gpulet_partition::apply::{Command, Event, Machine, Policy, Seen};
use gpulet_partition::journal::Journal;
use gpulet_partition::observed::GpuDivision;
use gpulet_partition::protocol::NodeJournal;
use libfuzzer_sys::fuzz_target;

/// More turns than any change takes on GPUs that never change.
const TURNS: u32 = 1000;

fuzz_target!(|bytes: &[u8]| {
    let _ = serde_json::from_slice::<NodeJournal>(bytes);
    let Ok(journal) = serde_json::from_slice::<Journal>(bytes) else { return };
    let written = serde_json::to_vec(&journal).expect("a journal can be written");
    assert_eq!(serde_json::from_slice::<Journal>(&written).expect("it can be read back"), journal);
    for division in divisions() {
        let mut machine = Machine::recover(journal.clone(), Policy::default());
        let mut now = Instant::now();
        let mut events = vec![Event::Woken];
        for _ in 0..TURNS {
            if machine.outcome().is_some() {
                break;
            }
            let commands: Vec<Command> =
                events.drain(..).flat_map(|event| machine.step(event, now)).collect();
            events = commands.into_iter().map(|command| answer(&command, &division)).collect();
            if events.is_empty() {
                now = machine.next_wake().unwrap_or(now + Duration::from_secs(1));
                events.push(Event::Woken);
            }
        }
        assert!(machine.outcome().is_some(), "it comes to an end: {journal:?}");
    }
});

/// The disk does as it is told, and the GPU stays as it is whatever it is told.
fn answer(command: &Command, division: &GpuDivision) -> Event {
    match command {
        Command::Read => Event::Read(Ok(Seen { division: division.clone(), persistence: Some(true) })),
        Command::Journal(_) | Command::ClearJournal => Event::Journalled(Ok(())),
        Command::Change(_) => Event::Changed(Ok(())),
    }
}
