//! The kubelet of all nodes, played: it runs a pod once all of its claims are allocated and reserved for it, ends one
//! that is deleted, and keeps an eye on what no controller may do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_runtime::tasks::TaskSet;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use local_control_plane::ControlPlane;
use parking_lot::Mutex;
use serde_json::json;

/// How long it leaves the pods alone between two looks at them.
const PAUSE: Duration = Duration::from_millis(100);
/// How many pods it is busy with at once.
const AT_ONCE: usize = 16;

/// It works until it is dropped.
pub(crate) struct Kubelet {
    wrongs: Arc<Mutex<Vec<String>>>,
    _tasks: TaskSet,
}

/// What the pods use that run, by the pod's uid.
type Running = BTreeMap<String, Vec<Use>>;

/// A claim in use.
#[derive(Clone, Debug)]
struct Use {
    pod: String,
    claim: String,
    uid: String,
    /// The uid of the pod or of its group.
    consumer: String,
    /// Pool and device, those left out that one has a look at as an administrator.
    devices: Vec<(String, String)>,
}

impl Kubelet {
    pub(crate) fn start(control_plane: &ControlPlane) -> Self {
        let pods: Api<Pod> = Api::all(control_plane.client());
        let claims: Api<ResourceClaim> = Api::all(control_plane.client());
        let client = control_plane.client();
        let wrongs = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = TaskSet::new();
        let told = Arc::clone(&wrongs);
        tasks.spawn("kubelet", async move {
            let clock = Clock::system();
            let mut running = Running::new();
            loop {
                // The claims first: a pod that runs afterwards had them before.
                let all = ListParams::default();
                if let (Ok(claims), Ok(pods)) = (claims.list(&all).await, pods.list(&all).await) {
                    let found = inspect(&mut running, &claims.items, &pods.items);
                    told.lock().extend(found.wrongs);
                    stream::iter(found.actions)
                        .for_each_concurrent(AT_ONCE, |action| action.done_by(&client))
                        .await;
                }
                clock.sleep(PAUSE).await;
            }
        });
        Self {
            wrongs,
            _tasks: tasks,
        }
    }

    /// No pod ran without its claims, and no device was given to two claims.
    pub(crate) fn assert_sound(&self) {
        let wrongs = self.wrongs.lock();
        assert!(wrongs.is_empty(), "{wrongs:#?}");
    }
}

/// What it saw and what it is to do.
#[derive(Default)]
struct Found {
    wrongs: Vec<String>,
    actions: Vec<Action>,
}

enum Action {
    Run(Pod),
    End(Pod),
}

fn inspect(running: &mut Running, claims: &[ResourceClaim], pods: &[Pod]) -> Found {
    let mut found = Found::default();
    let bound = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let phase = |pod: &Pod| {
        let status = pod.status.as_ref();
        status.and_then(|status| status.phase.clone()).unwrap_or_default()
    };
    let uid = |pod: &Pod| pod.uid().unwrap_or_default();
    let pods: Vec<&Pod> = pods.iter().filter(bound).collect();
    running.retain(|used_by, _| {
        pods.iter()
            .any(|pod| uid(pod) == *used_by && phase(pod) == "Running")
    });
    for used in running.values().flatten() {
        let is_it = |claim: &&ResourceClaim| claim.uid().as_ref() == Some(&used.uid);
        let kept = |claim: &ResourceClaim| reserved_for(claim).iter().any(|one| one.uid == used.consumer);
        if !claims.iter().find(is_it).is_some_and(kept) {
            let (pod, claim) = (&used.pod, &used.claim);
            found.wrongs.push(format!("{pod} runs and has lost {claim}"));
        }
    }
    for pod in pods {
        if pod.metadata.deletion_timestamp.is_some() {
            found.actions.push(Action::End(pod.clone()));
        } else if phase(pod) == "Pending"
            && let Some(uses) = uses_of(pod, claims)
        {
            for used in &uses {
                let others = running.values().flatten().filter(|other| other.uid != used.uid);
                let twice = others.filter(|other| other.devices.iter().any(|one| used.devices.contains(one)));
                found.wrongs.extend(twice.map(|other| {
                    format!(
                        "{} of {} has a device of {} of {}",
                        used.claim, used.pod, other.claim, other.pod
                    )
                }));
            }
            running.insert(uid(pod), uses);
            found.actions.push(Action::Run(pod.clone()));
        }
    }
    found
}

