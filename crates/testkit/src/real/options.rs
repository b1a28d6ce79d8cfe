//! What of a control plane is not as it comes.

use super::assets::pod_groups_version;
use super::credentials::User;

/// How a control plane differs from the plain one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Keep an audit log, for [`ControlPlane::audit_events`](super::ControlPlane::audit_events).
    pub audit: Option<AuditLevel>,
    /// Users beside the administrator. They have no permissions but those that the test gives them.
    pub users: Vec<User>,
    /// `PodGroups` and their claims, in the version in which this release of Kubernetes has them (since 1.36).
    pub pod_groups: bool,
    /// A right to write `/status` of a claim is a right to write all of it, as before 1.36.
    pub coarse_claim_status: bool,
    /// More flags for kube-apiserver; they win over ours.
    pub api_server_args: Vec<String>,
}

/// How much of each request the audit log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditLevel {
    /// Who, when, what, and the outcome.
    Metadata,
    /// The body that was sent, too.
    Request,
    /// The body of the answer, too.
    RequestResponse,
}

impl Options {
    /// `--feature-gates` of all its processes; a process refuses a gate that its release, `minor`, does not have.
    pub(super) fn feature_gates(&self, minor: u32) -> Option<String> {
        let mut gates = Vec::new();
        if self.pod_groups {
            gates.extend(["GenericWorkload=true", "DRAWorkloadResourceClaims=true"]);
        }
        if self.pod_groups && minor == 36 {
            gates.push("GangScheduling=true");
        }
        if self.coarse_claim_status && minor >= 36 {
            gates.push("DRAResourceClaimGranularStatusAuthorization=false");
        }
        (!gates.is_empty()).then(|| format!("--feature-gates={}", gates.join(",")))
    }

    /// `--runtime-config` of the API server.
    pub(super) fn runtime_config(&self, minor: u32) -> Option<String> {
        let version = pod_groups_version(minor);
        self.pod_groups
            .then(|| format!("--runtime-config=scheduling.k8s.io/{version}=true"))
    }
}
