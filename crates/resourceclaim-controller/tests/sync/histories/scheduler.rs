//! The scheduler, which writes in the order of the real one (`plugins/dynamicresources`, `PreBind`): for each claim
//! first the finalizer, then allocation and reservation in one write. The claim for extended resources is created
//! before that, and the pod names it afterwards. The pod is bound last.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controller_testing::objects::{delete, edit, find, uid};
use embedded_apiserver::{PODS, RESOURCE_CLAIMS, Server};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ledger::Ledger;
use super::sight::{Claim, Claimant, Sight};
use crate::world::{FINALIZER, allocation, claim as claim_of};

/// How often the scheduler tries a pod that it has room for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How the scheduler handles a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The pause between two of its writes.
    pub(super) pause: Duration,
    /// It first takes the claim for extended resources back.
    pub(super) fails_once: bool,
}

/// The pods that have room, and those being bound.
#[derive(Default)]
pub(super) struct Scheduler {
    wanted: Vec<Wanted>,
    tasks: JoinSet<()>,
    cycles: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Wanted {
    pod: String,
    uid: String,
    pace: Pace,
}

/// What the scheduler works on.
struct Binding {
    server: Server,
    ledger: Arc<Mutex<Ledger>>,
    wanted: Wanted,
}

/// A pod is being bound.
struct Cycle(Arc<AtomicUsize>);

impl Scheduler {
    /// There is room for this very pod, by its uid.
    pub(super) fn wants(&mut self, server: &Server, ledger: &Arc<Mutex<Ledger>>, pod: &str, pace: Pace) {
        let Some(uid) = find(server, &PODS, pod).map(|pod| uid(&pod)) else {
            return;
        };
        if self.wanted.iter().any(|wanted| wanted.uid == uid) {
            return;
        }
        let wanted = Wanted {
            pod: pod.to_owned(),
            uid,
            pace,
        };
        self.wanted.push(wanted.clone());
        self.begin(server, ledger, wanted);
    }

    /// The scheduler dies in the middle of its work, and starts again.
    pub(super) fn dies(&mut self, server: &Server, ledger: &Arc<Mutex<Ledger>>) {
        self.tasks.abort_all();
        for wanted in self.wanted.clone() {
            self.begin(server, ledger, wanted);
        }
    }

    /// Returns whether a pod is being bound, or will be at the next look.
    pub(super) fn is_binding(&self, server: &Server, ledger: &Arc<Mutex<Ledger>>) -> bool {
        let can_begin = |wanted: &Wanted| {
            let binding = Binding {
                server: server.clone(),
                ledger: Arc::clone(ledger),
                wanted: wanted.clone(),
            };
            let pod = binding.pod();
            pod.is_some_and(|pod| binding.claims(&pod).is_some())
        };
        self.cycles.load(Ordering::SeqCst) > 0 || self.wanted.iter().any(can_begin)
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the scheduler is no task of the controller"
    )]
    fn begin(&mut self, server: &Server, ledger: &Arc<Mutex<Ledger>>, wanted: Wanted) {
        let (server, ledger) = (server.clone(), Arc::clone(ledger));
        self.tasks.spawn(
            Binding {
                server,
                ledger,
                wanted,
            }
            .run(Arc::clone(&self.cycles)),
        );
    }
}

impl Binding {
    async fn run(self, cycles: Arc<AtomicUsize>) {
        let mut fails = self.wanted.pace.fails_once;
        loop {
            sleep(LOOK_EVERY).await;
            let Some(pod) = self.pod() else { return };
            let Some(claims) = self.claims(&pod) else { continue };
            let _cycle = Cycle::begin(&cycles);
            self.bind(&pod, claims, &mut fails).await;
        }
    }

    /// The pod, while it waits for a node.
    fn pod(&self) -> Option<Claimant> {
        let pod = Claimant::of(&find(&self.server, &PODS, &self.wanted.pod)?);
        let waits = pod.uid == self.wanted.uid && !pod.bound && !pod.deleting && !pod.over;
        waits.then_some(pod)
    }

    /// Name and uid of the claims of its entries, once all of them exist, and whom each is reserved for.
    fn claims(&self, pod: &Claimant) -> Option<Vec<(String, String, Claimant)>> {
        let sight = Sight::of(&self.server);
        let usable = pod.entries.iter().map(|entry| {
            let claim = sight.claims.get(pod.claim_of(entry)?)?;
            let holder = sight.holder(pod, entry)?;
            let may_use = !claim.deleting && (entry.users.is_some() || claim.is_of(&holder.uid));
            may_use.then(|| (claim.name.clone(), claim.uid.clone(), holder.clone()))
        });
        usable.collect()
    }

