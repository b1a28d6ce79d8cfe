//! resourceclaim: 5,000 pods with a template each, from process start until all statuses are written; and 10,000 claims
//! to release after their pods finish, from the first pod until each claim is gone.

use anyhow::ensure;
use futures::future::try_join;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent};
use local_control_plane::Process;
use serde_json::{Value, json};

use super::Turns;
use super::contest::{
    self, Row, Sides, Site, alternate, copy, create, identity, name, send, stored, watched,
};
use super::figures::{Bars, Figures};

const WAITING: usize = 5_000;
const FINISHING: usize = 10_000;

/// The name of the entry in every pod.
const ENTRY: &str = "gpu";
const TEMPLATE: &str = "one-gpu";
/// Finalizer that the scheduler adds to a claim before it allocates.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The annotation of a claim made for an entry.
const ENTRY_ANNOTATION: &str = "resource.kubernetes.io/pod-claim-name";

pub(super) const SIDES: Sides = Sides {
    ours: "resourceclaim-controller",
    our_flags: &[],
    theirs: &["resourceclaim-controller"],
    their_flags: &[],
};

/// A cluster and the parts that both rows use.
struct Bench {
    site: Site,
    pods: Api<Pod>,
    claims: Api<ResourceClaim>,
}

struct Start {
    bench: Bench,
    /// Pods for etcd before each run.
    waiting: Vec<Value>,
}

/// Pods that have finished with their claims.
struct Finish {
    bench: Bench,
    /// Pods and claims for etcd before each run.
    running: Vec<Value>,
    reserved: Vec<Value>,
    /// The pods' final statuses.
    succeeded: Vec<Value>,
}

pub(super) async fn start(turns: &Turns) -> anyhow::Result<()> {
    let bench = Bench::new(turns).await?;
    let form = bench.pod(&json!({})).await?;
    let row = Start {
        waiting: (0..WAITING).map(|number| copy(&form, "pod", number)).collect(),
        bench,
    };
    let results = alternate(&row, turns).await?;
    let title = format!("resourceclaim: {WAITING} pods with a template each, from process start");
    row.bench.site.print(&title, &results);
    let mut bars = Bars::default();
    results.within_floor(1.15, &mut bars);
    results.within_memory(30, &mut bars);
    bars.verdict()
}

pub(super) async fn finish(turns: &Turns) -> anyhow::Result<()> {
    let bench = Bench::new(turns).await?;
    let pod = bench.pod(&json!({"nodeName": "node-1"})).await?;
    let claim = bench.reserved_claim().await?;
    let running: Vec<Value> = (0..FINISHING)
        .map(|number| {
            let mut pod = copy(&pod, "pod", number);
            pod["status"]["phase"] = json!("Running");
            pod["status"]["resourceClaimStatuses"] =
                json!([{"name": ENTRY, "resourceClaimName": name("claim", number)}]);
            pod
        })
        .collect();
    let succeeded = running.iter().cloned().map(|mut pod| {
        pod["status"]["phase"] = json!("Succeeded");
        pod
    });
    let reserved = running.iter().enumerate().map(|(number, pod)| {
        let mut claim = copy(&claim, "claim", number);
        let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
        claim["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": true}]);
        claim["status"]["reservedFor"] = json!([{"resource": "pods", "name": name, "uid": uid}]);
        claim
    });
    let row = Finish {
        bench,
        reserved: reserved.collect(),
        succeeded: succeeded.collect(),
        running,
    };
    let results = alternate(&row, turns).await?;
    let title = format!("resourceclaim: {FINISHING} claims taken back after their pods finish");
    row.bench.site.print(&title, &results);
    let mut bars = Bars::default();
    results.within_floor(1.15, &mut bars);
    bars.verdict()
}

impl Bench {
    async fn new(turns: &Turns) -> anyhow::Result<Self> {
        let site = Site::new(&SIDES, turns).await?;
        let templates: Api<ResourceClaimTemplate> = Api::default_namespaced(site.client());
        let template = json!({
            "metadata": {"name": TEMPLATE},
            "spec": {"metadata": {"labels": {"made-from": TEMPLATE}}, "spec": spec()},
        });
        create(&templates, template).await?;
        Ok(Self {
            pods: Api::default_namespaced(site.client()),
            claims: Api::default_namespaced(site.client()),
            site,
        })
    }

