//! Types every command of a document verbatim, one after the other.
//!
//! There is no kubelet. After an install or an upgrade, the test starts what a pod would run, with the token of the
//! chart; it listens where the documents forward `localhost:8080` to. Manifests of a control plane node come from
//! kubeadm.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::chart::{Chart, NAMESPACE};
use controller_testing::{Replica, SOON, soon};
use local_control_plane::{Kept, Leased, Options, Process, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::documents::{Shown, blocks, command_words, in_notes, inline, markdown};
use crate::install::README_OF_THE_UMBRELLA;
use crate::process::{self, UID, binary, built};
use crate::static_pod;
use crate::support::{CHARTS, chart, helm, kubectl, root, said};

const README: &str = "README.md";
/// Documents with a test of their own, which follows exactly these steps.
const FOLLOWED_ALONE: [(&str, &str); 3] = [
    (README, "the_way_of_the_readme_leads_there_and_back"),
    (
        static_pod::DOCUMENT,
        "a_static_pod_leads_and_works_with_nothing_but_the_kubeconfig_of_the_document",
    ),
    (
        README_OF_THE_UMBRELLA,
        "of_the_umbrella_one_controller_is_added_and_goes_without_a_write_to_the_others",
    ),
];
/// Folder of a control plane node's manifests.
const MANIFESTS: &str = "/etc/kubernetes/manifests";
/// Written by `kubeadm init phase control-plane controller-manager` of v1.37.2.
const KUBEADM: &str = include_str!("kube-controller-manager.yaml");
/// Value of `--controllers` from kubeadm.
const CONTROLLERS: &str = "*,bootstrapsigner,tokencleaner";
/// Placeholders in the documents and the objects that replace them here, one of each kind.
const PLACEHOLDERS: [(&str, &str); 6] = [
    ("NAMESPACE/PDB", "default/a"),
    ("NAMESPACE/POD", "default/a"),
    ("NAMESPACE/JOB", "default/a"),
    ("NAMESPACE/CLAIM", "default/a"),
    ("explain NODE", "explain a"),
    (
        "upgrade disruption-controller CHART",
        "upgrade disruption-controller charts/disruption-controller",
    ),
];

/// Programs and parts of commands that cannot run here, and why. They run with `--help` instead, which fails after an
/// unknown flag.
const ASKED: [(&str, &str); 7] = [
    ("cargo", "it builds or runs what this test is a part of"),
    ("cosign", "it needs a published image"),
    ("docker", "it needs a daemon"),
    ("gh", "it needs a published image"),
    ("kind", "it needs nodes in containers"),
    (" port-forward ", "it needs a kubelet"),
    ("oras", "it needs a published image"),
];

/// How the test follows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Runs in a shell with a kubeconfig.
    Typed,
    /// Sets a variable for the commands that follow.
    Names,
    RollOut,
    /// Reads the log of pods.
    Logs,
    /// Runs a program in a pod.
    Exec,
    Controller,
    /// Runs an example of a crate.
    Example,
    /// Runs in a clone with its own remote.
    InClone,
    /// Runs with `--help`, for this reason in [`ASKED`].
    Asked(&'static str),
}

impl Way {
    /// How to follow a command from a block; `None` if the test cannot.
    fn of(command: &str) -> Option<Self> {
        let program = command_words(command).next();
        let is = |part: &str| command.contains(part);
        let asked = ASKED
            .iter()
            .find(|(part, _)| program == Some(part) || part.starts_with(' ') && is(part));
        match program {
            None => Some(Self::Names),
            Some("cargo") if is(" --example ") => Some(Self::Example),
            Some("kubectl") if is(" rollout status ") => Some(Self::RollOut),
            Some("kubectl") if is(" logs ") => Some(Self::Logs),
            Some("kubectl") if is(" exec ") => Some(Self::Exec),
            Some(_) if asked.is_some() => asked.map(|(_, why)| Self::Asked(why)),
            Some("kubectl" | "helm" | "curl") => Some(Self::Typed),
            Some("sed" | "grep") if is(MANIFESTS) => Some(Self::Typed),
            Some("git") => Some(Self::InClone),
            Some(program) if CHARTS.iter().any(|name| program.ends_with(name)) => Some(Self::Controller),
            Some(_) => None,
        }
    }
}

/// State after the commands so far.
struct Tour {
    /// Holds the programs that the commands name, Helm's folders, the manifests, and Git's configuration.
    home: TempDir,
    /// The last release, and the process of its pod.
    release: Option<&'static str>,
    running: Option<(Replica, Option<TempDir>)>,
    /// Variables as shell code: `C=disruption-controller; `
    names: String,
    steps: Vec<(String, Duration)>,
    // Last: the next tour may have it once it is dropped.
    control_plane: Leased,
}

impl Tour {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        if let Some(helm) = std::env::var_os("HELM").filter(|helm| Path::new(helm).is_absolute()) {
            symlink(helm, home.path().join("helm")).unwrap();
        }
        fs::write(home.path().join("kube-controller-manager.yaml"), KUBEADM).unwrap();
        let tour = Self {
            home,
            release: None,
            running: None,
            names: String::new(),
            steps: Vec::new(),
            control_plane: Leased::bare(Options::default()).await.unwrap(),
        };
        let objects = one_of_each_kind().to_string();
        said(kubectl(
            tour.control_plane.kubeconfig(),
            &["apply", "-f", "-"],
            &objects,
        ));
        tour
    }

    /// Follows a command and returns its output.
    async fn follow(&mut self, command: &str) -> String {
        println!("$ {command}");
        let began = Clock::system().instant();
        let said = self.act(command).await;
        self.steps.push((command.to_owned(), began.elapsed()));
        said
    }

    async fn act(&mut self, command: &str) -> String {
        let mut command = command.to_owned();
        for (placeholder, object) in PLACEHOLDERS {
            command = command.replace(placeholder, object);
        }
        match Way::of(&command).unwrap_or_else(|| panic!("no test runs {command:?}")) {
            Way::Typed => self.type_in(&command).await,
            Way::Names => {
                self.names.extend([command.as_str(), "; "]);
                String::new()
            }
            Way::RollOut => {
                self.running().0.until_ready().await;
                String::new()
            }
            Way::Logs => {
                let (read, filter) = command.split_once(" | ").expect("a filter of the log");
                said(self.shell(read));
                let log = self.home.path().join("log");
                let filter = format!("{filter} {}", log.display());
                let found = async || {
                    fs::write(&log, self.running().0.process.log()).unwrap();
                    let output = self.shell(&filter);
                    output.status.success().then(|| said(output))
                };
                eventually(SOON, "the log has such a line", found).await.unwrap()
            }
            Way::Exec => self.exec(&command).await,
            Way::Controller => self.run_controller(&command).await,
            Way::Example => {
                let (cargo, args) = command.split_once(" -- ").unwrap();
                ask(cargo);
                let example = command_words(cargo).last().unwrap();
                self.serve(&built("examples").join(example), args).await;
                String::new()
            }
            Way::InClone => said(self.shell(&format!("cd {} && {command}", self.clone().display()))),
            Way::Asked(why) => {
                println!("asked for its help: {why}");
                ask(&command);
                String::new()
            }
        }
    }

    async fn type_in(&mut self, command: &str) -> String {
        let command = match &self.running {
            Some((replica, _)) => command.replace("localhost:8080", &replica.address().await),
            None => command.to_owned(),
        };
        let command = command.replace(MANIFESTS, &self.home.path().display().to_string());
        let said = said(self.shell(&command));
        let verb = command
            .strip_prefix("helm ")
            .and_then(|rest| rest.split(' ').next());
        if let Some("install" | "upgrade") = verb {
            self.release = CHARTS.into_iter().find(|name| {
                command.contains(&format!(" charts/{name} ")) || self.names.contains(&format!("C={name};"))
            });
            self.roll_out(command.contains("config.observe=true")).await;
        } else if let Some("uninstall") = verb {
            self.stop().await;
        }
        said
    }

    /// Runs the release's program with the token of its pod and returns its output.
    async fn exec(&mut self, command: &str) -> String {
        let name = self.release.expect("a release");
        let token = Chart::of(name).token(&self.control_plane).await;
        let (_, inside) = command.split_once(" -- ").expect("a program after --");
        let (program, args) = inside.split_once(' ').expect("arguments");
        let program = program.replace("$C", name);
        assert_eq!(program, name, "the image has no other program");
        let run = format!(
            "{} {args} --kubeconfig {}",
            binary(name).display(),
            token.display()
        );
        said(self.shell(&run))
    }

    fn running(&self) -> &(Replica, Option<TempDir>) {
        self.running.as_ref().expect("something runs")
    }

    /// As a rollout: starts a new pod, and stops the old one when the new one is ready.
    async fn roll_out(&mut self, observes: bool) {
        let name = self.release.expect("a release");
        let mut chart = Chart::of(name);
        if observes {
            chart = chart.rendered_as("observer.golden.yaml");
        }
        let token = chart.installed(&self.control_plane).await;
        let (new, config) = process::start(&self.control_plane, name, &token).await;
        new.until_ready().await;
        self.stop().await;
        if !observes && !new.get("/configz").await.1.contains("\"dryRun\":true") {
            new.until_leading().await;
        }
        self.running = Some((new, Some(config)));
    }

    /// Stops the running process as Ctrl-C does; it must exit successfully.
    async fn stop(&mut self) {
        if let Some((mut running, _config)) = self.running.take() {
            running.process.interrupt().unwrap();
            let exit = running.process.wait_exit(SOON).await.unwrap();
            assert_eq!(exit.code(), Some(0), "{}", running.process.log());
        }
    }

    /// A process that ends by itself must print a result; any other keeps running until the next one.
    async fn run_controller(&mut self, command: &str) -> String {
        let (program, args) = command.split_once(' ').unwrap_or((command, ""));
        let program = binary(program.rsplit('/').next().unwrap());
        self.stop().await;
        let ends = ["explain", "--remove", "--version", "config-schema"];
        if args.starts_with("preflight") {
            // The exit code is a result as well.
            let output = self.shell(&format!("{} {args}", program.display()));
            assert!(output.status.code().is_some_and(|code| code <= 2), "{output:?}");
            return String::from_utf8(output.stdout).unwrap();
        }
        if ends.iter().any(|word| args.starts_with(word)) {
            return said(self.shell(&format!("{} {args}", program.display())));
        }
        self.serve(&program, args).await;
        String::new()
    }

    async fn serve(&mut self, program: &Path, args: &str) {
        self.stop().await;
        let args = args.replace("--http-bind-address 127.0.0.1:8080", "");
        let args: Vec<_> = args.split_whitespace().collect();
        let kubeconfig = self.control_plane.kubeconfig().display().to_string();
        let port = "--http-bind-address=127.0.0.1:0";
        let replica = Replica {
            process: Process::spawn(
                program,
                &[&args[..], &[port]].concat(),
                &[("KUBECONFIG", &kubeconfig)],
            )
            .unwrap(),
        };
        replica.until_ready().await;
        self.running = Some((replica, None));
    }

    /// A clone whose remote has the branch main. The user's keys sign nothing there.
    fn clone(&self) -> PathBuf {
        let clone = self.home.path().join("clone");
        if !clone.is_dir() {
            let sign = self.home.path().join("sign");
            fs::write(
                &sign,
                "#!/bin/sh\ncat >/dev/null; echo '[GNUPG:] SIG_CREATED ' >&2; echo signature\n",
            )
            .unwrap();
            let make = format!(
                "chmod +x {sign} && cd {home} && git init --quiet --bare --initial-branch main origin \
                 && git clone --quiet origin clone 2>&1 && cd clone \
                 && git config user.name test && git config user.email test@example.com \
                 && git config gpg.program {sign} && git commit --quiet --allow-empty --message first \
                 && git push --quiet origin HEAD:main",
                sign = sign.display(),
                home = self.home.path().display(),
            );
            said(self.shell(&make));
        }
        clone
    }

    fn shell(&self, command: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        for home_of in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            shell.env(home_of, self.home.path());
        }
        shell
            .args(["-c", &format!("{}{command}", self.names)])
            .current_dir(root())
            .env("PATH", format!("{}:{path}", self.home.path().display()))
            .env("KUBECONFIG", self.control_plane.kubeconfig())
            .output()
            .unwrap()
    }

    /// Value of `--controllers` after all changes to the manifest.
    fn controllers(&self) -> String {
        let manifest = fs::read_to_string(self.home.path().join("kube-controller-manager.yaml")).unwrap();
        let pod: Value = serde_saphyr::from_str(&manifest).unwrap();
        let command = pod["spec"]["containers"][0]["command"].as_array().unwrap();
        let mut values = command
            .iter()
            .filter_map(|arg| arg.as_str()?.strip_prefix("--controllers="));
        let value = values.next().unwrap().to_owned();
        assert_eq!(values.next(), None);
        value
    }

    /// Fails unless kube-controller-manager starts with that flag, leaves out this loop and keeps all that kubeadm
    /// enables.
    async fn is_switched_off(&self, name: &str) {
        let value = self.controllers();
        assert_eq!(value, format!("{CONTROLLERS},-{name}"));
        let manager = self
            .control_plane
            .start_controller_manager(&[&value], &["--v=1"])
            .unwrap();
        let seen = async || {
            let log = manager.log();
            let line = |text: &str, of: &str| {
                let of = format!("controller=\"{of}\"");
                log.lines().any(|line| line.contains(text) && line.contains(&of))
            };
            let wanted = [
                "bootstrap-signer-controller",
                "token-cleaner-controller",
                "job-controller",
            ];
            let left_out = line("controller is disabled", name);
            (left_out && wanted.iter().all(|of| line("Controller starting...", of))).then_some(())
        };
        eventually(SOON, "the loop is left out, and no other", seen)
            .await
            .unwrap();
    }

    /// observedGeneration of the budget; empty without a status.
    fn observed_generation(&self) -> String {
        self.get("pdb a -o jsonpath={.status.observedGeneration}")
    }

    /// Output of `kubectl get`.
    fn get(&self, what: &str) -> String {
        let mut args: Vec<_> = vec!["get"];
        args.extend(what.split(' '));
        said(kubectl(self.control_plane.kubeconfig(), &args, ""))
    }
}

