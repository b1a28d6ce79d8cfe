//! Requests for unknown paths, and invalid bodies.

use http::{HeaderMap, Request, header};
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::kinds::every_kind;
use crate::objects::{pod, workload};
use crate::rows;

crate::scenarios![
    paths_of_served_groups_answer_with_a_status,
    paths_of_no_group_answer_in_plain_text,
    slashes_too_many_are_mostly_forgiven,
    a_status_subresource_is_only_read_and_written,
    methods_that_a_path_does_not_have_are_refused,
    a_body_in_an_unknown_format_is_refused,
    a_body_that_is_no_object_is_refused,
    a_body_of_another_kind_is_refused,
    fields_of_the_wrong_type_are_refused,
    an_update_names_the_object_of_its_path,
    a_patch_that_is_no_object_is_refused,
    a_body_of_more_than_three_mebibytes_is_refused,
];

const NO_NAME: &str = "the name of the object (l based on URL) was undeterminable: name must be provided";
const OTHER_NAME: &str = "the name of the object (other) does not match the name on the URL (mine)";
const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// Sends a body that need not fit its media type.
async fn send_as(client: &Client, method: &str, uri: &str, media: &str, body: &str) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header(header::ACCEPT, JSON);
    let request = request.header(header::CONTENT_TYPE, media);
    send(client, request, body.as_bytes().to_vec()).await
}

fn media(headers: &HeaderMap) -> &str {
    headers["content-type"].to_str().unwrap()
}

async fn paths_of_served_groups_answer_with_a_status(client: Client) {
    for path in [
        "/api/v1/nothing",
        "/api/v1/node",
        "/api/v1/Nodes",
        "/api/v1/leases",
        "/api/v2",
        "/api/v2/nodes",
        "/apis/apps/v9",
        "/apis/apps/v2/replicasets",
        "/apis/apps/v1/nodes",
        "/apis/coordination.k8s.io/v1/nothing/x",
        "/api/v1/nodes/x/nothing",
        "/api/v1/nodes/x/status/nothing",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/nodes/x",
        "/api/v1/pods/x",
        "/apis/coordination.k8s.io/v1/leases/x",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases/x/status",
    ] {
        for query in ["", "?watch=1"] {
            let missing = get(&client, format!("{path}{query}")).await;
            assert_eq!(media(&missing.headers), JSON, "{path}");
            missing.refuses(404, "NotFound", NO_SUCH_RESOURCE, &json!({}));
        }
    }
}

async fn paths_of_no_group_answer_in_plain_text(client: Client) {
    for path in [
        "/nothing",
        "/apis/nothing.example.com",
        "/apis/nothing.example.com/v1",
        "/healthz/nothing",
        "/apis/nothing.example.com/v1/namespaces/default/things/x",
        "//api/v1/nodes",
    ] {
        let missing = get(&client, path).await;
        assert_eq!(media(&missing.headers), "text/plain; charset=utf-8", "{path}");
        assert_eq!((missing.code, missing.body), (404, json!("404 page not found\n")));
    }
}

async fn slashes_too_many_are_mostly_forgiven(client: Client) {
    let lease = create(&client, LEASES, named("l")).await;
    lists(&client, format!("{LEASES}/"), &["l"]).await;
    assert_eq!(read(&client, format!("{LEASES}/l/")).await, lease);
    let inside = get(&client, "/api/v1//nodes").await;
    inside.is(404, "NotFound");
}

#[track_caller]
fn is_not_allowed(answer: &Answer) {
    answer.refuses(405, "MethodNotAllowed", NO_SUCH_METHOD, &json!({}));
}

