//! Results of the benches, as a table and against the bars.

use std::time::Duration;

use anyhow::ensure;
use local_control_plane::ProcessUsage;

use super::server::Load;

/// The process whose turn it is, apart from the floor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    Ours,
    /// Our binary of another version.
    Before,
    Theirs,
}

/// One run by one side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// Time until all work was done.
    pub(super) took: Duration,
    /// Time until half of the work was done.
    pub(super) half: Duration,
    /// `None` for the floor, which runs in this process.
    pub(super) usage: Option<ProcessUsage>,
    pub(super) server: Load,
}

#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) floor: Vec<Figures>,
    pub(super) ours: Vec<Figures>,
    /// Our binaries of another version, if requested.
    pub(super) before: Vec<Figures>,
    pub(super) theirs: Vec<Figures>,
}

/// The bars of a row.
#[derive(Debug, Default)]
pub(super) struct Bars(Vec<String>);

impl Figures {
    pub(super) fn of_floor(took: Duration, server: Load) -> Self {
        Self {
            took,
            half: took / 2,
            usage: None,
            server,
        }
    }

    /// Subtracts the CPU time that the process had used before the run.
    pub(super) fn without_cpu(self, before: Duration) -> Self {
        let usage = self.usage.map(|usage| ProcessUsage {
            cpu: usage.cpu.saturating_sub(before),
            ..usage
        });
        Self { usage, ..self }
    }
}

impl Results {
    pub(super) fn of(&mut self, who: Who) -> &mut Vec<Figures> {
        match who {
            Who::Ours => &mut self.ours,
            Who::Before => &mut self.before,
            Who::Theirs => &mut self.theirs,
        }
    }

    /// Prints the table; `ours` names our binary.
    pub(super) fn print(&self, title: &str, ours: &str) {
        let runs = self.ours.len();
        println!("\n{title}, {runs} alternating runs, medians\n");
        println!(
            "| | time (all runs) | half done | × floor | RSS | peak | CPU | API server's CPU (all runs) | peak | requests | bytes |\n\
             |---|---|---|---|---|---|---|---|---|---|---|"
        );
        for (name, runs) in [
            ("floor", &self.floor),
            (ours, &self.ours),
            ("before", &self.before),
            ("kube-controller-manager", &self.theirs),
        ] {
            if !runs.is_empty() {
                println!("{}", self.line(name, runs));
            }
        }
        println!();
    }

    fn line(&self, name: &str, runs: &[Figures]) -> String {
        let took = median_time(runs);
        let half = median(runs, |run| run.half).unwrap_or_default();
        let ratio = median(&self.floor, |run| run.took).map_or_else(String::new, |floor| {
            format!("{:.2}", took.div_duration_f64(floor))
        });
        let rss = usage(runs, |usage| usage.rss).map_or_else(String::new, mebibytes);
        let peak = usage(runs, |usage| usage.peak_rss).map_or_else(String::new, mebibytes);
        let cpu = usage(runs, |usage| usage.cpu)
            .map_or_else(String::new, |cpu| format!("{:.2} s", cpu.as_secs_f64()));
        let server = |by: fn(&Load) -> u64| median(runs, |run| by(&run.server)).unwrap_or_default();
        format!(
            "| {name} | {:.1} s ({}) | {:.1} s | {ratio} | {rss} | {peak} | {cpu} | {:.1} s ({}) | {} | {} | {} |",
            took.as_secs_f64(),
            each(runs, |run| run.took),
            half.as_secs_f64(),
            server_cpu(runs).as_secs_f64(),
            each(runs, |run| run.server.cpu),
            mebibytes(server(|load| load.peak_rss)),
            server(|load| load.requests),
            mebibytes(server(|load| load.bytes)),
        )
    }

    /// Our time is at most `factor` of the floor's.
    pub(super) fn within_floor(&self, factor: f64, bars: &mut Bars) {
        let ratio = median_time(&self.ours).div_duration_f64(median_time(&self.floor));
        bars.judge(&format!("at most {factor} × floor"), ratio <= factor);
    }

    /// Our resident memory is at most `mib` MiB.
    pub(super) fn within_memory(&self, mib: u64, bars: &mut Bars) {
        let rss = usage(&self.ours, |usage| usage.rss);
        let met = rss.is_some_and(|rss| rss <= mib << 20);
        bars.judge(&format!("at most {mib} MiB of RSS"), met);
    }

    /// Our peak of resident memory is at most `mib` MiB.
    pub(super) fn within_peak(&self, mib: u64, bars: &mut Bars) {
        let peak = usage(&self.ours, |usage| usage.peak_rss);
        let met = peak.is_some_and(|peak| peak <= mib << 20);
        bars.judge(&format!("a peak of at most {mib} MiB of RSS"), met);
    }

