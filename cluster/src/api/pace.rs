//! How often the API server is asked.
//!
//! A thousand nodes see the same failure at the same instant. Each therefore waits a random part of a time that doubles,
//! so that they do not come back together.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

/// Times that bound what is asked. The defaults suit a cluster of any size; tests make them short.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Longest time to connect to a server.
    pub connect: Duration,
    /// Longest time until a server begins to answer.
    pub answer: Duration,
    /// Longest time of a plain call, from its start to the end of the answer.
    pub call: Duration,
    /// Longest time of a list.
    pub list: Duration,
    /// Shortest time for which one watch is asked; the longest is twice that. The default is what an API server chooses
    /// by itself.
    pub watch: Duration,
    /// A watch that has told nothing for this long is begun again: API servers send a bookmark each minute, and a proxy in
    /// between may have lost it.
    pub quiet: Duration,
    /// A connection that has been silent for this long is asked for a sign of life.
    pub silent: Duration,
    /// It is given up when there is none within this.
    pub sign_of_life: Duration,
    /// Waits after failures.
    pub retry: Pace,
    /// Waits for a kind of object that the server does not have.
    pub absent: Pace,
    /// The same for kinds that most clusters do not have.
    pub rare: Pace,
    /// Shortest time from one reading of the credentials to the next.
    pub renew: Duration,
    /// The same while nothing is wrong with them but that the server cannot be reached.
    pub look_again: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connect: seconds(5),
            answer: seconds(10),
            call: seconds(15),
            list: seconds(30),
            watch: seconds(1800),
            quiet: seconds(300),
            silent: seconds(30),
            sign_of_life: seconds(15),
            retry: Pace { first: seconds(1), longest: seconds(30) },
            absent: Pace { first: seconds(5), longest: seconds(300) },
            rare: Pace { first: seconds(600), longest: seconds(3600) },
            renew: seconds(5),
            look_again: seconds(60),
        }
    }
}

/// Waits that double with each failure in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The first wait, at most.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Pace {
    /// The wait after so many failures in a row, this one included: between half of the time and all of it.
    pub fn wait(&self, failures: u32, random: u64) -> Duration {
        let factor = 2u32.saturating_pow(failures.saturating_sub(1));
        let longest = self.first.saturating_mul(factor).min(self.longest);
        longest / 2 + part(longest / 2, random)
    }
}

/// The random part of a time.
pub(crate) fn part(of: Duration, random: u64) -> Duration {
    // 32 bits of randomness are plenty, and 2^-32 is exact.
    of.mul_f64((random >> 32) as f64 / (1u64 << 32) as f64)
}

/// A random number, different in each process and each call. Good enough to spread waits.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_stay_between_half_and_all() {
        let pace = Pace { first: Duration::from_secs(1), longest: Duration::from_secs(30) };
        let shortest: Vec<u128> = (1..8).map(|failures| pace.wait(failures, 0).as_millis()).collect();
        assert_eq!(shortest, [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
        for (failures, all) in (1..8).zip([1u64, 2, 4, 8, 16, 30, 30].map(Duration::from_secs)) {
            let wait = pace.wait(failures, u64::MAX);
            assert!(wait <= all && wait > all - Duration::from_millis(1), "{wait:?} is nearly {all:?}");
        }
        assert!(pace.wait(u32::MAX, u64::MAX) <= pace.longest, "without overflow");
    }

    #[test]
    fn random_numbers_differ() {
        let numbers: std::collections::BTreeSet<u64> = (0..100).map(|_| random()).collect();
        assert!(numbers.len() > 90);
    }
}
