//! Test binaries that passed before with the same content are not run again.
//!
//! The content of a run is a text, a line each: the hashes of the test binary, of the programs that it may start and of
//! the files that it may read, its arguments, its variables and its tools. The last run that passed is kept in
//! `test-results/` of the target directory, with its output.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, ensure};

use super::binary::{Binary, Built, Program};
use super::pool;
use crate::command::{self, git, name, root};

/// Programs that tests find in the `PATH`.
const IN_PATH: [&str; 5] = ["git", "helm", "kubectl", "openssl", "promtool"];
/// The crate whose tests start the programs of others.
const DEMO: &str = "demo";
/// Texts and charts. The tests of `crates/` read only those that their sources name.
const TEXTS: [&str; 6] = [
    ".github",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "charts",
    "docs",
];

/// The runs that passed before, and the content of this one.
pub(super) struct Passed<'a> {
    folder: PathBuf,
    /// Git's hash by absolute path.
    hashes: BTreeMap<PathBuf, String>,
    programs: &'a [Program],
    /// The files of [`TEXTS`] that no test of `crates/` reads.
    unread: BTreeSet<PathBuf>,
    /// The variables of this process that the sources of the workspace name.
    variables: Vec<String>,
}

impl<'a> Passed<'a> {
    /// Hashes what is built, and all files that Git knows or does not ignore.
    pub(super) fn of(built: &'a Built) -> Result<Self> {
        let listed = command::output(&mut git([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let files = listed.lines().map(|line| root().join(line));
        // Git lists a file that is deleted.
        let mut paths: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
        let (variables, unread) = (named_in(&paths)?, unread(&paths)?);
        paths.extend(built.tests.iter().map(|binary| binary.executable.clone()));
        paths.extend(built.programs.iter().map(|program| program.executable.clone()));
        Ok(Self {
            folder: command::target_dir().join("test-results"),
            hashes: hashes(paths)?,
            programs: &built.programs,
            unread,
            variables,
        })
    }

    /// What the run of `binary` by `tests` depends on.
    pub(super) fn content(&self, binary: &Binary, tests: &Command) -> String {
        let arguments = tests
            .get_args()
            .map(|argument| format!("argument {}", argument.display()));
        let set = tests
            .get_envs()
            .filter(|(name, _)| *name != pool::DIR)
            .filter_map(|(name, value)| Some(format!("variable {} {}", name.display(), value?.display())));
        let used = self.hashes.iter().filter(|(path, _)| self.may_use(binary, path));
        let files = used.map(|(path, hash)| format!("file {} {hash}", path.display()));
        let lines = arguments.chain(set).chain(self.variables.iter().cloned());
        let lines = lines.chain(tools(tests)).chain(files);
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Whether this is the test binary, or a program or file that its tests may use. The sources of other crates are in
    /// the binary.
    fn may_use(&self, binary: &Binary, path: &Path) -> bool {
        let crates = root().join("crates");
        let alone = binary.folder.starts_with(&crates) && name(&binary.folder) != DEMO;
        if let Some(program) = self.programs.iter().find(|program| program.executable == path) {
            return !alone || program.folder == binary.folder;
        }
        if !path.starts_with(root()) || path.starts_with(command::target_dir()) {
            return path == binary.executable;
        }
        let of_others = path.starts_with(&crates) || path.starts_with(root().join("xtask"));
        let own = [&binary.folder, &binary.sources];
        own.iter().any(|folder| path.starts_with(folder))
            || !(alone && (of_others || self.unread.contains(path)))
    }

    /// The output of the last run, if it passed with this content.
    pub(super) fn find(&self, binary: &Binary, content: &str) -> Option<String> {
        let last = fs::read_to_string(self.file(binary, "content")).ok()?;
        (last == content).then(|| fs::read_to_string(self.file(binary, "output")).ok())?
    }

    /// Keeps the output of a run, if it passed.
    pub(super) fn keep(&self, binary: &Binary, content: &str, output: Option<&str>) -> Result<()> {
        let write = |kind, text| {
            let file = self.file(binary, kind);
            fs::write(&file, text).with_context(|| format!("write {}", file.display()))
        };
        fs::create_dir_all(&self.folder).with_context(|| format!("create {}", self.folder.display()))?;
        // A run that is interrupted here leaves a content that fits no run.
        write("content", "")?;
        if let Some(output) = output {
            write("output", output)?;
            write("content", content)?;
        }
        Ok(())
    }

    fn file(&self, binary: &Binary, kind: &str) -> PathBuf {
        // Cargo's name of it is unique: a package may have two targets of one name.
        self.folder.join(format!("{}.{kind}", name(&binary.executable)))
    }
}

/// The text of the Rust sources among `files` below `folder`.
fn sources(files: &[PathBuf], folder: &Path) -> Result<String> {
    let rust = files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    rust.filter(|file| file.starts_with(folder))
        .map(|file| fs::read_to_string(file).with_context(|| format!("read {}", file.display())))
        .collect()
}

/// The [`TEXTS`] among `files` to which no source of `crates/` leads, by their own path or by that of a folder in `charts`
/// or `docs`.
fn unread(files: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let sources = sources(files, &root().join("crates"))?;
    let leading: String = sources.lines().filter(|line| line.contains("../../")).collect();
    let is_unread = |file: &Path| {
        let path = file.strip_prefix(root()).unwrap_or(file);
        let mut places = path.ancestors().filter(|place| place.components().count() > 1);
        TEXTS.iter().any(|text| path.starts_with(text))
            && !places.any(|place| leading.contains(&*place.to_string_lossy()))
    };
    Ok(files.iter().filter(|file| is_unread(file)).cloned().collect())
}

/// The variables of this process whose names are in quotes in the Rust sources among `files`, and those of proptest.
fn named_in(files: &[PathBuf]) -> Result<Vec<String>> {
    let sources = sources(files, Path::new("/"))?;
    let mut variables: Vec<String> = std::env::vars_os()
        .filter(|(name, _)| {
            let name = name.to_string_lossy();
            let is_named = name.starts_with("PROPTEST_") || sources.contains(&format!("\"{name}\""));
            // What it leads to counts as tools.
            is_named && name != "PATH"
        })
        .map(|(name, value)| format!("variable {} {}", name.display(), value.display()))
        .collect();
    variables.sort();
    Ok(variables)
}

/// Git's hash of each file.
fn hashes(paths: Vec<PathBuf>) -> Result<BTreeMap<PathBuf, String>> {
    let mut list = tempfile::tempfile()?;
    for path in &paths {
        writeln!(list, "{}", path.display())?;
    }
    list.rewind()?;
    let mut hash = git(["hash-object", "--no-filters", "--stdin-paths"]);
    let hashed = command::output(hash.stdin(list))?;
    let hashed: Vec<String> = hashed.lines().map(str::to_owned).collect();
    ensure!(hashed.len() == paths.len(), "git hash-object leaves out a file");
    Ok(paths.into_iter().zip(hashed).collect())
}

/// Each program that `tests` find, with its size and time.
fn tools(tests: &Command) -> Vec<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = IN_PATH.iter().filter_map(|program| {
        let mut found = std::env::split_paths(&path).map(|folder| folder.join(program));
        found.find(|program| program.is_file())
    });
    let named = |variable: &str| {
        let mut variables = tests.get_envs();
        let found = variables.find(|(name, _)| *name == variable);
        found.and_then(|(_, value)| value.map(PathBuf::from))
    };
    let assets = named("KUBEBUILDER_ASSETS").and_then(|assets| assets.read_dir().ok());
    let assets = assets.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut tools: Vec<String> = in_path
        .chain(named("HELM"))
        .chain(assets)
        .filter_map(|tool| stamp(&tool))
        .collect();
    tools.sort();
    tools
}

fn stamp(tool: &Path) -> Option<String> {
    let metadata = File::open(tool).and_then(|file| file.metadata()).ok()?;
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let (size, seconds) = (metadata.len(), modified.as_secs());
    metadata
        .is_file()
        .then(|| format!("tool {} {size} {seconds}", tool.display()))
}

#[cfg(test)]
mod tests {
    use super::super::binary::Live;
    use super::*;

    fn built(folder: &Path) -> Built {
        let package = |name: &str| root().join("crates").join(name);
        let programs = ["ttl-controller", "disruption-controller"].map(|name| Program {
            folder: package(name),
            executable: folder.join(name),
        });
        let tests = [
            ("ttl-controller", "ttl-controller", "live"),
            ("demo", "demo", "end_to_end"),
            ("controller-runtime", "controller-core", "event_loop"),
        ]
        .map(|(name, sources, target)| Binary {
            folder: package(name),
            sources: package(sources),
            target: target.to_owned(),
            executable: folder.join(target),
            live: Live::default(),
        });
        for file in programs.iter().map(|program| &program.executable) {
            fs::write(file, "").unwrap();
        }
        for file in tests.iter().map(|binary| &binary.executable) {
            fs::write(file, "").unwrap();
        }
        Built {
            tests: tests.to_vec(),
            programs: programs.to_vec(),
        }
    }

    /// The content of the test binaries of a controller, of the demo and of the core, without arguments.
    fn contents(folder: &Path) -> [String; 3] {
        let built = built(folder);
        let passed = Passed::of(&built).unwrap();
        [0, 1, 2].map(|number: usize| passed.content(&built.tests[number], &Command::new("true")))
    }

    #[test]
    fn a_run_depends_on_what_its_tests_may_use_and_on_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let [controller, demo, core] = contents(folder.path());
        let on = |content: &str, path: &Path| content.contains(&format!("file {} ", path.display()));
        for (path, of_controller, of_demo) in [
            ("docs/clean-up.md", true, true),
            ("docs/drain.md", false, true),
            ("README.md", false, true),
            ("charts/tests/ttl-controller/golden.yaml", true, true),
            ("charts/src/ttl-controller/rules.yaml", true, true),
            ("Cargo.lock", true, true),
            ("crates/ttl-controller/tests/rules.rs", true, true),
            ("crates/demo/Cargo.toml", false, true),
            ("crates/disruption-controller/src/lib.rs", false, true),
            ("xtask/src/main.rs", false, true),
        ] {
            let path = root().join(path);
            assert_eq!(
                (on(&controller, &path), on(&demo, &path)),
                (of_controller, of_demo),
                "{path:?}"
            );
        }
        // The tests of the core are built by the runtime.
        for (path, of_core) in [
            ("crates/controller-core/tests/proptest-regressions/sim.txt", true),
            ("crates/controller-runtime/tests/run.rs", true),
            ("crates/ttl-controller/tests/rules.rs", false),
        ] {
            assert_eq!(on(&core, &root().join(path)), of_core, "{path}");
        }
        for (program, of_controller, of_demo) in [
            ("live", true, false),
            ("end_to_end", false, true),
            ("ttl-controller", true, true),
            ("disruption-controller", false, true),
        ] {
            let path = folder.path().join(program);
            assert_eq!(
                (on(&controller, &path), on(&demo, &path)),
                (of_controller, of_demo),
                "{program}"
            );
        }
        assert!(controller.contains("\nvariable HOME "), "{controller}");
        assert!(!controller.contains("\nvariable PATH "), "{controller}");
        assert!(controller.contains("/git "), "{controller}");
    }

    #[test]
    fn a_run_is_kept_until_something_changes() {
        let folder = tempfile::tempdir().unwrap();
        let built = built(folder.path());
        let mut passed = Passed::of(&built).unwrap();
        passed.folder = folder.path().join("results");
        let [tests, other] = [0, 1].map(|number: usize| &built.tests[number]);
        let with = |argument: &str| {
            let mut run = Command::new("true");
            // Another one in each run of all tests.
            run.env(pool::DIR, argument).env("NAMED", "named");
            passed.content(tests, run.arg(argument))
        };
        let (one, two) = (with("1"), with("2"));
        assert_ne!(one, two);
        assert_eq!(one.replacen('1', "2", 1), two);
        assert!(one.contains("\nvariable NAMED named"), "{one}");

        assert_eq!(passed.find(tests, &one), None);
        passed.keep(tests, &one, Some("ok")).unwrap();
        assert_eq!(passed.find(tests, &one), Some("ok".to_owned()));
        assert_eq!(passed.find(tests, &two), None);
        assert_eq!(passed.find(other, &one), None);
        // It fails.
        passed.keep(tests, &one, None).unwrap();
        assert_eq!(passed.find(tests, &one), None);
    }

    #[test]
    fn a_variable_counts_if_a_source_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.rs");
        let variable = |file: &Path| named_in(&[file.to_owned()]).unwrap();
        fs::write(&file, "std::env::var(\"HOME\")").unwrap();
        assert!(
            variable(&file)
                .iter()
                .any(|line| line.starts_with("variable HOME "))
        );
        fs::write(&file, "HOME").unwrap();
        assert!(
            !variable(&file)
                .iter()
                .any(|line| line.starts_with("variable HOME "))
        );
    }
}
