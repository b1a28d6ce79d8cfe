//! What happens to a few pods, their templates and their claims, drawn and done: by users, the kubelet and the garbage
//! collector. The final templates and users' claims do not depend on when the steps came.

use std::time::Duration;

use controller_testing::fault_history::{At, Draw};
use controller_testing::history::{Scripted, step};
use controller_testing::objects::{delete, edit, find, remove, terminate, uid};
use embedded_apiserver::{PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource, Server};
use resourceclaim_controller::decide::claim_name;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::scheduler::Pace;
use super::sight::{Claimant, Owner, Sight};
use super::suite::Claims;
use super::{groups, namespace};
use crate::world::{claim, made, own, pod as pod_of, request};

const TEMPLATES: usize = 3;
const SHARED: usize = 2;
/// Numbers of entries of a pod.
const ENTRIES: [usize; 6] = [1, 1, 2, 2, 2, 5];
/// The pause between the end of a pod's containers and its own.
const KUBELET_PAUSE: Duration = Duration::from_millis(300);

/// How a pod is made.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// The source of each entry's claim, as in the pod.
    pub(super) entries: Vec<Value>,
    /// It requests an extended resource.
    pub(super) extended: bool,
    /// Its group, if groups count.
    pub(super) group: Option<usize>,
    /// A user's claim has the name that its first claim would have.
    pub(super) name_is_taken: bool,
}

/// The steps of a history that lasts `length`, in order.
pub(super) fn drawn(draw: &mut Draw, length: Duration) -> Vec<At<Scripted<Claims>>> {
    let pods = draw.number(3..6);
    let has_groups = draw.chance(33);
    let mut steps = vec![At::seconds(0, share(0))];
    if has_groups {
        steps.extend(groups::at_first(draw, length));
    }
    for number in 0..TEMPLATES {
        let late = draw.chance(20).then(|| draw.time(Duration::ZERO..length));
        let (time, what) = (late.unwrap_or_default(), template(number, 1));
        steps.push(At { time, what });
    }
    if draw.chance(50) {
        steps.push(At::seconds(0, share(1)));
    }
    for pod in 0..pods {
        let late = (!draw.chance(50)).then(|| draw.time(Duration::ZERO..length / 2));
        comes(
            draw,
            &mut steps,
            pod_name(pod),
            late.unwrap_or_default(),
            has_groups,
        );
    }
    if draw.chance(15) {
        steps.extend(namespace::ends(draw, length));
    }
    for _ in 0..draw.number(6..18) {
        let time = draw.time(Duration::from_secs(1)..length);
        let pod = pod_name(draw.number(0..pods));
        if draw.chance(20) {
            comes(draw, &mut steps, pod, time, has_groups);
        } else {
            let what = if has_groups && draw.chance(25) {
                groups::drawn_step(draw)
            } else {
                drawn_step(draw, pod)
            };
            steps.push(At { time, what });
        }
    }
    steps.sort_by_key(|step| step.time);
    steps
}

/// A pod comes, and mostly there is room for it soon.
fn comes(
    draw: &mut Draw,
    steps: &mut Vec<At<Scripted<Claims>>>,
    name: String,
    time: Duration,
    has_groups: bool,
) {
    let group = (has_groups && draw.chance(70)).then(|| groups::drawn(draw));
    let what = pod(name.clone(), drawn_pod(draw, group));
    steps.push(At { time, what });
    if draw.chance(80) {
        let time = time + draw.time(Duration::ZERO..Duration::from_secs(8));
        let what = schedule(draw, name);
        steps.push(At { time, what });
    }
}

