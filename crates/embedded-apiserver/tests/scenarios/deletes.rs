//! Deletes: options, grace periods, finalizers, dependents.

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::{self, job};

crate::scenarios![
    kinds_are_told_apart_by_what_a_delete_answers,
    a_pod_that_runs_nowhere_goes_at_once,
    a_bound_pod_stays_for_its_grace_period,
    a_pod_names_its_own_grace_period,
    a_grace_period_can_be_shortened_only,
    a_negative_grace_period_is_one_second,
    a_pod_that_is_done_goes_at_once,
    the_end_of_a_phase_does_not_end_a_pod,
    a_pod_waits_for_both_its_grace_period_and_its_finalizers,
    the_watch_of_a_pod_tells_each_step_of_its_end,
    a_kind_without_grace_ignores_the_period,
    a_foreground_delete_leaves_a_finalizer,
    an_orphaning_delete_leaves_a_finalizer,
    a_later_delete_changes_its_mind_about_dependents,
    a_finalizer_asks_for_what_the_options_leave_open,
    jobs_and_replication_controllers_keep_their_dependents_unless_told,
    events_have_no_dependents,
    the_end_counts_as_a_generation,
    the_last_finalizer_ends_an_object_by_any_write,
    a_dry_run_shows_the_end_and_does_not_bring_it,
];

pub(crate) async fn config_map(client: &Client, name: &str, mut metadata: Value) -> String {
    metadata["name"] = json!(name);
    create(client, CONFIG_MAPS, json!({ "metadata": metadata })).await;
    format!("{CONFIG_MAPS}/{name}")
}

pub(crate) async fn pod(client: &Client, name: &str, node: &str, finalizers: &[&str]) -> String {
    let mut object = objects::pod(
        name,
        json!({ "terminationGracePeriodSeconds": 30, "nodeName": node }),
    );
    object["metadata"]["finalizers"] = json!(finalizers);
    create(client, PODS, object).await;
    format!("{PODS}/{name}")
}

async fn set_phase(client: &Client, pod: &str, phase: &str) {
    let patch = json!({ "status": { "phase": phase } });
    merge(client, format!("{pod}/status"), patch).await;
}

/// Deletes an object with this grace period.
pub(crate) async fn delete_in(client: &Client, uri: &str, seconds: i64) -> Value {
    let deleted = delete(client, uri, json!({ "gracePeriodSeconds": seconds })).await;
    assert_eq!(deleted.code, 200, "{deleted:?}");
    deleted.body
}

/// Deletes an object with this propagation policy.
async fn delete_by(client: &Client, uri: &str, policy: &str) -> Value {
    let deleted = delete(client, uri, json!({ "propagationPolicy": policy })).await;
    assert_eq!(deleted.code, 200, "{deleted:?}");
    deleted.body
}