/// The objects that replace the documents' placeholders.
fn one_of_each_kind() -> Value {
    let named = json!({"name": "a", "namespace": "default", "labels": {"app": "a"}});
    let container = json!({"name": "a", "image": "a"});
    let template = json!({"spec": {"containers": [container], "restartPolicy": "Never"}});
    let selector = json!({"matchLabels": {"app": "a"}});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": named,
               "spec": {"minAvailable": 1, "selector": selector}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": named,
               "spec": {"containers": [container], "nodeName": "a"}}),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": {"template": template}}),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": named, "spec": {}}),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": objects})
}

/// Fails unless the program of a command accepts its flags.
fn ask(command: &str) {
    let (asked, _) = command.split_once(" -- ").unwrap_or((command, ""));
    let asked = asked.trim_end_matches('&');
    let words: Vec<_> = command_words(asked).collect();
    let mut line = asked.replace("sudo ", "");
    let program = match words.as_slice() {
        ["cargo", "xtask", "demo", ..] => Some(("cargo xtask demo", binary("demo"))),
        ["cargo", "xtask", tool, ..] if is_tool(tool) => Some(("cargo xtask", binary("tools"))),
        ["cargo", "xtask", ..] => Some(("cargo xtask", binary("xtask"))),
        ["kubectl", "drain-blockers", ..] => {
            line = line.replacen("kubectl drain-blockers", "disruption-controller blockers", 1);
            Some(("disruption-controller", binary("disruption-controller")))
        }
        ["cargo", ..] => {
            names_what_is_there(&words);
            None
        }
        ["kubectl", "krew", ..] if !is_there("kubectl-krew") => {
            println!("left out: {asked}: there is no kubectl-krew");
            return;
        }
        [name, ..] if CHARTS.contains(name) => Some((*name, binary(name))),
        [name, ..] => {
            if !is_there(name) {
                println!("left out: {asked}: there is no {name}");
                return;
            }
            None
        }
        [] => return,
    };
    if let Some((name, program)) = program {
        line = line.replacen(name, &program.display().to_string(), 1);
    }
    // The reader of a pipe gets an empty list.
    let (line, reader) = line.split_once(" | ").unwrap_or((&line, ""));
    let mut steps = vec![format!("{line} --help")];
    if command_words(reader).next().is_some_and(is_there) {
        steps.push(format!("echo '{{\"items\": []}}' | {reader}"));
    }
    for step in steps {
        let output = Command::new("sh")
            .args(["-c", &step])
            .current_dir(root())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
    }
}

