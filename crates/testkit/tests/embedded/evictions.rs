//! `/eviction`: deletes that ask the disruption budget.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

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

/// A pod of the application `name`, with a grace period of zero and a finalizer, so that it stays to be looked
/// at, in `phase` and ready or not.
async fn pod(client: &Client, name: &str, phase: &str, ready: &str) -> Value {
    let pod = json!({
        "metadata": { "name": name, "labels": { "app": name }, "finalizers": ["x/y"] },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "c", "image": "i" }],
        },
    });
    create(client, PODS, pod).await;
    let status = json!({ "phase": phase, "conditions": [{ "type": "Ready", "status": ready }] });
    let uri = format!("{PODS}/{name}/status");
    let pod = patch(client, uri, STRATEGIC, json!({ "status": status })).await;
    assert_eq!(pod.code, 200, "{pod:?}");
    pod.body
}

/// A budget for the application `app` whose controller has seen it.
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
    let uri = format!("{PDBS}/{name}/status");
    let budget = patch(client, uri, MERGE, json!({ "status": status })).await;
    assert_eq!(budget.code, 200, "{budget:?}");
    budget.body
}

fn eviction(name: &str) -> Value {
    json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } })
}

async fn evict(client: &Client, name: &str) -> Answer {
    post(client, format!("{PODS}/{name}/eviction"), eviction(name)).await
}

fn success() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
}

fn refusal(why: &str) -> Value {
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "reason": "TooManyRequests",
        "details": { "causes": [{ "reason": "DisruptionBudget", "message": why }] },
        "code": 429,
    })
}

async fn is_deleted(client: &Client, name: &str) -> bool {
    let pod = get(client, format!("{PODS}/{name}")).await;
    assert_eq!(pod.code, 200);
    pod.body["metadata"].get("deletionTimestamp").is_some()
}

async fn release(client: &Client, name: &str) {
    let released = json!({ "metadata": { "finalizers": null } });
    let released = patch(client, format!("{PODS}/{name}"), MERGE, released).await;
    assert_eq!(released.code, 200, "{released:?}");
}

async fn a_pod_without_a_budget_is_evicted(client: Client) {
    pod(&client, "free", "Running", "True").await;
    release(&client, "free").await;
    let evicted = evict(&client, "free").await;
    assert_eq!((evicted.code, evicted.body), (201, success()));
    assert_eq!(get(&client, format!("{PODS}/free")).await.code, 404);
    let again = evict(&client, "free").await;
    assert_eq!(
        (again.code, &again.body["message"], &again.body["details"]),
        (
            404,
            &json!("pods \"free\" not found"),
            &json!({ "name": "free", "kind": "pods" })
        )
    );
}

async fn an_evicted_pod_is_marked_before_it_goes(client: Client) {
    let running = pod(&client, "marked", "Running", "True").await;
    let mut watch = Watch::open(
        &client,
        format!("{PODS}?watch=1&resourceVersion={}", version(&running)),
    )
    .await;
    assert_eq!(evict(&client, "marked").await.code, 201);
    let marked = watch.event().await["object"].clone();
    assert_eq!(marked["metadata"].get("deletionTimestamp"), None);
    let condition = &marked["status"]["conditions"][1];
    let fields = ["type", "status", "reason", "message"].map(|field| condition[field].as_str().unwrap());
    assert_eq!(
        fields,
        [
            "DisruptionTarget",
            "True",
            "EvictionByEvictionAPI",
            "Eviction API: evicting"
        ]
    );
    assert!(condition["lastTransitionTime"].is_string());
    assert_eq!(
        marked["metadata"]["managedFields"],
        running["metadata"]["managedFields"]
    );
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
    assert_eq!(
        (refused.code, refused.body),
        (
            429,
            refusal("The disruption budget b needs 1 healthy pods and has 1 currently")
        )
    );
    assert_eq!(refused.headers.get("retry-after"), None);
    assert!(!is_deleted(&client, "kept").await);
    assert_eq!(get(&client, format!("{PDBS}/b")).await.body, before);
    release(&client, "kept").await;
}

