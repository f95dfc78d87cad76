use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Gone, Publisher, Reader};
use crate::engine::Engine;
use crate::node::Node;
use crate::state::{Effect, Fault, NodeState};

fn state() -> NodeState {
    Engine::new(&Node::load("dgx-h100").unwrap(), 1, 0).unwrap().state().clone()
}

#[test]
fn a_reader_sees_what_was_published_and_decodes_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let mut publisher = Publisher::create(&path).unwrap();
    assert!(Reader::attach(&path).is_err(), "nothing is published yet");
    let mut state = state();
    publisher.publish(&state).unwrap();
    let reader = Reader::attach(&path).unwrap();
    let first = reader.state().unwrap();
    assert_eq!(*first, state);
    assert!(Arc::ptr_eq(&first, &reader.state().unwrap()));
    state.clock_us += 1;
    publisher.publish(&state).unwrap();
    assert_eq!(*reader.state().unwrap(), state);
}

#[test]
fn a_server_that_stopped_is_gone_and_a_new_one_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let state = state();
    let mut publisher = Publisher::create(&path).unwrap();
    publisher.publish(&state).unwrap();
    let reader = Reader::attach(&path).unwrap();
    drop(publisher);
    assert_eq!(reader.state(), Err(Gone));
    let mut publisher = Publisher::create(&path).unwrap();
    publisher.publish(&state).unwrap();
    assert_eq!(reader.state(), Err(Gone));
    assert!(Reader::attach(&path).unwrap().state().is_ok());
}

#[test]
fn a_damaged_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    std::fs::write(&path, "short").unwrap();
    assert_eq!(Reader::attach(&path).err().unwrap().reason(), "SharedStateNotMapped");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(16 << 20).unwrap();
    assert_eq!(Reader::attach(&path).err().unwrap().reason(), "SharedStateOfAnotherVersion");
}

#[test]
fn nobody_may_write_to_the_file_and_what_a_killed_server_left_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    drop(Publisher::create(&path).unwrap());
    assert!(std::fs::metadata(&path).unwrap().permissions().readonly());
    std::fs::rename(&path, path.with_extension("new")).unwrap();
    drop(Publisher::create(&path).unwrap());
    assert!(path.exists() && !path.with_extension("new").exists());
}

#[test]
fn room_on_the_disk_is_taken_before_it_is_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let mut publisher = Publisher::create(&path).unwrap();
    let taken = || usize::try_from(std::fs::metadata(&path).unwrap().blocks() * 512).unwrap();
    assert!(taken() >= 4096, "the header's");
    let state = state();
    publisher.publish(&state).unwrap();
    let bytes = postcard::to_stdvec(&state).unwrap().len();
    assert!(taken() >= 4096 + 2 * bytes, "that of both slots, though one is written to so far");
    assert!(taken() < 1 << 20, "and no more than is needed");
}

#[test]
fn readers_never_see_half_a_state() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let mut publisher = Publisher::create(&path).unwrap();
    let mut state = state();
    let stamp = |state: &mut NodeState, n: u64| {
        state.clock_us = n;
        state.gpus.iter_mut().for_each(|gpu| gpu.count.energy_mj = n);
    };
    stamp(&mut state, 0);
    publisher.publish(&state).unwrap();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let reader = Reader::attach(&path).unwrap();
            thread::spawn(move || {
                let mut last = 0;
                while last < 2_000 {
                    let seen = reader.state().unwrap();
                    assert!(seen.gpus.iter().all(|gpu| gpu.count.energy_mj == seen.clock_us));
                    assert!(seen.clock_us >= last, "time went back");
                    last = seen.clock_us;
                }
            })
        })
        .collect();
    for n in 1..=2_000 {
        stamp(&mut state, n);
        publisher.publish(&state).unwrap();
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

#[test]
fn a_fault_wakes_those_who_wait_and_a_tick_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let mut publisher = Publisher::create(&path).unwrap();
    let mut state = state();
    publisher.publish(&state).unwrap();
    let reader = Reader::attach(&path).unwrap();
    let seen = reader.wake_count();
    state.clock_us += 100_000;
    publisher.publish(&state).unwrap();
    assert_eq!(reader.wake_count(), seen);
    let began = Instant::now();
    reader.wait(seen, Duration::from_millis(300));
    assert!(began.elapsed() >= Duration::from_millis(250), "it must sleep, not spin");
    let waiter = thread::spawn(move || {
        let began = Instant::now();
        while reader.wake_count() == seen && began.elapsed() < Duration::from_secs(60) {
            reader.wait(seen, Duration::from_secs(60));
        }
        began.elapsed()
    });
    state.faults.push(Fault { id: 1, gpu: None, symbol: None, effect: Effect::Block, strike: None });
    publisher.publish(&state).unwrap();
    assert!(waiter.join().unwrap() < Duration::from_secs(30));
}