fn is_tool(name: &str) -> bool {
    let help = Command::new(binary("tools")).args([name, "--help"]).output();
    help.unwrap().status.success()
}

fn is_there(program: &str) -> bool {
    let find = match program {
        // A plugin of docker.
        "docker" => "docker buildx version".to_owned(),
        program => format!("command -v {program}"),
    };
    Command::new("sh")
        .args(["-c", &find])
        .output()
        .unwrap()
        .status
        .success()
}

/// Fails unless the package and the target in a cargo command exist.
fn names_what_is_there(words: &[&str]) {
    let value = |flags: &[&str]| {
        let at = words.iter().position(|word| flags.contains(word))?;
        words.get(at + 1).copied()
    };
    let package =
        value(&["-p", "--package", "--bin"]).filter(|name| name.chars().any(|c| c.is_ascii_lowercase()));
    let Some(package) = package else { return };
    let folders = ["crates", "xtask"].map(|parent| root().join(parent).join(package));
    let folder = folders.iter().find(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(|| panic!("{words:?}: no package {package}"));
    for (flag, targets) in [("--test", "tests"), ("--example", "examples")] {
        if let Some(name) = value(&[flag]) {
            let target = folder.join(targets).join(name);
            let file = target.with_extension("rs");
            // A dependency by path, listed in the manifest.
            let elsewhere = format!("name = \"{name}\"\npath = ");
            let listed = || fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            assert!(
                file.is_file() || target.join("main.rs").is_file() || listed().contains(&elsewhere),
                "{words:?}: no {}",
                file.display()
            );
        }
    }
}

#[test]
fn every_command_of_the_documents_is_followed() {
    let all: Vec<Shown> = markdown().iter().flat_map(|file| blocks(file)).collect();
    assert!(all.len() > 50, "only {} are found", all.len());
    let missing = all
        .iter()
        .filter(|shown| shown.file != static_pod::DOCUMENT && Way::of(&shown.command).is_none());
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "no test runs {missing:#?}");
}

