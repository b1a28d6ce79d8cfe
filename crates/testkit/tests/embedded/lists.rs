//! Lists: selectors, pages, versions, forms.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::server;

crate::scenarios![
    a_list_names_its_kind_and_its_items_do_not,
    label_selectors_choose_by_equality_and_by_set,
    field_selectors_choose_by_name_and_by_what_the_kind_offers,
    a_paged_list_shows_one_version_to_its_end,
    a_page_of_one_namespace_is_blind_to_the_others,
    versions_are_read_as_asked,
    a_client_can_ask_for_metadata_only,
];

async fn labelled(client: &Client, group: &str, name: &str, value: &str) -> Value {
    let labels = json!({ "group": group, "a": value });
    create(
        client,
        LEASES,
        json!({ "metadata": { "name": name, "labels": labels } }),
    )
    .await
}

fn escaped(selector: &str) -> String {
    selector
        .replace('%', "%25")
        .replace(' ', "%20")
        .replace('=', "%3D")
        .replace('!', "%21")
}

async fn a_list_names_its_kind_and_its_items_do_not(client: Client) {
    labelled(&client, "kinds", "kinds", "b").await;
    let list = get(&client, format!("{LEASES}?labelSelector=group%3Dkinds")).await;
    list.shows(json!({ "code": 200, "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1" }));
    assert!(version(&list.body) > 0);
    let item = &list.body["items"][0];
    item.shows(json!({ "kind": null, "apiVersion": null, "metadata.name": "kinds" }));
    let none = get(&client, format!("{LEASES}?labelSelector=group%3Dnobody")).await;
    assert_eq!(none.body["items"], json!([]));
}

async fn label_selectors_choose_by_equality_and_by_set(client: Client) {
    labelled(&client, "labels", "labels-b", "b").await;
    labelled(&client, "labels", "labels-c", "c").await;
    let lease = json!({ "metadata": { "name": "labels-none", "labels": { "group": "labels" } } });
    create(&client, LEASES, lease).await;
    for (selector, expected) in [
        ("a", vec!["labels-b", "labels-c"]),
        ("!a", vec!["labels-none"]),
        ("a=b", vec!["labels-b"]),
        ("a == b", vec!["labels-b"]),
        ("a!=b", vec!["labels-c", "labels-none"]),
        ("a in (b, c)", vec!["labels-b", "labels-c"]),
        ("a notin (b)", vec!["labels-c", "labels-none"]),
        ("a in (b,c),a!=c", vec!["labels-b"]),
    ] {
        let uri = format!(
            "{LEASES}?labelSelector={}",
            escaped(&format!("group=labels,{selector}"))
        );
        assert_eq!(names(&read(&client, uri).await), expected, "{selector}");
    }
}

async fn field_selectors_choose_by_name_and_by_what_the_kind_offers(client: Client) {
    let node = |name: &str, spec: Value| json!({ "metadata": { "name": name, "labels": { "group": "fields" } }, "spec": spec });
    create(&client, NODES, node("fields-1", json!({}))).await;
    create(&client, NODES, node("fields-2", json!({ "unschedulable": true }))).await;
    for (selector, expected) in [
        ("metadata.name=fields-1", vec!["fields-1"]),
        ("metadata.name!=fields-1", vec!["fields-2"]),
        ("spec.unschedulable=true", vec!["fields-2"]),
        ("spec.unschedulable=false", vec!["fields-1"]),
        ("spec.unschedulable=", vec![]),
    ] {
        let uri = format!(
            "{NODES}?labelSelector=group%3Dfields&fieldSelector={}",
            escaped(selector)
        );
        assert_eq!(names(&read(&client, uri).await), expected, "{selector}");
    }
    labelled(&client, "fields", "fields", "b").await;
    let uri = |namespace: &str| {
        format!(
            "/apis/coordination.k8s.io/v1/leases?labelSelector=group%3Dfields\
             &fieldSelector=metadata.namespace%3D{namespace}"
        )
    };
    assert_eq!(names(&read(&client, uri("default")).await), ["fields"]);
    assert_eq!(names(&read(&client, uri("other")).await), [""; 0]);
}