    fn claim(&self, name: &str) -> Option<Claim> {
        Some(Claim::of(&find(&self.server, &RESOURCE_CLAIMS, name)?))
    }

    /// Binds the pod; gives up if something has changed since the beginning.
    async fn bind(&self, pod: &Claimant, claims: Vec<(String, String, Claimant)>, fails: &mut bool) {
        for (name, uid, holder) in claims {
            if !self.take(&name, &uid, &holder).await {
                return;
            }
        }
        if pod.asks_extended && !self.take_extended(pod, fails).await {
            return;
        }
        self.pause().await;
        if self.pod().is_some() {
            self.edit_pod(|pod| {
                pod["spec"]["nodeName"] = json!("n");
                pod["status"]["phase"] = json!("Running");
            });
        }
    }

    /// Allocates the claim, unless it is allocated, and reserves it, without checking that its holder still exists.
    async fn take(&self, name: &str, uid: &str, holder: &Claimant) -> bool {
        loop {
            self.pause().await;
            let usable = self
                .claim(name)
                .filter(|claim| claim.uid == uid && !claim.deleting);
            let Some(claim) = usable else { return false };
            if claim.reserved.iter().any(|(_, uid)| *uid == holder.uid) {
                return true;
            }
            if !claim.allocated && !claim.finalizer {
                self.edit_claim(name, |claim| {
                    claim["metadata"]["finalizers"] = json!([FINALIZER]);
                });
                continue;
            }
            self.edit_claim(name, |edited| {
                let status = &mut edited["status"];
                if !claim.allocated {
                    status["allocation"] = allocation();
                }
                match status["reservedFor"].as_array_mut() {
                    Some(reserved) => reserved.push(holder.consumer()),
                    None => status["reservedFor"] = json!([holder.consumer()]),
                }
            });
            return true;
        }
    }

    async fn take_extended(&self, pod: &Claimant, fails: &mut bool) -> bool {
        if pod
            .extended
            .as_ref()
            .is_some_and(|name| self.claim(name).is_some())
        {
            return true;
        }
        self.pause().await;
        let made = self.server.insert(claim_of(&json!({
            "generateName": format!("{}-extended-resources-", pod.name),
            "annotations": { "resource.kubernetes.io/extended-resource-claim": "true" },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": true,
            }],
        })));
        // The namespace may be about to go.
        let Ok(made) = made else { return false };
        let claim = Claim::of(&made);
        self.ledger.lock().look(&self.server);
        if !self.take(&claim.name, &claim.uid, pod).await {
            return false;
        }
        self.pause().await;
        let status = json!({
            "resourceClaimName": claim.name,
            "requestMappings": [
                { "containerName": "c", "resourceName": "example.com/gpu", "requestName": "r" },
            ],
        });
        self.edit_pod(|pod| pod["status"]["extendedResourceClaimStatus"] = status);
        if !std::mem::take(fails) {
            return true;
        }
        self.pause().await;
        self.edit_claim(&claim.name, |claim| {
            claim["metadata"]["finalizers"] = Value::Null;
            claim["status"] = json!({});
        });
        delete(&self.server, &RESOURCE_CLAIMS, &claim.name);
        self.edit_pod(|pod| pod["status"]["extendedResourceClaimStatus"] = Value::Null);
        false
    }

    async fn pause(&self) {
        sleep(self.wanted.pace.pause).await;
    }

    /// Edits this very pod: it may be gone, and another may have its name.
    fn edit_pod(&self, change: impl FnOnce(&mut Value)) {
        let pod = find(&self.server, &PODS, &self.wanted.pod);
        if pod.is_some_and(|pod| uid(&pod) == self.wanted.uid) {
            edit(&self.server, &PODS, &self.wanted.pod, change);
            self.ledger.lock().look(&self.server);
        }
    }

    fn edit_claim(&self, name: &str, change: impl FnOnce(&mut Value)) {
        edit(&self.server, &RESOURCE_CLAIMS, name, change);
        self.ledger.lock().look(&self.server);
    }
}

impl Cycle {
    fn begin(cycles: &Arc<AtomicUsize>) -> Self {
        cycles.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(cycles))
    }
}

impl Drop for Cycle {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
