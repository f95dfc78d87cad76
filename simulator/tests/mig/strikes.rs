//! Faults that strike one call, by its number.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use gpulet_simulator::command::{Applied, Command, Strike};
use gpulet_simulator::state::{Effect, StrikeState};

use super::*;

const G1: u32 = 19;

fn every(effect: Effect) -> Strike {
    Strike { gpu: None, symbol: None, changing: true, nth: 1, times: 1, after: false, effect }
}

fn strike(test: &TestNode, strike: Strike) -> u64 {
    match test.node.command(Command::Strike(strike)).unwrap() {
        Applied::Fault { id } => id,
        other => panic!("{other:?}"),
    }
}

fn counts(test: &TestNode, id: u64) -> StrikeState {
    test.node.state().faults.iter().find(|fault| fault.id == id).unwrap().strike.unwrap()
}

#[test]
fn the_third_change_fails_and_no_other() {
    let (test, driver) = empty(H100);
    let id = strike(&test, Strike { nth: 3, ..every(Effect::Return(INSUFFICIENT_RESOURCES)) });
    let answers: Vec<bool> = (0..5).map(|_| driver.create(H100, G1).is_ok()).collect();
    assert_eq!(answers, [true, true, false, true, true]);
    assert_eq!(places(&test, H100).len(), 4, "what was struck had no effect");
    assert_eq!((counts(&test, id).seen, counts(&test, id).struck), (3, 1), "then it counts no more");
    assert_eq!(driver.capacity(H100, G1), Ok(3), "reading is no change");
    assert_eq!(state(&test, H100).changing_calls, 1 + 5, "the mode, and all that were tried");
}

#[test]
fn only_named_calls_to_the_named_gpu_count() {
    let (test, driver) = empty(H100);
    driver.set_mode(RTX, 1);
    let destroy =
        Strike { symbol: Some("nvmlGpuInstanceDestroy".to_owned()), ..every(Effect::Return(IN_USE)) };
    let id = strike(&test, Strike { gpu: Some(H100), times: 2, ..destroy });
    let other = driver.create(RTX, 14).unwrap();
    assert_eq!(driver.destroy(other), OK);
    let instance = driver.create(H100, G1).unwrap();
    assert_eq!([(); 3].map(|()| driver.destroy(instance)), [IN_USE, IN_USE, OK]);
    assert!(counts(&test, id).is_spent());
}

#[test]
fn a_call_can_fail_though_it_had_its_effect() {
    let (test, driver) = empty(H100);
    strike(&test, Strike { after: true, ..every(Effect::Return(999)) });
    assert_eq!(driver.create(H100, 77), Err(INVALID_ARGUMENT), "what fails by itself does not count");
    assert_eq!(driver.create(H100, G1), Err(999));
    assert_eq!(places(&test, H100).len(), 1);
    assert!(driver.create(H100, G1).is_ok());
}

#[test]
fn a_call_is_held_up_before_or_after_its_effect() {
    for (after, there) in [(false, 0), (true, 1)] {
        let (test, driver) = empty(H100);
        let id = strike(&test, Strike { after, ..every(Effect::Block) });
        let (tell, told) = channel();
        thread::scope(|scope| {
            scope.spawn(|| tell.send(driver.create(H100, G1).is_ok()).unwrap());
            let patience = Instant::now() + Duration::from_secs(30);
            while counts(&test, id).struck == 0 {
                assert!(Instant::now() < patience, "nothing was struck");
                thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(places(&test, H100).len(), there, "after: {after}");
            assert!(told.recv_timeout(Duration::from_millis(100)).is_err(), "it is held up");
            test.node.command(Command::ClearFault { id: Some(id) }).unwrap();
            assert!(told.recv_timeout(Duration::from_secs(30)).unwrap());
        });
        assert_eq!(places(&test, H100).len(), 1);
    }
}

#[test]
fn a_call_can_be_slow() {
    let (test, driver) = empty(H100);
    strike(&test, Strike { nth: 2, ..every(Effect::Delay(300)) });
    let took = |()| {
        let began = Instant::now();
        driver.create(H100, G1).unwrap();
        began.elapsed() >= Duration::from_millis(300)
    };
    let slow = [(); 3].map(took);
    assert!(slow[1], "{slow:?}");
}

#[test]
fn calls_of_no_gpu_count_once() {
    let test = idle();
    let nvml = test.nvml();
    let by_index = Strike {
        symbol: Some("nvmlDeviceGetHandleByIndex_v2".to_owned()),
        changing: false,
        nth: 2,
        ..every(Effect::Return(999))
    };
    let id = strike(&test, by_index);
    let found: Vec<bool> = (0..3).map(|index| nvml.device_by_index(index).is_ok()).collect();
    assert_eq!(found, [true, false, true], "{:?}", counts(&test, id));
}

#[test]
fn nonsense_is_refused() {
    let test = idle();
    let reason = |wrong: Strike| test.node.command(Command::Strike(wrong)).unwrap_err().reason();
    assert_eq!(reason(Strike { nth: 0, ..every(Effect::Block) }), "OutOfRange");
    assert_eq!(reason(Strike { times: 0, ..every(Effect::Block) }), "OutOfRange");
    assert_eq!(reason(Strike { gpu: Some(99), ..every(Effect::Block) }), "NoSuchGpu");
    assert_eq!(reason(every(Effect::Return(0))), "OutOfRange");
    assert_eq!(reason(every(Effect::Delay(0))), "OutOfRange");
    assert_eq!(
        reason(Strike { symbol: Some("nvmlNoSuchCall".to_owned()), ..every(Effect::Block) }),
        "OutOfRange"
    );
}
