//! Helm and kubectl, run with typed arguments.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use local_control_plane::{Leased, Options};
use tempfile::NamedTempFile;

use crate::documents::in_blocks_of;

pub(crate) use xtask::CONTROLLERS as CHARTS;

/// The chart that contains the others.
pub(crate) const UMBRELLA: &str = "kube-controllers";

/// A real API server. The next test may have it once this is dropped.
pub(crate) struct Cluster {
    pub(crate) control_plane: Leased,
    pub(crate) kubeconfig: PathBuf,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let control_plane = Leased::bare(Options::default()).await.unwrap();
        Self {
            kubeconfig: control_plane.kubeconfig().to_owned(),
            control_plane,
        }
    }
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    xtask::command::root()
}

pub(crate) fn chart(name: &str) -> String {
    root().join("charts").join(name).display().to_string()
}

/// A file in `charts/tests`.
pub(crate) fn file(path: &str) -> PathBuf {
    root().join("charts/tests").join(path)
}

/// The flag for values that enable everything.
pub(crate) fn everything() -> String {
    format!("--values={}", file("everything.yaml").display())
}

/// The README's values for the metrics of a chart, as a file.
pub(crate) fn metrics_of(name: &str) -> NamedTempFile {
    let readme = std::fs::read_to_string(format!("{}/README.md", chart(name))).unwrap();
    let (_, values) = in_blocks_of("yaml", &readme).next().unwrap();
    let file = NamedTempFile::new().unwrap();
    std::fs::write(&file, values).unwrap();
    file
}

/// Output of a command, which must succeed.
pub(crate) fn said(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{errors}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `helm` without the user's own settings. Gives unreleased charts of this workspace an image.
pub(crate) fn helm(args: &[&str]) -> Output {
    let renders = ["install", "lint", "template", "upgrade"];
    let values = args
        .iter()
        .find(|arg| renders.contains(arg))
        .map(|_| images(args));
    let file = NamedTempFile::new().unwrap();
    let told = format!("--values={}", file.path().display());
    let told = values.filter(|values| !values.is_empty()).map(|values| {
        std::fs::write(&file, values).unwrap();
        told.as_str()
    });
    // First, so that later arguments override them.
    run_helm(&[&args[..1], told.as_slice(), &args[1..]].concat())
}

/// Values with the images of this workspace's charts among `args`; one may be the package of the umbrella.
fn images(args: &[&str]) -> String {
    let image = |name: &str| format!("{{repository: registry.example/{name}}}");
    if let Some(name) = CHARTS.iter().find(|name| args.contains(&chart(name).as_str())) {
        return format!("image: {}\n", image(name));
    }
    if args.iter().any(|arg| arg.contains(&format!("/{UMBRELLA}"))) {
        return CHARTS
            .map(|name| format!("{name}: {{image: {}}}\n", image(name)))
            .concat();
    }
    String::new()
}

/// Runs `helm` with only these arguments.
pub(crate) fn run_helm(args: &[&str]) -> Output {
    let program = std::env::var_os("HELM").unwrap_or_else(|| OsString::from("helm"));
    let home = tempfile::tempdir().unwrap();
    let mut helm = Command::new(program);
    for home_of in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        helm.env(home_of, home.path());
    }
    helm.args(args)
        .output()
        .expect("helm: `cargo xtask test` builds it")
}

/// Runs `kubectl` with these arguments and this input.
pub(crate) fn kubectl(kubeconfig: &Path, args: &[&str], input: &str) -> Output {
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("--kubeconfig").arg(kubeconfig).args(args);
    let piped = kubectl
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = piped.spawn().expect("kubectl is in the PATH");
    let mut stdin = running.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = running.wait_with_output().unwrap();
    // kubectl may end before it has read all input.
    let _ = writer.join().unwrap();
    output
}
