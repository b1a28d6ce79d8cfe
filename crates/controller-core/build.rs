//! Tells the crate which commit it is built from: [`COMMIT`](../src/args/mod.rs).

#![allow(clippy::print_stdout, reason = "that is how cargo is told")]

use std::env;
use std::process::Command;

/// Names the commit where there is no checkout, or one that has more to say than its commit. Images set it.
const VARIABLE: &str = "BUILD_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let commit = env::var(VARIABLE).ok().or_else(checked_out);
    println!(
        "cargo::rustc-env={VARIABLE}={}",
        commit.as_deref().unwrap_or("unknown")
    );
}

/// The commit of the checkout, for a release: other builds would all be made anew after every commit.
fn checked_out() -> Option<String> {
    if env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        return None;
    }
    // Written whenever another commit is checked out or made.
    println!(
        "cargo::rerun-if-changed={}",
        git(&["rev-parse", "--git-path", "logs/HEAD"])?
    );
    git(&["rev-parse", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
