//! `/eviction`: deletes that a disruption budget must permit.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::containers;
use crate::rows;

crate::scenarios![
    a_pod_without_a_budget_is_evicted,
    an_evicted_pod_is_marked_before_it_goes,
    a_budget_that_allows_no_disruption_refuses,
    a_budget_says_why_it_allows_no_disruption,
    a_budget_that_is_not_up_to_date_asks_to_wait,
    an_eviction_takes_one_disruption_from_the_budget,
    the_last_disruption_is_said_in_the_conditions_of_the_budget,
    a_pod_with_two_budgets_is_not_evicted,
    a_budget_for_other_pods_does_not_count,
    a_pod_that_has_ended_or_not_begun_needs_no_budget,
    an_unready_pod_goes_while_its_application_is_healthy,
    an_unready_pod_always_goes_where_the_budget_says_so,
    a_dry_run_of_an_eviction_asks_the_budget_and_changes_nothing,
    an_eviction_honours_the_preconditions_of_its_delete,
    an_eviction_must_mean_the_pod_of_its_path,
    an_eviction_can_only_be_created,
];

const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// A pod of the application `name` in this phase, ready or not. It has grace period 0 and a finalizer, so that it
/// remains visible after its eviction.
async fn pod(client: &Client, name: &str, phase: &str, ready: &str) -> Value {
    let pod = json!({
        "metadata": { "name": name, "labels": { "app": name }, "finalizers": ["x/y"] },
        "spec": { "terminationGracePeriodSeconds": 0, "containers": containers() },
    });
    create(client, PODS, pod).await;
    let status = json!({ "phase": phase, "conditions": [{ "type": "Ready", "status": ready }] });
    strategic(
        client,
        format!("{PODS}/{name}/status"),
        json!({ "status": status }),
    )
    .await
}

/// A budget for the application `app`, with an up-to-date status.
async fn budget(client: &Client, name: &str, app: &str, allowed: i64) -> Value {
    let budget = json!({
        "metadata": { "name": name },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": app } } },
    });
    create(client, PDBS, budget).await;
    let status = json!({
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 1 + allowed,
    });
    set_status(client, name, status).await
}

async fn set_status(client: &Client, name: &str, status: Value) -> Value {
    merge(
        client,
        format!("{PDBS}/{name}/status"),
        json!({ "status": status }),
    )
    .await
}

fn eviction(name: &str) -> Value {
    json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } })
}

async fn evict(client: &Client, name: &str) -> Answer {
    post(client, format!("{PODS}/{name}/eviction"), eviction(name)).await
}

/// An eviction with these delete options.
fn eviction_with(name: &str, options: Value) -> Value {
    let mut eviction = eviction(name);
    eviction["deleteOptions"] = options;
    eviction
}

#[track_caller]
pub(crate) fn is_done(answer: &Answer) {
    let success =
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    assert_eq!((answer.code, &answer.body), (201, &success));
}

/// Fails unless the budget refuses the eviction with this reason.
#[track_caller]
fn is_refused(answer: &Answer, why: &str) {
    let details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": why }] });
    answer.refuses(429, "TooManyRequests", VIOLATION, &details);
}

async fn is_deleted(client: &Client, name: &str) -> bool {
    let pod = read(client, format!("{PODS}/{name}")).await;
    pod["metadata"].get("deletionTimestamp").is_some()
}

async fn release(client: &Client, name: &str) {
    crate::http::release(client, format!("{PODS}/{name}")).await;
}

async fn a_pod_without_a_budget_is_evicted(client: Client) {
    pod(&client, "free", "Running", "True").await;
    release(&client, "free").await;
    is_done(&evict(&client, "free").await);
    is_gone(&client, format!("{PODS}/free")).await;
    let again = evict(&client, "free").await;
    let details = json!({ "name": "free", "kind": "pods" });
    again.refuses(404, "NotFound", "pods \"free\" not found", &details);
}

