//! `/status` and `/scale` of custom resources.

use kube::Client;
use serde_json::{Value, json};

use crate::custom_resources::*;
use crate::http::*;
use crate::rows;

crate::scenarios![
    the_generation_counts_all_but_metadata_and_a_separate_status,
    a_status_write_leaves_all_but_the_status,
    the_scale_of_a_custom_resource_follows_the_paths_of_its_definition,
    subresources_that_a_version_does_not_have_are_not_found,
];

async fn the_generation_counts_all_but_metadata_and_a_separate_status(client: Client) {
    define_widgets(&client).await;
    create(&client, WIDGETS, widget("generation")).await;
    let (uri, old) = (
        format!("{WIDGETS}/generation"),
        format!("{OLD_WIDGETS}/generation"),
    );
    let status = format!("{uri}/status");
    for (uri, body, generation) in rows! {
        &uri, json!({ "metadata": { "labels": { "a": "b" } } }) => 1;
        &uri, json!({ "status": { "replicas": 1 } }) => 1;
        &uri, json!({ "spec": { "replicas": 3 } }) => 2;
        &uri, json!({ "other": true }) => 3;
        &status, json!({ "status": { "replicas": 1 } }) => 3;
        // This version has no status subresource, so the status is an ordinary field.
        &old, json!({ "status": { "replicas": 2 } }) => 4;
    } {
        assert_eq!(
            merge(&client, uri, body).await["metadata"]["generation"],
            generation
        );
    }
    assert_eq!(read(&client, &uri).await["status"], json!({ "replicas": 2 }));
    delete(&client, &uri, Value::Null).await;
}

async fn a_status_write_leaves_all_but_the_status(client: Client) {
    define_widgets(&client).await;
    let created = create(&client, WIDGETS, widget("status")).await;
    let uri = format!("{WIDGETS}/status");
    let status = format!("{uri}/status");
    let write = json!({
        "metadata": {
            "labels": { "a": "b" },
            "annotations": { "a": "b" },
            "finalizers": ["x/y"],
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u" }],
        },
        "spec": { "replicas": 7 },
        "other": true,
        "status": { "phase": "Good" },
    });
    let written = merge(&client, format!("{status}?fieldManager=worker"), write).await;
    written.shows(json!({
        "status": { "phase": "Good" },
        "spec": created["spec"],
        "other": null,
        "metadata.labels": null,
        "metadata.annotations": null,
        "metadata.finalizers": null,
        "metadata.ownerReferences": null,
        "metadata.generation": 1,
    }));
    assert_eq!(fields_of(&written, "worker")["subresource"], "status");
    let mut blind = widget("status");
    blind["status"] = json!({ "phase": "Bad" });
    put(&client, &status, blind).await.is(422, "Invalid");
    let mut right = written.clone();
    right.as_object_mut().unwrap().remove("status");
    right["spec"] = json!({});
    let right = update(&client, &status, right).await;
    right.shows(json!({ "status": null, "spec": created["spec"] }));
    let other = json!({ "metadata": { "uid": "other", "resourceVersion": "1" } });
    patch(&client, &status, MERGE, other).await.is(409, "Conflict");
    let other = json!({ "metadata": { "uid": "other" } });
    assert_eq!(merge(&client, &status, other).await, right);
    delete(&client, &uri, Value::Null).await;
}

async fn the_scale_of_a_custom_resource_follows_the_paths_of_its_definition(client: Client) {
    define_widgets(&client).await;
    create(&client, WIDGETS, widget("scale")).await;
    let uri = format!("{WIDGETS}/scale");
    let status = json!({ "status": { "replicas": 1, "selector": "a=b" } });
    let written = merge(&client, format!("{uri}/status"), status).await;
    let metadata = &written["metadata"];
    let expected = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": "scale",
            "namespace": "default",
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": { "replicas": 2 },
        "status": { "replicas": 1, "selector": "a=b" },
    });
    assert_eq!(read(&client, format!("{uri}/scale")).await, expected);
    delete(&client, &uri, Value::Null).await;
}

async fn subresources_that_a_version_does_not_have_are_not_found(client: Client) {
    define_widgets(&client).await;
    create(&client, WIDGETS, widget("below")).await;
    for path in [
        format!("{OLD_WIDGETS}/below/status"),
        format!("{OLD_WIDGETS}/below/scale"),
        format!("{WIDGETS}/below/eviction"),
    ] {
        let details = json!({ "name": "below", "group": "example.com", "kind": "widgets" });
        let message = "widgets.example.com \"below\" not found";
        get(&client, &path)
            .await
            .refuses(404, "NotFound", message, &details);
    }
    let uri = format!("{WIDGETS}/below/status");
    for (answer, verb) in [
        (post(&client, &uri, json!({})).await, "create"),
        (delete(&client, &uri, Value::Null).await, "delete"),
    ] {
        let details = json!({ "group": "example.com", "kind": "widgets" });
        let message = format!("{verb} is not supported on resources of kind \"widgets.example.com\"");
        answer.refuses(405, "MethodNotAllowed", &message, &details);
    }
    delete(&client, format!("{WIDGETS}/below"), Value::Null).await;
}