async fn a_status_subresource_is_only_read_and_written(client: Client) {
    let set = create(&client, REPLICA_SETS, workload("rs", &pod("p", Value::Null))).await;
    let uri = format!("{REPLICA_SETS}/rs/status");
    assert_eq!(read(&client, &uri).await, set);
    merge(&client, &uri, json!({})).await;
    for method in ["POST", "DELETE"] {
        is_not_allowed(&send_as(&client, method, &uri, JSON, "{}").await);
    }
    let missing = get(&client, format!("{REPLICA_SETS}/nobody/status")).await;
    missing.says(404, "replicasets.apps \"nobody\" not found");
}

async fn methods_that_a_path_does_not_have_are_refused(client: Client) {
    create(&client, NODES, named("n")).await;
    let one = format!("{NODES}/n");
    for (method, uri) in [
        ("POST", one.as_str()),
        ("PUT", NODES),
        ("PATCH", NODES),
        ("POST", "/api/v1/pods"),
        ("PUT", "/api/v1/pods"),
        ("PATCH", "/api/v1/pods"),
        ("OPTIONS", NODES),
        ("OPTIONS", &one),
        ("TRACE", &one),
        ("BREW", &one),
    ] {
        let media = if method == "PATCH" { MERGE } else { JSON };
        is_not_allowed(&send_as(&client, method, uri, media, "{}").await);
    }
    for uri in [NODES, &one] {
        assert_eq!(send_as(&client, "HEAD", uri, JSON, "").await.code, 405);
    }
}

async fn a_body_in_an_unknown_format_is_refused(client: Client) {
    let post_as = async |media: &str, name: &str| {
        send_as(&client, "POST", NODES, media, &named(name).to_string()).await
    };
    for media in ["text/plain", "application/xml", "garbage"] {
        let refused = post_as(media, "n").await;
        refused.is(415, "UnsupportedMediaType");
        refused.says(
            415,
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/yaml, application/vnd.kubernetes.protobuf",
        );
    }
    is_gone(&client, format!("{NODES}/n")).await;
    assert_eq!(post_as(&format!("{JSON}; charset=utf-8"), "one").await.code, 201);
    // A body without a media type is read as JSON.
    assert_eq!(post_as("", "two").await.code, 201);
    for media in ["", JSON, "text/plain"] {
        let refused = send_as(&client, "PATCH", &format!("{NODES}/one"), media, "{}").await;
        refused.says(415, "415: Unsupported Media Type");
    }
}

async fn a_body_that_is_no_object_is_refused(client: Client) {
    create(&client, LEASES, named("l")).await;
    for (method, uri) in [("POST", LEASES.to_owned()), ("PUT", format!("{LEASES}/l"))] {
        for body in ["", "{", "[]", "[1]", "\"x\"", "1", "{} {}", "{\"kind\":1}"] {
            let refused = send_as(&client, method, &uri, JSON, body).await;
            refused.is(400, "BadRequest");
            refused.begins(
                400,
                "the object provided is unrecognized (must be of type Lease): couldn't get version/kind; json parse \
                 error: ",
            );
        }
    }
    // `null` is an object without a name.
    let nothing = send_as(&client, "POST", LEASES, JSON, "null").await;
    let why = "metadata.name: Required value: name or generateName is required";
    nothing.says(422, &format!("Lease.coordination.k8s.io \"\" is invalid: {why}"));
}

async fn a_body_of_another_kind_is_refused(client: Client) {
    for (kind, api_version, version) in [
        ("Pod", "v1", "v1"),
        ("Node", "v1beta1", "v1beta1"),
        ("Nothing", "v1", "v1"),
        ("Lease", "coordination.k8s.io/v1", "v1"),
    ] {
        let body = json!({ "kind": kind, "apiVersion": api_version, "metadata": { "name": "n" } });
        let refused = post(&client, NODES, body).await;
        refused.is(400, "BadRequest");
        let start = format!("{kind} in version \"{version}\" cannot be handled as a Node: ");
        refused.begins(400, &start);
    }
    is_gone(&client, format!("{NODES}/n")).await;
    // Kind and apiVersion default to those of the path.
    for body in [
        json!({ "metadata": { "name": "one" }, "kind": "Node" }),
        json!({ "metadata": { "name": "two" }, "apiVersion": "v1" }),
    ] {
        let created = create(&client, NODES, body).await;
        created.shows(json!({ "kind": "Node", "apiVersion": "v1" }));
    }
}

