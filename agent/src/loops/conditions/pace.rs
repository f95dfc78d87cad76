//! When a condition of the Node is written, and when an Event tells of it: decided without I/O.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gpulet_cluster::api::Condition;

/// Between two writes of one condition, at least; doubled while they fail or are undone, up to [`LONGEST`].
const APART: Duration = Duration::from_secs(10);
/// See [`APART`]. Also between two writes of which only the message differs: figures in it may change all the time.
const LONGEST: Duration = Duration::from_secs(300);

/// Knows what was told of each condition.
#[derive(Debug, Default)]
pub(super) struct Pace {
    told: BTreeMap<String, Told>,
}

/// What was told of one condition.
#[derive(Debug)]
struct Told {
    condition: Condition,
    at: Instant,
    again_at: Instant,
    wait: Duration,
    failed: Option<&'static str>,
    /// An Event has told of it.
    event: bool,
}

/// How a write failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed {
    /// The stable word.
    pub(super) reason: &'static str,
    /// How long the API server asks to wait.
    pub(super) retry_after: Option<Duration>,
}

/// What follows a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// The condition may be looked at again then.
    pub(super) again_at: Instant,
    /// It is told by an Event too.
    pub(super) event: bool,
    /// It failed otherwise than the last time, if that failed.
    pub(super) new_failure: bool,
}

impl Pace {
    /// When `wanted` may be written in place of what is `there`: now or later.
    pub(super) fn due(&self, there: Option<&Condition>, wanted: &Condition, now: Instant) -> Instant {
        let Some(told) = self.told.get(&wanted.kind) else { return now };
        let again_at = if is_news(there, wanted) { told.again_at } else { told.at + LONGEST };
        again_at.max(now)
    }

    /// `written` was written in place of what was `there`, or was to be; `now` the API server has answered: whether it had
    /// to be written, or how that failed.
    pub(super) fn wrote(
        &mut self,
        there: Option<&Condition>,
        written: Condition,
        result: Result<bool, Failed>,
        now: Instant,
    ) -> Next {
        let before = self.told.remove(&written.kind);
        let same = before.as_ref().filter(|told| told.condition == written);
        let wait = same.map_or(APART, |told| (told.wait * 2).min(LONGEST));
        let told_by_event = same.is_some_and(|told| told.event);
        let failed = result.err();
        let wait = wait.max(failed.and_then(|failed| failed.retry_after).unwrap_or_default());
        let reason = failed.map(|failed| failed.reason);
        let next = Next {
            again_at: now + wait,
            event: result == Ok(true) && !told_by_event && is_news(there, &written),
            new_failure: reason.is_some() && reason != before.as_ref().and_then(|told| told.failed),
        };
        let kind = written.kind.clone();
        let event = told_by_event || next.event;
        let told = Told { condition: written, at: now, again_at: next.again_at, wait, failed: reason, event };
        self.told.insert(kind, told);
        next
    }
}

/// Whether more than the message differs.
fn is_news(there: Option<&Condition>, condition: &Condition) -> bool {
    there.is_none_or(|there| (there.status, &there.reason) != (condition.status, &condition.reason))
}

#[cfg(test)]
mod tests {
    use gpulet_cluster::api::ConditionStatus;

    use super::*;

    fn condition(status: ConditionStatus, message: &str) -> Condition {
        Condition { kind: "GpuHealthy".into(), status, reason: "Word".into(), message: message.into() }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_others_undo_is_restored_ever_more_seldom_and_told_once() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let wanted = condition(ConditionStatus::True, "");
        let mut waits = Vec::new();
        for number in 0..7 {
            assert_eq!(pace.due(None, &wanted, now), now);
            let next = pace.wrote(None, wanted.clone(), Ok(true), now);
            assert_eq!(next.event, number == 0);
            assert_eq!(pace.due(None, &wanted, now), next.again_at);
            waits.push((next.again_at - now).as_secs());
            now = next.again_at;
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
        let other = condition(ConditionStatus::False, "");
        let next = pace.wrote(Some(&wanted), other, Ok(true), now);
        assert_eq!(next, Next { again_at: now + seconds(10), event: true, new_failure: false });
    }

    #[test]
    fn another_message_alone_waits_long_and_is_no_event() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let there = condition(ConditionStatus::True, "7 GPUs");
        pace.wrote(None, there.clone(), Ok(true), now);
        let wanted = condition(ConditionStatus::True, "8 GPUs");
        assert_eq!(pace.due(Some(&there), &wanted, now), now + seconds(300));
        assert!(!pace.wrote(Some(&there), wanted, Ok(true), now + seconds(300)).event);
    }

    #[test]
    fn a_failure_is_said_once_and_the_server_is_heeded() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let wanted = condition(ConditionStatus::True, "");
        let failed = |reason, wait: Option<u64>| Err(Failed { reason, retry_after: wait.map(seconds) });
        let mut write = |result| {
            let next = pace.wrote(None, wanted.clone(), result, now);
            (next.new_failure, (next.again_at - now).as_secs(), next.event)
        };
        assert_eq!(write(failed("Throttled", Some(60))), (true, 60, false));
        assert_eq!(write(failed("Throttled", None)), (false, 120, false));
        assert_eq!(write(failed("Forbidden", None)), (true, 240, false));
        assert_eq!(write(Ok(true)), (false, 300, true), "the Event comes when it is written");
        assert!(!write(Ok(true)).2);
    }

    #[test]
    fn what_stands_there_already_is_no_event() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let wanted = condition(ConditionStatus::True, "");
        assert!(!pace.wrote(None, wanted.clone(), Ok(false), now).event, "what was seen of the Node was old");
        assert!(pace.wrote(None, wanted, Ok(true), now).event, "someone has undone it");
    }
}
