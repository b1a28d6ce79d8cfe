//! Follows one command after the other.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::chart::Chart;
use controller_testing::{Replica, SOON};
use local_control_plane::{Leased, Options, Process, eventually};
use serde_json::Value;
use tempfile::TempDir;

use super::asked::{ASKED, ask};
use super::one_of_each_kind;
use crate::documents::command_words;
use crate::process::{self, binary, built};
use crate::support::{CHARTS, kubectl, root, said};

/// Folder of a control plane node's manifests.
const MANIFESTS: &str = "/etc/kubernetes/manifests";
/// Written by `kubeadm init phase control-plane controller-manager` of v1.37.2.
const KUBEADM: &str = include_str!("../kube-controller-manager.yaml");
/// Value of `--controllers` from kubeadm.
pub(super) const CONTROLLERS: &str = "*,bootstrapsigner,tokencleaner";
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

/// How the test follows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
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
    pub(super) fn of(command: &str) -> Option<Self> {
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
pub(super) struct Tour {
    /// Holds the programs that the commands name, Helm's folders, the manifests, and Git's configuration.
    home: TempDir,
    /// The last release, and the process of its pod.
    release: Option<&'static str>,
    running: Option<(Replica, Option<TempDir>)>,
    /// Variables as shell code: `C=disruption-controller; `
    names: String,
    pub(super) steps: Vec<(String, Duration)>,
    // Last: the next tour may have it once it is dropped.
    pub(super) control_plane: Leased,
}

impl Tour {
    pub(super) async fn start() -> Self {
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
    pub(super) async fn follow(&mut self, command: &str) -> String {
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

    pub(super) fn running(&self) -> &(Replica, Option<TempDir>) {
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
    pub(super) async fn stop(&mut self) {
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
    pub(super) fn clone(&self) -> PathBuf {
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

    pub(super) fn shell(&self, command: &str) -> Output {
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
    pub(super) async fn is_switched_off(&self, name: &str) {
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
    pub(super) fn observed_generation(&self) -> String {
        self.get("pdb a -o jsonpath={.status.observedGeneration}")
    }

    /// Output of `kubectl get`.
    pub(super) fn get(&self, what: &str) -> String {
        let mut args: Vec<_> = vec!["get"];
        args.extend(what.split(' '));
        said(kubectl(self.control_plane.kubeconfig(), &args, ""))
    }
}
