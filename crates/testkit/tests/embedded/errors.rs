//! Requests that lead nowhere, and bodies that mean nothing.

use http::{HeaderMap, Method, Request, header};
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::kinds::every_kind;

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

async fn a(client: &Client, method: &str, uri: &str, content_type: &str, body: &str) -> Answer {
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(uri)
        .header(header::ACCEPT, JSON)
        .header(header::CONTENT_TYPE, content_type);
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
            assert_eq!(
                (missing.code, missing.body),
                (
                    404,
                    json!({
                        "kind": "Status",
                        "apiVersion": "v1",
                        "metadata": {},
                        "status": "Failure",
                        "message": "the server could not find the requested resource",
                        "reason": "NotFound",
                        "details": {},
                        "code": 404,
                    })
                ),
                "{path}"
            );
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
        assert_eq!(
            (missing.code, media(&missing.headers), &missing.body),
            (404, "text/plain; charset=utf-8", &json!("404 page not found\n")),
            "{path}"
        );
    }
}

async fn slashes_too_many_are_mostly_forgiven(client: Client) {
    let lease = create(&client, LEASES, json!({ "metadata": { "name": "l" } })).await;
    assert_eq!(names(&get(&client, format!("{LEASES}/")).await.body), ["l"]);
    assert_eq!(get(&client, format!("{LEASES}/l/")).await.body, lease);
    let inside = get(&client, "/api/v1//nodes").await;
    inside.is(404, "NotFound");
}

fn is_not_allowed(answer: &Answer) -> bool {
    answer.code == 405
        && answer.body["reason"] == "MethodNotAllowed"
        && answer.body["message"] == "the server does not allow this method on the requested resource"
        && answer.body["details"] == json!({})
}

async fn a_status_subresource_is_only_read_and_written(client: Client) {
    let kind = every_kind()
        .into_iter()
        .find(|kind| kind.uri == REPLICA_SETS)
        .unwrap();
    let set = create(&client, kind.uri, kind.object("rs")).await;
    let uri = format!("{}/rs/status", kind.uri);
    assert_eq!(get(&client, &uri).await.body, set);
    assert_eq!(patch(&client, &uri, MERGE, json!({})).await.code, 200);
    for method in ["POST", "DELETE"] {
        let refused = a(&client, method, &uri, JSON, "{}").await;
        assert!(is_not_allowed(&refused), "{method} {refused:?}");
    }
    let missing = get(&client, format!("{}/nobody/status", kind.uri)).await;
    assert_eq!(missing.body["message"], "replicasets.apps \"nobody\" not found");
}

async fn methods_that_a_path_does_not_have_are_refused(client: Client) {
    create(&client, NODES, json!({ "metadata": { "name": "n" } })).await;
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
        let content_type = if method == "PATCH" { MERGE } else { JSON };
        let refused = a(&client, method, uri, content_type, "{}").await;
        assert!(is_not_allowed(&refused), "{method} {uri} {refused:?}");
    }
    for uri in [NODES, &one] {
        assert_eq!(a(&client, "HEAD", uri, JSON, "").await.code, 405);
    }
}

async fn a_body_in_an_unknown_format_is_refused(client: Client) {
    let node = |name: &str| json!({ "metadata": { "name": name } }).to_string();
    for content_type in ["text/plain", "application/xml", "garbage"] {
        let refused = a(&client, "POST", NODES, content_type, &node("n")).await;
        assert_eq!(
            (refused.code, &refused.body["reason"], &refused.body["message"]),
            (
                415,
                &json!("UnsupportedMediaType"),
                &json!(
                    "the body of the request was in an unknown format - accepted media types include: \
                     application/json, application/yaml, application/vnd.kubernetes.protobuf"
                )
            )
        );
    }
    assert_eq!(get(&client, format!("{NODES}/n")).await.code, 404);
    let with_parameter = format!("{JSON}; charset=utf-8");
    assert_eq!(
        a(&client, "POST", NODES, &with_parameter, &node("one"))
            .await
            .code,
        201
    );
    // Without a type it is JSON.
    assert_eq!(a(&client, "POST", NODES, "", &node("two")).await.code, 201);
    for content_type in ["", JSON, "text/plain"] {
        let refused = a(&client, "PATCH", &format!("{NODES}/one"), content_type, "{}").await;
        assert_eq!(
            (refused.code, &refused.body["message"]),
            (415, &json!("415: Unsupported Media Type")),
            "{content_type}"
        );
    }
}

