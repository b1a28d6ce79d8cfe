//! Resource usage of a process, from `/proc`.

use std::io;
use std::time::Duration;

use super::Error;

/// Memory, threads and CPU time of a process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Resident memory in bytes (`VmRSS`).
    pub rss: u64,
    /// Peak of the resident memory in bytes (`VmHWM`).
    pub peak_rss: u64,
    /// Number of threads.
    pub threads: u64,
    /// CPU time of all threads so far, user and system, in steps of the kernel's clock tick (10 ms).
    pub cpu: Duration,
}

impl ProcessUsage {
    /// The usage of the process `pid`; fails if the process is gone.
    pub fn of(pid: u32) -> Result<Self, Error> {
        let read = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
            let stat = Stat::read(pid)?;
            let field = |name| {
                number_after(&status, name)
                    .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("no {name}")))
            };
            Ok(Self {
                rss: field("VmRSS:")?.saturating_mul(1024),
                peak_rss: field("VmHWM:")?.saturating_mul(1024),
                threads: field("Threads:")?,
                cpu: ticks(stat.cpu_ticks),
            })
        };
        read().map_err(|source| Error::Usage { pid, source })
    }
}

/// The fields of `/proc/PID/stat` that are used here.
pub(super) struct Stat {
    /// User and system time, in clock ticks.
    cpu_ticks: u64,
    /// Start time in clock ticks since boot: with the pid it identifies a process for good, whereas a pid alone is
    /// reused.
    pub(super) started: u64,
}

impl Stat {
    pub(super) fn read(pid: u32) -> io::Result<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Self::parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unknown format"))
    }

    /// Parses `proc_pid_stat(5)`; `None` for a process that has ended and that nobody has waited for.
    ///
    /// The second field is the program's name in parentheses and may itself contain spaces and parentheses, so fields
    /// are counted from the last closing one.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        // Its sockets are open until the last thread has ended.
        if matches!(fields.first(), Some(&("Z" | "X"))) && field(20)? <= 1 {
            return None;
        }
        Some(Self {
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            started: field(22)?,
        })
    }
}

fn ticks(count: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(count.saturating_mul(1000) / per_second)
}

fn number_after(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = Stat::parse(
            "42 (a) b (c) S 1 42 42 0 -1 4194304 9 0 0 0 250 75 0 0 20 0 3 0 987654 1000 200 18446744073709551615",
        )
        .unwrap();
        assert_eq!(stat.cpu_ticks, 325);
        assert_eq!(stat.started, 987_654);
    }

    #[test]
    fn a_process_has_ended_when_its_last_thread_has() {
        let is_there = |state: &str, threads: u32| {
            let stat = format!(
                "42 (a) {state} 1 42 42 0 -1 4194304 9 0 0 0 250 75 0 0 20 0 {threads} 0 987654 1000"
            );
            Stat::parse(&stat).is_some()
        };
        assert!(is_there("S", 1));
        assert!(is_there("Z", 2));
        assert!(!is_there("Z", 1));
        assert!(!is_there("X", 0));
    }

    #[test]
    fn sizes_are_read_by_name() {
        let status = "VmPeak:\t  900 kB\nVmHWM:\t  512 kB\nVmRSS:\t  256 kB\nThreads:\t4\n";
        assert_eq!(number_after(status, "VmHWM:"), Some(512));
        assert_eq!(number_after(status, "VmRSS:"), Some(256));
        assert_eq!(number_after(status, "Threads:"), Some(4));
        assert_eq!(number_after(status, "VmSwap:"), None);
    }

    #[test]
    fn this_process_uses_memory_and_at_least_one_thread() {
        let usage = ProcessUsage::of(std::process::id()).unwrap();
        assert!(
            usage.rss > 0 && usage.peak_rss > 0 && usage.threads > 0,
            "{usage:?}"
        );
    }
}
