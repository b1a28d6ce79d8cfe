//! Time and CPU of a test binary, and what it counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use xtask::steps::now;

/// Variable with the file to which a test adds lines of a name and a number.
const TALLY: &str = "TEST_TALLY";

/// Name of the milliseconds of CPU of leased control planes, which nobody waits for.
const LEASED: &str = "leased-cpu-ms";

/// A test binary that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// Standard output and standard error, in the order of the writes.
    pub(super) said: String,
    pub(super) cost: Cost,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) wall: Duration,
    /// User and system time of the process, of those that it waited for and of control planes while it leased them; 0
    /// where there is no `/proc`.
    pub(super) cpu: Duration,
    /// Sums by name.
    pub(super) counts: BTreeMap<String, u64>,
}

/// Runs `tests` to its end.
pub(super) fn run(tests: &mut Command) -> Result<Ended> {
    let (mut output, tally) = (tempfile::tempfile()?, tempfile::NamedTempFile::new()?);
    tests.env(TALLY, tally.path());
    tests.stdout(output.try_clone()?).stderr(output.try_clone()?);
    let began = now();
    let mut child = tests.spawn()?;
    let pid = Pid::from_child(&child);
    // A process that has ended keeps its times until `wait`.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), ended), Err(Errno::INTR)) {}
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let status = child.wait()?;
    let mut counts = sums(&fs::read_to_string(tally.path())?)?;
    let leased = Duration::from_millis(counts.remove(LEASED).unwrap_or_default());
    Ok(Ended {
        status,
        said: all(&mut output)?,
        cost: Cost {
            wall: began.elapsed(),
            cpu: cpu(&stat).unwrap_or_default() + leased,
            counts,
        },
    })
}

fn all(output: &mut File) -> Result<String> {
    let mut said = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// The fields 14 to 17 of `proc_pid_stat(5)`. The second one, the program's name, may contain spaces.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields = rest.split_ascii_whitespace().skip(11).take(4);
    let ticks: u64 = fields.map_while(|field| field.parse::<u64>().ok()).sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_millis(ticks.saturating_mul(1000) / per_second))
}

fn sums(tally: &str) -> Result<BTreeMap<String, u64>> {
    let mut sums = BTreeMap::new();
    for line in tally.lines() {
        let parts = line.split_once(' ');
        let (name, number) = parts
            .and_then(|(name, number)| Some((name.to_owned(), number.parse::<u64>().ok()?)))
            .with_context(|| format!("${TALLY} has {line:?}, not a name and a number"))?;
        *sums.entry(name).or_default() += number;
    }
    Ok(sums)
}

/// The binaries as a table, the slowest first, with their sum.
pub(super) fn table(mut costs: Vec<(String, Cost)>) -> String {
    costs.sort_by_key(|(_, cost)| Reverse(cost.wall));
    let mut sum = Cost::default();
    for (_, cost) in &costs {
        sum.wall += cost.wall;
        sum.cpu += cost.cpu;
        for (name, count) in &cost.counts {
            *sum.counts.entry(name.clone()).or_default() += count;
        }
    }
    costs.push(("all".to_owned(), sum));
    let width = costs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut lines = vec![format!(
        "{:<width$} {:>8} {:>8} {:>14} {:>7} {:>8}",
        "tests", "seconds", "CPU s", "control planes", "seeds", "a second"
    )];
    for (name, cost) in costs {
        let count = |name: &str| cost.counts.get(name).copied().unwrap_or(0);
        // A blank where there is none.
        let shown = |count: u64, text: String| if count == 0 { String::new() } else { text };
        let (planes, seeds, ms) = (count("control-planes"), count("seeds"), count("seeds-ms"));
        let took = Duration::from_millis(ms).as_secs_f64();
        let a_second = f64::from(u32::try_from(seeds).unwrap_or(u32::MAX)) / took;
        let rate = shown(ms, format!("{a_second:.1}"));
        let line = format!(
            "{name:<width$} {:>8.1} {:>8.1} {:>14} {:>7} {rate:>8}",
            cost.wall.as_secs_f64(),
            cost.cpu.as_secs_f64(),
            shown(planes, planes.to_string()),
            shown(seeds, seeds.to_string()),
        );
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_output_its_time_and_its_counts() {
        let mut tests = Command::new("sh");
        tests.args([
            "-c",
            "echo out; echo err >&2; echo seeds 2 >>$TEST_TALLY; echo seeds 3 >>$TEST_TALLY; \
             echo leased-cpu-ms 90000 >>$TEST_TALLY; \
             (i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done); exit 3",
        ]);
        let ended = run(&mut tests).unwrap();
        assert_eq!(
            (ended.status.code(), ended.said.as_str()),
            (Some(3), "out\nerr\n")
        );
        assert_eq!(ended.cost.counts, BTreeMap::from([("seeds".to_owned(), 5)]));
        // The time of the child that computed, and that of control planes.
        assert!(ended.cost.cpu >= Duration::from_millis(90_010), "{ended:?}");
        assert!(ended.cost.wall >= Duration::from_millis(10), "{ended:?}");
    }

    #[test]
    fn the_times_of_a_process_and_of_its_children_are_added() {
        let stat = "42 (a) b (c) Z 1 42 42 0 -1 4194304 9 0 0 0 250 50 100 100 20 0 3 0 987654 1000 200";
        assert_eq!(cpu(stat), Some(Duration::from_secs(5)));
        assert_eq!(cpu(""), None);
    }

    #[test]
    fn a_count_that_is_none_is_named() {
        let error = sums("seeds many").unwrap_err();
        assert!(error.to_string().contains("\"seeds many\""), "{error}");
    }

    #[test]
    fn the_slowest_comes_first_and_the_sum_last() {
        let cost = |seconds, counts: &[(&str, u64)]| Cost {
            wall: Duration::from_secs(seconds),
            cpu: Duration::from_millis(500),
            counts: counts
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        };
        let costs = vec![
            ("one (live)".to_owned(), cost(2, &[("control-planes", 3)])),
            (
                "one (sync)".to_owned(),
                cost(8, &[("seeds", 50), ("seeds-ms", 4000)]),
            ),
        ];
        assert_eq!(
            table(costs),
            "tests       seconds    CPU s control planes   seeds a second\n\
             one (sync)      8.0      0.5                     50     12.5\n\
             one (live)      2.0      0.5              3\n\
             all            10.0      1.0              3      50     12.5"
        );
    }
}
