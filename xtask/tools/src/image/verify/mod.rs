//! `cargo xtask verify-image`: reads images back, unpacks them, and runs them as a node does: in an otherwise empty
//! read-only root, without capabilities, with a pod's service account, both as the image's user and as one that a
//! platform chooses.

mod fixed;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::PostParams;
use local_control_plane::{ControlPlane, Options, Process, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::fixed::Fixed;
use super::read::{Image, Variant};
use super::{Platform, USER};
use crate::admin;
use xtask::command;

/// Time limit for a controller to be ready, and to stop.
const SOON: Duration = Duration::from_secs(30);
/// Folder of the service account in pods.
const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";
const NAMESPACE: &str = "kube-system";
/// A name in the API server's certificate that the root's `/etc/hosts` has, so that the static C library resolves a
/// name, too.
const SERVER: &str = "kubernetes.default.svc";
/// Gives a process its own mounts.
const UNSHARE: &str = "/usr/bin/unshare";
/// A user ID and group as `OpenShift` assigns them to a namespace.
const ANYBODY: &str = "1000650000:0";
/// Enters the root `$1` as the user `$2` and runs the rest there. With full paths, as `PATH` is the image's.
const ENTER: &str = "\
root=$1
user=$2
shift 2
/bin/mount --bind \"$root\" \"$root\"
/bin/mount -o remount,bind,ro \"$root\"
exec /usr/sbin/chroot --userspec=\"$user\" --groups=\"${user#*:}\" \"$root\" \"$@\"";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// OCI image layouts, as `cargo xtask image` writes them
    #[arg(required = true, value_name = "TAR")]
    images: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let images = args
        .images
        .iter()
        .map(|path| Image::open(path))
        .collect::<Result<Vec<_>>>()?;
    let mut runnable = Vec::new();
    for image in &images {
        for variant in &image.variants {
            let fixed = Fixed::check(image, variant)?;
            println!("{fixed}");
            if variant.arch.to_string() == Platform::host().arch() {
                runnable.push((fixed, variant));
            }
        }
    }
    if runnable.is_empty() {
        return left_out("none of them is for this machine");
    }
    match Privilege::find() {
        Privilege::Ours => {
            let runtime = tokio::runtime::Runtime::new().context("start a runtime")?;
            runtime.block_on(run_all(&runnable))
        }
        Privilege::Sudo => again_as_root(args),
        Privilege::Missing(why) => left_out(&why),
    }
}

/// The privilege to change roots and mount.
enum Privilege {
    Ours,
    /// By sudo, without a password.
    Sudo,
    /// Missing, with the reason.
    Missing(String),
}

impl Privilege {
    fn find() -> Self {
        let succeeds = |program: &str, args: &[&str]| {
            let output = Command::new(program).args(args).output();
            output.is_ok_and(|output| output.status.success())
        };
        let root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if root && succeeds("unshare", &["--mount", "true"]) {
            Self::Ours
        } else if root {
            Self::Missing("root may not mount anything here".to_owned())
        } else if succeeds("sudo", &["-n", "unshare", "--mount", "true"]) {
            Self::Sudo
        } else {
            Self::Missing("it needs root, and `sudo -n` is refused".to_owned())
        }
    }
}

fn again_as_root(args: &Args) -> Result<()> {
    let program = std::env::current_exe().context("find this program")?;
    let mut again = Command::new("sudo");
    again
        .args(["-n", "--preserve-env=CI,KUBEBUILDER_ASSETS"])
        .arg(program);
    command::run(again.arg("verify-image").args(&args.images))
}

fn left_out(why: &str) -> Result<()> {
    if std::env::var("CI").is_ok_and(|ci| ci == "true") {
        bail!("with CI=true the images must be run from an empty root: {why}");
    }
    println!("Left out: running the images from an otherwise empty root: {why}.");
    Ok(())
}

async fn run_all(images: &[(Fixed, &Variant)]) -> Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    for (fixed, variant) in images {
        run_one(&cluster, fixed, variant)
            .await
            .with_context(|| format!("run {} from an empty root", fixed.name))?;
        println!(
            "{} was ready and stopped: as {USER} and {ANYBODY}, no capabilities, an empty read-only root",
            fixed.name
        );
    }
    Ok(())
}

async fn run_one(cluster: &ControlPlane, fixed: &Fixed, variant: &Variant) -> Result<()> {
    let root = Root::unpack(variant)?;
    let version = root.ask(fixed, "--version")?;
    let expected = format!("{} {} (commit {},", fixed.name, fixed.version, fixed.revision);
    ensure!(version.starts_with(&expected), "--version says {version:?}");
    let help = root.ask(fixed, "--help")?;
    ensure!(help.contains("--dry-run"), "--help says {help:?}");

    let port = root.join_cluster(cluster, &fixed.name).await?;
    let mut env = fixed.environment();
    env.extend([
        ("KUBERNETES_SERVICE_HOST", SERVER),
        ("KUBERNETES_SERVICE_PORT", &port),
    ]);
    for user in [USER, ANYBODY] {
        let args = root.enter(fixed, user, "--http-bind-address=127.0.0.1:0");
        let process = Process::spawn(Path::new(UNSHARE), &args, &env)?;
        ready_and_stopped(process, user)
            .await
            .with_context(|| format!("run it as {user}"))?;
    }
    Ok(())
}

