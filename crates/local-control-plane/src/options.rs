//! Options of a control plane.

use super::assets::pod_groups_version;
use super::credentials::TokenUser;

/// Deviations of a control plane from the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Keep an audit log, for [`ControlPlane::audit_events`](super::ControlPlane::audit_events).
    pub audit: Option<AuditLevel>,
    /// Users in addition to the administrator. Their only permissions are those that the test grants.
    pub users: Vec<TokenUser>,
    /// Serve `PodGroups` and their claims, in this release's version of them (since 1.36).
    pub pod_groups: bool,
    /// Let permission to write a claim's `/status` cover all of it, as before 1.36.
    pub coarse_claim_status: bool,
    /// More flags for kube-apiserver; they override ours.
    pub api_server_args: Vec<String>,
}

/// How much of each request the audit log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuditLevel {
    /// User, time, request and outcome.
    Metadata,
    /// Also the request body.
    Request,
    /// Also the body of the answer.
    RequestResponse,
}

impl Options {
    /// `--feature-gates` of all processes; a process refuses a gate that its release, `minor`, does not have.
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