async fn an_evicted_pod_is_marked_before_it_goes(client: Client) {
    let running = pod(&client, "marked", "Running", "True").await;
    let mut watch = Watch::since(&client, PODS, &running).await;
    is_done(&evict(&client, "marked").await);
    let marked = watch.event().await["object"].clone();
    marked.shows(json!({
        "metadata.deletionTimestamp": null,
        "metadata.managedFields": running["metadata"]["managedFields"],
        "status.conditions.1.type": "DisruptionTarget",
        "status.conditions.1.status": "True",
        "status.conditions.1.reason": "EvictionByEvictionAPI",
        "status.conditions.1.message": "Eviction API: evicting",
    }));
    assert!(marked["status"]["conditions"][1]["lastTransitionTime"].is_string());
    let deleted = watch.event().await["object"].clone();
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleted["status"], marked["status"]);
    release(&client, "marked").await;
    assert_eq!(watch.line().await, "DELETED marked");
}

async fn a_budget_that_allows_no_disruption_refuses(client: Client) {
    pod(&client, "kept", "Running", "True").await;
    let before = budget(&client, "b", "kept", 0).await;
    let refused = evict(&client, "kept").await;
    let message = "The disruption budget b needs 1 healthy pods and has 1 currently";
    is_refused(&refused, message);
    assert_eq!(refused.headers.get("retry-after"), None);
    assert!(!is_deleted(&client, "kept").await);
    assert_eq!(read(&client, format!("{PDBS}/b")).await, before);
    release(&client, "kept").await;
}

