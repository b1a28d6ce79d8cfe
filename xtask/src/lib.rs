//! Shared parts of `cargo xtask` and its larger tools: other programs, the steps of a tool, and the demo.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for a terminal: what it prints is its result"
)]

pub mod command;
pub mod demo;
pub mod steps;

use std::process::ExitCode;

/// The controllers by name, which is also the name of crate, binary, image, chart and tags. Everything here and the
/// tests of the charts iterate over these.
pub const CONTROLLERS: [&str; 5] = [
    "disruption-controller",
    "resourceclaim-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
    "ttl-controller",
];

/// Exit code of a tool; prints an error to standard error.
pub fn exit(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not with `Debug`: another program failed, and a backtrace of this one would hide its message.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_of_a_controller_is_listed() {
        let crates = command::crates().unwrap();
        let names = crates.iter().map(|folder| command::name(folder));
        let there: Vec<_> = names.filter(|name| name.ends_with("-controller")).collect();
        assert_eq!(there, CONTROLLERS);
    }

    #[test]
    fn every_controller_has_a_scene_in_the_demo() {
        let scenes = command::root().join("crates/demo/src/scenes");
        for controller in CONTROLLERS {
            let scene = controller.trim_end_matches("-controller").replace('-', "_") + ".rs";
            assert!(
                scenes.join(&scene).exists(),
                "crates/demo/src/scenes has no {scene}"
            );
        }
    }

    #[test]
    fn every_document_that_lists_the_controllers_has_all() {
        let documents = [
            ".github/ISSUE_TEMPLATE/bug.yml",
            "README.md",
            "SECURITY.md",
            "docs/deviations.md",
            "docs/flags.md",
            "docs/operations.md",
            "docs/performance.md",
        ];
        for document in documents {
            let text = std::fs::read_to_string(command::root().join(document)).unwrap();
            for controller in CONTROLLERS {
                assert!(text.contains(controller), "{document} does not name {controller}");
            }
        }
    }
}
