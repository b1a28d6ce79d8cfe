//! Counts that a test gives to `cargo xtask test`, which prints them by binary.

use std::fs::OpenOptions;
use std::io::Write;

/// Variable with the file that holds the counts.
const FILE: &str = "TEST_TALLY";

/// Adds `number` to the count `name` of the test binary; does nothing outside `cargo xtask test`.
pub fn tally(name: &str, number: u128) {
    if let Some(path) = std::env::var_os(FILE)
        && let Ok(mut file) = OpenOptions::new().append(true).open(path)
    {
        // One write a line, as other tests write at the same time. A lost count fails no test.
        let _ = file.write_all(format!("{name} {number}\n").as_bytes());
    }
}
