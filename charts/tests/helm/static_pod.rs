//! Follows docs/static-pod.md: its commands verbatim, on a node that is a folder. The process that the kubelet would
//! start has only a kubeconfig.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use controller_testing::policies::until_limited;
use controller_testing::{SOON, audit};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::PostParams;
use local_control_plane::{AuditLevel, ControlPlane, Options, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::documents::in_blocks_of;
use crate::manifests::written;
use crate::process::{self, UID};
use crate::support::{CHARTS, kubectl, root, said};

pub(crate) const DOCUMENT: &str = "docs/static-pod.md";
/// Folder of a control plane node's files.
const FOLDER: &str = "/etc/kubernetes";

/// Acts like an older OpenSSL, which needs a serial number or the option to create one. 1.1.1w creates one anyway.
const OPENSSL: &str = r#"#!/bin/sh
case " $* " in
*" -CA "*" -CAcreateserial "* | *" -CA "*" -set_serial "*) ;;
*" -CA "*) echo 'ca.srl: No such file or directory' >&2; exit 1 ;;
esac
PATH=${PATH#*:} exec openssl "$@"
"#;

/// Acts like `kubeadm kubeconfig user` (`cmd/kubeadm/app/cmd/kubeconfig.go` of 1.36 and 1.37), with all data inline.
const KUBEADM: &str = r#"#!/bin/sh
set -eu
[ $# = 4 ] && [ "$1 $2 $3" = "kubeconfig user --client-name" ]
made=$(mktemp -d)
openssl req -new -newkey rsa:2048 -nodes -subj "/CN=$4" -keyout "$made/key" -out "$made/csr" 2>"$made/log"
echo extendedKeyUsage=clientAuth >"$made/ext"
openssl x509 -req -in "$made/csr" -extfile "$made/ext" -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -set_serial 1 -out "$made/crt" 2>"$made/log"
inline() { base64 "$1" | tr -d '\n'; }
cat <<EOF
apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster: {server: "$SERVER", certificate-authority-data: $(inline "$PKI/ca.crt")}
contexts:
- name: $4@kubernetes
  context: {cluster: kubernetes, user: $4}
current-context: $4@kubernetes
users:
- name: $4
  user: {client-certificate-data: $(inline "$made/crt"), client-key-data: $(inline "$made/key")}
EOF
rm -r "$made"
"#;

/// A control plane node, as far as the commands see it.
struct Machine {
    control_plane: ControlPlane,
    folder: TempDir,
    manifests: TempDir,
}

impl Machine {
    /// With one CA for clients and the API server, as kubeadm creates it.
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for part in ["bin", "manifests", "pki"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        for (program, script) in [("kubeadm", KUBEADM), ("openssl", OPENSSL)] {
            let path = folder.path().join("bin").join(program);
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let authority = folder.path().join("pki/ca.crt");
        let mut openssl = Command::new("openssl");
        openssl
            .args([
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-subj",
                "/CN=kubernetes",
            ])
            .arg("-keyout")
            .arg(folder.path().join("pki/ca.key"))
            .arg("-out")
            .arg(&authority);
        said(openssl.output().expect("openssl is in the PATH"));
        let control_plane = ControlPlane::start(Options {
            audit: Some(AuditLevel::Metadata),
            api_server_args: vec![format!("--client-ca-file={}", authority.display())],
            ..Options::default()
        });
        let control_plane = control_plane.await.unwrap();
        let servers = fs::read_to_string(of_cluster(&control_plane, "certificate-authority")).unwrap();
        let clients = fs::read_to_string(&authority).unwrap();
        fs::write(&authority, clients + &servers).unwrap();
        Self {
            control_plane,
            folder,
            manifests: written(&["admissionPolicy.enabled=true"]),
        }
    }

    /// Runs a block of commands for the controller `name` and returns the output. `address` replaces the address of the
    /// pod. The block does not change the shell's kubeconfig, as more commands follow in that shell.
    fn follow(&self, block: &str, name: &str, kubeconfig: Option<&Path>, address: &str) -> String {
        let script = block
            .replace("C=ttl-controller", &format!("C={name}"))
            .replace(FOLDER, &self.folder.path().display().to_string())
            .replace("target/manifests", &self.manifests.path().display().to_string())
            .replace(
                "https://127.0.0.1:6443",
                &of_cluster(&self.control_plane, "server"),
            )
            .replace("127.0.0.1:10275", address);
        // The tests may run without root, and the process below has the user of the test.
        let commands = script.lines().filter(|line| !line.starts_with("chown "));
        let commands = commands.collect::<Vec<_>>().join("\n");
        let commands = format!("{commands}\n[ \"${{KUBECONFIG-}}\" = \"$GIVEN\" ]");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell
            .args(["-euc", &commands])
            .current_dir(root())
            .env(
                "PATH",
                format!("{}:{path}", self.folder.path().join("bin").display()),
            )
            .env("PKI", self.folder.path().join("pki"))
            .env("SERVER", of_cluster(&self.control_plane, "server"))
            .env("GIVEN", kubeconfig.unwrap_or(Path::new("")))
            .env_remove("KUBECONFIG");
        shell.envs(kubeconfig.map(|path| ("KUBECONFIG", path)));
        said(shell.output().unwrap())
    }

    /// The manifest in the kubelet's folder.
    fn pod(&self, name: &str) -> (PathBuf, Pod) {
        let file = self.folder.path().join(format!("manifests/{name}.yaml"));
        let pod = serde_saphyr::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        (file, pod)
    }
}

/// A field of the cluster in the administrator's kubeconfig.
fn of_cluster(control_plane: &ControlPlane, field: &str) -> String {
    let kubeconfig = fs::read_to_string(control_plane.kubeconfig()).unwrap();
    let kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
    kubeconfig["clusters"][0]["cluster"][field]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn a_static_pod_leads_and_works_with_nothing_but_the_kubeconfig_of_the_document() {
    let document = fs::read_to_string(root().join(DOCUMENT)).unwrap();
    let blocks: Vec<_> = in_blocks_of("sh", &document).map(|(_, block)| block).collect();
    let [permissions, kubeadm, node, look] = *blocks.as_slice() else {
        panic!("other steps than these are not followed: {blocks:#?}");
    };
    let machine = Machine::start().await;
    let admin = machine.control_plane.kubeconfig();
    for name in CHARTS {
        machine.follow(permissions, name, Some(admin), "");
        // Both ways work; most controllers here take the second.
        let way = if name == "ttl-controller" { kubeadm } else { node };
        machine.follow(way, name, None, "");
        until_limited(&machine.control_plane, name).await;

        let (file, pod) = machine.pod(name);
        let create = ["create", "--dry-run=server", "--validate=strict", "-f"];
        let created = kubectl(admin, &[&create[..], &[file.to_str().unwrap()]].concat(), "");
        assert_eq!(said(created), format!("pod/{name} created (server dry run)\n"));
        // The variant for metrics readers on other machines.
        let scraped = machine
            .manifests
            .path()
            .join(format!("{name}-static-pod-metrics.yaml"));
        let created = kubectl(admin, &[&create[..], &[scraped.to_str().unwrap()]].concat(), "");
        assert_eq!(said(created), format!("pod/{name} created (server dry run)\n"));
        let spec = pod.spec.clone().unwrap();
        // A static pod cannot refer to API objects.
        assert_eq!(spec.service_account_name, None);
        let volumes = serde_json::to_value(spec.volumes).unwrap();
        let folder = json!({"path": format!("{FOLDER}/{name}"), "type": "Directory"});
        assert_eq!(volumes, json!([{"name": "kubeconfig", "hostPath": folder}]));

        let container = &spec.containers[0];
        let port = container.ports.as_ref().unwrap()[0].container_port;
        let replica = process::run(
            name,
            container,
            &[
                (FOLDER, &machine.folder.path().display().to_string()),
                (&format!("127.0.0.1:{port}"), "127.0.0.1:0"),
            ],
            &[],
        );
        replica.until_leading().await;
        replica.until_ready().await;
        let (_, ready) = replica.get("/readyz?verbose").await;
        assert!(!ready.contains("[!]"), "{ready}");
        let leases: Api<Lease> = Api::namespaced(machine.control_plane.client(), "kube-system");
        let lease = leases.get(name).await.unwrap().spec.unwrap();
        assert_eq!(lease.holder_identity.as_deref(), Some(UID));

        if name == "ttl-controller" {
            let nodes: Api<Node> = Api::all(machine.control_plane.client());
            let new = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
            nodes.create(&PostParams::default(), &new).await.unwrap();
            let written = async || {
                let node = nodes.get("n").await.unwrap();
                let annotations = node.metadata.annotations.unwrap_or_default();
                annotations.get("node.alpha.kubernetes.io/ttl").cloned()
            };
            let ttl = eventually(SOON, "the node has a TTL", written).await.unwrap();
            assert_eq!(ttl, "0");
            // The mirror pod, as the kubelet creates it.
            let mut mirror = pod;
            let hash = ("kubernetes.io/config.hash".to_owned(), UID.to_owned());
            mirror.metadata.annotations = Some([hash].into());
            mirror.spec.as_mut().unwrap().node_name = Some("n".to_owned());
            let pods: Api<Pod> = Api::namespaced(machine.control_plane.client(), "kube-system");
            pods.create(&PostParams::default(), &mirror).await.unwrap();
            let seen = machine.follow(look, name, Some(admin), &replica.address().await);
            assert!(
                seen.contains("readyz check passed") && seen.matches(UID).count() == 2,
                "{seen}"
            );
            assert!(
                seen.lines().any(|line| line.split_whitespace().eq(["n", UID])),
                "{seen}"
            );
        }
        assert_eq!(replica.stop().await, Some(0));
        let mut asked = audit::requests(&machine.control_plane);
        asked.retain(|asked| asked.user == name);
        assert!(asked.len() > 3, "{asked:?}");
        asked.retain(|asked| asked.code == 403);
        assert_eq!(asked, []);
    }
}
