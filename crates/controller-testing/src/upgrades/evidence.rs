//! The API server's record of the replicas: the versions of their Lease, and their requests.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use controller_runtime::tasks::TaskSet;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::watcher::{self, Event, watcher};
use local_control_plane::{ControlPlane, client};
use serde_json::Value;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::account::NAMESPACE;
use crate::audit::is_work;
use crate::objects::text;
use crate::replica::soon;

/// Audit annotation that identifies the token of a request.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// A version of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) holder: Option<String>,
    /// When the holder took or released the Lease, by the holder's clock just before the request.
    pub(super) acquired: Timestamp,
}

/// Every version of a Lease.
pub(super) struct LeaseLog {
    leases: Api<Lease>,
    name: String,
    versions: UnboundedReceiver<Version>,
    _watch: TaskSet,
}

/// A write that was answered.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// The name of the replica.
    pub(super) by: String,
    pub(super) received: Timestamp,
    pub(super) answered: Timestamp,
    /// True if the write was carried out.
    pub(super) accepted: bool,
}

impl LeaseLog {
    pub(super) fn start(control_plane: &ControlPlane, name: &str) -> Self {
        let leases: Api<Lease> = Api::namespaced(control_plane.client(), NAMESPACE);
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let (tell, versions) = mpsc::unbounded_channel();
        let mut watch = TaskSet::new();
        let mut events = watcher(leases.clone(), only).boxed();
        watch.spawn("watch of the lease", async move {
            while let Some(event) = events.next().await {
                if let Ok(Event::InitApply(lease) | Event::Apply(lease)) = event
                    && tell.send(Version::from(lease)).is_err()
                {
                    return;
                }
            }
        });
        Self {
            leases,
            name: name.to_owned(),
            versions,
            _watch: watch,
        }
    }

    /// All versions up to the current one, which must be the first with its content.
    pub(super) async fn versions(mut self) -> Vec<Version> {
        let newest = Version::from(self.leases.get(&self.name).await.unwrap());
        let mut seen = Vec::new();
        let all = async || {
            seen.extend(std::iter::from_fn(|| self.versions.try_recv().ok()));
            (seen.last() == Some(&newest)).then_some(())
        };
        soon("the watch has shown the lease of now", all).await;
        seen
    }
}

impl From<Lease> for Version {
    fn from(lease: Lease) -> Self {
        let spec = lease.spec.unwrap();
        Self {
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            acquired: spec.acquire_time.unwrap().0,
        }
    }
}

/// The audit log's name for the token of `kubeconfig`.
pub(super) async fn credential(kubeconfig: &Path) -> String {
    let reviews: Api<SelfSubjectReview> = Api::all(client(kubeconfig).await.unwrap());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    user.extra.unwrap()[CREDENTIAL][0].clone()
}

/// The writes so far with the tokens in `names`, if they are [work](is_work).
pub(super) fn writes(control_plane: &ControlPlane, names: &BTreeMap<String, String>) -> Vec<Write> {
    let events = control_plane.audit_events().unwrap();
    let write = |event: &Value| {
        let by = names.get(event["user"]["extra"][CREDENTIAL][0].as_str()?)?;
        let counts = is_work(&text(&event["verb"]), &text(&event["objectRef"]["resource"]));
        counts.then(|| Write {
            by: by.clone(),
            received: text(&event["requestReceivedTimestamp"]).parse().unwrap(),
            answered: text(&event["stageTimestamp"]).parse().unwrap(),
            accepted: event["responseStatus"]["code"]
                .as_u64()
                .is_some_and(|code| code < 300),
        })
    };
    events.iter().map(Arc::as_ref).filter_map(write).collect()
}