async fn a_body_that_is_no_object_is_refused(client: Client) {
    create(&client, LEASES, json!({ "metadata": { "name": "l" } })).await;
    for (method, uri) in [("POST", LEASES.to_owned()), ("PUT", format!("{LEASES}/l"))] {
        for body in ["", "{", "[]", "[1]", "\"x\"", "1", "{} {}", "{\"kind\":1}"] {
            let refused = a(&client, method, &uri, JSON, body).await;
            refused.is(400, "BadRequest");
            let message = refused.body["message"].as_str().unwrap();
            assert!(
                message.starts_with(
                    "the object provided is unrecognized (must be of type Lease): couldn't get version/kind; json \
                     parse error: "
                ),
                "{body}: {message}"
            );
        }
    }
    // Nothing is an object without a name.
    let nothing = a(&client, "POST", LEASES, JSON, "null").await;
    assert_eq!(
        nothing.body["message"],
        "Lease.coordination.k8s.io \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
}

async fn a_body_of_another_kind_is_refused(client: Client) {
    for (kind, api_version) in [
        ("Pod", "v1"),
        ("Node", "v1beta1"),
        ("Nothing", "v1"),
        ("Lease", "coordination.k8s.io/v1"),
    ] {
        let body = json!({ "kind": kind, "apiVersion": api_version, "metadata": { "name": "n" } });
        let refused = post(&client, NODES, body).await;
        refused.is(400, "BadRequest");
        let version = api_version.split('/').next_back().unwrap();
        let message = refused.body["message"].as_str().unwrap();
        assert!(
            message.starts_with(&format!(
                "{kind} in version \"{version}\" cannot be handled as a Node: "
            )),
            "{message}"
        );
    }
    assert_eq!(get(&client, format!("{NODES}/n")).await.code, 404);
    // What is left out is what the path says.
    for (name, body) in [
        ("one", json!({ "kind": "Node" })),
        ("two", json!({ "apiVersion": "v1" })),
    ] {
        let mut body = body;
        body["metadata"] = json!({ "name": name });
        let created = create(&client, NODES, body).await;
        assert_eq!(
            (&created["kind"], &created["apiVersion"]),
            (&json!("Node"), &json!("v1"))
        );
    }
}

async fn fields_of_the_wrong_type_are_refused(client: Client) {
    for (metadata, found, field, wanted) in [
        (json!([]), "array", "Node.metadata", "v1.ObjectMeta"),
        (json!("x"), "string", "Node.metadata", "v1.ObjectMeta"),
        (
            json!({ "name": 1 }),
            "number",
            "ObjectMeta.metadata.name",
            "string",
        ),
        (
            json!({ "name": "n", "labels": [] }),
            "array",
            "ObjectMeta.metadata.labels",
            "map[string]string",
        ),
        (
            json!({ "name": "n", "labels": { "a": 1 } }),
            "number",
            "ObjectMeta.metadata.labels",
            "string",
        ),
        (
            json!({ "name": "n", "annotations": { "a": true } }),
            "bool",
            "ObjectMeta.metadata.annotations",
            "string",
        ),
    ] {
        let refused = post(&client, NODES, json!({ "metadata": metadata })).await;
        refused.says(
            400,
            &format!(
                "Node in version \"v1\" cannot be handled as a Node: json: cannot unmarshal {found} into Go \
                     struct field {field} of type {wanted}"
            ),
        );
    }
}

async fn an_update_names_the_object_of_its_path(client: Client) {
    for kind in every_kind() {
        let created = create(&client, kind.uri, kind.object("mine")).await;
        let uri = format!("{}/mine", kind.uri);
        let renamed = |change: &dyn Fn(&mut Value)| {
            let mut object = created.clone();
            change(&mut object["metadata"]);
            object
        };
        let other = put(
            &client,
            &uri,
            renamed(&|metadata| metadata["name"] = json!("other")),
        )
        .await;
        other.says(
            400,
            "the name of the object (other) does not match the name on the URL (mine)",
        );
        let nameless = renamed(&|metadata| {
            metadata.as_object_mut().unwrap().remove("name");
        });
        let nameless = put(&client, &uri, nameless).await;
        nameless.says(
            400,
            "the name of the object (mine based on URL) was undeterminable: name must be provided",
        );
        if kind.uri != NODES {
            let elsewhere = renamed(&|metadata| metadata["namespace"] = json!("other"));
            let elsewhere = put(&client, &uri, elsewhere).await;
            elsewhere.says(
                400,
                "the namespace of the provided object does not match the namespace sent on the request",
            );
        }
        assert_eq!(get(&client, &uri).await.body, created);
    }
}

async fn a_patch_that_is_no_object_is_refused(client: Client) {
    let lease = create(&client, LEASES, json!({ "metadata": { "name": "l" } })).await;
    let uri = format!("{LEASES}/l");
    for content_type in [MERGE, STRATEGIC] {
        for body in ["", "{", "{} {}", "[]", "\"x\""] {
            let refused = a(&client, "PATCH", &uri, content_type, body).await;
            refused.is(400, "BadRequest");
            let message = refused.body["message"].as_str().unwrap();
            assert!(
                content_type == STRATEGIC || message.starts_with("error decoding patch: "),
                "{body}: {message}"
            );
        }
        for (metadata, message) in [
            (
                json!(null),
                "the name of the object (l based on URL) was undeterminable: name must be provided",
            ),
            (
                json!({ "name": "other" }),
                "the name of the object (other) does not match the name on the URL (l)",
            ),
            (
                json!({ "namespace": "other" }),
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
        ] {
            let refused = patch(&client, &uri, content_type, json!({ "metadata": metadata })).await;
            assert_eq!((refused.code, &refused.body["message"]), (400, &json!(message)));
        }
    }
    assert_eq!(get(&client, &uri).await.body, lease);
}

async fn a_body_of_more_than_three_mebibytes_is_refused(client: Client) {
    create(&client, NODES, json!({ "metadata": { "name": "n" } })).await;
    let huge = json!({ "metadata": { "name": "huge", "annotations": { "a": "x".repeat(3 * 1024 * 1024) } } });
    for refused in [
        post(&client, NODES, huge.clone()).await,
        put(&client, format!("{NODES}/huge"), huge.clone()).await,
        patch(&client, format!("{NODES}/n"), MERGE, huge).await,
    ] {
        assert_eq!(
            (refused.code, &refused.body["reason"], &refused.body["message"]),
            (
                413,
                &json!("RequestEntityTooLarge"),
                &json!("Request entity too large: limit is 3145728")
            )
        );
    }
}
