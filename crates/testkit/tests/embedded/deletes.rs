//! How objects end: options, grace periods, finalizers, dependents, collections.

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

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
    a_collection_is_deleted_by_selector,
    a_collection_is_deleted_page_by_page,
    a_collection_keeps_what_has_finalizers,
    a_dry_run_and_bad_options_spare_the_collection,
    a_refused_object_ends_the_delete_of_its_collection,
    collections_of_all_namespaces_cannot_be_deleted,
    a_collection_is_answered_as_metadata_to_who_asks_for_it,
];

async fn config_map(client: &Client, name: &str, metadata: Value) -> String {
    let mut object = json!({ "metadata": { "name": name } });
    for (field, value) in metadata.as_object().into_iter().flatten() {
        object["metadata"][field] = value.clone();
    }
    create(client, CONFIG_MAPS, object).await;
    format!("{CONFIG_MAPS}/{name}")
}

async fn pod(client: &Client, name: &str, node: &str, finalizers: &[&str]) -> String {
    let mut object = json!({
        "metadata": { "name": name, "finalizers": finalizers },
        "spec": {
            "terminationGracePeriodSeconds": 30,
            "containers": [{ "name": "c", "image": "i" }],
        },
    });
    if !node.is_empty() {
        object["spec"]["nodeName"] = json!(node);
    }
    create(client, PODS, object).await;
    format!("{PODS}/{name}")
}

async fn set_phase(client: &Client, pod: &str, phase: &str) {
    let body = json!({ "status": { "phase": phase } });
    assert_eq!(
        patch(client, format!("{pod}/status"), MERGE, body).await.code,
        200
    );
}

async fn release(client: &Client, uri: &str) -> Answer {
    let body = json!({ "metadata": { "finalizers": null } });
    patch(client, uri, MERGE, body).await
}

async fn code_of(client: &Client, uri: &str) -> u16 {
    get(client, uri).await.code
}

