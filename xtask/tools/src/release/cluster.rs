//! Installs what was published, and plays the kubelet, which runs the pod's image as the pod says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use local_control_plane::{ControlPlane, Options, Process, eventually};
use tempfile::TempDir;

use super::jobs::{Release, Runner};
use crate::admin;
use crate::image::FOLDER;
use xtask::command;

/// Time limit for a pod to be ready, to lead, and to stop.
const SOON: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "kube-system";
/// Folder of the config in the pod.
const MOUNTED: &str = "/etc/controller";

pub(super) struct Cluster {
    control_plane: ControlPlane,
    pods: BTreeMap<String, Pod>,
}

struct Pod {
    process: Process,
    image: String,
    // Image and config, removed on drop.
    _files: TempDir,
}

impl Cluster {
    pub(super) async fn start() -> Result<Self> {
        Ok(Self {
            control_plane: ControlPlane::start(Options::default()).await?,
            pods: BTreeMap::new(),
        })
    }

    /// Installs or upgrades the released controller from the registry with Helm, and rolls out its pod: the new pod is
    /// ready before the old one stops, and then leads.
    pub(super) async fn put(&mut self, runner: &Runner, verb: &str, release: &Release) -> Result<()> {
        let Release { name, version, .. } = release;
        let helm = format!(
            "helm {verb} {name} oci://$CHART --version {version} --namespace {NAMESPACE} --kubeconfig {}",
            self.control_plane.kubeconfig().display()
        );
        runner.shell(&helm, &release.folder, &release.env)?;
        let uid = format!("{name}-{version}");
        let mut pod = self.run(runner, release, &uid).await?;
        let leads = self.until_leading(&mut pod, release, &uid).await;
        leads.with_context(|| format!("{name} {version} said:\n{}", pod.process.log()))?;
        println!(
            "{name} {version} is ready and leads, from the image {}",
            pod.image
        );
        self.pods.insert(name.clone(), pod);
        Ok(())
    }

    /// Starts the pod of the Deployment.
    async fn run(&self, runner: &Runner, release: &Release, uid: &str) -> Result<Pod> {
        let Release { name, version, .. } = release;
        let client = self.control_plane.client();
        let deployment = Api::<Deployment>::namespaced(client.clone(), NAMESPACE)
            .get(name)
            .await?;
        let pod = deployment.spec.template.spec.context("no pod")?;
        let account = pod.service_account_name.context("no service account")?;
        let container = pod.containers.into_iter().next().context("no container")?;
        let image = container.image.unwrap_or_default();
        let digest = &release.env["IMAGE_DIGEST"];
        ensure!(image.ends_with(digest), "the pod has {image}, not {digest}");
        let files = tempfile::tempdir().context("create a directory for a pod")?;
        let pull = format!("crane export {image} - | tar --extract");
        runner.shell(&pull, files.path(), &release.env)?;
        let program = files.path().join(FOLDER).join(name);
        let says = command::output(Command::new(&program).arg("--version"))?;
        let expected = format!("{name} {version} (commit {},", release.commit);
        ensure!(says.starts_with(&expected), "--version says {says:?}");

        let config = files.path().join("config");
        fs::create_dir(&config).context("create a directory for the config")?;
        let map = Api::<ConfigMap>::namespaced(client, NAMESPACE).get(name).await?;
        for (file, text) in map.data.unwrap_or_default() {
            fs::write(config.join(&file), text).with_context(|| format!("write {file}"))?;
        }
        let kubeconfig = self.control_plane.service_account_kubeconfig(NAMESPACE, &account);
        let mut args = container.args.unwrap_or_default();
        for arg in &mut args {
            *arg = arg.replace(MOUNTED, &config.display().to_string());
        }
        args.push(format!("--kubeconfig={}", kubeconfig.await?.display()));
        args.push("--http-bind-address=127.0.0.1:0".to_owned());
        let env: Vec<_> = container
            .env
            .iter()
            .flatten()
            .map(|variable| {
                let value = variable.value.as_deref();
                (variable.name.as_str(), value.unwrap_or(uid))
            })
            .collect();
        Ok(Pod {
            process: Process::spawn(Path::new(&program), &args, &env)?,
            image,
            _files: files,
        })
    }

    /// Waits until the pod is ready, stops the previous one, and waits until the new one leads.
    async fn until_leading(&mut self, pod: &mut Pod, release: &Release, uid: &str) -> Result<()> {
        let Release {
            name,
            version,
            commit,
            ..
        } = release;
        let ready = eventually(SOON, "the pod is ready", async || {
            if let Ok(Some(status)) = pod.process.exited() {
                return Some(Err(status));
            }
            let address = admin::address(&pod.process.log())?;
            admin::get(&address, "/readyz")
                .await
                .is_ok()
                .then_some(Ok(address))
        });
        let address = ready
            .await?
            .map_err(|status| anyhow::anyhow!("it ended with {status}"))?;
        if let Some(former) = self.pods.remove(name) {
            former.stop().await?;
        }
        let leases = Api::<Lease>::namespaced(self.control_plane.client(), NAMESPACE);
        eventually(SOON, "the pod holds the Lease", async || {
            let holder = leases.get(name).await.ok()?.spec?.holder_identity?;
            (holder == uid).then_some(())
        })
        .await?;
        let metrics = admin::get(&address, "/metrics").await?;
        let build = format!("controller_build_info{{commit=\"{commit}\",version=\"{version}\"}} 1");
        ensure!(
            metrics.lines().any(|line| line == build),
            "/metrics has no {build}"
        );
        Ok(())
    }

    /// Stops every pod; each must exit successfully.
    pub(super) async fn stop(self) -> Result<()> {
        for (name, pod) in self.pods {
            pod.stop().await.with_context(|| format!("stop {name}"))?;
        }
        Ok(())
    }
}

impl Pod {
    async fn stop(mut self) -> Result<()> {
        self.process.terminate()?;
        let status = self.process.wait_exit(SOON).await?;
        ensure!(
            status.success(),
            "it stopped with {status}:\n{}",
            self.process.log()
        );
        Ok(())
    }
}