    /// Our time is at most `seconds`.
    pub(super) fn within_time(&self, seconds: f64, bars: &mut Bars) {
        let met = median_time(&self.ours).as_secs_f64() <= seconds;
        bars.judge(&format!("at most {seconds} s"), met);
    }

    /// Our CPU time is at most `seconds`.
    pub(super) fn within_cpu(&self, seconds: f64, bars: &mut Bars) {
        let cpu = usage(&self.ours, |usage| usage.cpu);
        let met = cpu.is_some_and(|cpu| cpu.as_secs_f64() <= seconds);
        bars.judge(&format!("at most {seconds} s of CPU"), met);
    }

    /// Our time is at most `factor` of kube-controller-manager's, if it ran.
    pub(super) fn within_their_time(&self, factor: f64, bars: &mut Bars) {
        if !self.theirs.is_empty() {
            let ratio = median_time(&self.ours).div_duration_f64(median_time(&self.theirs));
            bars.judge(
                &format!("at most {factor} of kube-controller-manager's time"),
                ratio <= factor,
            );
        }
    }

    /// The API server spends no more CPU time on ours than on kube-controller-manager, if that ran.
    pub(super) fn within_their_load(&self, bars: &mut Bars) {
        if !self.theirs.is_empty() {
            let met = server_cpu(&self.ours) <= server_cpu(&self.theirs);
            bars.judge("no more CPU of the API server than kube-controller-manager", met);
        }
    }
}

impl Bars {
    /// Prints and records whether a bar is met.
    pub(super) fn judge(&mut self, name: &str, met: bool) {
        println!("{} {name}", if met { "met:   " } else { "MISSED:" });
        if !met {
            self.0.push(name.to_owned());
        }
    }

    /// Fails with the missed bars.
    pub(super) fn verdict(self) -> anyhow::Result<()> {
        ensure!(self.0.is_empty(), "missed: {}", self.0.join(", "));
        Ok(())
    }
}

/// The median of `values` by `by`; `None` without values.
pub(super) fn median<T, K: Ord + Copy>(values: &[T], by: impl Fn(&T) -> K) -> Option<K> {
    let mut keys: Vec<K> = values.iter().map(by).collect();
    keys.sort_unstable();
    keys.get(keys.len() / 2).copied()
}

pub(super) fn median_time(runs: &[Figures]) -> Duration {
    median(runs, |run| run.took).unwrap_or_default()
}

/// Seconds of each run.
fn each(runs: &[Figures], by: impl Fn(&Figures) -> Duration) -> String {
    let seconds: Vec<String> = runs
        .iter()
        .map(|run| format!("{:.1}", by(run).as_secs_f64()))
        .collect();
    seconds.join(", ")
}

fn server_cpu(runs: &[Figures]) -> Duration {
    median(runs, |run| run.server.cpu).unwrap_or_default()
}

fn usage<K: Ord + Copy>(runs: &[Figures], by: impl Fn(&ProcessUsage) -> K) -> Option<K> {
    let usages: Vec<ProcessUsage> = runs.iter().filter_map(|run| run.usage).collect();
    median(&usages, by)
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: u64) -> Figures {
        Figures {
            took: Duration::from_secs(seconds),
            half: Duration::from_secs(1),
            usage: Some(ProcessUsage {
                rss: 3 << 19,
                peak_rss: 2 << 20,
                threads: 3,
                cpu: Duration::from_millis(400),
            }),
            server: Load {
                cpu: Duration::from_millis(1500),
                peak_rss: 3 << 20,
                requests: 7,
                bytes: 5 << 19,
            },
        }
    }

    #[test]
    fn a_line_has_medians_and_the_times_of_all_runs() {
        let results = Results {
            floor: vec![run(2)],
            ours: vec![run(4), run(2), run(3)],
            ..Results::default()
        };
        assert_eq!(
            results.line("ours", &results.ours),
            "| ours | 3.0 s (4.0, 2.0, 3.0) | 1.0 s | 1.50 | 1.5 MiB | 2.0 MiB | 0.40 s | 1.5 s (1.5, 1.5, 1.5) | 3.0 MiB | 7 | 2.5 MiB |"
        );
    }

    #[test]
    fn a_missed_bar_fails_the_row() {
        let results = Results {
            floor: vec![run(2)],
            ours: vec![run(3)],
            ..Results::default()
        };
        let mut bars = Bars::default();
        results.within_floor(1.5, &mut bars);
        results.within_memory(2, &mut bars);
        assert!(bars.verdict().is_ok());
        let mut bars = Bars::default();
        results.within_floor(1.4, &mut bars);
        results.within_memory(1, &mut bars);
        assert_eq!(
            bars.verdict().unwrap_err().to_string(),
            "missed: at most 1.4 × floor, at most 1 MiB of RSS"
        );
    }
}