async fn fields_of_the_wrong_type_are_refused(client: Client) {
    for (metadata, found, wanted) in rows! {
        json!([]), "array" => "Node.metadata of type v1.ObjectMeta";
        json!("x"), "string" => "Node.metadata of type v1.ObjectMeta";
        json!({ "name": 1 }), "number" => "ObjectMeta.metadata.name of type string";
        json!({ "labels": [] }), "array" => "ObjectMeta.metadata.labels of type map[string]string";
        json!({ "labels": { "a": 1 } }), "number" => "ObjectMeta.metadata.labels of type string";
        json!({ "annotations": { "a": true } }), "bool" => "ObjectMeta.metadata.annotations of type string";
    } {
        let refused = post(&client, NODES, json!({ "metadata": metadata })).await;
        let message = format!(
            "Node in version \"v1\" cannot be handled as a Node: json: cannot unmarshal {found} into Go struct field \
             {wanted}"
        );
        refused.says(400, &message);
    }
}

async fn an_update_names_the_object_of_its_path(client: Client) {
    for kind in every_kind() {
        let created = create(&client, kind.uri, kind.object("mine")).await;
        let uri = format!("{}/mine", kind.uri);
        let put_with = async |field: &str, value: Value| {
            let mut object = created.clone();
            object["metadata"][field] = value;
            put(&client, &uri, object).await
        };
        put_with("name", json!("other")).await.says(400, OTHER_NAME);
        let nameless = put(&client, &uri, without(created.clone(), "name")).await;
        nameless.says(400, &NO_NAME.replace("(l ", "(mine "));
        if kind.uri != NODES {
            put_with("namespace", json!("other"))
                .await
                .says(400, OTHER_NAMESPACE);
        }
        assert_eq!(read(&client, &uri).await, created);
    }
}

async fn a_patch_that_is_no_object_is_refused(client: Client) {
    let lease = create(&client, LEASES, named("l")).await;
    let uri = format!("{LEASES}/l");
    for media in [MERGE, STRATEGIC] {
        for body in ["", "{", "{} {}"] {
            patch_text(&client, &uri, media, body)
                .await
                .says(400, "invalid JSON patch");
        }
        let prefix = if media == MERGE {
            "error decoding patch: "
        } else {
            ""
        };
        for (body, kind) in [("[]", "array"), ("\"x\"", "string")] {
            let why =
                format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
            let refused = patch_text(&client, &uri, media, body).await;
            refused.says(400, &format!("{prefix}{why}"));
        }
        for (metadata, message) in [
            (json!(null), NO_NAME.to_owned()),
            (json!({ "name": "other" }), OTHER_NAME.replace("(mine)", "(l)")),
            (json!({ "namespace": "other" }), OTHER_NAMESPACE.to_owned()),
        ] {
            let refused = patch(&client, &uri, media, json!({ "metadata": metadata })).await;
            refused.says(400, &message);
        }
    }
    assert_eq!(read(&client, &uri).await, lease);
}

async fn a_body_of_more_than_three_mebibytes_is_refused(client: Client) {
    create(&client, NODES, named("n")).await;
    let huge = json!({ "metadata": { "name": "huge", "annotations": { "a": "x".repeat(3 * 1024 * 1024) } } });
    for refused in [
        post(&client, NODES, huge.clone()).await,
        put(&client, format!("{NODES}/huge"), huge.clone()).await,
        patch(&client, format!("{NODES}/n"), MERGE, huge).await,
    ] {
        refused.is(413, "RequestEntityTooLarge");
        refused.says(413, "Request entity too large: limit is 3145728");
    }
}
