//! Answers with metadata only.

use http::{Request, header};
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::kinds::{every_kind, remove};
use crate::objects::pod;
use crate::rows;

crate::scenarios![
    every_kind_shows_its_metadata_alone,
    writes_answer_with_metadata_alone,
    metadata_is_listed_page_by_page,
    a_change_of_what_is_left_out_is_still_an_event,
    refusals_are_whole_whatever_was_asked_for,
    only_known_forms_can_be_asked_for,
];

/// The object with metadata only.
pub(crate) fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

async fn every_kind_shows_its_metadata_alone(client: Client) {
    for kind in every_kind() {
        let created = create(&client, kind.uri, kind.object("meta")).await;
        let one = get_as(&client, format!("{}/meta", kind.uri), METADATA).await;
        assert_eq!((one.code, one.body), (200, partial(&created)));
        let list = get_as(&client, kind.uri, METADATA_LIST).await;
        list.shows(json!({ "code": 200, "kind": "PartialObjectMetadataList" }));
        list.shows(json!({ "apiVersion": "meta.k8s.io/v1", "items": [partial(&created)] }));
        assert!(version(&list.body) >= version(&created));
    }
}

/// Sends a request for metadata only.
async fn send_as(
    client: &Client,
    request: http::request::Builder,
    content_type: &str,
    body: Value,
) -> Answer {
    let request = request
        .header(header::ACCEPT, METADATA)
        .header(header::CONTENT_TYPE, content_type);
    send(client, request, body.to_string().into_bytes()).await
}

async fn writes_answer_with_metadata_alone(client: Client) {
    let uri = format!("{LEASES}/w");
    // Sends a write; returns its code and the lease afterwards.
    let write = async |request, content_type, body| {
        let answer = send_as(&client, request, content_type, body).await;
        let whole = read(&client, &uri).await;
        assert_eq!(answer.body, partial(&whole));
        (answer.code, whole)
    };
    let lease = json!({ "metadata": { "name": "w", "finalizers": ["x.example.com/y"] }, "spec": { "holderIdentity": "a" } });
    let (code, whole) = write(Request::post(LEASES), JSON, lease).await;
    assert_eq!((code, &whole["spec"]["holderIdentity"]), (201, &json!("a")));
    let change = json!({ "spec": { "holderIdentity": "b" } });
    let (code, mut whole) = write(Request::patch(&uri), MERGE, change).await;
    assert_eq!((code, &whole["spec"]["holderIdentity"]), (200, &json!("b")));
    whole["spec"]["holderIdentity"] = json!("c");
    let (code, whole) = write(Request::put(&uri), JSON, whole).await;
    assert_eq!((code, &whole["spec"]["holderIdentity"]), (200, &json!("c")));
    let (code, whole) = write(Request::delete(&uri), JSON, json!({})).await;
    assert_eq!(code, 200);
    assert!(whole["metadata"]["deletionTimestamp"].is_string());
    let released = json!({ "metadata": { "finalizers": null } });
    let released = send_as(&client, Request::patch(&uri), MERGE, released).await;
    assert_eq!(released.body["kind"], "PartialObjectMetadata");
    // The answer to a completed delete is a Status.
    create(&client, LEASES, named("w")).await;
    let gone = send_as(&client, Request::delete(&uri), JSON, json!({})).await;
    gone.shows(json!({ "kind": "Status", "status": "Success" }));
}

async fn metadata_is_listed_page_by_page(client: Client) {
    for name in ["a", "b", "c"] {
        create(&client, LEASES, named(name)).await;
    }
    let uri = format!("{LEASES}?limit=2");
    let first = get_as(&client, &uri, METADATA_LIST).await.body;
    assert_eq!(names(&first), ["a", "b"]);
    first.shows(json!({ "metadata.remainingItemCount": 1 }));
    let token = first["metadata"]["continue"].as_str().unwrap();
    let uri = format!("{uri}&continue={token}");
    let second = get_as(&client, &uri, METADATA_LIST).await.body;
    assert_eq!((names(&second), version(&second)), (vec!["c"], version(&first)));
    // A continue token works for pages in any form.
    let whole = read(&client, &uri).await;
    assert_eq!((&whole["kind"], names(&whole)), (&json!("LeaseList"), vec!["c"]));
}

async fn a_change_of_what_is_left_out_is_still_an_event(client: Client) {
    let pod = create(&client, PODS, pod("p", Value::Null)).await;
    let uri = format!("{PODS}?watch=1&resourceVersion={}", version(&pod));
    let mut watch = Watch::open_as(&client, uri, METADATA).await;
    let running = json!({ "status": { "phase": "Running" } });
    let running = merge(&client, format!("{PODS}/p/status"), running).await;
    watch.tells("MODIFIED", &partial(&running)).await;
    // Selectors apply to the whole object.
    let running = format!("{PODS}?fieldSelector=status.phase%3DRunning");
    let list = get_as(&client, running, METADATA_LIST).await;
    assert_eq!(names(&list.body), ["p"]);
    remove(&client, PODS, "p").await;
    loop {
        let event = watch.event().await;
        assert_eq!(event["object"], partial(&event["object"]));
        if event["type"] == "DELETED" {
            return event.shows(json!({ "object.metadata.uid": pod["metadata"]["uid"] }));
        }
    }
}

async fn refusals_are_whole_whatever_was_asked_for(client: Client) {
    create(&client, NODES, named("n")).await;
    for (refused, code) in rows! {
        get_as(&client, format!("{NODES}/nobody"), METADATA).await => 404;
        get_as(&client, format!("{NODES}/nobody"), METADATA_LIST).await => 404;
        send_as(&client, Request::post(NODES), JSON, named("n")).await => 409;
        get_as(&client, format!("{NODES}?limit=x"), METADATA_LIST).await => 400;
        get_as(&client, "/api/v1/nothing", METADATA_LIST).await => 404;
    } {
        refused.shows(json!({ "code": code, "kind": "Status", "apiVersion": "v1" }));
    }
}

async fn only_known_forms_can_be_asked_for(client: Client) {
    let node = create(&client, NODES, named("n")).await;
    let uri = format!("{NODES}/n");
    for accept in [
        "application/json;as=Foo;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=example.com;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v9",
        "application/json;as=PartialObjectMetadata",
        "application/json;v=v1",
    ] {
        get_as(&client, &uri, accept).await.says(
            406,
            "only the following media types are accepted: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf",
        );
    }
    // The first form that the server can write is used.
    for accept in [
        "application/json;as=Foo;g=meta.k8s.io;v=v1,application/json",
        "application/json;as=Foo;g=meta.k8s.io;v=v1, */*",
        "text/html,application/json",
        "application/xml;q=0.9, */*;q=0.8",
        "application/json; charset=utf-8",
        "*/*",
    ] {
        assert_eq!(get_as(&client, &uri, accept).await.body, node, "{accept}");
    }
    let both = format!("{METADATA},application/json");
    assert_eq!(get_as(&client, &uri, &both).await.body, partial(&node));
}