    /// A pod as stored by the API server, with an entry for the template.
    async fn pod(&self, more: &Value) -> anyhow::Result<Value> {
        let mut pod = json!({
            "metadata": {"name": "form", "labels": {"app": "train"}},
            "spec": {
                "restartPolicy": "Never",
                "resourceClaims": [{"name": ENTRY, "resourceClaimTemplateName": TEMPLATE}],
                "containers": [{
                    "name": "main", "image": "registry.example/train", "args": ["--once"],
                    "env": [{"name": "SHARD", "value": "1"}],
                    "resources": {"claims": [{"name": ENTRY}]},
                }],
            },
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        let made = create(&self.pods, pod).await?;
        self.site.control_plane.erase("pods").await?;
        stored(&made)
    }

    /// A claim as stored by the API server, allocated by the scheduler and reserved for a pod.
    async fn reserved_claim(&self) -> anyhow::Result<Value> {
        let claim = json!({
            "metadata": {
                "name": "form",
                "annotations": {ENTRY_ANNOTATION: ENTRY},
                "finalizers": [FINALIZER],
            },
            "spec": spec(),
        });
        create(&self.claims, claim).await?;
        let status = json!({"status": {
            "allocation": {"devices": {"results": [
                {"request": ENTRY, "driver": "gpu.example", "pool": "node-1", "device": "gpu-0"},
            ]}},
            "reservedFor": [{"resource": "pods", "name": "form", "uid": "form"}],
        }});
        let reserved = self
            .claims
            .patch_status("form", &PatchParams::default(), &Patch::Merge(status))
            .await?;
        self.site.control_plane.erase("resourceclaims").await?;
        stored(&reserved)
    }
}

impl Row for Start {
    fn site(&self) -> &Site {
        &self.bench.site
    }

    async fn reset(&self) -> anyhow::Result<()> {
        self.bench.site.control_plane.erase("resourceclaims").await?;
        Ok(self.bench.site.control_plane.store("pods", &self.waiting).await?)
    }

    async fn floor(&self) -> anyhow::Result<()> {
        let (pods, claims) = (&self.bench.pods, &self.bench.claims);
        send(&self.waiting, async |pod| {
            let (pod, uid) = identity(pod)?;
            let claim = json!({
                "metadata": {
                    "generateName": format!("{pod}-{ENTRY}-"),
                    "labels": {"made-from": TEMPLATE},
                    "annotations": {ENTRY_ANNOTATION: ENTRY},
                    "ownerReferences":
                        [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": true}],
                },
                "spec": spec(),
            });
            let claim = create(claims, claim).await?;
            // Cheaper than the controller's apply, which alone is safe next to the built-in loop.
            let status = Patch::Strategic(json!({
                "metadata": {"uid": uid},
                "status": {"resourceClaimStatuses":
                    [{"name": ENTRY, "resourceClaimName": claim.metadata.name}]},
            }));
            pods.patch_status(pod, &PatchParams::default(), &status).await?;
            Ok(())
        })
        .await
    }

    async fn measure(&self, start: impl FnOnce() -> anyhow::Result<Process>) -> anyhow::Result<Figures> {
        // Nothing else changes these pods.
        let written = |change: &WatchEvent<_>| matches!(change, WatchEvent::Modified(_));
        let start = async || start();
        let (process, took, half) = watched(&self.bench.pods, WAITING, written, start).await?;
        let figures = contest::finish(process, took, half).await?;
        let claims = self.bench.claims.list_metadata(&ListParams::default()).await?;
        let claims = claims.items.len();
        ensure!(claims == WAITING, "{claims} claims for {WAITING} pods");
        Ok(figures)
    }
}

impl Finish {
    async fn end_pods(&self) -> anyhow::Result<()> {
        Ok(self
            .bench
            .site
            .control_plane
            .store_each("pods", &self.succeeded)
            .await?)
    }
}

impl Row for Finish {
    fn site(&self) -> &Site {
        &self.bench.site
    }

    async fn reset(&self) -> anyhow::Result<()> {
        let control_plane = &self.bench.site.control_plane;
        control_plane.store("pods", &self.running).await?;
        Ok(control_plane.store("resourceclaims", &self.reserved).await?)
    }

    async fn floor(&self) -> anyhow::Result<()> {
        let claims = &self.bench.claims;
        let release = send(&self.reserved, async |claim| {
            let (claim, _) = identity(claim)?;
            let params = PatchParams::default();
            let free = Patch::Merge(json!({"status": {"reservedFor": null, "allocation": null}}));
            claims.patch_status(claim, &params, &free).await?;
            let unprotect = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            claims.patch(claim, &params, &unprotect).await?;
            claims.delete(claim, &DeleteParams::default()).await?;
            Ok(())
        });
        // The pods end meanwhile, as for the other sides.
        try_join(self.end_pods(), release).await?;
        Ok(())
    }

    async fn measure(&self, start: impl FnOnce() -> anyhow::Result<Process>) -> anyhow::Result<Figures> {
        let process = start()?;
        contest::until_quiet(&process).await?;
        let end = async || self.end_pods().await;
        // A finalizer may keep a deleted claim.
        let gone = |change: &WatchEvent<_>| matches!(change, WatchEvent::Deleted(_));
        let ((), took, half) = watched(&self.bench.claims, FINISHING, gone, end).await?;
        contest::finish(process, took, half).await
    }
}

/// The request of each claim.
fn spec() -> Value {
    json!({"devices": {"requests": [
        {"name": ENTRY, "exactly": {"deviceClassName": "gpu.example", "count": 1}},
    ]}})
}
