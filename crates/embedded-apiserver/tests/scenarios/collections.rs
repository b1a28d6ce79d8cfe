//! Deletion of collections.

use kube::Client;
use serde_json::{Value, json};

use crate::deletes::{config_map, delete_in, grace, pod};
use crate::http::*;

crate::scenarios![
    a_collection_is_deleted_by_selector,
    a_collection_is_deleted_page_by_page,
    a_collection_keeps_what_has_finalizers,
    a_dry_run_and_bad_options_spare_the_collection,
    a_refused_object_ends_the_delete_of_its_collection,
    collections_of_all_namespaces_cannot_be_deleted,
    a_collection_is_answered_as_metadata_to_who_asks_for_it,
];

async fn labelled(client: &Client, group: &str, names: &[&str]) -> String {
    for name in names {
        config_map(client, name, json!({ "labels": { "group": group } })).await;
    }
    format!("{CONFIG_MAPS}?labelSelector=group%3D{group}")
}

async fn a_collection_is_deleted_by_selector(client: Client) {
    let collection = labelled(&client, "col", &["col-1", "col-2"]).await;
    let other = config_map(&client, "col-3", json!({ "labels": { "group": "other" } })).await;
    let before = read(&client, &collection).await;
    let answer = delete(&client, &collection, Value::Null).await;
    // The answer shows the deleted objects.
    answer.shows(json!({
        "code": 200,
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "items": before["items"],
    }));
    assert_eq!(names(&answer.body), ["col-1", "col-2"]);
    lists(&client, &collection, &[]).await;
    let by_name = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dcol-3");
    assert_eq!(names(&delete(&client, by_name, json!({})).await.body), ["col-3"]);
    is_gone(&client, &other).await;
    let nothing = delete(&client, &collection, Value::Null).await;
    nothing.shows(json!({ "code": 200, "items": [] }));
    assert!(nothing.body["metadata"]["resourceVersion"].is_string());
}

async fn a_collection_is_deleted_page_by_page(client: Client) {
    let collection = labelled(&client, "page", &["page-1", "page-2", "page-3"]).await;
    let uri = format!("{collection}&limit=2");
    let first = delete(&client, &uri, Value::Null).await.body;
    assert_eq!(names(&first), ["page-1", "page-2"]);
    let token = first["metadata"]["continue"].as_str().unwrap();
    lists(&client, &collection, &["page-3"]).await;
    let second = delete(&client, format!("{uri}&continue={token}"), Value::Null).await;
    assert_eq!(names(&second.body), ["page-3"]);
    second.shows(json!({ "metadata.continue": null }));
    lists(&client, &collection, &[]).await;
}

async fn a_collection_keeps_what_has_finalizers(client: Client) {
    let collection = labelled(&client, "held", &["held-1", "held-2"]).await;
    let held = format!("{CONFIG_MAPS}/held-2");
    merge(&client, &held, json!({ "metadata": { "finalizers": ["x/y"] } })).await;
    let answer = delete(&client, &collection, Value::Null).await.body;
    assert_eq!(names(&answer), ["held-1", "held-2"]);
    assert_eq!(answer["items"][1]["metadata"].get("deletionTimestamp"), None);
    let left = read(&client, &collection).await;
    assert_eq!(names(&left), ["held-2"]);
    assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
    release(&client, &held).await;
    let unbound = pod(&client, "held-1", "", &[]).await;
    let bound = pod(&client, "held-2", "nowhere", &[]).await;
    delete_in(&client, PODS, 50).await;
    is_gone(&client, unbound).await;
    assert_eq!(grace(&read(&client, bound).await).0, 50);
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
    let left = read(&client, &collection).await;
    assert_eq!(names(&left), ["spare-1", "spare-2"]);
}

async fn a_refused_object_ends_the_delete_of_its_collection(client: Client) {
    let collection = labelled(&client, "refused", &["refused"]).await;
    let options = json!({ "preconditions": { "uid": "other" } });
    let refused = delete(&client, &collection, options).await;
    let details = json!({ "name": "refused", "kind": "ConfigMap" });
    refused.shows(json!({ "code": 409, "details": details }));
    lists(&client, &collection, &["refused"]).await;
}

async fn collections_of_all_namespaces_cannot_be_deleted(client: Client) {
    for collection in ["/api/v1/configmaps", "/api/v1/pods", NAMESPACES] {
        let refused = delete(&client, collection, Value::Null).await;
        refused.is(405, "MethodNotAllowed");
        refused.says(405, NO_SUCH_METHOD);
    }
    let misplaced = delete(&client, "/api/v1/configmaps/a", Value::Null).await;
    misplaced.shows(json!({ "code": 404, "details": {} }));
}

async fn a_collection_is_answered_as_metadata_to_who_asks_for_it(client: Client) {
    let collection = labelled(&client, "partial", &["partial"]).await;
    let ask = async |uri: &str, accept: &str| {
        let request = http::Request::delete(uri).header(http::header::ACCEPT, accept);
        send(&client, request, Vec::new()).await.body
    };
    ask(&collection, METADATA_LIST).await.shows(json!({
        "kind": "PartialObjectMetadataList",
        "items.0.kind": "PartialObjectMetadata",
        "items.0.metadata.name": "partial",
    }));
    let uri = config_map(&client, "partial", json!({ "finalizers": ["x/y"] })).await;
    let waiting = ask(&uri, METADATA).await;
    assert_eq!(waiting["kind"], "PartialObjectMetadata");
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    release(&client, &uri).await;
    config_map(&client, "partial", json!({})).await;
    // A Status has no metadata to show instead.
    assert_eq!(ask(&uri, METADATA).await["kind"], "Status");
}
