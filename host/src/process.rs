//! What this process uses (source: `/proc/self`, always the real one: it is about the process, not about the node).

use std::sync::OnceLock;

use gpulet_inventory::snapshot::ProcessStats;
use procfs::process::{LimitValue, Process};
use procfs::{ProcError, WithCurrentSystemInfo};

/// A file under `/proc` that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("reading {file} failed; is /proc mounted?")]
pub struct ProcessStatsError {
    file: &'static str,
    #[source]
    source: ProcError,
}

impl ProcessStatsError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "ProcUnreadable"
    }
}

/// What this process uses now.
///
/// # Errors
/// If `/proc` is not mounted or not readable.
pub fn stats() -> Result<ProcessStats, ProcessStatsError> {
    let failed = |file| move |source| ProcessStatsError { file, source };
    let myself = Process::myself().map_err(failed("/proc/self"))?;
    let stat = myself.stat().map_err(failed("/proc/self/stat"))?;
    let limits = myself.limits().map_err(failed("/proc/self/limits"))?;
    let open_fds = myself.fd_count().map_err(failed("/proc/self/fd"))?;
    let boot = boot_seconds().map_err(failed("/proc/stat"))?;
    // Ticks are at most 2^53 for any machine that has been up for less than a million years.
    let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
    Ok(ProcessStats {
        cpu_seconds: seconds(stat.utime.saturating_add(stat.stime)),
        resident_bytes: stat.rss_bytes().get(),
        virtual_bytes: stat.vsize,
        open_fds: open_fds as u64,
        max_fds: match limits.max_open_files.soft_limit {
            LimitValue::Unlimited => u64::MAX,
            LimitValue::Value(value) => value,
        },
        threads: u64::try_from(stat.num_threads).unwrap_or(0),
        start_time_seconds: boot as f64 + seconds(stat.starttime),
    })
}

/// When the machine was booted, seconds since the Unix epoch. Asked once: the kernel derives it from the wall clock, and
/// a start time that moves with it would look like a restart.
fn boot_seconds() -> Result<u64, ProcError> {
    static BOOT: OnceLock<u64> = OnceLock::new();
    match BOOT.get() {
        Some(boot) => Ok(*boot),
        None => procfs::boot_time_secs().map(|boot| *BOOT.get_or_init(|| boot)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn this_process_is_plausible() {
        let stats = stats().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(stats.resident_bytes > 100_000 && stats.virtual_bytes >= stats.resident_bytes);
        assert!(stats.threads >= 1 && stats.open_fds >= 3 && stats.max_fds >= stats.open_fds);
        assert!(stats.start_time_seconds <= now + 2.0, "{} is after {now}", stats.start_time_seconds);
        assert!(now - stats.start_time_seconds < 3600.0, "the test has not run for an hour");
    }

    #[test]
    fn open_files_are_counted() {
        // Other tests of this process open files too, but not 50 at once.
        let before = stats().unwrap().open_fds;
        let files: Vec<File> = (0..60).map(|_| File::open("/proc/self/stat").unwrap()).collect();
        let with = stats().unwrap().open_fds;
        assert!(with >= before + 50 - 10, "{before} then {with} with {} more", files.len());
    }
}
