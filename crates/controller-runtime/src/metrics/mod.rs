//! The registry behind `/metrics` and the families that belong to the process as a whole (CORE-9).

#[cfg(target_os = "linux")]
mod process;

use controller_core::metrics::register;
use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

/// The `Content-Type` of [`encode`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// The build of this binary, as `controller_build_info` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// The version of the release, for example `0.1.0`.
    pub version: &'static str,
    /// The commit that the binary was built from.
    pub commit: &'static str,
}

/// A registry with the metrics that every binary has: `process_*`, `controller_build_info`,
/// `tasks_panicked_total` and `controller_planned_writes_total`.
#[derive(Clone, Debug)]
pub struct Metrics {
    build: Build,
    registry: Registry,
    tasks_panicked: IntCounter,
    planned_writes: PlannedWrites,
}

/// `controller_planned_writes_total{action}`: what a dry run left undone (CORE-14).
#[derive(Clone, Debug)]
pub struct PlannedWrites(IntCounterVec);

/// `controller_sync_failures_total{reason}`.
#[derive(Clone, Debug)]
pub struct SyncFailures(IntCounterVec);

impl SyncFailures {
    /// Makes the family and registers it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let failures = Opts::new(
            "controller_sync_failures_total",
            "Number of syncs that failed, by reason.",
        );
        register(registry, IntCounterVec::new(failures, &["reason"])).map(Self)
    }

    /// Counts a failure; `reason` comes from a closed set.
    pub fn count(&self, reason: &'static str) {
        self.0.with_label_values(&[reason]).inc();
    }
}

impl Metrics {
    /// A new registry, with the shared families at zero.
    pub fn new(build: Build) -> prometheus::Result<Self> {
        let registry = Registry::new();
        #[cfg(target_os = "linux")]
        registry.register(Box::new(process::Process::this()))?;
        let build_info = IntGaugeVec::new(
            Opts::new("controller_build_info", "1, labelled with the build."),
            &["version", "commit"],
        );
        register(&registry, build_info)?
            .with_label_values(&[build.version, build.commit])
            .set(1);
        let tasks_panicked = IntCounter::new("tasks_panicked_total", "Panics in any task of the process.");
        let planned_writes = IntCounterVec::new(
            Opts::new(
                "controller_planned_writes_total",
                "Writes that were planned in a dry run and left undone.",
            ),
            &["action"],
        );
        Ok(Self {
            build,
            tasks_panicked: register(&registry, tasks_panicked)?,
            planned_writes: PlannedWrites(register(&registry, planned_writes)?),
            registry,
        })
    }

    /// The build passed to [`Metrics::new`].
    pub const fn build(&self) -> Build {
        self.build
    }

    /// The registry in which other modules register their families. A clone is the same registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// `tasks_panicked_total`, for the panic hook of [`crate::telemetry`].
    pub fn tasks_panicked(&self) -> &IntCounter {
        &self.tasks_panicked
    }

    /// The counter of writes left undone by a dry run.
    pub fn planned_writes(&self) -> &PlannedWrites {
        &self.planned_writes
    }
}

impl PlannedWrites {
    /// Shows a zero for each of `actions`, before any is counted.
    pub fn begin(&self, actions: &[&'static str]) {
        for action in actions {
            self.0.with_label_values(&[*action]);
        }
    }

    /// Counts a write that a dry run left undone. `action` names the kind of write, such as `annotate`, never an
    /// object.
    pub fn count(&self, action: &'static str) {
        self.0.with_label_values(&[action]).inc();
    }
}

/// All families of `registry` in Prometheus' text format 0.0.4.
pub fn encode(registry: &Registry) -> prometheus::Result<String> {
    TextEncoder::new().encode_to_string(&registry.gather())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD: Build = Build {
        version: "1.2.3",
        commit: "abc",
    };

    #[test]
    fn the_build_the_panics_and_the_planned_writes_are_shown() {
        let metrics = Metrics::new(BUILD).unwrap();
        metrics.tasks_panicked().inc();
        metrics.planned_writes().count("delete_job");
        metrics.planned_writes().count("delete_job");
        let text = encode(metrics.registry()).unwrap();
        for line in [
            "controller_build_info{commit=\"abc\",version=\"1.2.3\"} 1\n",
            "tasks_panicked_total 1\n",
            "controller_planned_writes_total{action=\"delete_job\"} 2\n",
        ] {
            assert!(text.contains(line), "{line:?} is missing in\n{text}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_metrics_have_the_names_that_dashboards_use() {
        let text = encode(Metrics::new(BUILD).unwrap().registry()).unwrap();
        let names: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("process_"))
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(
            names,
            [
                "process_cpu_seconds_total",
                "process_max_fds",
                "process_open_fds",
                "process_resident_memory_bytes",
                "process_start_time_seconds",
                "process_threads",
                "process_virtual_memory_bytes",
            ]
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cpu_time_is_counted_in_parts_of_a_second() {
        let metrics = Metrics::new(BUILD).unwrap();
        let cpu_seconds = || -> f64 {
            let text = encode(metrics.registry()).unwrap();
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix("process_cpu_seconds_total "));
            value.unwrap().parse().unwrap()
        };
        let first = cpu_seconds();
        let second = cpu_seconds();
        assert!(
            first < second && second < first + 1.0,
            "{first} s, then {second} s"
        );
    }

    #[test]
    fn a_name_cannot_be_registered_twice() {
        let metrics = Metrics::new(BUILD).unwrap();
        let again = IntCounter::new("tasks_panicked_total", "Again.");
        let error = register(metrics.registry(), again).unwrap_err();
        assert!(
            matches!(error, prometheus::Error::AlreadyReg),
            "unexpected: {error}"
        );
    }
}
