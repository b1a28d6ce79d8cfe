//! `cargo xtask ci`: every check for a change, cheapest first. Stops at the first failure; a nightly run goes on.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use xtask::CONTROLLERS;
use xtask::steps::Steps;

use crate::command::{self, cargo, root, run as run_command};
use crate::kubernetes::Release;
use crate::{control_plane, kubernetes, rules, schema, test};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also what takes long or much memory: many more property test cases, the largest cluster, the bars of rolling
    /// upgrades and of the benches
    #[arg(long)]
    nightly: bool,
}

/// Cases of each property test in a nightly run; 256 otherwise.
const NIGHTLY_CASES: u32 = 4096;

/// The seed of the property tests for a change, which must not fail by what another change drew; a nightly run draws one.
const PROPERTY_SEED: u64 = 1;

/// Seeds of each suite of fault histories in a nightly run; 50 otherwise.
const NIGHTLY_SEEDS: u64 = 1000;

/// A named check.
type Step = (&'static str, fn(&Args) -> Result<()>);

const STEPS: [Step; 7] = [
    ("format", |_| run_command(&mut cargo(["fmt", "--all", "--check"]))),
    ("spelling", spelling),
    ("rules", |_| rules::run(&rules::Args { check: true })),
    ("charts", |_| run_command(command::tool("charts").arg("--check"))),
    ("workflows", workflows),
    ("licenses", licenses),
    ("schema", |_| schema::run(&schema::Args { check: true })),
];

/// Run next to the tests, at low priority: live tests leave cores idle.
const NEXT_TO_TESTS: [Step; 3] = [("lints", lints), ("docs", docs), ("crates alone", crates_alone)];

const NIGHTLY_STEPS: [Step; 9] = [
    ("releases of Kubernetes", |_| kubernetes::check()),
    ("embedded API server as a package", package),
    ("live tests on older releases", older_releases),
    ("images", images),
    ("largest cluster", largest_cluster),
    ("its evictions", evictions_of_the_largest),
    ("budgets of large clusters", budgets_of_large_clusters),
    ("rolling upgrades", rolling_upgrades),
    ("benches (cargo xtask bench)", benches),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let (mut steps, mut next_to_tests) = (Steps::default(), Steps::default());
    let outcome = std::thread::scope(|scope| {
        // Go and cargo both have phases that leave a core idle. The tests say what is wrong with the control plane.
        scope.spawn(control_plane::assets);
        run_all(&mut steps, &STEPS, args)?;
        let checks = || run_all(&mut next_to_tests, &NEXT_TO_TESTS, args);
        let tested = steps.run("tests (cargo xtask test)", || tests(args, checks));
        if !args.nightly {
            return tested;
        }
        let outcomes = [tested, run_all(&mut steps, &NIGHTLY_STEPS, args)];
        outcomes.into_iter().collect()
    });
    steps.append(next_to_tests);
    println!("\n{steps}");
    outcome
}

/// Stops at the first failure; a nightly run goes on, as one that fails must not hide what the others find.
fn run_all(steps: &mut Steps, all: &[Step], args: &Args) -> Result<()> {
    let mut run = |(name, step): &Step| steps.run(name, || step(args));
    if !args.nightly {
        return all.iter().try_for_each(run);
    }
    let failed = all
        .iter()
        .filter(|step| run(step).inspect_err(|error| println!("{error:#}")).is_err());
    match failed.count() {
        0 => Ok(()),
        failed => bail!("{failed} steps failed"),
    }
}

/// Spelling, with the rules in `[workspace.metadata.typos]` in Cargo.toml.
fn spelling(_: &Args) -> Result<()> {
    run_command(Command::new("typos").current_dir(root()))
        .context("typos comes with `cargo install --locked typos-cli`, or with `pip install typos`")
}

/// Workflows that GitHub would refuse or misread.
fn workflows(_: &Args) -> Result<()> {
    let mut lint = Command::new("actionlint");
    // actionlint would call these if installed, and each of their versions finds other things.
    lint.args(["-shellcheck=", "-pyflakes="]).current_dir(root());
    run_command(&mut lint)
        .context("actionlint comes with `go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12`")
}

/// Licences, sources and versions of the dependencies; see deny.toml. Leaves out advisories: a new one would fail an
/// unrelated change.
fn licenses(_: &Args) -> Result<()> {
    run_command(&mut cargo(["deny", "check", "bans", "licenses", "sources"]))
        .context("cargo-deny comes with `cargo install --locked cargo-deny`")
}

fn lints(_: &Args) -> Result<()> {
    let mut clippy = cargo(["clippy", "--locked", "--workspace", "--all-targets"]);
    run_command(clippy.args(["--", "-D", "warnings"]))
}

fn docs(_: &Args) -> Result<()> {
    let mut doc = cargo(["doc", "--workspace", "--no-deps"]);
    run_command(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// In a build of the whole workspace, a crate could use a feature that only another crate enables. The library of a
/// controller is pure: it compiles where there is no client and no runtime.
fn crates_alone(_: &Args) -> Result<()> {
    for folder in command::crates()? {
        run_command(&mut cargo(["check", "--package", &command::name(&folder)]))?;
    }
    CONTROLLERS.iter().try_for_each(|controller| {
        run_command(&mut cargo([
            "check",
            "--package",
            controller,
            "--lib",
            "--no-default-features",
        ]))
    })
}

/// The embedded API server is for others, too: it builds without this workspace.
fn package(_: &Args) -> Result<()> {
    run_command(&mut cargo([
        "publish",
        "--dry-run",
        "--allow-dirty",
        "--package",
        "embedded-apiserver",
    ]))
}

fn tests(args: &Args, checks: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    let args = test::Args {
        property_cases: args.nightly.then_some(NIGHTLY_CASES),
        property_seed: (!args.nightly).then_some(PROPERTY_SEED),
        fault_seeds: if args.nightly {
            Some(seeds_of_the_commit()?)
        } else {
            None
        },
        long: args.nightly,
        again: args.nightly,
        kubernetes: None,
    };
    test::run_next_to(&args, checks)
}

/// Seeds that no earlier commit had, and that this one always has.
fn seeds_of_the_commit() -> Result<String> {
    let commit = command::output(Command::new("git").args(["rev-parse", "--short=8", "HEAD"]))?;
    let digits = commit
        .trim()
        .get(..8)
        .context("git rev-parse: fewer than 8 digits")?;
    let from = u64::from_str_radix(digits, 16).with_context(|| format!("git rev-parse: {commit}"))?;
    Ok(format!("{from}..{}", from + NIGHTLY_SEEDS))
}

/// The live tests on the older supported releases; all other runs use the newest.
fn older_releases(_: &Args) -> Result<()> {
    let supported = kubernetes::supported()?;
    let (_, older) = supported.split_last().context("no release is supported")?;
    let run = |release: &Release| {
        test::run(&test::Args {
            property_cases: None,
            property_seed: Some(PROPERTY_SEED),
            fault_seeds: None,
            long: false,
            again: true,
            kubernetes: Some(release.version.clone()),
        })
    };
    let failed = older.iter().filter_map(|release| {
        let error = run(release).err()?;
        Some(format!("{}: {error:#}", release.version))
    });
    let failed: Vec<_> = failed.collect();
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// The image of each controller: written, read back, and run in an empty root.
fn images(_: &Args) -> Result<()> {
    let output = tempfile::tempdir().context("create a directory for images")?;
    let mut build = command::tool("image");
    build.arg("--output");
    run_command(build.arg(output.path()).args(CONTROLLERS))?;
    let assets = control_plane::assets()?;
    let mut verify = command::tool("verify-image");
    let tars = CONTROLLERS
        .iter()
        .map(|name| output.path().join(format!("{name}.tar")));
    run_command(verify.args(tars).env("KUBEBUILDER_ASSETS", assets))
}

/// 5,000 nodes and 150,000 pods on the embedded API server: time and memory.
fn largest_cluster(_: &Args) -> Result<()> {
    let test = ["test", "--package", "embedded-apiserver", "--test", "scale"];
    run_command(cargo(test).args(["--", "--ignored", "--nocapture"]))
}

/// The released taint-eviction-controller on that cluster: memory with 50,000 pods to evict.
fn evictions_of_the_largest(_: &Args) -> Result<()> {
    scale("taint-eviction-controller", "TAINT_EVICTION_CONTROLLER_BINARY")
}

/// The released disruption-controller: memory with 1,000 budgets over 50,000 pods, and the cost of a change next to 500
/// budgets that no index finds.
fn budgets_of_large_clusters(_: &Args) -> Result<()> {
    scale("disruption-controller", "DISRUPTION_CONTROLLER_BINARY")
}

/// The scale tests of a controller, one after the other, as each needs the whole machine. They find the release binary
/// in `variable`.
fn scale(controller: &str, variable: &str) -> Result<()> {
    let binary = command::release_binary(controller)?;
    let mut test = cargo(["test", "--package", controller, "--test", "scale"]);
    test.args(["--", "--ignored", "--nocapture", "--test-threads=1"]);
    run_command(test.env(variable, binary))
}

/// Twenty upgrades of two released replicas with constant writes: how long nobody writes.
fn rolling_upgrades(_: &Args) -> Result<()> {
    let assets = control_plane::assets()?;
    for (controller, variable) in [
        ("disruption-controller", "DISRUPTION_CONTROLLER_BINARY"),
        ("taint-eviction-controller", "TAINT_EVICTION_CONTROLLER_BINARY"),
    ] {
        let binary = command::release_binary(controller)?;
        let mut test = cargo([
            "test",
            "--package",
            controller,
            "--test",
            "live",
            "rolling_upgrades",
        ]);
        test.args(["--", "--ignored", "--nocapture"])
            .env(variable, binary)
            .env("UPGRADES", "20")
            .env("KUBEBUILDER_ASSETS", &assets);
        run_command(&mut test)?;
    }
    Ok(())
}

/// Time and memory against the bars, on the real control plane.
fn benches(_: &Args) -> Result<()> {
    let assets = control_plane::assets()?;
    let rows = CONTROLLERS.map(|name| name.trim_end_matches("-controller"));
    run_command(
        command::tool("bench")
            .args(rows)
            .env("KUBEBUILDER_ASSETS", assets),
    )
}
