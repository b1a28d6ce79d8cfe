//! What Prometheus would scrape from the replicas of a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

/// Scrape interval.
pub(crate) const INTERVAL: Duration = Duration::from_secs(30);

/// The samples of each series, one per scrape.
pub(crate) struct Recording {
    /// The words of the rules.
    words: BTreeSet<String>,
    series: BTreeMap<String, Vec<String>>,
    scrapes: usize,
}

impl Recording {
    /// Records the metrics that occur in these rules.
    pub(crate) fn for_rules(rules: &str) -> Self {
        let words = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        Self {
            words: words.map(str::to_owned).collect(),
            series: BTreeMap::new(),
            scrapes: 0,
        }
    }

    /// Scrapes these targets: instance of `job` and text of its `/metrics`. The series of a target that is no longer
    /// among them end.
    pub(crate) fn scrape(&mut self, job: &str, targets: impl IntoIterator<Item = (String, String)>) {
        for (instance, answer) in targets {
            let target = format!("job=\"{job}\",instance=\"{instance}\"");
            self.sample(format!("up{{{target}}}"), "1");
            for line in answer.lines().filter(|line| !line.starts_with('#')) {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap_or_default();
                if !self.words.contains(name) {
                    continue;
                }
                let labelled = match series.split_once('{') {
                    Some((name, labels)) => format!("{name}{{{target},{labels}"),
                    None => format!("{series}{{{target}}}"),
                };
                self.sample(labelled, value);
            }
        }
        self.scrapes += 1;
        for samples in self
            .series
            .values_mut()
            .filter(|samples| samples.len() < self.scrapes)
        {
            // Prometheus marks the end of a series once and writes nothing after it.
            let is_over = samples.last().is_some_and(|last| last == "stale" || last == "_");
            samples.push(if is_over { "_" } else { "stale" }.to_owned());
        }
    }

    /// Repeats the last scrape for so long.
    pub(crate) fn stay(&mut self, time: Duration) {
        let scrapes = time.as_secs() / INTERVAL.as_secs();
        self.scrapes += usize::try_from(scrapes).unwrap();
        for samples in self.series.values_mut() {
            let last = samples.last().filter(|last| *last != "stale");
            let last = last.map_or("_", String::as_str).to_owned();
            samples.resize(self.scrapes, last);
        }
    }

    fn sample(&mut self, series: String, value: &str) {
        let samples = self.series.entry(series).or_default();
        samples.resize(self.scrapes, "_".to_owned());
        samples.push(value.to_owned());
    }

    /// `input_series` for promtool.
    pub(crate) fn input_series(&self) -> Vec<Value> {
        let series = self.series.iter();
        series
            .map(|(series, samples)| json!({"series": series, "values": samples.join(" ")}))
            .collect()
    }

    /// Time from the first scrape to the last.
    pub(crate) fn took(&self) -> Duration {
        INTERVAL * u32::try_from(self.scrapes.saturating_sub(1)).unwrap()
    }
}

#[test]
fn a_series_begins_and_ends_with_its_target() {
    let scrape = |depth| format!("# TYPE depth gauge\ndepth{{name=\"q\"}} {depth}\nleft_out 5\n");
    let target = |instance: &str, depth| (instance.to_owned(), scrape(depth));
    let mut recording = Recording::for_rules("depth > 1 and up == 1");
    recording.scrape("c", [target("a", 1)]);
    recording.scrape("c", [target("a", 2), target("b", 7)]);
    recording.scrape("c", [target("b", 8)]);
    recording.scrape("c", [target("b", 9)]);
    assert_eq!(
        json!(recording.input_series()),
        json!([
            {"series": "depth{job=\"c\",instance=\"a\",name=\"q\"}", "values": "1 2 stale _"},
            {"series": "depth{job=\"c\",instance=\"b\",name=\"q\"}", "values": "_ 7 8 9"},
            {"series": "up{job=\"c\",instance=\"a\"}", "values": "1 1 stale _"},
            {"series": "up{job=\"c\",instance=\"b\"}", "values": "_ 1 1 1"},
        ])
    );
    assert_eq!(recording.took(), Duration::from_secs(90));
    recording.stay(Duration::from_secs(65));
    assert_eq!(recording.took(), Duration::from_secs(150));
    let up = recording.input_series();
    let up = up.iter().map(|series| series["values"].clone());
    assert_eq!(up.skip(2).collect::<Vec<_>>(), ["1 1 stale _ _ _", "_ 1 1 1 1 1"]);
}