/// Grace period and the time from which it counts.
fn grace(object: &Value) -> (i64, Timestamp) {
    let seconds = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap();
    let end: Timestamp = object["metadata"]["deletionTimestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    (seconds, end - SignedDuration::from_secs(seconds))
}

fn refusal(answer: &Answer) -> (u16, &str, &str) {
    let text = |field: &str| answer.body[field].as_str().unwrap_or_default();
    (answer.code, text("reason"), text("message"))
}

async fn kinds_are_told_apart_by_what_a_delete_answers(client: Client) {
    for collection in [CONFIG_MAPS, LEASES] {
        create(&client, collection, json!({ "metadata": { "name": "told" } })).await;
        let answer = delete(&client, format!("{collection}/told"), Value::Null).await;
        assert_eq!(
            (answer.code, &answer.body["kind"], &answer.body["status"]),
            (200, &json!("Status"), &json!("Success"))
        );
    }
    let account = json!({ "metadata": { "name": "told" } });
    let account = create(&client, SERVICE_ACCOUNTS, account).await;
    let deleted = delete(&client, format!("{SERVICE_ACCOUNTS}/told"), Value::Null)
        .await
        .body;
    assert_eq!(
        (&deleted["kind"], &deleted["metadata"]["uid"]),
        (&json!("ServiceAccount"), &account["metadata"]["uid"])
    );
    assert!(version(&deleted) > version(&account));
    assert_eq!(deleted["metadata"].get("deletionTimestamp"), None);
}

async fn a_pod_that_runs_nowhere_goes_at_once(client: Client) {
    let uri = pod(&client, "unbound", "", &[]).await;
    let gone = delete(&client, &uri, json!({ "gracePeriodSeconds": 100 })).await;
    assert_eq!((gone.code, &gone.body["kind"]), (200, &json!("Pod")));
    assert_eq!(gone.body["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(code_of(&client, &uri).await, 404);
}

async fn a_bound_pod_stays_for_its_grace_period(client: Client) {
    let uri = pod(&client, "bound", "nowhere", &[]).await;
    let before = get(&client, &uri).await.body;
    let waiting = delete(&client, &uri, Value::Null).await;
    assert_eq!((waiting.code, &waiting.body["kind"]), (200, &json!("Pod")));
    let waiting = waiting.body;
    let (seconds, start) = grace(&waiting);
    assert_eq!(seconds, 30);
    let created: Timestamp = before["metadata"]["creationTimestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((0..10).contains(&(start - created).get_seconds()), "{waiting:#}");
    assert_eq!(get(&client, &uri).await.body, waiting);
    let gone = delete(&client, &uri, json!({ "gracePeriodSeconds": 0 })).await;
    assert_eq!((gone.code, grace(&gone.body).0), (200, 0));
    assert!(version(&gone.body) > version(&waiting));
    assert_eq!(code_of(&client, &uri).await, 404);
    assert_eq!(delete(&client, &uri, Value::Null).await.code, 404);
}

async fn a_pod_names_its_own_grace_period(client: Client) {
    let object = json!({
        "metadata": { "name": "own" },
        "spec": {
            "nodeName": "nowhere",
            "terminationGracePeriodSeconds": 5,
            "containers": [{ "name": "c", "image": "i" }],
        },
    });
    create(&client, PODS, object).await;
    let waiting = delete(&client, format!("{PODS}/own"), Value::Null).await;
    assert_eq!(grace(&waiting.body).0, 5);
}

async fn a_grace_period_can_be_shortened_only(client: Client) {
    let uri = pod(&client, "shorten", "nowhere", &[]).await;
    let first = delete(&client, &uri, json!({ "gracePeriodSeconds": 60 }))
        .await
        .body;
    let start = grace(&first).1;
    for not_shorter in [
        Value::Null,
        json!({ "gracePeriodSeconds": 60 }),
        json!({ "gracePeriodSeconds": 61 }),
    ] {
        let same = delete(&client, &uri, not_shorter).await;
        assert_eq!((same.code, same.body), (200, first.clone()));
    }
    let shorter = delete(&client, &uri, json!({ "gracePeriodSeconds": 20 }))
        .await
        .body;
    assert_eq!(grace(&shorter), (20, start));
    assert_eq!(shorter["metadata"]["generation"], first["metadata"]["generation"]);
    assert!(version(&shorter) > version(&first));
}

async fn a_negative_grace_period_is_one_second(client: Client) {
    let uri = pod(&client, "negative", "nowhere", &[]).await;
    let waiting = delete(&client, &uri, json!({ "gracePeriodSeconds": -7 })).await;
    assert_eq!(grace(&waiting.body).0, 1);
    let again = delete(&client, &uri, json!({ "gracePeriodSeconds": -3 })).await;
    assert_eq!(again.body, waiting.body);
}

async fn a_pod_that_is_done_goes_at_once(client: Client) {
    for phase in ["Succeeded", "Failed"] {
        let uri = pod(&client, &phase.to_lowercase(), "nowhere", &[]).await;
        set_phase(&client, &uri, phase).await;
        let gone = delete(&client, &uri, json!({ "gracePeriodSeconds": 100 })).await;
        assert_eq!((gone.code, grace(&gone.body).0), (200, 0));
        assert_eq!(code_of(&client, &uri).await, 404);
    }
}

async fn the_end_of_a_phase_does_not_end_a_pod(client: Client) {
    let uri = pod(&client, "phase", "nowhere", &[]).await;
    delete(&client, &uri, Value::Null).await;
    set_phase(&client, &uri, "Failed").await;
    let still = delete(&client, &uri, Value::Null).await;
    assert_eq!((still.code, grace(&still.body).0), (200, 30));
    assert_eq!(code_of(&client, &uri).await, 200);
    delete(&client, &uri, json!({ "gracePeriodSeconds": 0 })).await;
    assert_eq!(code_of(&client, &uri).await, 404);
}

async fn a_pod_waits_for_both_its_grace_period_and_its_finalizers(client: Client) {
    let first = pod(&client, "finalizer-first", "nowhere", &["x/y"]).await;
    delete(&client, &first, Value::Null).await;
    assert_eq!(release(&client, &first).await.code, 200);
    assert_eq!(grace(&get(&client, &first).await.body).0, 30);
    delete(&client, &first, json!({ "gracePeriodSeconds": 0 })).await;
    assert_eq!(code_of(&client, &first).await, 404);
    let last = pod(&client, "finalizer-last", "nowhere", &["x/y"]).await;
    let waiting = delete(&client, &last, json!({ "gracePeriodSeconds": 0 }))
        .await
        .body;
    assert_eq!(grace(&waiting).0, 0);
    let again = delete(&client, &last, json!({ "gracePeriodSeconds": 0 })).await;
    assert_eq!(again.body, waiting);
    assert_eq!(release(&client, &last).await.code, 200);
    assert_eq!(code_of(&client, &last).await, 404);
}

async fn the_watch_of_a_pod_tells_each_step_of_its_end(client: Client) {
    let uri = pod(&client, "steps", "nowhere", &[]).await;
    let created = get(&client, &uri).await.body;
    let mut watch = Watch::open(
        &client,
        format!(
            "{PODS}?watch=1&fieldSelector=metadata.name%3Dsteps&resourceVersion={}",
            version(&created)
        ),
    )
    .await;
    delete(&client, &uri, Value::Null).await;
    delete(&client, &uri, json!({ "gracePeriodSeconds": 10 })).await;
    let gone = delete(&client, &uri, json!({ "gracePeriodSeconds": 0 }))
        .await
        .body;
    let mut steps = Vec::new();
    for _ in 0..4 {
        let event = watch.event().await;
        let metadata = &event["object"]["metadata"];
        steps.push((
            event["type"].as_str().unwrap().to_owned(),
            metadata["deletionGracePeriodSeconds"].as_i64().unwrap(),
            metadata["generation"].as_i64().unwrap(),
        ));
        if steps.len() == 4 {
            assert_eq!(event["object"], gone);
        }
    }
    let step = |kind: &str, grace| (kind.to_owned(), grace, 2);
    assert_eq!(
        steps,
        [
            step("MODIFIED", 30),
            step("MODIFIED", 10),
            step("MODIFIED", 0),
            step("DELETED", 0)
        ]
    );
}

async fn a_kind_without_grace_ignores_the_period(client: Client) {
    let uri = config_map(&client, "graceless", json!({ "finalizers": ["x/y"] })).await;
    let waiting = delete(&client, &uri, json!({ "gracePeriodSeconds": 100 })).await;
    assert_eq!(grace(&waiting.body).0, 0);
    release(&client, &uri).await;
    assert_eq!(code_of(&client, &uri).await, 404);
}

async fn a_foreground_delete_leaves_a_finalizer(client: Client) {
    let uri = config_map(&client, "foreground", json!({})).await;
    let options = json!({ "propagationPolicy": "Foreground" });
    let waiting = delete(&client, &uri, options.clone()).await;
    assert_eq!((waiting.code, &waiting.body["kind"]), (200, &json!("ConfigMap")));
    let metadata = &waiting.body["metadata"];
    assert_eq!(metadata["finalizers"], json!(["foregroundDeletion"]));
    // What the server adds belongs to no client.
    assert_eq!(metadata.get("managedFields"), None);
    assert_eq!(delete(&client, &uri, options).await.body, waiting.body);
    assert_eq!(release(&client, &uri).await.code, 200);
    assert_eq!(code_of(&client, &uri).await, 404);
    let uri = pod(&client, "foreground", "nowhere", &[]).await;
    let options = json!({ "propagationPolicy": "Foreground" });
    let waiting = delete(&client, &uri, options).await.body;
    assert_eq!(grace(&waiting).0, 30);
    let waiting = delete(&client, &uri, json!({ "gracePeriodSeconds": 0 }))
        .await
        .body;
    assert_eq!(grace(&waiting).0, 0);
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    release(&client, &uri).await;
    assert_eq!(code_of(&client, &uri).await, 404);
}

async fn an_orphaning_delete_leaves_a_finalizer(client: Client) {
    let uri = config_map(&client, "orphan", json!({ "finalizers": ["x/y"] })).await;
    let waiting = delete(&client, &uri, json!({ "propagationPolicy": "Orphan" })).await;
    assert_eq!(waiting.code, 200);
    assert_eq!(waiting.body["metadata"]["finalizers"], json!(["x/y", "orphan"]));
    release(&client, &uri).await;
    assert_eq!(code_of(&client, &uri).await, 404);
}

async fn a_later_delete_changes_its_mind_about_dependents(client: Client) {
    let uri = config_map(&client, "mind", json!({})).await;
    let created = get(&client, &uri).await.body;
    let mut watch = Watch::open(
        &client,
        format!(
            "{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Dmind&resourceVersion={}",
            version(&created)
        ),
    )
    .await;
    let ask = async |policy: &str| {
        delete(&client, &uri, json!({ "propagationPolicy": policy }))
            .await
            .body
    };
    assert_eq!(
        ask("Foreground").await["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    let orphaning = ask("Orphan").await;
    assert_eq!(orphaning["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(delete(&client, &uri, Value::Null).await.body, orphaning);
    assert_eq!(ask("Background").await["status"], "Success");
    assert_eq!(watch.line().await, "MODIFIED mind");
    assert_eq!(
        watch.event().await,
        json!({ "type": "MODIFIED", "object": orphaning })
    );
    // Its last state is the one before.
    let gone = watch.event().await;
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["metadata"]["finalizers"], json!(["orphan"]));
}

async fn a_finalizer_asks_for_what_the_options_leave_open(client: Client) {
    let uri = config_map(&client, "asks", json!({ "finalizers": ["foregroundDeletion"] })).await;
    let waiting = delete(&client, &uri, Value::Null).await.body;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let gone = delete(&client, &uri, json!({ "propagationPolicy": "Background" })).await;
    assert_eq!(gone.body["status"], "Success");
}

fn job(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "template": { "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "i" }],
        } } },
    })
}

async fn jobs_and_replication_controllers_keep_their_dependents_unless_told(client: Client) {
    create(&client, JOBS, job("keeps")).await;
    let uri = format!("{JOBS}/keeps");
    let waiting = delete(&client, &uri, Value::Null).await;
    assert_eq!(waiting.body["metadata"]["finalizers"], json!(["orphan"]));
    let gone = delete(&client, &uri, json!({ "propagationPolicy": "Background" })).await;
    assert_eq!(gone.body["status"], "Success");
    assert_eq!(code_of(&client, &uri).await, 404);
    let controller = json!({
        "metadata": { "name": "keeps" },
        "spec": {
            "selector": { "a": "b" },
            "template": {
                "metadata": { "labels": { "a": "b" } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] },
            },
        },
    });
    create(&client, REPLICATION_CONTROLLERS, controller).await;
    let uri = format!("{REPLICATION_CONTROLLERS}/keeps");
    let waiting = delete(&client, &uri, Value::Null).await;
    assert_eq!(waiting.body["metadata"]["finalizers"], json!(["orphan"]));
    release(&client, &uri).await;
    assert_eq!(code_of(&client, &uri).await, 404);
}

async fn events_have_no_dependents(client: Client) {
    let event = json!({
        "metadata": { "name": "no-dependents" },
        "involvedObject": { "kind": "Node", "name": "n" },
    });
    create(&client, CORE_EVENTS, event).await;
    let uri = format!("{CORE_EVENTS}/no-dependents");
    let gone = delete(&client, &uri, json!({ "propagationPolicy": "Foreground" })).await;
    assert_eq!((gone.code, &gone.body["status"]), (200, &json!("Success")));
    assert_eq!(code_of(&client, &uri).await, 404);
}

async fn the_end_counts_as_a_generation(client: Client) {
    let mut object = job("generation");
    object["metadata"]["finalizers"] = json!(["x/y"]);
    let created = create(&client, JOBS, object).await;
    assert_eq!(created["metadata"]["generation"], 1);
    let uri = format!("{JOBS}/generation");
    let options = json!({ "propagationPolicy": "Background" });
    let waiting = delete(&client, &uri, options.clone()).await.body;
    assert_eq!(waiting["metadata"]["generation"], 2);
    assert_eq!(delete(&client, &uri, options).await.body, waiting);
    let other = delete(&client, &uri, json!({ "propagationPolicy": "Foreground" })).await;
    assert_eq!(other.body["metadata"]["generation"], 2);
    release(&client, &uri).await;
}

async fn the_last_finalizer_ends_an_object_by_any_write(client: Client) {
    let uri = config_map(&client, "last", json!({ "finalizers": ["x/y", "x/z"] })).await;
    let waiting = delete(&client, &uri, Value::Null).await.body;
    let one = json!({ "metadata": { "finalizers": ["x/z"] } });
    let one = patch(&client, &uri, MERGE, one).await.body;
    assert_eq!(one["metadata"]["finalizers"], json!(["x/z"]));
    assert_eq!(
        one["metadata"]["deletionTimestamp"],
        waiting["metadata"]["deletionTimestamp"]
    );
    let mut none = one.clone();
    none["metadata"].as_object_mut().unwrap().remove("finalizers");
    none["metadata"]["labels"] = json!({ "a": "b" });
    let put = put(&client, &uri, none).await;
    assert_eq!(
        (put.code, &put.body["kind"], &put.body["metadata"]["labels"]),
        (200, &json!("ConfigMap"), &json!({ "a": "b" }))
    );
    assert_eq!(version(&put.body), version(&one));
    assert_eq!(code_of(&client, &uri).await, 404);
}

async fn a_dry_run_shows_the_end_and_does_not_bring_it(client: Client) {
    let dry = json!({ "dryRun": ["All"] });
    let uri = config_map(&client, "dry-end", json!({ "finalizers": ["x/y"] })).await;
    let before = get(&client, &uri).await.body;
    let shown = delete(&client, &uri, dry.clone()).await.body;
    assert!(shown["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(version(&shown), version(&before));
    assert_eq!(get(&client, &uri).await.body, before);
    let pod = pod(&client, "dry-end", "nowhere", &[]).await;
    let before = get(&client, &pod).await.body;
    let shown = delete(&client, &pod, dry.clone()).await.body;
    assert_eq!((grace(&shown).0, version(&shown)), (30, version(&before)));
    let shown = delete(
        &client,
        &pod,
        json!({ "dryRun": ["All"], "gracePeriodSeconds": 0 }),
    )
    .await
    .body;
    assert_eq!((grace(&shown).0, version(&shown)), (0, version(&before)));
    assert_eq!(get(&client, &pod).await.body, before);
    let account = json!({ "metadata": { "name": "dry-end" } });
    let account = create(&client, SERVICE_ACCOUNTS, account).await;
    let uri = format!("{SERVICE_ACCOUNTS}/dry-end");
    assert_eq!(delete(&client, &uri, dry).await.body, account);
    assert_eq!(delete(&client, &uri, Value::Null).await.code, 200);
}

async fn labelled(client: &Client, group: &str, names: &[&str]) -> String {
    for name in names {
        config_map(client, name, json!({ "labels": { "group": group } })).await;
    }
    format!("{CONFIG_MAPS}?labelSelector=group%3D{group}")
}

async fn a_collection_is_deleted_by_selector(client: Client) {
    let collection = labelled(&client, "col", &["col-1", "col-2"]).await;
    let other = config_map(&client, "col-3", json!({ "labels": { "group": "other" } })).await;
    let before = get(&client, &collection).await.body;
    let answer = delete(&client, &collection, Value::Null).await;
    assert_eq!(answer.code, 200);
    assert_eq!(
        (&answer.body["kind"], &answer.body["apiVersion"]),
        (&json!("ConfigMapList"), &json!("v1"))
    );
    // It shows what there was.
    assert_eq!(answer.body["items"], before["items"]);
    assert_eq!(names(&answer.body), ["col-1", "col-2"]);
    assert_eq!(names(&get(&client, &collection).await.body), Vec::<&str>::new());
    let by_name = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dcol-3");
    assert_eq!(names(&delete(&client, by_name, json!({})).await.body), ["col-3"]);
    assert_eq!(code_of(&client, &other).await, 404);
    let nothing = delete(&client, &collection, Value::Null).await;
    assert_eq!((nothing.code, &nothing.body["items"]), (200, &json!([])));
    assert!(nothing.body["metadata"]["resourceVersion"].is_string());
}

async fn a_collection_is_deleted_page_by_page(client: Client) {
    let collection = labelled(&client, "page", &["page-1", "page-2", "page-3"]).await;
    let first = delete(&client, format!("{collection}&limit=2"), Value::Null)
        .await
        .body;
    assert_eq!(names(&first), ["page-1", "page-2"]);
    let token = first["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&get(&client, &collection).await.body), ["page-3"]);
    let second = format!("{collection}&limit=2&continue={token}");
    let second = delete(&client, second, Value::Null).await.body;
    assert_eq!(names(&second), ["page-3"]);
    assert_eq!(second["metadata"].get("continue"), None);
    assert_eq!(names(&get(&client, &collection).await.body), Vec::<&str>::new());
}

async fn a_collection_keeps_what_has_finalizers(client: Client) {
    let collection = labelled(&client, "held", &["held-1", "held-2"]).await;
    let held = format!("{CONFIG_MAPS}/held-2");
    let finalizer = json!({ "metadata": { "finalizers": ["x/y"] } });
    patch(&client, &held, MERGE, finalizer).await;
    let answer = delete(&client, &collection, Value::Null).await.body;
    assert_eq!(names(&answer), ["held-1", "held-2"]);
    assert_eq!(answer["items"][1]["metadata"].get("deletionTimestamp"), None);
    let left = get(&client, &collection).await.body;
    assert_eq!(names(&left), ["held-2"]);
    assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
    release(&client, &held).await;
    let pods: Vec<String> = vec![
        pod(&client, "held-1", "", &[]).await,
        pod(&client, "held-2", "nowhere", &[]).await,
    ];
    let options = json!({ "gracePeriodSeconds": 50 });
    assert_eq!(delete(&client, PODS, options).await.code, 200);
    assert_eq!(code_of(&client, &pods[0]).await, 404);
    assert_eq!(grace(&get(&client, &pods[1]).await.body).0, 50);
}

async fn a_dry_run_and_bad_options_spare_the_collection(client: Client) {
    let collection = labelled(&client, "spare", &["spare-1", "spare-2"]).await;
    let dry = delete(&client, &collection, json!({ "dryRun": ["All"] })).await;
    assert_eq!(names(&dry.body), ["spare-1", "spare-2"]);
    let bad = delete(&client, &collection, json!({ "propagationPolicy": "x" })).await;
    assert_eq!(bad.code, 422);
    for selector in ["labelSelector=bad%20x", "fieldSelector=bad%3Dx"] {
        let bad = delete(&client, format!("{CONFIG_MAPS}?{selector}"), Value::Null).await;
        bad.is(400, "BadRequest");
    }
    assert_eq!(
        names(&get(&client, &collection).await.body),
        ["spare-1", "spare-2"]
    );
}

async fn a_refused_object_ends_the_delete_of_its_collection(client: Client) {
    let collection = labelled(&client, "refused", &["refused"]).await;
    let options = json!({ "preconditions": { "uid": "other" } });
    let refused = delete(&client, &collection, options).await;
    assert_eq!(
        (refused.code, &refused.body["details"]),
        (409, &json!({ "name": "refused", "kind": "ConfigMap" }))
    );
    assert_eq!(names(&get(&client, &collection).await.body), ["refused"]);
}

async fn collections_of_all_namespaces_cannot_be_deleted(client: Client) {
    for collection in ["/api/v1/configmaps", "/api/v1/pods", NAMESPACES] {
        let refused = delete(&client, collection, Value::Null).await;
        assert_eq!(
            refusal(&refused),
            (
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource"
            ),
            "{collection}"
        );
    }
    let misplaced = delete(&client, "/api/v1/configmaps/a", Value::Null).await;
    assert_eq!((misplaced.code, &misplaced.body["details"]), (404, &json!({})));
}

async fn a_collection_is_answered_as_metadata_to_who_asks_for_it(client: Client) {
    let collection = labelled(&client, "partial", &["partial"]).await;
    let ask = async |uri: &str, accept: &str| {
        let request = http::Request::delete(uri).header(http::header::ACCEPT, accept);
        send(&client, request, Vec::new()).await.body
    };
    let list = ask(&collection, METADATA_LIST).await;
    assert_eq!(
        (
            &list["kind"],
            &list["items"][0]["kind"],
            &list["items"][0]["metadata"]["name"]
        ),
        (
            &json!("PartialObjectMetadataList"),
            &json!("PartialObjectMetadata"),
            &json!("partial")
        )
    );
    let uri = config_map(&client, "partial", json!({ "finalizers": ["x/y"] })).await;
    let waiting = ask(&uri, METADATA).await;
    assert_eq!(waiting["kind"], "PartialObjectMetadata");
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    release(&client, &uri).await;
    config_map(&client, "partial", json!({})).await;
    // A Status has no metadata of its own to show instead.
    assert_eq!(ask(&uri, METADATA).await["kind"], "Status");
}