/// What the pod uses once it runs; none while one of its claims is not there, allocated and reserved for it.
fn uses_of(pod: &Pod, claims: &[ResourceClaim]) -> Option<Vec<Use>> {
    let spec = pod.spec.as_ref()?;
    let status = pod.status.as_ref()?;
    let made = |entry: &str| {
        let statuses = status.resource_claim_statuses.iter().flatten();
        let mut of_entry = statuses.filter(|status| status.name == entry);
        of_entry.next()?.resource_claim_name.clone()
    };
    let mut names = Vec::new();
    for entry in spec.resource_claims.iter().flatten() {
        names.push(entry.resource_claim_name.clone().or_else(|| made(&entry.name))?);
    }
    let extended = status.extended_resource_claim_status.as_ref();
    names.extend(extended.map(|status| status.resource_claim_name.clone()));
    names
        .into_iter()
        .map(|name| {
            let of_name =
                |claim: &&ResourceClaim| claim.name_any() == name && claim.namespace() == pod.namespace();
            let claim = claims.iter().find(of_name)?;
            Some(Use {
                pod: pod.name_any(),
                uid: claim.uid()?,
                consumer: consumer_of(claim, pod)?,
                devices: devices_of(claim),
                claim: name,
            })
        })
        .collect()
}

/// The uid under which the claim is allocated and reserved for the pod: its own, or that of its group.
fn consumer_of(claim: &ResourceClaim, pod: &Pod) -> Option<String> {
    claim.status.as_ref()?.allocation.as_ref()?;
    let (uid, spec) = (pod.uid()?, pod.spec.as_ref()?);
    let group = spec.scheduling_group.as_ref();
    let group = group.and_then(|group| group.pod_group_name.as_ref());
    let is_it = |one: &&ResourceClaimConsumerReference| match one.resource.as_str() {
        "pods" => one.uid == uid,
        "podgroups" => Some(&one.name) == group,
        _ => false,
    };
    Some(reserved_for(claim).iter().find(is_it)?.uid.clone())
}

fn reserved_for(claim: &ResourceClaim) -> &[ResourceClaimConsumerReference] {
    let status = claim.status.as_ref();
    let reserved = status.and_then(|status| status.reserved_for.as_deref());
    reserved.unwrap_or_default()
}

fn devices_of(claim: &ResourceClaim) -> Vec<(String, String)> {
    let allocation = claim
        .status
        .as_ref()
        .and_then(|status| status.allocation.as_ref());
    let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
    let results = devices.and_then(|devices| devices.results.as_deref());
    let exclusive = results.unwrap_or_default().iter();
    exclusive
        .filter(|result| result.admin_access != Some(true))
        .map(|result| (result.pool.clone(), result.device.clone()))
        .collect()
}

impl Action {
    /// The API server may be away, and the pod may have changed: then it is done at the next look.
    async fn done_by(self, client: &kube::Client) {
        let (Self::Run(pod) | Self::End(pod)) = &self;
        let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        match &self {
            Self::Run(pod) => {
                let patch = json!({
                    "metadata": {"uid": pod.metadata.uid},
                    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
                });
                let patch = Patch::Strategic(patch);
                let _ = pods.patch_status(&name, &PatchParams::default(), &patch).await;
            }
            Self::End(pod) => {
                let this_one = Preconditions {
                    uid: pod.uid(),
                    ..Preconditions::default()
                };
                let at_once = DeleteParams::default().grace_period(0).preconditions(this_one);
                let _ = pods.delete(&name, &at_once).await;
            }
        }
    }
}