/// The grace period, and the time from which it counts.
pub(crate) fn grace(object: &Value) -> (i64, Timestamp) {
    let seconds = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap();
    let end: Timestamp = object["metadata"]["deletionTimestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    (seconds, end - SignedDuration::from_secs(seconds))
}

async fn kinds_are_told_apart_by_what_a_delete_answers(client: Client) {
    for collection in [CONFIG_MAPS, LEASES] {
        create(&client, collection, named("told")).await;
        let answer = delete(&client, format!("{collection}/told"), Value::Null).await;
        answer.shows(json!({ "code": 200, "kind": "Status", "status": "Success" }));
    }
    let account = create(&client, SERVICE_ACCOUNTS, named("told")).await;
    let deleted = delete(&client, format!("{SERVICE_ACCOUNTS}/told"), Value::Null).await;
    deleted.shows(json!({
        "kind": "ServiceAccount",
        "metadata.uid": account["metadata"]["uid"],
        "metadata.deletionTimestamp": null,
    }));
    assert!(version(&deleted.body) > version(&account));
}

async fn a_pod_that_runs_nowhere_goes_at_once(client: Client) {
    let uri = pod(&client, "unbound", "", &[]).await;
    let gone = delete_in(&client, &uri, 100).await;
    gone.shows(json!({ "kind": "Pod", "metadata.deletionGracePeriodSeconds": 0 }));
    is_gone(&client, &uri).await;
}

async fn a_bound_pod_stays_for_its_grace_period(client: Client) {
    let uri = pod(&client, "bound", "nowhere", &[]).await;
    let before = read(&client, &uri).await;
    let waiting = delete(&client, &uri, Value::Null).await;
    waiting.shows(json!({ "code": 200, "kind": "Pod" }));
    let waiting = waiting.body;
    let (seconds, start) = grace(&waiting);
    assert_eq!(seconds, 30);
    let created: Timestamp = before["metadata"]["creationTimestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((0..10).contains(&(start - created).get_seconds()), "{waiting:#}");
    assert_eq!(read(&client, &uri).await, waiting);
    let gone = delete_in(&client, &uri, 0).await;
    assert_eq!(grace(&gone).0, 0);
    assert!(version(&gone) > version(&waiting));
    is_gone(&client, &uri).await;
    assert_eq!(delete(&client, &uri, Value::Null).await.code, 404);
}

async fn a_pod_names_its_own_grace_period(client: Client) {
    let spec = json!({ "nodeName": "nowhere", "terminationGracePeriodSeconds": 5 });
    create(&client, PODS, objects::pod("own", spec)).await;
    let waiting = delete(&client, format!("{PODS}/own"), Value::Null).await;
    assert_eq!(grace(&waiting.body).0, 5);
}

async fn a_grace_period_can_be_shortened_only(client: Client) {
    let uri = pod(&client, "shorten", "nowhere", &[]).await;
    let first = delete_in(&client, &uri, 60).await;
    let start = grace(&first).1;
    assert_eq!(delete(&client, &uri, Value::Null).await.body, first);
    for not_shorter in [60, 61] {
        assert_eq!(delete_in(&client, &uri, not_shorter).await, first);
    }
    let shorter = delete_in(&client, &uri, 20).await;
    assert_eq!(grace(&shorter), (20, start));
    assert_eq!(shorter["metadata"]["generation"], first["metadata"]["generation"]);
    assert!(version(&shorter) > version(&first));
}

async fn a_negative_grace_period_is_one_second(client: Client) {
    let uri = pod(&client, "negative", "nowhere", &[]).await;
    let waiting = delete_in(&client, &uri, -7).await;
    assert_eq!(grace(&waiting).0, 1);
    assert_eq!(delete_in(&client, &uri, -3).await, waiting);
}

async fn a_pod_that_is_done_goes_at_once(client: Client) {
    for phase in ["Succeeded", "Failed"] {
        let uri = pod(&client, &phase.to_lowercase(), "nowhere", &[]).await;
        set_phase(&client, &uri, phase).await;
        assert_eq!(grace(&delete_in(&client, &uri, 100).await).0, 0);
        is_gone(&client, &uri).await;
    }
}

async fn the_end_of_a_phase_does_not_end_a_pod(client: Client) {
    let uri = pod(&client, "phase", "nowhere", &[]).await;
    delete(&client, &uri, Value::Null).await;
    set_phase(&client, &uri, "Failed").await;
    let still = delete(&client, &uri, Value::Null).await;
    assert_eq!((still.code, grace(&still.body).0), (200, 30));
    read(&client, &uri).await;
    delete_in(&client, &uri, 0).await;
    is_gone(&client, &uri).await;
}

async fn a_pod_waits_for_both_its_grace_period_and_its_finalizers(client: Client) {
    let first = pod(&client, "finalizer-first", "nowhere", &["x/y"]).await;
    delete(&client, &first, Value::Null).await;
    release(&client, &first).await;
    assert_eq!(grace(&read(&client, &first).await).0, 30);
    delete_in(&client, &first, 0).await;
    is_gone(&client, &first).await;
    let last = pod(&client, "finalizer-last", "nowhere", &["x/y"]).await;
    let waiting = delete_in(&client, &last, 0).await;
    assert_eq!(grace(&waiting).0, 0);
    assert_eq!(delete_in(&client, &last, 0).await, waiting);
    release(&client, &last).await;
    is_gone(&client, &last).await;
}

async fn the_watch_of_a_pod_tells_each_step_of_its_end(client: Client) {
    let uri = pod(&client, "steps", "nowhere", &[]).await;
    let created = read(&client, &uri).await;
    let steps = format!("{PODS}?fieldSelector=metadata.name%3Dsteps");
    let mut watch = Watch::since(&client, steps, &created).await;
    delete(&client, &uri, Value::Null).await;
    delete_in(&client, &uri, 10).await;
    let gone = delete_in(&client, &uri, 0).await;
    let mut last = Value::Null;
    for (kind, grace) in [
        ("MODIFIED", 30),
        ("MODIFIED", 10),
        ("MODIFIED", 0),
        ("DELETED", 0),
    ] {
        last = watch.event().await;
        last.shows(json!({
            "type": kind,
            "object.metadata.deletionGracePeriodSeconds": grace,
            "object.metadata.generation": 2,
        }));
    }
    assert_eq!(last["object"], gone);
}

async fn a_kind_without_grace_ignores_the_period(client: Client) {
    let uri = config_map(&client, "graceless", json!({ "finalizers": ["x/y"] })).await;
    let waiting = delete_in(&client, &uri, 100).await;
    assert_eq!(grace(&waiting).0, 0);
    release(&client, &uri).await;
    is_gone(&client, &uri).await;
}

async fn a_foreground_delete_leaves_a_finalizer(client: Client) {
    let uri = config_map(&client, "foreground", json!({})).await;
    let waiting = delete_by(&client, &uri, "Foreground").await;
    // The finalizer that the server added has no owner.
    waiting.shows(json!({
        "kind": "ConfigMap",
        "metadata.finalizers": ["foregroundDeletion"],
        "metadata.managedFields": null,
    }));
    assert_eq!(delete_by(&client, &uri, "Foreground").await, waiting);
    release(&client, &uri).await;
    is_gone(&client, &uri).await;
    let uri = pod(&client, "foreground", "nowhere", &[]).await;
    let waiting = delete_by(&client, &uri, "Foreground").await;
    assert_eq!(grace(&waiting).0, 30);
    let waiting = delete_in(&client, &uri, 0).await;
    assert_eq!(grace(&waiting).0, 0);
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    release(&client, &uri).await;
    is_gone(&client, &uri).await;
}

async fn an_orphaning_delete_leaves_a_finalizer(client: Client) {
    let uri = config_map(&client, "orphan", json!({ "finalizers": ["x/y"] })).await;
    let waiting = delete_by(&client, &uri, "Orphan").await;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["x/y", "orphan"]));
    release(&client, &uri).await;
    is_gone(&client, &uri).await;
}

async fn a_later_delete_changes_its_mind_about_dependents(client: Client) {
    let uri = config_map(&client, "mind", json!({})).await;
    let created = read(&client, &uri).await;
    let mind = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dmind");
    let mut watch = Watch::since(&client, mind, &created).await;
    let waiting = delete_by(&client, &uri, "Foreground").await;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let orphaning = delete_by(&client, &uri, "Orphan").await;
    assert_eq!(orphaning["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(delete(&client, &uri, Value::Null).await.body, orphaning);
    assert_eq!(delete_by(&client, &uri, "Background").await["status"], "Success");
    assert_eq!(watch.line().await, "MODIFIED mind");
    watch.tells("MODIFIED", &orphaning).await;
    // The event shows the state before the last delete.
    let gone = watch.event().await;
    gone.shows(json!({ "type": "DELETED", "object.metadata.finalizers": ["orphan"] }));
}

async fn a_finalizer_asks_for_what_the_options_leave_open(client: Client) {
    let uri = config_map(&client, "asks", json!({ "finalizers": ["foregroundDeletion"] })).await;
    let waiting = delete(&client, &uri, Value::Null).await.body;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(delete_by(&client, &uri, "Background").await["status"], "Success");
}

async fn jobs_and_replication_controllers_keep_their_dependents_unless_told(client: Client) {
    create(&client, JOBS, job("keeps")).await;
    let uri = format!("{JOBS}/keeps");
    let waiting = delete(&client, &uri, Value::Null).await;
    assert_eq!(waiting.body["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(delete_by(&client, &uri, "Background").await["status"], "Success");
    is_gone(&client, &uri).await;
    let mut controller = objects::workload("keeps", &objects::pod("p", Value::Null));
    controller["spec"]["selector"] = objects::labels();
    create(&client, REPLICATION_CONTROLLERS, controller).await;
    let uri = format!("{REPLICATION_CONTROLLERS}/keeps");
    let waiting = delete(&client, &uri, Value::Null).await;
    assert_eq!(waiting.body["metadata"]["finalizers"], json!(["orphan"]));
    release(&client, &uri).await;
    is_gone(&client, &uri).await;
}

async fn events_have_no_dependents(client: Client) {
    let event = json!({
        "metadata": { "name": "no-dependents" },
        "involvedObject": { "kind": "Node", "name": "n" },
    });
    create(&client, CORE_EVENTS, event).await;
    let uri = format!("{CORE_EVENTS}/no-dependents");
    assert_eq!(delete_by(&client, &uri, "Foreground").await["status"], "Success");
    is_gone(&client, &uri).await;
}

async fn the_end_counts_as_a_generation(client: Client) {
    let mut object = job("generation");
    object["metadata"]["finalizers"] = json!(["x/y"]);
    let created = create(&client, JOBS, object).await;
    assert_eq!(created["metadata"]["generation"], 1);
    let uri = format!("{JOBS}/generation");
    let waiting = delete_by(&client, &uri, "Background").await;
    assert_eq!(waiting["metadata"]["generation"], 2);
    assert_eq!(delete_by(&client, &uri, "Background").await, waiting);
    let other = delete_by(&client, &uri, "Foreground").await;
    assert_eq!(other["metadata"]["generation"], 2);
    release(&client, &uri).await;
}

async fn the_last_finalizer_ends_an_object_by_any_write(client: Client) {
    let uri = config_map(&client, "last", json!({ "finalizers": ["x/y", "x/z"] })).await;
    let waiting = delete(&client, &uri, Value::Null).await.body;
    let one = json!({ "metadata": { "finalizers": ["x/z"] } });
    let one = merge(&client, &uri, one).await;
    one.shows(json!({
        "metadata.finalizers": ["x/z"],
        "metadata.deletionTimestamp": waiting["metadata"]["deletionTimestamp"],
    }));
    let mut none = without(one.clone(), "finalizers");
    none["metadata"]["labels"] = json!({ "a": "b" });
    let last = update(&client, &uri, none).await;
    last.shows(json!({ "kind": "ConfigMap", "metadata.labels": { "a": "b" } }));
    assert_eq!(version(&last), version(&one));
    is_gone(&client, &uri).await;
}

async fn a_dry_run_shows_the_end_and_does_not_bring_it(client: Client) {
    let dry = json!({ "dryRun": ["All"] });
    let uri = config_map(&client, "dry-end", json!({ "finalizers": ["x/y"] })).await;
    let before = read(&client, &uri).await;
    let shown = delete(&client, &uri, dry.clone()).await.body;
    assert!(shown["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(version(&shown), version(&before));
    assert_eq!(read(&client, &uri).await, before);
    let pod = pod(&client, "dry-end", "nowhere", &[]).await;
    let before = read(&client, &pod).await;
    let at_once = json!({ "dryRun": ["All"], "gracePeriodSeconds": 0 });
    for (options, seconds) in [(dry.clone(), 30), (at_once, 0)] {
        let shown = delete(&client, &pod, options).await.body;
        assert_eq!((grace(&shown).0, version(&shown)), (seconds, version(&before)));
    }
    assert_eq!(read(&client, &pod).await, before);
    let account = create(&client, SERVICE_ACCOUNTS, named("dry-end")).await;
    let uri = format!("{SERVICE_ACCOUNTS}/dry-end");
    assert_eq!(delete(&client, &uri, dry).await.body, account);
    assert_eq!(delete(&client, &uri, Value::Null).await.code, 200);
}
