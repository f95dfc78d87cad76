//! Calls that change a GPU: how many there were, and what happens to the next ones.

use serde_json::Value;

use super::site::Site;

/// A moment in a change: calls that change the GPU are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The call was made, and has had no effect.
    Before(usize),
    /// The call has had its effect, and the caller is not told. Calls that fail do not count here.
    After(usize),
}

impl Site {
    /// How many calls were to change GPU `index`, since the node began.
    pub fn changes(&self, index: usize) -> usize {
        usize::try_from(self.count(index, "changing_calls")).unwrap()
    }

    /// How often GPU `index` was reset, since the node began.
    pub fn resets(&self, index: usize) -> u64 {
        self.count(index, "resets")
    }

    fn count(&self, index: usize, what: &str) -> u64 {
        let count = &self.node().state()["gpus"][index][what];
        count.as_u64().unwrap_or_else(|| panic!("no {what}: {count}"))
    }

    /// The driver holds up whoever comes to `moment`, counted from now.
    pub fn stop_at(&self, index: usize, moment: Moment) {
        let gpu = index.to_string();
        let (nth, after) = match moment {
            Moment::Before(nth) => (nth.to_string(), None),
            Moment::After(nth) => (nth.to_string(), Some("--after")),
        };
        let call = ["fault", "call", "--gpu", &gpu, "--changing", "--nth", &nth, "--block"];
        self.node().sim(&call.into_iter().chain(after).collect::<Vec<_>>());
    }

    /// Whether someone is held up.
    pub fn is_stopped(&self) -> bool {
        let state = self.node().state();
        let faults = state["faults"].as_array().unwrap();
        faults.iter().any(|fault| fault["effect"] == "block" && fault["strike"]["struck"].as_u64() > Some(0))
    }

    /// Whoever is held up goes on; other faults stay in force.
    pub fn go_on(&self) {
        let state = self.node().state();
        let faults = state["faults"].as_array().unwrap().iter();
        for fault in faults.filter(|fault| fault["effect"] == "block") {
            self.node().sim(&["fault", "clear", &fault["id"].to_string()]);
        }
    }

    /// Of the next calls that are to change GPU `index`, the `nth` and those after it, `times` in all, fail with `code`.
    pub fn fail_change(&self, index: usize, nth: usize, times: usize, code: &str) {
        let (gpu, nth, times) = (index.to_string(), nth.to_string(), times.to_string());
        self.node().sim(&[
            "fault",
            "call",
            "--gpu",
            &gpu,
            "--changing",
            "--nth",
            &nth,
            "--times",
            &times,
            "--return",
            code,
        ]);
    }

    /// Of the next calls that change GPU `index`, the `nth` is answered with an error though it has had its effect.
    pub fn lie_at(&self, index: usize, nth: usize) {
        let (gpu, nth) = (index.to_string(), nth.to_string());
        let call =
            ["fault", "call", "--gpu", &gpu, "--changing", "--nth", &nth, "--after", "--return", "UNKNOWN"];
        self.node().sim(&call);
    }

    /// Takes all faults away; tells how many of them have not done what they were to do.
    pub fn clear_faults(&self) -> usize {
        let state = self.node().state();
        let is_due = |fault: &&Value| {
            let (struck, times) = (&fault["strike"]["struck"], &fault["strike"]["times"]);
            struck.as_u64() < times.as_u64()
        };
        let due = state["faults"].as_array().unwrap().iter().filter(is_due).count();
        self.node().sim(&["fault", "clear"]);
        due
    }
}
