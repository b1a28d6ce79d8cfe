//! Takes the steps of a history: as users, the kubelet and the garbage collector. What there is of templates and users'
//! claims in the end does not depend on when the steps came.

use std::sync::Arc;
use std::time::Duration;

use harness::objects::{remove, terminate, text};
use parking_lot::Mutex;
use resourceclaim_controller::decide::claim_name;
use serde_json::{Value, json};
use testkit::embedded::{PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Server};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ledger::{Ledger, Pod, Sight};
use super::scheduler::Scheduler;
use super::steps::{Action, Made, SHARED, Source, TEMPLATES};
use crate::world::request;

/// Between the end of a pod's containers and its own.
const KUBELET_PAUSE: Duration = Duration::from_millis(300);

/// Everybody but the controller.
#[derive(Default)]
pub(super) struct World {
    scheduler: Scheduler,
    /// Pods on their way out.
    ends: JoinSet<()>,
}

impl World {
    /// Takes one step. What it is about may be gone: that an object is missing is no failure.
    pub(super) fn take(&mut self, server: &Server, ledger: &Arc<Mutex<Ledger>>, action: &Action) {
        match action {
            Action::Template { template, devices } => make_template(server, *template, *devices),
            Action::DeleteTemplate(template) => {
                let _ = server.delete(&RESOURCE_CLAIM_TEMPLATES, "default", &template_name(*template));
            }
            Action::Shared(shared) => make_claim(server, &shared_name(*shared)),
            Action::DeleteShared(shared) => {
                let _ = server.delete(&RESOURCE_CLAIMS, "default", &shared_name(*shared));
            }
            Action::Pod { pod, made } => {
                remove(server, &PODS, &pod_name(*pod));
                make_pod(server, &pod_name(*pod), made);
            }
            Action::Schedule { pod, pace } => self.scheduler.wants(server, ledger, &pod_name(*pod), *pace),
            Action::SchedulerDies => self.scheduler.dies(server, ledger),
            Action::Finish(pod) => finish(server, &pod_name(*pod), None),
            Action::Delete { pod, grace } => self.delete(server, &pod_name(*pod), *grace),
            Action::ForceDelete(pod) => remove(server, &PODS, &pod_name(*pod)),
            Action::DeleteClaim { pod, entry } => delete_claim(server, &pod_name(*pod), *entry),
            Action::CollectGarbage => collect_garbage(server),
        }
        ledger.lock().look(server);
    }

    /// Whether somebody is in the middle of something.
    pub(super) fn is_busy(&mut self) -> bool {
        while self.ends.try_join_next().is_some() {}
        !self.ends.is_empty() || self.scheduler.is_binding()
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the kubelet is no task of the controller"
    )]
    fn delete(&mut self, server: &Server, name: &str, grace: Duration) {
        let Some(pod) = pod(server, name).filter(|pod| !pod.deleting) else {
            return;
        };
        terminate(server, name);
        let server = server.clone();
        self.ends.spawn(async move {
            sleep(grace).await;
            finish(&server, &pod.name, Some(&pod.uid));
            sleep(KUBELET_PAUSE).await;
            if self::pod(&server, &pod.name).is_some_and(|left| left.uid == pod.uid) {
                remove(&server, &PODS, &pod.name);
            }
        });
    }
}

/// The steps are over: what pods wait for is there, and nobody leaves anything behind.
pub(super) fn rest(server: &Server, ledger: &Mutex<Ledger>) {
    for template in 0..TEMPLATES {
        if server
            .get(&RESOURCE_CLAIM_TEMPLATES, "default", &template_name(template))
            .is_none()
        {
            make_template(server, template, 1);
        }
    }
    for shared in 0..SHARED {
        make_claim(server, &shared_name(shared));
    }
    collect_garbage(server);
    ledger.lock().look(server);
}

fn pod_name(pod: usize) -> String {
    format!("pod-{pod}")
}

fn shared_name(shared: usize) -> String {
    format!("shared-{shared}")
}

fn template_name(template: usize) -> String {
    format!("template-{template}")
}

fn pod(server: &Server, name: &str) -> Option<Pod> {
    Some(Pod::of(&server.get(&PODS, "default", name)?))
}

/// Labels and annotations tell it from every other.
fn make_template(server: &Server, template: usize, devices: usize) {
    let name = template_name(template);
    let _ = server.delete(&RESOURCE_CLAIM_TEMPLATES, "default", &name);
    let mut request = request();
    request["exactly"]["count"] = json!(devices);
    let labels = json!({ "template": name });
    let object = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": name },
        "spec": {
            "metadata": { "labels": labels, "annotations": labels },
            "spec": { "devices": { "requests": [request] } },
        },
    });
    server.insert(object).unwrap();
}

/// A user makes a claim, unless one has the name.
fn make_claim(server: &Server, name: &str) {
    let _ = server.insert(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": name },
        "spec": { "devices": { "requests": [request()] } },
    }));
}

fn make_pod(server: &Server, name: &str, made: &Made) {
    let entries = made.entries.iter().enumerate().map(|(number, source)| {
        let entry = entry_name(number);
        match source {
            Source::Template(template) => {
                json!({ "name": entry, "resourceClaimTemplateName": template_name(*template) })
            }
            Source::Shared(shared) => json!({ "name": entry, "resourceClaimName": shared_name(*shared) }),
        }
    });
    let entries: Vec<_> = entries.collect();
    let mut container = json!({ "name": "c", "image": "c" });
    if made.extended {
        container["resources"] = json!({ "limits": { "example.com/gpu": "1" } });
    }
    let pod = server
        .insert(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "containers": [container], "resourceClaims": entries },
            "status": { "phase": "Pending" },
        }))
        .unwrap();
    if made.name_is_taken {
        let uid = text(&pod["metadata"]["uid"]);
        make_claim(server, &claim_name(name, &uid.as_str().into(), &entry_name(0), 0));
    }
}

fn entry_name(number: usize) -> String {
    format!("entry-{number}")
}

/// Its containers end; `uid`, if another of its name must not.
fn finish(server: &Server, name: &str, uid: Option<&str>) {
    let found = pod(server, name).filter(|pod| uid.is_none_or(|uid| pod.uid == uid));
    if found.is_some() {
        let end = |pod: &mut Value| pod["status"]["phase"] = json!("Succeeded");
        server.edit(&PODS, "default", name, end).unwrap();
    }
}

fn delete_claim(server: &Server, name: &str, entry: usize) {
    let claim = pod(server, name).and_then(|pod| {
        let entry = pod.entries.get(entry).filter(|entry| entry.users.is_none())?;
        pod.claim_of(entry).map(ToOwned::to_owned)
    });
    if let Some(claim) = claim {
        let _ = server.delete(&RESOURCE_CLAIMS, "default", &claim);
    }
}

/// Claims go with their pods.
fn collect_garbage(server: &Server) {
    let sight = Sight::of(server);
    for claim in sight.claims.values() {
        let is_orphan = |(_, uid): &(String, String)| sight.pod(uid).is_none();
        if claim.owner.as_ref().is_some_and(is_orphan) && !claim.deleting {
            let _ = server.delete(&RESOURCE_CLAIMS, "default", &claim.name);
        }
    }
}
