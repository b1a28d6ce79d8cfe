//! The distributions by the traces they leave on nodes and in the version, and how each sets `--controllers`.

use super::{Node, Version};

/// A way to set up clusters.
#[derive(Clone, Copy, Debug)]
pub struct Distribution {
    /// Identifies the distribution in the JSON report; never changes.
    pub id: &'static str,
    /// Name for the text report.
    pub name: &'static str,
    /// Any one sign identifies the distribution. A distribution without signs looks from inside the cluster like
    /// another one, whose entry names it.
    pub signs: &'static [Sign],
    /// True if the vendor runs kube-controller-manager, with no supported way to set `--controllers`.
    pub is_managed: bool,
    /// Instruction to switch off the loop `{}`.
    pub edit: &'static str,
}

/// A trace of a distribution.
#[derive(Clone, Copy, Debug)]
pub enum Sign {
    /// Part of the API server's release.
    Release(&'static str),
    /// Prefix of a node's label.
    Label(&'static str),
    /// Prefix of a node's annotation.
    Annotation(&'static str),
    /// Prefix of a node's `spec.providerID`.
    Provider(&'static str),
}

use Sign::{Annotation, Label, Provider, Release};

/// Known distributions. The first one with a sign counts: those built on kubeadm come before kubeadm.
pub const DISTRIBUTIONS: &[Distribution] = &[
    Distribution {
        id: "eks",
        name: "Amazon EKS",
        signs: &[
            Release("-eks-"),
            Label("eks.amazonaws.com/"),
            Label("alpha.eksctl.io/"),
        ],
        is_managed: true,
        edit: "",
    },
    Distribution {
        id: "gke",
        name: "Google GKE",
        signs: &[Release("-gke."), Label("cloud.google.com/gke-")],
        is_managed: true,
        edit: "",
    },
    Distribution {
        id: "aks",
        name: "Azure AKS",
        signs: &[Label("kubernetes.azure.com/cluster")],
        is_managed: true,
        edit: "",
    },
    Distribution {
        id: "gardener",
        name: "Gardener",
        signs: &[Label("worker.gardener.cloud/")],
        is_managed: true,
        edit: "",
    },
    Distribution {
        id: "openshift",
        name: "OpenShift",
        signs: &[Label("node.openshift.io/")],
        is_managed: true,
        edit: "",
    },
    Distribution {
        id: "k3s",
        name: "k3s",
        signs: &[Release("+k3s")],
        is_managed: false,
        edit: "in /etc/rancher/k3s/config.yaml of each server: kube-controller-manager-arg: [\"controllers+=-{}\"]; restart one \
               server after the other",
    },
    Distribution {
        id: "rke2",
        name: "RKE2",
        signs: &[Release("+rke2")],
        is_managed: false,
        edit: "in /etc/rancher/rke2/config.yaml of each server: kube-controller-manager-arg: [\"controllers+=-{}\"]; restart \
               one server after the other",
    },
    Distribution {
        id: "k0s",
        name: "k0s",
        signs: &[Release("+k0s")],
        is_managed: false,
        edit: "in k0s.yaml of each controller: spec.controllerManager.extraArgs.controllers: \"VALUE,-{}\", where VALUE is what \
               the running process has; restart one after the other",
    },
    Distribution {
        id: "talos",
        name: "Talos",
        signs: &[
            Annotation("talos.dev/"),
            Annotation("networking.talos.dev/"),
            Label("extensions.talos.dev/"),
        ],
        is_managed: false,
        edit: "in the machine config of each control plane node: cluster.controllerManager.extraArgs.controllers: \
               \"*,tokencleaner,-{}\" (talosctl patch machineconfig)",
    },
    Distribution {
        id: "kops",
        name: "kOps",
        signs: &[Label("kops.k8s.io/")],
        is_managed: false,
        edit: "kops edit cluster: spec.kubeControllerManager.controllers: [\"*\", \"tokencleaner\", \"-{}\"]; then kops update \
               cluster --yes and kops rolling-update cluster --yes",
    },
    Distribution {
        id: "microk8s",
        name: "MicroK8s",
        signs: &[Label("microk8s.io/")],
        is_managed: false,
        edit: "in /var/snap/microk8s/current/args/kube-controller-manager of each control plane node: append ,-{} to \
               --controllers (*,-{} if it is absent); restart MicroK8s",
    },
    Distribution {
        id: "kind",
        name: "kind",
        signs: &[Provider("kind://")],
        is_managed: false,
        edit: "inside each control plane container (docker exec NODE sh): append ,-{} to --controllers in \
               /etc/kubernetes/manifests/kube-controller-manager.yaml",
    },
    Distribution {
        id: "cluster-api",
        name: "Cluster API",
        signs: &[Annotation("cluster.x-k8s.io/"), Label("cluster.x-k8s.io/")],
        is_managed: false,
        edit: "in the management cluster: append ,-{} to controllers in spec.kubeadmConfigSpec.clusterConfiguration.\
               controllerManager.extraArgs of the KubeadmControlPlane, which then replaces the control plane nodes (Kamaji: \
               --controllers in spec.controllerManager.extraArgs of the KamajiControlPlane)",
    },
    Distribution {
        id: "kubeadm",
        name: "kubeadm",
        signs: &[Annotation("kubeadm.alpha.kubernetes.io/")],
        is_managed: false,
        edit: "on each control plane node, the leader's last: append ,-{} to --controllers in /etc/kubernetes/manifests/\
               kube-controller-manager.yaml; and to controllers in controllerManager.extraArgs of the ConfigMap kubeadm-config \
               in kube-system, or the next upgrade switches the loop on again (Kubespray: controllers in \
               kube_kubeadm_controller_extra_args)",
    },
];

/// Instruction if the distribution is unknown.
const ELSEWHERE: &str = "append ,-{} to --controllers wherever the flags of kube-controller-manager are set (*,-{} if it is \
                         absent), on each control plane node, the leader's last";

impl Distribution {
    /// The distribution of a cluster with this version and these nodes.
    pub(super) fn of<'a>(
        version: Option<&Version>,
        nodes: &(impl Iterator<Item = &'a Node> + Clone),
    ) -> Option<&'static Self> {
        let shows = |sign: &Sign| match sign {
            Release(part) => version.is_some_and(|version| version.release.contains(part)),
            Label(start) => nodes
                .clone()
                .any(|node| node.labels.keys().any(|key| key.starts_with(start))),
            Annotation(start) => nodes
                .clone()
                .any(|node| node.annotations.keys().any(|key| key.starts_with(start))),
            Provider(start) => nodes.clone().any(|node| node.provider_id.starts_with(start)),
        };
        DISTRIBUTIONS
            .iter()
            .find(|distribution| distribution.signs.iter().any(shows))
    }
}

/// Instruction to switch off the loop of `controller`.
pub(super) fn edit(distribution: Option<&Distribution>, controller: &str) -> String {
    match distribution {
        Some(Distribution { is_managed: true, .. }) => {
            "leave it in its dry run (--dry-run): explain and the metrics tell what it would do".to_owned()
        }
        Some(Distribution { edit, .. }) => edit.replace("{}", controller),
        None => ELSEWHERE.replace("{}", controller),
    }
}