async fn ready_and_stopped(mut process: Process, user: &str) -> Result<()> {
    let outcome = eventually(SOON, "the controller is ready", async || {
        if let Ok(Some(status)) = process.exited() {
            return Some(Err(status));
        }
        let answer = admin::get(&admin::address(&process.log())?, "/readyz").await;
        answer.is_ok().then_some(Ok(()))
    });
    match outcome.await {
        Ok(Ok(())) => {}
        Ok(Err(status)) => bail!("it ended with {status}:\n{}", process.log()),
        Err(error) => bail!("{error}; it said:\n{}", process.log()),
    }
    confined(process.pid(), user)?;
    process.terminate()?;
    let status = process.wait_exit(SOON).await?;
    ensure!(status.success(), "it stopped with {status}:\n{}", process.log());
    Ok(())
}

/// An unpacked image.
struct Root {
    path: PathBuf,
    // Removed on drop.
    _folder: TempDir,
}

impl Root {
    fn unpack(variant: &Variant) -> Result<Self> {
        let folder = tempfile::tempdir().context("create a directory for the root")?;
        // In a subfolder, as only root may enter the temporary folder.
        let path = folder.path().join("root");
        let mut layer = tar::Archive::new(variant.layer.as_slice());
        layer.set_preserve_permissions(true);
        layer.unpack(&path).context("unpack the layer")?;
        Ok(Self {
            path,
            _folder: folder,
        })
    }

    /// Arguments of `unshare` to run the image's entry point as `user` with `flag`.
    fn enter(&self, fixed: &Fixed, user: &str, flag: &str) -> Vec<String> {
        let script = ["--mount", "/bin/sh", "-euc", ENTER, "enter"].map(str::to_owned);
        let mut args = script.to_vec();
        args.extend([self.path.display().to_string(), user.to_owned()]);
        args.extend(fixed.entrypoint.clone());
        args.push(flag.to_owned());
        args
    }

    /// Output of the entry point for `flag`.
    fn ask(&self, fixed: &Fixed, flag: &str) -> Result<String> {
        let mut unshare = Command::new(UNSHARE);
        unshare
            .args(self.enter(fixed, USER, flag))
            .env_clear()
            .envs(fixed.environment());
        let output = unshare.output().context("start unshare")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{flag} ends with {}: {complained}",
            output.status
        );
        Ok(said)
    }

    /// Creates what a node mounts into a pod: a service account with all permissions, and `/etc/hosts`. Returns the
    /// port of the API server.
    async fn join_cluster(&self, cluster: &ControlPlane, name: &str) -> Result<String> {
        let kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, name).await?;
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        });
        let bindings = Api::<ClusterRoleBinding>::all(cluster.client());
        bindings
            .create(&PostParams::default(), &serde_json::from_value(binding)?)
            .await
            .context("give the service account permissions")?;

        let kubeconfig: Value =
            serde_json::from_slice(&fs::read(kubeconfig)?).context("read the kubeconfig")?;
        let text = |pointer: &str| {
            let value = kubeconfig.pointer(pointer).and_then(Value::as_str);
            value.with_context(|| format!("the kubeconfig has no {pointer}"))
        };
        let account = self.path.join(ACCOUNT);
        fs::create_dir_all(&account)?;
        fs::write(account.join("token"), text("/users/0/user/token")?)?;
        fs::write(account.join("namespace"), NAMESPACE)?;
        fs::copy(
            text("/clusters/0/cluster/certificate-authority")?,
            account.join("ca.crt"),
        )?;
        fs::create_dir_all(self.path.join("etc"))?;
        fs::write(self.path.join("etc/hosts"), format!("127.0.0.1 {SERVER}\n"))?;
        let server = text("/clusters/0/cluster/server")?;
        let port = server.rsplit(':').next().context("a server without a port")?;
        Ok(port.to_owned())
    }
}

/// Fails unless the kernel reports `pid` as `user` only, without capabilities, on a read-only root.
fn confined(pid: u32, user: &str) -> Result<()> {
    let (uid, gid) = user.split_once(':').context("a user without a group")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let value = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().split_whitespace().collect::<Vec<_>>()
    };
    ensure!(
        field("Uid") == [uid; 4] && field("Gid") == [gid; 4],
        "it runs as another user:\n{status}"
    );
    ensure!(
        field("CapEff") == ["0000000000000000"],
        "it has capabilities:\n{status}"
    );
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo"))?;
    ensure!(read_only_root(&mounts), "its root is not read-only:\n{mounts}");
    Ok(())
}

/// True if the only mount is a read-only one at `/`.
fn read_only_root(mounts: &str) -> bool {
    let mut mounts = mounts.lines().map(|line| line.split(' ').skip(4));
    let root = mounts.next().is_some_and(|mut fields| {
        fields.next() == Some("/")
            && fields
                .next()
                .is_some_and(|options| options.split(',').any(|option| option == "ro"))
    });
    root && mounts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_read_only_when_its_one_mount_says_so() {
        let read_only = "700 24 8:1 /tmp/root / ro,relatime - ext4 /dev/vda rw\n";
        assert!(read_only_root(read_only));
        assert!(!read_only_root(&read_only.replace("ro,", "rw,")));
        let another = "701 700 0:5 / /tmp rw - tmpfs tmpfs rw\n";
        assert!(!read_only_root(&format!("{read_only}{another}")));
        assert!(!read_only_root(""));
    }
}