async fn a_budget_says_why_it_allows_no_disruption(client: Client) {
    pod(&client, "kept", "Running", "True").await;
    budget(&client, "b", "kept", 0).await;
    let condition = |reason: &str, message: &str| {
        json!([{
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    };
    for (status, why) in [
        (
            json!({ "currentHealthy": 5, "conditions": condition("SyncFailed", "boom") }),
            "The disruption budget b does not allow evicting pods currently because it failed sync: boom",
        ),
        (
            json!({ "conditions": condition("Other", "bam") }),
            "The disruption budget b does not allow evicting pods currently (Other): bam",
        ),
        (
            json!({ "conditions": condition("Other", "") }),
            "The disruption budget b does not allow evicting pods currently",
        ),
        (
            json!({ "conditions": condition("Other", "bam"), "currentHealthy": 1 }),
            "The disruption budget b needs 1 healthy pods and has 1 currently",
        ),
    ] {
        set_status(&client, "b", status).await;
        assert_eq!(evict(&client, "kept").await.body, refusal(why));
    }
    release(&client, "kept").await;
}

async fn a_budget_that_is_not_up_to_date_asks_to_wait(client: Client) {
    pod(&client, "wait", "Running", "True").await;
    budget(&client, "b", "wait", 1).await;
    set_status(&client, "b", json!({ "observedGeneration": 0 })).await;
    let refused = evict(&client, "wait").await;
    let mut expected = refusal("The disruption budget b is still being processed by the server.");
    expected["details"]["retryAfterSeconds"] = json!(10);
    assert_eq!((refused.code, refused.body), (429, expected));
    assert_eq!(refused.headers["retry-after"], "10");
    assert!(!is_deleted(&client, "wait").await);
    release(&client, "wait").await;
}

async fn an_eviction_takes_one_disruption_from_the_budget(client: Client) {
    pod(&client, "taken", "Running", "True").await;
    let before = budget(&client, "b", "taken", 2).await;
    let mut watch = Watch::open(
        &client,
        format!("{PDBS}?watch=1&resourceVersion={}", version(&before)),
    )
    .await;
    assert_eq!(evict(&client, "taken").await.body, success());
    assert!(is_deleted(&client, "taken").await);
    let event = watch.event().await;
    assert_eq!(event["type"], "MODIFIED");
    let status = &event["object"]["status"];
    assert_eq!(status["disruptionsAllowed"], 1);
    assert!(status["disruptedPods"]["taken"].is_string());
    assert_eq!(status.get("conditions"), None);
    assert_eq!(event["object"]["metadata"]["generation"], 1);
    let owner = event["object"]["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["manager"] == "kube-apiserver")
        .unwrap();
    assert_eq!(
        (&owner["operation"], &owner["subresource"]),
        (&json!("Update"), &json!("status"))
    );
    // A second eviction of the same pod, which is being deleted, takes nothing.
    assert_eq!(evict(&client, "taken").await.body, success());
    let after = get(&client, format!("{PDBS}/b")).await.body;
    assert_eq!(after, event["object"]);
    release(&client, "taken").await;
}

async fn the_last_disruption_is_said_in_the_conditions_of_the_budget(client: Client) {
    pod(&client, "last", "Running", "True").await;
    budget(&client, "b", "last", 1).await;
    assert_eq!(evict(&client, "last").await.code, 201);
    let after = get(&client, format!("{PDBS}/b")).await.body;
    assert_eq!(after["status"]["disruptionsAllowed"], 0);
    let conditions = after["status"]["conditions"].as_array().unwrap();
    assert_eq!(
        conditions,
        &[json!({
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": 1,
            "lastTransitionTime": conditions[0]["lastTransitionTime"],
            "reason": "InsufficientPods",
            "message": "",
        })]
    );
    release(&client, "last").await;
}

async fn a_pod_with_two_budgets_is_not_evicted(client: Client) {
    pod(&client, "two", "Running", "True").await;
    budget(&client, "b1", "two", 1).await;
    budget(&client, "b2", "two", 1).await;
    let refused = evict(&client, "two").await;
    assert_eq!(
        (refused.code, refused.body),
        (
            500,
            json!({
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does \
                            not support.",
                "code": 500,
            })
        )
    );
    assert!(!is_deleted(&client, "two").await);
    release(&client, "two").await;
}

async fn a_budget_for_other_pods_does_not_count(client: Client) {
    pod(&client, "other", "Running", "True").await;
    budget(&client, "b1", "someone-else", 0).await;
    // No selector selects nothing, an empty one everything.
    let budget = json!({ "metadata": { "name": "b2" }, "spec": { "minAvailable": 1 } });
    create(&client, PDBS, budget).await;
    assert_eq!(evict(&client, "other").await.code, 201);
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
        let after = get(&client, format!("{PDBS}/{name}")).await.body;
        assert_eq!(after, before);
        release(&client, name).await;
    }
}

async fn an_unready_pod_goes_while_its_application_is_healthy(client: Client) {
    pod(&client, "sick", "Running", "False").await;
    budget(&client, "b", "sick", 0).await;
    set_status(&client, "b", json!({ "currentHealthy": 0 })).await;
    assert_eq!(
        evict(&client, "sick").await.body,
        refusal("The disruption budget b needs 1 healthy pods and has 0 currently")
    );
    let before = set_status(&client, "b", json!({ "currentHealthy": 1 })).await;
    assert_eq!(evict(&client, "sick").await.body, success());
    assert!(is_deleted(&client, "sick").await);
    let after = get(&client, format!("{PDBS}/b")).await.body;
    assert_eq!(after, before);
    release(&client, "sick").await;
}

async fn an_unready_pod_always_goes_where_the_budget_says_so(client: Client) {
    pod(&client, "sick", "Running", "False").await;
    budget(&client, "b", "sick", 0).await;
    set_status(&client, "b", json!({ "currentHealthy": 0 })).await;
    let policy = json!({ "spec": { "unhealthyPodEvictionPolicy": "AlwaysAllow" } });
    patch(&client, format!("{PDBS}/b"), MERGE, policy).await;
    assert_eq!(evict(&client, "sick").await.body, success());
    pod(&client, "well", "Running", "True").await;
    let also = json!({ "metadata": { "labels": { "app": "sick" } } });
    patch(&client, format!("{PODS}/well"), MERGE, also).await;
    assert_eq!(evict(&client, "well").await.code, 429);
    release(&client, "sick").await;
    release(&client, "well").await;
}

async fn a_dry_run_of_an_eviction_asks_the_budget_and_changes_nothing(client: Client) {
    let running = pod(&client, "tried", "Running", "True").await;
    let before = budget(&client, "b", "tried", 1).await;
    let uri = format!("{PODS}/tried/eviction");
    let mut inside = eviction("tried");
    inside["deleteOptions"] = json!({ "dryRun": ["All"] });
    for tried in [
        post(&client, format!("{uri}?dryRun=All"), eviction("tried")).await,
        post(&client, &uri, inside.clone()).await,
        post(&client, format!("{uri}?dryRun=All"), inside.clone()).await,
    ] {
        assert_eq!((tried.code, tried.body), (201, success()));
    }
    assert_eq!(get(&client, format!("{PODS}/tried")).await.body, running);
    assert_eq!(get(&client, format!("{PDBS}/b")).await.body, before);
    set_status(&client, "b", json!({ "disruptionsAllowed": 0 })).await;
    assert_eq!(post(&client, &uri, inside).await.code, 429);
    release(&client, "tried").await;
}

async fn an_eviction_honours_the_preconditions_of_its_delete(client: Client) {
    let running = pod(&client, "exact", "Running", "True").await;
    let uid = running["metadata"]["uid"].as_str().unwrap();
    let uri = format!("{PODS}/exact/eviction");
    let with = |preconditions: Value| {
        let mut eviction = eviction("exact");
        eviction["deleteOptions"] = json!({ "preconditions": preconditions });
        eviction
    };
    let other = post(&client, &uri, with(json!({ "uid": "other" }))).await;
    assert_eq!(
        (other.code, &other.body["message"], &other.body["details"]),
        (
            409,
            &json!(format!(
                "Operation cannot be fulfilled on Pod \"exact\": the UID in the precondition (other) does not \
                 match the UID in record ({uid}). The object might have been deleted and then recreated"
            )),
            &json!({ "name": "exact", "kind": "Pod" })
        )
    );
    let stale = post(&client, &uri, with(json!({ "resourceVersion": "1" }))).await;
    stale.says(409, &format!(
                "Operation cannot be fulfilled on Pod \"exact\": the ResourceVersion in the precondition (1) does \
                 not match the ResourceVersion in record ({}). The object might have been modified",
                version(&running)
            ));
    assert_eq!(get(&client, format!("{PODS}/exact")).await.body, running);
    let right = json!({ "uid": uid, "resourceVersion": running["metadata"]["resourceVersion"] });
    assert_eq!(post(&client, &uri, with(right)).await.body, success());
    assert!(is_deleted(&client, "exact").await);
    release(&client, "exact").await;
}

async fn an_eviction_must_mean_the_pod_of_its_path(client: Client) {
    pod(&client, "meant", "Running", "True").await;
    let uri = format!("{PODS}/meant/eviction");
    let mut elsewhere = eviction("meant");
    elsewhere["metadata"]["namespace"] = json!("other");
    for (body, message) in [
        (
            eviction("other"),
            "name in URL does not match name in Eviction object",
        ),
        (
            json!({ "apiVersion": "policy/v1", "kind": "Eviction" }),
            "name in URL does not match name in Eviction object",
        ),
        (
            elsewhere,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "meant" } }),
            "Pod in version \"v1\" cannot be handled as a Eviction: converting (v1.Pod) to (policy.Eviction): \
             unknown conversion",
        ),
    ] {
        let refused = post(&client, &uri, body).await;
        assert_eq!((refused.code, &refused.body["message"]), (400, &json!(message)));
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
        refused.says(
            405,
            "the server does not allow this method on the requested resource",
        );
    }
    let missing = post(&client, "/api/v1/nodes/x/eviction", eviction("x")).await;
    assert_eq!(missing.code, 404);
}
