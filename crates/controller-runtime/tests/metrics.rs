//! All families of the crate, as `promtool` sees them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::io::Write;
use std::process::{Command, Stdio};

use std::time::Duration;

use controller_core::rival::undone_total;
use controller_core::workqueue::QueueMetrics;
use controller_runtime::api::metrics::RequestMetrics;
use controller_runtime::events::EventMetrics;
use controller_runtime::informer::InformerMetrics;
use controller_runtime::leader::ElectionMetrics;
use controller_runtime::metrics::{Build, Metrics, SyncFailures, encode};
use jiff::Timestamp;

#[test]
fn promtool_has_nothing_to_say_about_the_metrics() {
    let metrics = Metrics::new(Build {
        version: "1.2.3",
        commit: "abc",
    })
    .unwrap();
    metrics.planned_writes().count("patch_node");
    let registry = metrics.registry();
    EventMetrics::register(registry).unwrap();
    undone_total(registry).unwrap();
    let requests = RequestMetrics::register(registry).unwrap();
    requests.certificate_expires(Timestamp::UNIX_EPOCH);
    InformerMetrics::register(registry).unwrap().for_resource("nodes");
    ElectionMetrics::register(registry, "test").unwrap();
    SyncFailures::register(registry).unwrap();
    QueueMetrics::register(registry, || Duration::ZERO, "one").unwrap();
    QueueMetrics::register(registry, || Duration::ZERO, "two").unwrap();
    let text = encode(metrics.registry()).unwrap();

    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match promtool {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: promtool is not on the PATH");
            return;
        }
        Err(error) => panic!("start promtool: {error}"),
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
        "{}{}\nin\n{text}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
