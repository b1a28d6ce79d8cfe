//! The logger and the panic hook are global to a process, so the test starts its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::process::Command;

use controller_core::config::LogFormat;
use controller_runtime::clock::Clock;
use controller_runtime::telemetry;
use prometheus::IntCounter;

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn child() {
    let panics = IntCounter::new("tasks_panicked_total", "Panics.").unwrap();
    telemetry::init(Some(LogFormat::Json), "info", &Clock::system(), panics.clone()).unwrap();
    for message in ["first", "second"] {
        std::thread::spawn(move || panic!("the {message} panic"))
            .join()
            .unwrap_err();
    }
    tracing::info!(panics = panics.get(), "still here");
    telemetry::init(None, "info", &Clock::system(), panics).unwrap_err();
}

#[test]
fn a_panic_is_one_line_of_the_log_and_is_counted() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child", "--nocapture"])
        .env_remove("RUST_BACKTRACE")
        .env_remove("RUST_LIB_BACKTRACE")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let lines: Vec<serde_json::Value> = stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    let said: Vec<_> = lines
        .iter()
        .map(|line| line["message"].as_str().unwrap())
        .collect();
    assert_eq!(
        said,
        [
            "panicked: the first panic",
            "panicked: the second panic",
            "still here"
        ]
    );
    assert_eq!(lines[0]["level"], "ERROR");
    assert!(
        lines[0]["location"]
            .as_str()
            .unwrap()
            .contains("tests/telemetry.rs:")
    );
    assert!(lines[0].get("backtrace").is_none());
    assert_eq!(lines[2]["panics"], 2);
}