fn drawn_step(draw: &mut Draw, pod: String) -> Scripted<Claims> {
    match draw.number(0..30) {
        0..8 => looking(format!("{pod} ends"), move |server| finish(server, &pod, None)),
        8..11 => end(pod, draw.time(Duration::from_secs(1)..Duration::from_secs(20))),
        11..13 => looking(format!("{pod} is force-deleted"), move |server| {
            remove(server, &PODS, &pod);
        }),
        13..18 => delete_claim(pod, draw.number(0..5)),
        18..20 => schedule(draw, pod),
        20..22 => step(
            "the scheduler dies and comes back",
            |claims: &mut Claims, server| {
                claims.scheduler.dies(server, &claims.ledger);
                claims.ledger.lock().look(server);
            },
        ),
        22 => goes(&RESOURCE_CLAIMS, shared_name(draw.number(0..SHARED))),
        23..25 => share(draw.number(0..SHARED)),
        25..27 => template(draw.number(0..TEMPLATES), draw.number(1..4)),
        27 => goes(
            &RESOURCE_CLAIM_TEMPLATES,
            template_name(draw.number(0..TEMPLATES)),
        ),
        _ => looking("the garbage collector looks", collect_garbage),
    }
}

fn drawn_pod(draw: &mut Draw, group: Option<usize>) -> Made {
    let entries = (0..draw.pick(&ENTRIES)).map(|number| {
        let entry = entry_name(number);
        if draw.chance(65) {
            made(&entry, &template_name(draw.number(0..TEMPLATES)))
        } else {
            own(&entry, &shared_name(draw.pick(&[0, 0, 1])))
        }
    });
    let mut entries: Vec<_> = entries.collect();
    for shared in group.into_iter().flat_map(groups::entries) {
        let own = entries.iter_mut().find(|entry| entry["name"] == shared["name"]);
        if let Some(own) = own.filter(|_| draw.chance(80)) {
            *own = shared;
        }
    }
    let extended = draw.chance(20);
    // A pod may request extended resources alone.
    if extended && draw.chance(60) {
        entries.clear();
    }
    Made {
        entries,
        extended,
        group,
        name_is_taken: draw.chance(10),
    }
}

/// A step after which the ledger takes in the current state.
pub(super) fn looking(
    says: impl Into<String>,
    act: impl Fn(&Server) + Send + Sync + 'static,
) -> Scripted<Claims> {
    step(says, move |claims: &mut Claims, server| {
        act(server);
        claims.ledger.lock().look(server);
    })
}

/// A user deletes the object.
pub(super) fn goes(resource: &'static Resource, name: String) -> Scripted<Claims> {
    looking(format!("{} {name} is deleted", resource.kind), move |server| {
        delete(server, resource, &name);
    })
}

/// A template comes, in the place of the one with its number, and requests `devices` devices.
pub(super) fn template(number: usize, devices: usize) -> Scripted<Claims> {
    let says = format!(
        "{} comes anew and asks for {devices} devices",
        template_name(number)
    );
    looking(says, move |server| make_template(server, number, devices))
}

/// A user makes a claim, unless it exists.
fn share(shared: usize) -> Scripted<Claims> {
    let name = shared_name(shared);
    looking(format!("a user makes the claim {name}"), move |server| {
        make_claim(server, &name);
    })
}

/// A pod comes; an earlier one of its name is force-deleted.
pub(super) fn pod(name: String, made: Made) -> Scripted<Claims> {
    step(
        format!("{name} comes anew, {made:?}"),
        move |claims: &mut Claims, server| {
            remove(server, &PODS, &name);
            let mut container = json!({ "name": "c", "image": "c" });
            if made.extended {
                let gpu = json!({ "example.com/gpu": "1" });
                container["resources"] = json!({ "limits": gpu, "requests": gpu });
            }
            let mut spec = json!({ "containers": [container], "resourceClaims": made.entries });
            if let Some(group) = made.group.filter(|_| claims.has_groups) {
                spec["schedulingGroup"] = json!({ "podGroupName": groups::name_of(group) });
            }
            // The namespace may be about to go.
            let pod = server.insert(pod_of(&name, &spec));
            if let Some(pod) = pod.ok().filter(|_| made.name_is_taken) {
                let uid = uid(&pod).as_str().into();
                make_claim(server, &claim_name(&name, &uid, &entry_name(0), 0));
            }
            claims.ledger.lock().look(server);
        },
    )
}

/// There is room for a pod.
fn schedule(draw: &mut Draw, pod: String) -> Scripted<Claims> {
    let pause = draw.pick(&[0, 3, 60, 2_000]);
    let pace = Pace {
        pause: Duration::from_millis(pause),
        fails_once: draw.chance(40),
    };
    let says = format!("there is room for {pod}, {pace:?}");
    step(says, move |claims: &mut Claims, server| {
        claims.scheduler.wants(server, &claims.ledger, &pod, pace);
        claims.ledger.lock().look(server);
    })
}