async fn a_paged_list_shows_one_version_to_its_end(client: Client) {
    for name in ["page-1", "page-2", "page-3", "page-4"] {
        labelled(&client, "page", name, "b").await;
    }
    let uri = format!("{LEASES}?labelSelector=group%3Dpage&limit=2");
    let first = read(&client, &uri).await;
    assert_eq!(names(&first), ["page-1", "page-2"]);
    // What is left is not known under a selector.
    assert_eq!(first["metadata"].get("remainingItemCount"), None);
    delete(&client, format!("{LEASES}/page-3"), Value::Null).await;
    labelled(&client, "page", "page-5", "b").await;
    for value in ["c", "d"] {
        let relabel = json!({ "metadata": { "labels": { "a": value } } });
        patch(&client, format!("{LEASES}/page-4"), MERGE, relabel).await;
    }
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = read(&client, format!("{uri}&continue={token}")).await;
    assert_eq!(names(&second), ["page-3", "page-4"]);
    assert_eq!(second["items"][1]["metadata"]["labels"]["a"], "b");
    assert_eq!(version(&second), version(&first));
    assert_eq!(second["metadata"].get("continue"), None);
    let now = read(&client, format!("{LEASES}?labelSelector=group%3Dpage")).await;
    assert_eq!(names(&now), ["page-1", "page-2", "page-4", "page-5"]);
    let bad = get(&client, format!("{uri}&continue=garbage")).await;
    bad.is(400, "BadRequest");
    let both = get(&client, format!("{uri}&continue={token}&resourceVersion=1")).await;
    both.says(
        400,
        "specifying resource version is not allowed when using continue",
    );
}

async fn a_page_of_one_namespace_is_blind_to_the_others(client: Client) {
    let there = LEASES.replace("default", "kube-system");
    let labels = json!({ "group": "blind" });
    for name in ["blind-1", "blind-2"] {
        create(
            &client,
            &there,
            json!({ "metadata": { "name": name, "labels": labels } }),
        )
        .await;
    }
    labelled(&client, "blind", "blind-here", "b").await;
    let uri = format!("{there}?labelSelector=group%3Dblind&limit=1");
    let first = read(&client, &uri).await;
    assert_eq!(names(&first), ["blind-1"]);
    delete(&client, format!("{LEASES}/blind-here"), Value::Null).await;
    delete(&client, format!("{there}/blind-2"), Value::Null).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = read(&client, format!("{uri}&continue={token}")).await;
    assert_eq!(names(&second), ["blind-2"]);
    let exact = format!(
        "{there}?labelSelector=group%3Dblind&resourceVersionMatch=Exact&resourceVersion={}",
        version(&first)
    );
    assert_eq!(names(&read(&client, exact).await), ["blind-1", "blind-2"]);
}

async fn versions_are_read_as_asked(client: Client) {
    let first = labelled(&client, "versions", "versions-1", "b").await;
    labelled(&client, "versions", "versions-2", "b").await;
    let list = async |query: &str| {
        read(
            &client,
            format!("{LEASES}?labelSelector=group%3Dversions&{query}"),
        )
        .await
    };
    let old = version(&first);
    let exact = list(&format!("resourceVersion={old}&resourceVersionMatch=Exact")).await;
    assert_eq!((names(&exact), version(&exact)), (vec!["versions-1"], old));
    let paged = list(&format!("resourceVersion={old}&limit=10")).await;
    assert_eq!((names(&paged), version(&paged)), (vec!["versions-1"], old));
    catch_up(&client, LEASES).await;
    let newer = list(&format!(
        "resourceVersion={old}&resourceVersionMatch=NotOlderThan"
    ))
    .await;
    assert_eq!(names(&newer), ["versions-1", "versions-2"]);
    let any = list("resourceVersion=0&limit=1").await;
    assert_eq!(names(&any), ["versions-1", "versions-2"]);
    assert_eq!(any["metadata"].get("continue"), None);
    // Each waits some seconds for the version to come.
    let futures = [
        format!("{LEASES}?resourceVersion=99999999"),
        format!("{LEASES}?resourceVersion=99999999&resourceVersionMatch=Exact"),
        format!("{LEASES}/versions-1?resourceVersion=99999999"),
    ]
    .map(|uri| get(&client, uri));
    for future in futures::future::join_all(futures).await {
        future.is(504, "Timeout");
        future.shows(json!({
            "details": {
                "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
                "retryAfterSeconds": 1,
            },
        }));
        assert!(
            future.body["message"]
                .as_str()
                .unwrap()
                .starts_with("Timeout: Too large resource version: 99999999, current: ")
        );
    }
    let bad = get(&client, format!("{LEASES}?resourceVersion=abc")).await;
    bad.says(
        400,
        "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \
                 \"abc\": invalid syntax",
    );
}

