use super::*;

const EVENTS: [Event; 8] = [
    Event::Tick,
    Event::Opened,
    Event::OpenFailed,
    Event::Healthy,
    Event::Gone,
    Event::Outdated,
    Event::Quiesced,
    Event::Resumed,
];

fn at(start: Instant, seconds: u64) -> Instant {
    start + Duration::from_secs(seconds)
}

/// Every phase against every event, at second 10, with a back-off of 1 s.
#[test]
fn every_transition() {
    let start = Instant::now();
    let now = at(start, 10);
    let ready = Phase::Open { reopen_after: now };
    let held = Phase::Open { reopen_after: at(start, 11) };
    let due = Phase::Waiting { until: now };
    let early = Phase::Waiting { until: at(start, 11) };
    let opened = Phase::Open { reopen_after: at(start, 11) };
    let failed = Phase::Waiting { until: at(start, 11) };
    use Command::{Nothing, Open, Reopen};
    use Phase::{Closed, Opening, Quiesced};
    // in the order of EVENTS: Tick, Opened, OpenFailed, Healthy, Gone, Outdated, Quiesced, Resumed
    let table: [(Phase, [(Phase, Command); 8]); 7] = [
        (
            Closed,
            [
                (Opening, Open),
                (Closed, Nothing),
                (Closed, Nothing),
                (Closed, Nothing),
                (Closed, Nothing),
                (Closed, Nothing),
                (Quiesced, Nothing),
                (Closed, Nothing),
            ],
        ),
        (
            Opening,
            [
                (Opening, Nothing),
                (opened, Nothing),
                (failed, Nothing),
                (Opening, Nothing),
                (Opening, Nothing),
                (Opening, Nothing),
                (Quiesced, Nothing),
                (Opening, Nothing),
            ],
        ),
        (
            ready,
            [
                (ready, Nothing),
                (ready, Nothing),
                (ready, Nothing),
                (ready, Nothing),
                (Opening, Reopen),
                (Opening, Reopen),
                (Quiesced, Nothing),
                (ready, Nothing),
            ],
        ),
        (
            held,
            [
                (held, Nothing),
                (held, Nothing),
                (held, Nothing),
                (ready, Nothing),
                (held, Nothing),
                (Opening, Reopen),
                (Quiesced, Nothing),
                (held, Nothing),
            ],
        ),
        (
            due,
            [
                (Opening, Open),
                (due, Nothing),
                (due, Nothing),
                (due, Nothing),
                (due, Nothing),
                (due, Nothing),
                (Quiesced, Nothing),
                (due, Nothing),
            ],
        ),
        (
            early,
            [
                (early, Nothing),
                (early, Nothing),
                (early, Nothing),
                (early, Nothing),
                (early, Nothing),
                (early, Nothing),
                (Quiesced, Nothing),
                (early, Nothing),
            ],
        ),
        (
            Quiesced,
            [
                (Quiesced, Nothing),
                (Quiesced, Nothing),
                (Quiesced, Nothing),
                (Quiesced, Nothing),
                (Quiesced, Nothing),
                (Quiesced, Nothing),
                (Quiesced, Nothing),
                (Closed, Nothing),
            ],
        ),
    ];
    for (phase, row) in table {
        for (event, (expected, command)) in EVENTS.into_iter().zip(row) {
            let mut session = Session { phase, backoff: FIRST_BACKOFF };
            assert_eq!(session.step(event, now), command, "{phase:?} + {event:?}");
            assert_eq!(session.phase, expected, "{phase:?} + {event:?}");
        }
    }
}

#[test]
fn backoff_doubles_to_a_minute() {
    let start = Instant::now();
    let (mut session, mut now, mut waits) = (Session::new(), start, Vec::new());
    for _ in 0..8 {
        assert_eq!(session.step(Event::Tick, now), Command::Open);
        session.step(Event::OpenFailed, now);
        let Phase::Waiting { until } = session.phase else { panic!("{:?}", session.phase) };
        waits.push((until - now).as_secs());
        assert_eq!(session.step(Event::Tick, until - Duration::from_nanos(1)), Command::Nothing);
        now = until;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
}

/// A node whose only GPU is lost opens fine each time: that must not become a loop.
#[test]
fn a_driver_that_opens_without_data_is_reopened_ever_more_rarely() {
    let start = Instant::now();
    let mut session = Session::new();
    session.step(Event::Tick, start);
    session.step(Event::Opened, start);
    let mut reopened = Vec::new();
    for second in 0..=200 {
        if session.step(Event::Gone, at(start, second)) == Command::Reopen {
            reopened.push(second);
            session.step(Event::Opened, at(start, second));
        }
    }
    assert_eq!(reopened, [1, 3, 7, 15, 31, 63, 123, 183]);
}

#[test]
fn a_healthy_driver_that_goes_is_reopened_at_once() {
    let start = Instant::now();
    let mut session = Session::new();
    session.step(Event::Tick, start);
    session.step(Event::OpenFailed, start);
    session.step(Event::Tick, at(start, 1));
    session.step(Event::Opened, at(start, 1));
    session.step(Event::Healthy, at(start, 1));
    assert_eq!(session.step(Event::Gone, at(start, 2)), Command::Reopen);
    session.step(Event::OpenFailed, at(start, 2));
    assert_eq!(session.phase, Phase::Waiting { until: at(start, 3) });
}