#[test]
fn a_command_that_nothing_follows_is_found() {
    assert_eq!(Way::of("kubeadm init"), None);
    assert_eq!(Way::of("sed s/a/b/ /etc/passwd"), None);
    assert!(matches!(Way::of("sudo cargo xtask test"), Some(Way::Asked(_))));
    assert_eq!(Way::of("C=ttl-controller"), Some(Way::Names));
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn every_command_in_a_text_has_flags_that_its_program_knows() {
    for file in markdown() {
        for shown in inline(&file) {
            println!("{}:{}: {}", shown.file, shown.line, shown.command);
            ask(&shown.command);
        }
    }
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
#[should_panic(expected = "unknown flag: --no-such-flag")]
fn a_flag_that_a_program_does_not_know_is_found() {
    ask("kubectl get pods --no-such-flag a");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn the_documents_can_be_followed() {
    let _kept = Kept::new();
    for file in markdown() {
        let commands = blocks(&file);
        if commands.is_empty() || FOLLOWED_ALONE.iter().any(|(alone, _)| *alone == file) {
            continue;
        }
        println!("{file}:");
        let mut tour = Tour::start().await;
        for shown in commands {
            tour.follow(&shown.command).await;
        }
        match file.as_str() {
            "CONTRIBUTING.md" => {
                let shines =
                    async || (tour.get("configmap lamp -o jsonpath={.data.shines}") == "3").then_some(());
                eventually(SOON, "the lamp is as bright as it is to be", shines)
                    .await
                    .unwrap();
            }
            "docs/operations.md" => tour.is_switched_off("disruption-controller").await,
            "docs/releasing.md" => {
                let tags = said(tour.shell(&format!(
                    "git -C {} ls-remote --tags origin",
                    tour.clone().display()
                )));
                assert!(tags.contains("refs/tags/ttl-controller-v0.2.0"), "{tags}");
            }
            _ => {}
        }
        tour.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn the_notes_of_a_release_can_be_followed() {
    let _kept = Kept::new();
    let name = "disruption-controller";
    for (set, count) in [("config.dryRun=true", 7), ("config.dryRun=false", 6)] {
        let mut tour = Tour::start().await;
        let install = format!(
            "helm install {name} charts/{name} -n {NAMESPACE} --set {set} --set image.repository={name}"
        );
        let commands = in_notes(&tour.follow(&install).await);
        assert_eq!(commands.len(), count, "{commands:#?}");
        for command in commands {
            tour.follow(&command).await;
        }
        tour.is_switched_off(name).await;
        let image = tour.get(&format!(
            "deployment {name} -n {NAMESPACE} -o jsonpath={{..image}}"
        ));
        assert!(
            image.starts_with(&format!("{name}:")),
            "the upgrade kept the image: {image}"
        );
        tour.stop().await;
    }
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn the_notes_speak_https_where_there_is_a_certificate() {
    let notes = |set: &str| {
        let chart = chart("ttl-controller");
        let install = [
            "install",
            "ttl-controller",
            &chart,
            "--dry-run=client",
            "--set",
            set,
        ];
        in_notes(&said(helm(&install)))
    };
    let plain = notes("config.dryRun=true");
    let encrypted = notes("config.dryRun=true,config.tlsCertFile=/tls.crt,config.tlsPrivateKeyFile=/tls.key");
    let with_https = |command: &String| {
        let command = command.replace("curl http:", "curl -k https:");
        command.replace("curl 'http:", "curl -k 'https:")
    };
    assert_eq!(encrypted, plain.iter().map(with_https).collect::<Vec<_>>());
    assert_ne!(encrypted, plain);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn the_way_of_the_readme_leads_there_and_back() {
    let mut tour = Tour::start().await;
    let name = "disruption-controller";
    let all: Vec<String> = blocks(README).into_iter().map(|shown| shown.command).collect();
    let (before, install) = all.split_at(
        all.iter()
            .position(|command| command.starts_with("helm"))
            .unwrap(),
    );
    for command in before {
        let printed = tour.follow(command).await;
        assert_eq!(
            command.contains("preflight"),
            printed.contains("clock"),
            "{printed}"
        );
    }
    tour.stop().await;
    // The tried-out controller has written.
    let kubeconfig = tour.control_plane.kubeconfig();
    said(kubectl(kubeconfig, &["delete", "pdb", "a"], ""));
    said(kubectl(
        kubeconfig,
        &["apply", "-f", "-"],
        &one_of_each_kind().to_string(),
    ));

    let [
        install,
        installed,
        explain,
        forward,
        metrics,
        off,
        shown,
        upgrade,
        upgraded,
        lease,
        uninstall,
    ] = install
    else {
        panic!("other steps than these are not followed: {install:#?}");
    };
    tour.follow(install).await;
    tour.follow(installed).await;
    let explained = tour.follow(explain).await;
    assert!(explained.contains("to be written: "), "{explained}");
    tour.follow(forward).await;
    // Without the built-in loop the budget has no status. The dry run plans one and does not write it.
    let replica = &tour.running().0;
    let planned = async || (replica.total("controller_planned_writes_total").await > 0).then_some(());
    soon("ours says that it would write", planned).await;
    let metrics = tour.follow(metrics).await;
    assert!(metrics.contains("controller_planned_writes_total{"), "{metrics}");
    assert!(metrics.contains("controller_planned_writes_undone "), "{metrics}");
    assert_eq!(tour.observed_generation(), "");

    for _ in 0..2 {
        tour.follow(off).await;
        let line = tour.follow(shown).await;
        assert!(
            line.trim_end().ends_with(&format!("{CONTROLLERS},-{name}")),
            "{line}"
        );
    }
    tour.is_switched_off(name).await;
    tour.follow(upgrade).await;
    tour.follow(upgraded).await;
    let written = async || (tour.observed_generation() == "1").then_some(());
    soon("ours writes", written).await;
    let lease = tour.follow(lease).await;
    assert!(lease.contains(UID), "{lease}");

    tour.follow(uninstall).await;
    let left = format!(
        "kubectl get all,configmaps,roles --namespace {NAMESPACE} --selector app.kubernetes.io/name={name}"
    );
    assert_eq!(said(tour.shell(&left)), "");

    for (command, took) in &tour.steps {
        println!("{:6.1} s  {command}", took.as_secs_f64());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn a_dry_run_agrees_with_the_built_in_loop_that_stays_on() {
    let mut tour = Tour::start().await;
    let built_in = ["disruption-controller"];
    let _manager = tour
        .control_plane
        .start_controller_manager(&built_in, &[])
        .unwrap();
    let written = async || (tour.observed_generation() == "1").then_some(());
    soon("the built-in loop writes", written).await;

    let all: Vec<String> = blocks(README).into_iter().map(|shown| shown.command).collect();
    let dry_run = all.iter().find(|command| command.contains("config.dryRun=true"));
    tour.follow(dry_run.expect("a dry run")).await;
    let replica = &tour.running().0;
    let looked = async || (replica.total("workqueue_work_duration_seconds_count").await > 0).then_some(());
    soon("ours has looked at the budget", looked).await;
    assert_eq!(replica.total("controller_planned_writes_total").await, 0);
    let metrics = all.iter().find(|command| command.starts_with("curl --silent"));
    let metrics = tour.follow(metrics.expect("the metrics")).await;
    assert!(
        metrics.contains("controller_planned_writes_undone 0"),
        "{metrics}"
    );
    for (command, took) in &tour.steps {
        println!("{:6.1} s  {command}", took.as_secs_f64());
    }
}

/// The workflow in this repository signs what is published, for the tag that it was started for.
#[test]
fn what_the_documents_check_is_what_the_workflow_signs() {
    let releasing = blocks("docs/releasing.md");
    let command = |program: &str| {
        let found = releasing.iter().find(|shown| shown.command.starts_with(program));
        found.unwrap_or_else(|| panic!("no {program}")).command.clone()
    };
    let workflow = ".github/workflows/release.yml";
    assert!(root().join(workflow).is_file());
    assert!(command("gh").contains(&format!("--signer-workflow OWNER/REPOSITORY/{workflow}")));
    let cosign = command("cosign");
    let pattern = cosign.split('\'').nth(1).unwrap();
    let identity = format!("https://github.com/OWNER/REPOSITORY/{workflow}@refs/tags/ttl-controller-v0.2.0");
    let matches = |identity: &str| {
        let test = format!("echo '{identity}' | grep --quiet --extended-regexp '{pattern}'");
        Command::new("sh").args(["-c", &test]).status().unwrap().success()
    };
    assert!(matches(&identity), "{pattern}");
    assert!(!matches(
        &identity.replace("ttl-controller-v", "ttl-after-finished-controller-v")
    ));
    assert!(!matches(&identity.replace("release.yml", "ci.yml")));
    let text = fs::read_to_string(root().join(workflow)).unwrap();
    assert!(text.contains("tags: [\"*-controller-v[0-9]*\", \"kube-controllers-v[0-9]*\"]"));
    let dockerfile = fs::read_to_string(root().join("Dockerfile")).unwrap();
    assert!(
        command("docker buildx build").contains("--build-arg BIN=") && dockerfile.contains("\nARG BIN\n")
    );
    let written = "target/image/ttl-controller.tar";
    assert!(command("kind").contains(written) && command("sudo cargo xtask verify-image").contains(written));
}