async fn a_client_can_ask_for_metadata_only(client: Client) {
    let node = json!({
        "metadata": { "name": "meta", "labels": { "group": "meta" } },
        "spec": { "unschedulable": true },
    });
    let node = create(&client, NODES, node).await;
    let expected = json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": node["metadata"],
    });
    let uri = format!("{NODES}/meta");
    assert_eq!(get_as(&client, &uri, METADATA).await.body, expected);
    let list = get_as(
        &client,
        format!("{NODES}?labelSelector=group%3Dmeta"),
        METADATA_LIST,
    )
    .await;
    list.shows(json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1" }));
    assert_eq!(list.body["items"], json!([expected]));
    assert_eq!(get_as(&client, &uri, "text/plain").await.code, 406);
    let either = "application/json;as=Table;v=v1;g=example.com,application/json";
    assert_eq!(get_as(&client, &uri, either).await.body, node);
}

#[tokio::test(start_paused = true)]
async fn an_unfiltered_page_counts_what_is_left() {
    let server = server();
    server.seed_nodes(5);
    let page = read(&server.client(), format!("{NODES}?limit=2")).await;
    assert_eq!(names(&page), ["node-1", "node-2"]);
    assert_eq!(page["metadata"]["remainingItemCount"], 3);
    let exactly = read(&server.client(), format!("{NODES}?limit=5")).await;
    exactly.shows(json!({ "metadata.remainingItemCount": null, "metadata.continue": null }));
}

#[tokio::test(start_paused = true)]
async fn lists_of_a_compacted_version_are_gone() {
    let server = server();
    server.seed_nodes(3);
    let client = server.client();
    let uri = format!("{NODES}?limit=2");
    let page = read(&client, &uri).await;
    server
        .edit(&testkit::embedded::NODES, "", "node-3", |node| {
            node["metadata"]["labels"] = json!({ "new": "yes" });
        })
        .unwrap();
    server.compact();
    let exact = get(
        &client,
        format!(
            "{NODES}?resourceVersion={}&resourceVersionMatch=Exact",
            version(&page)
        ),
    )
    .await;
    exact.is(410, "Expired");
    exact.shows(json!({ "message": "The resourceVersion for the provided list is too old." }));
    let token = page["metadata"]["continue"].as_str().unwrap();
    let next = get(&client, format!("{uri}&continue={token}")).await;
    next.is(410, "Expired");
    assert!(
        next.body["message"]
            .as_str()
            .unwrap()
            .starts_with("The provided continue parameter is too old to display a consistent list result.")
    );
    // The refusal brings a token that goes on at the latest version.
    let token = next.body["metadata"]["continue"].as_str().unwrap();
    let rest = read(&client, format!("{uri}&continue={token}")).await;
    assert_eq!(names(&rest), ["node-3"]);
    assert_eq!(rest["items"][0]["metadata"]["labels"], json!({ "new": "yes" }));
}

#[tokio::test(start_paused = true)]
async fn a_list_waits_up_to_three_seconds_for_a_version_to_come() {
    let server = server();
    let client = server.client();
    let wanted = server.version() + 1;
    let list = tokio::spawn({
        let client = client.clone();
        async move { get(&client, format!("{NODES}?resourceVersion={wanted}")).await }
    });
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(!list.is_finished());
    server.seed_nodes(1);
    assert_eq!(names(&list.await.unwrap().body), ["node-1"]);
}