async fn a_budget_says_why_it_allows_no_disruption(client: Client) {
    pod(&client, "kept", "Running", "True").await;
    budget(&client, "b", "kept", 0).await;
    for (healthy, reason, message, why) in rows! {
        5, "SyncFailed", "boom" => "does not allow evicting pods currently because it failed sync: boom";
        5, "Other", "bam" => "does not allow evicting pods currently (Other): bam";
        5, "Other", "" => "does not allow evicting pods currently";
        1, "Other", "bam" => "needs 1 healthy pods and has 1 currently";
    } {
        let condition = json!({
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status = json!({ "currentHealthy": healthy, "conditions": [condition] });
        set_status(&client, "b", status).await;
        is_refused(
            &evict(&client, "kept").await,
            &format!("The disruption budget b {why}"),
        );
    }
    release(&client, "kept").await;
}

async fn a_budget_that_is_not_up_to_date_asks_to_wait(client: Client) {
    pod(&client, "wait", "Running", "True").await;
    budget(&client, "b", "wait", 1).await;
    set_status(&client, "b", json!({ "observedGeneration": 0 })).await;
    let refused = evict(&client, "wait").await;
    let why = "The disruption budget b is still being processed by the server.";
    let causes = json!([{ "reason": "DisruptionBudget", "message": why }]);
    let details = json!({ "causes": causes, "retryAfterSeconds": 10 });
    refused.refuses(429, "TooManyRequests", VIOLATION, &details);
    assert_eq!(refused.headers["retry-after"], "10");
    assert!(!is_deleted(&client, "wait").await);
    release(&client, "wait").await;
}

async fn an_eviction_takes_one_disruption_from_the_budget(client: Client) {
    pod(&client, "taken", "Running", "True").await;
    let before = budget(&client, "b", "taken", 2).await;
    let mut watch = Watch::since(&client, PDBS, &before).await;
    is_done(&evict(&client, "taken").await);
    assert!(is_deleted(&client, "taken").await);
    let event = watch.event().await;
    event.shows(json!({
        "type": "MODIFIED",
        "object.metadata.generation": 1,
        "object.status.disruptionsAllowed": 1,
        "object.status.conditions": null,
    }));
    let after = &event["object"];
    assert!(after["status"]["disruptedPods"]["taken"].is_string());
    let owner = fields_of(after, "kube-apiserver");
    owner.shows(json!({ "operation": "Update", "subresource": "status" }));
    // Evicting the same pod again, while it is being deleted, uses no disruption.
    is_done(&evict(&client, "taken").await);
    assert_eq!(read(&client, format!("{PDBS}/b")).await, *after);
    release(&client, "taken").await;
}

async fn the_last_disruption_is_said_in_the_conditions_of_the_budget(client: Client) {
    pod(&client, "last", "Running", "True").await;
    budget(&client, "b", "last", 1).await;
    is_done(&evict(&client, "last").await);
    let after = read(&client, format!("{PDBS}/b")).await;
    after.shows(json!({ "status.disruptionsAllowed": 0, "status.conditions": [{
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": 1,
        "lastTransitionTime": after["status"]["conditions"][0]["lastTransitionTime"],
        "reason": "InsufficientPods",
        "message": "",
    }] }));
    release(&client, "last").await;
}

async fn a_pod_with_two_budgets_is_not_evicted(client: Client) {
    pod(&client, "two", "Running", "True").await;
    budget(&client, "b1", "two", 1).await;
    budget(&client, "b2", "two", 1).await;
    let refused = evict(&client, "two").await;
    let message =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    refused.refuses(500, "", message, &Value::Null);
    assert!(!is_deleted(&client, "two").await);
    release(&client, "two").await;
}

async fn a_budget_for_other_pods_does_not_count(client: Client) {
    pod(&client, "other", "Running", "True").await;
    budget(&client, "b1", "someone-else", 0).await;
    // A budget without a selector selects no pods; an empty selector selects all.
    let budget = json!({ "metadata": { "name": "b2" }, "spec": { "minAvailable": 1 } });
    create(&client, PDBS, budget).await;
    is_done(&evict(&client, "other").await);
    release(&client, "other").await;
    pod(&client, "any", "Running", "True").await;
    let budget = json!({ "metadata": { "name": "b3" }, "spec": { "minAvailable": 1, "selector": {} } });
    create(&client, PDBS, budget).await;
    assert_eq!(evict(&client, "any").await.code, 429);
    release(&client, "any").await;
}

async fn a_pod_that_has_ended_or_not_begun_needs_no_budget(client: Client) {
    for (name, phase) in [
        ("done", "Succeeded"),
        ("failed", "Failed"),
        ("pending", "Pending"),
    ] {
        pod(&client, name, phase, "False").await;
        let before = budget(&client, name, name, 0).await;
        assert_eq!(evict(&client, name).await.code, 201, "{phase}");
        assert!(is_deleted(&client, name).await);
        assert_eq!(read(&client, format!("{PDBS}/{name}")).await, before);
        release(&client, name).await;
    }
}

async fn an_unready_pod_goes_while_its_application_is_healthy(client: Client) {
    pod(&client, "sick", "Running", "False").await;
    budget(&client, "b", "sick", 0).await;
    set_status(&client, "b", json!({ "currentHealthy": 0 })).await;
    let refused = evict(&client, "sick").await;
    let message = "The disruption budget b needs 1 healthy pods and has 0 currently";
    is_refused(&refused, message);
    let before = set_status(&client, "b", json!({ "currentHealthy": 1 })).await;
    is_done(&evict(&client, "sick").await);
    assert!(is_deleted(&client, "sick").await);
    assert_eq!(read(&client, format!("{PDBS}/b")).await, before);
    release(&client, "sick").await;
}

async fn an_unready_pod_always_goes_where_the_budget_says_so(client: Client) {
    pod(&client, "sick", "Running", "False").await;
    budget(&client, "b", "sick", 0).await;
    set_status(&client, "b", json!({ "currentHealthy": 0 })).await;
    let policy = json!({ "spec": { "unhealthyPodEvictionPolicy": "AlwaysAllow" } });
    merge(&client, format!("{PDBS}/b"), policy).await;
    is_done(&evict(&client, "sick").await);
    pod(&client, "well", "Running", "True").await;
    let also = json!({ "metadata": { "labels": { "app": "sick" } } });
    merge(&client, format!("{PODS}/well"), also).await;
    assert_eq!(evict(&client, "well").await.code, 429);
    release(&client, "sick").await;
    release(&client, "well").await;
}

async fn a_dry_run_of_an_eviction_asks_the_budget_and_changes_nothing(client: Client) {
    let running = pod(&client, "tried", "Running", "True").await;
    let before = budget(&client, "b", "tried", 1).await;
    let uri = format!("{PODS}/tried/eviction");
    let inside = eviction_with("tried", json!({ "dryRun": ["All"] }));
    is_done(&post(&client, format!("{uri}?dryRun=All"), eviction("tried")).await);
    is_done(&post(&client, &uri, inside.clone()).await);
    is_done(&post(&client, format!("{uri}?dryRun=All"), inside.clone()).await);
    assert_eq!(read(&client, format!("{PODS}/tried")).await, running);
    assert_eq!(read(&client, format!("{PDBS}/b")).await, before);
    set_status(&client, "b", json!({ "disruptionsAllowed": 0 })).await;
    assert_eq!(post(&client, &uri, inside).await.code, 429);
    release(&client, "tried").await;
}

async fn an_eviction_honours_the_preconditions_of_its_delete(client: Client) {
    let running = pod(&client, "exact", "Running", "True").await;
    let uid = running["metadata"]["uid"].as_str().unwrap();
    let evict_if = async |preconditions: Value| {
        let eviction = eviction_with("exact", json!({ "preconditions": preconditions }));
        post(&client, format!("{PODS}/exact/eviction"), eviction).await
    };
    let other = evict_if(json!({ "uid": "other" })).await;
    let message = format!(
        "Operation cannot be fulfilled on Pod \"exact\": the UID in the precondition (other) does not match the UID in \
         record ({uid}). The object might have been deleted and then recreated"
    );
    let details = json!({ "name": "exact", "kind": "Pod" });
    other.refuses(409, "Conflict", &message, &details);
    let message = format!(
        "Operation cannot be fulfilled on Pod \"exact\": the ResourceVersion in the precondition (1) does not match the \
         ResourceVersion in record ({}). The object might have been modified",
        version(&running)
    );
    evict_if(json!({ "resourceVersion": "1" }))
        .await
        .says(409, &message);
    assert_eq!(read(&client, format!("{PODS}/exact")).await, running);
    let right = json!({ "uid": uid, "resourceVersion": running["metadata"]["resourceVersion"] });
    is_done(&evict_if(right).await);
    assert!(is_deleted(&client, "exact").await);
    release(&client, "exact").await;
}

async fn an_eviction_must_mean_the_pod_of_its_path(client: Client) {
    pod(&client, "meant", "Running", "True").await;
    let uri = format!("{PODS}/meant/eviction");
    let mut elsewhere = eviction("meant");
    elsewhere["metadata"]["namespace"] = json!("other");
    let nameless = json!({ "apiVersion": "policy/v1", "kind": "Eviction" });
    let of_pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "meant" } });
    for (body, message) in rows! {
        eviction("other") => "name in URL does not match name in Eviction object";
        nameless => "name in URL does not match name in Eviction object";
        elsewhere => "the namespace of the provided object does not match the namespace sent on the request";
        of_pod => "Pod in version \"v1\" cannot be handled as a Eviction: converting (v1.Pod) to (policy.Eviction): \
                   unknown conversion";
    } {
        post(&client, &uri, body).await.says(400, message);
    }
    assert!(!is_deleted(&client, "meant").await);
    let mut old = eviction("meant");
    old["apiVersion"] = json!("policy/v1beta1");
    assert_eq!(post(&client, &uri, old).await.code, 201);
    release(&client, "meant").await;
}

async fn an_eviction_can_only_be_created(client: Client) {
    let uri = format!("{PODS}/x/eviction");
    for refused in [
        get(&client, &uri).await,
        put(&client, &uri, eviction("x")).await,
        patch(&client, &uri, MERGE, json!({})).await,
        delete(&client, &uri, Value::Null).await,
    ] {
        refused.says(405, NO_SUCH_METHOD);
    }
    let missing = post(&client, "/api/v1/nodes/x/eviction", eviction("x")).await;
    assert_eq!(missing.code, 404);
}
