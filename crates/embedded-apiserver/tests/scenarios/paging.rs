//! Pages and versions of lists, in loops.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::rows;

crate::scenarios![
    pages_together_are_the_whole_list_at_one_version,
    a_list_is_never_older_than_the_write_before_it,
    a_page_goes_on_across_namespaces,
];

async fn lease(client: &Client, name: &str) -> Value {
    create(client, LEASES, named(name)).await
}

/// The page after this one.
async fn next(client: &Client, uri: &str, page: &Value) -> Value {
    let token = page["metadata"]["continue"].as_str().unwrap();
    read(client, format!("{uri}&continue={token}")).await
}

async fn pages_together_are_the_whole_list_at_one_version(client: Client) {
    let all = ["a", "b", "c", "d", "e"];
    for name in all {
        lease(&client, name).await;
    }
    let whole = read(&client, LEASES).await;
    for limit in 1..=4 {
        let uri = format!("{LEASES}?limit={limit}");
        let mut page = read(&client, &uri).await;
        let shown = version(&page);
        let mut items = page["items"].as_array().unwrap().clone();
        while page["metadata"].get("continue").is_some() {
            assert_eq!(page["items"].as_array().unwrap().len(), limit);
            // Writes to other resources do not change the version of the list.
            create(&client, NODES, json!({ "metadata": { "generateName": "n-" } })).await;
            page = next(&client, &uri, &page).await;
            assert_eq!(version(&page), shown);
            items.extend(page["items"].as_array().unwrap().clone());
        }
        assert_eq!(json!(items), whole["items"]);
    }
}

async fn a_list_is_never_older_than_the_write_before_it(client: Client) {
    for number in 0..20 {
        let name = format!("w-{number:02}");
        let created = lease(&client, &name).await;
        for uri in [
            LEASES.to_owned(),
            format!("{LEASES}?limit=500"),
            format!("{LEASES}?resourceVersion={}", version(&created)),
        ] {
            let list = read(&client, uri).await;
            assert!(version(&list) >= version(&created));
            assert_eq!(names(&list).len(), number + 1);
        }
    }
}

async fn a_page_goes_on_across_namespaces(client: Client) {
    let there = LEASES.replace("default", "kube-public");
    for (uri, name) in [(LEASES, "b"), (LEASES, "a"), (&there, "a"), (&there, "c")] {
        let lease = json!({ "metadata": { "name": name, "labels": { "pages": "all" } } });
        create(&client, uri, lease).await;
    }
    let uri = "/apis/coordination.k8s.io/v1/leases?labelSelector=pages%3Dall&limit=1";
    let mut page = read(&client, uri).await;
    for (namespace, name) in rows! {
        "default" => "a";
        "default" => "b";
        "kube-public" => "a";
        "kube-public" => "c";
    } {
        assert_eq!(names(&page), [name]);
        page.shows(json!({ "items.0.metadata.namespace": namespace }));
        if page["metadata"].get("continue").is_some() {
            page = next(&client, uri, &page).await;
        }
    }
    page.shows(json!({ "metadata.continue": null }));
    for name in ["a", "c"] {
        delete(&client, format!("{there}/{name}"), Value::Null).await;
    }
}