/// A pod is deleted, with this grace period.
#[allow(
    clippy::disallowed_methods,
    reason = "the kubelet is no task of the controller"
)]
fn end(name: String, grace: Duration) -> Scripted<Claims> {
    let says = format!("{name} is deleted, and ends in {grace:?}");
    step(says, move |claims: &mut Claims, server| {
        if let Some(pod) = pod_named(server, &name).filter(|pod| !pod.deleting) {
            terminate(server, &name);
            let server = server.clone();
            claims.ends.spawn(async move {
                sleep(grace).await;
                finish(&server, &pod.name, Some(&pod.uid));
                sleep(KUBELET_PAUSE).await;
                if pod_named(&server, &pod.name).is_some_and(|left| left.uid == pod.uid) {
                    remove(&server, &PODS, &pod.name);
                }
            });
        }
        claims.ledger.lock().look(server);
    })
}

/// A user deletes the claim of an entry of a pod.
pub(super) fn delete_claim(name: String, entry: usize) -> Scripted<Claims> {
    let says = format!("a user deletes the claim of entry {entry} of {name}");
    looking(says, move |server| {
        let claim = pod_named(server, &name).and_then(|pod| {
            let entry = pod.entries.get(entry).filter(|entry| entry.users.is_none())?;
            pod.claim_of(entry).map(ToOwned::to_owned)
        });
        if let Some(claim) = claim {
            delete(server, &RESOURCE_CLAIMS, &claim);
        }
    })
}

/// The steps are over: what pods wait for appears, and nothing is left behind.
pub(super) fn rest(server: &Server, has_groups: bool) {
    namespace::set_phase(server, "Active");
    for number in 0..TEMPLATES {
        if find(server, &RESOURCE_CLAIM_TEMPLATES, &template_name(number)).is_none() {
            make_template(server, number, 1);
        }
    }
    (0..SHARED).for_each(|shared| make_claim(server, &shared_name(shared)));
    for pod in Sight::of(server).never_named() {
        remove(server, &PODS, &pod.name);
    }
    collect_garbage(server);
    if has_groups {
        groups::make_all(server);
    }
}

pub(super) fn pod_name(pod: usize) -> String {
    format!("pod-{pod}")
}

pub(super) fn shared_name(shared: usize) -> String {
    format!("shared-{shared}")
}

pub(super) fn template_name(template: usize) -> String {
    format!("template-{template}")
}

pub(super) fn entry_name(number: usize) -> String {
    format!("entry-{number}")
}

fn pod_named(server: &Server, name: &str) -> Option<Claimant> {
    Some(Claimant::of(&find(server, &PODS, name)?))
}

/// Its labels and annotations make the template unique.
fn make_template(server: &Server, number: usize, devices: usize) {
    let name = template_name(number);
    delete(server, &RESOURCE_CLAIM_TEMPLATES, &name);
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
    let _ = server.insert(object);
}

/// A user makes a claim, unless one has the name.
fn make_claim(server: &Server, name: &str) {
    let _ = server.insert(claim(&json!({ "name": name })));
}

/// The containers of a pod end; `uid`, if given, protects another pod of its name.
fn finish(server: &Server, name: &str, uid: Option<&str>) {
    if pod_named(server, name).is_some_and(|pod| uid.is_none_or(|uid| pod.uid == uid)) {
        edit(server, &PODS, name, |pod| {
            pod["status"]["phase"] = json!("Succeeded");
        });
    }
}

/// Groups go once no pod needs them, and claims go with their pods and groups.
fn collect_garbage(server: &Server) {
    groups::let_go(server);
    let sight = Sight::of(server);
    for claim in sight.claims.values() {
        let is_orphan = |owner: &Owner| sight.claimant(&owner.uid).is_none();
        if claim.owner.as_ref().is_some_and(is_orphan) && !claim.deleting {
            delete(server, &RESOURCE_CLAIMS, &claim.name);
        }
    }
}
