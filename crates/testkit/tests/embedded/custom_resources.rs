//! Custom resource definitions and the objects that they make possible.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::http::*;

crate::scenarios![
    a_created_definition_gets_its_names_and_is_established,
    an_object_of_a_definition_is_created_as_it_was_sent,
    an_object_must_say_its_kind_and_version,
    an_object_is_seen_in_every_served_version,
    an_update_must_say_its_version_and_a_strategic_patch_is_unknown,
    the_generation_counts_all_but_metadata_and_a_separate_status,
    a_status_write_leaves_all_but_the_status,
    the_scale_of_a_custom_resource_follows_the_paths_of_its_definition,
    subresources_that_a_version_does_not_have_are_not_found,
    lists_and_watches_of_a_definition_work_as_of_any_kind,
    a_change_of_the_definition_takes_effect,
    a_deleted_definition_takes_its_objects_along,
];

const GROUP: &str = "example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const OLD_WIDGETS: &str = "/apis/example.com/v1beta1/namespaces/default/widgets";
const GADGETS: &str = "/apis/example.com/v1/gadgets";

/// How long a definition may take to be served, or to be gone.
const LIMIT: Duration = Duration::from_secs(20);

/// A version of a definition that takes any fields.
fn any_fields(name: &str, subresources: &Value) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": name == "v1",
        "schema": {
            "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
        "subresources": subresources,
    })
}

fn definition(plural: &str, kind: &str, scope: &str, versions: &[Value]) -> Value {
    json!({
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": { "plural": plural, "kind": kind, "shortNames": [format!("short{plural}")] },
            "versions": versions,
        },
    })
}

/// Waits until `uri` is answered as `wanted`.
async fn until(client: &Client, uri: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
    repeated(uri, || get(client, uri), wanted).await
}

/// Asks until the answer is as `wanted`.
async fn repeated<F: Future<Output = Answer>>(
    uri: &str,
    ask: impl Fn() -> F,
    wanted: impl Fn(&Answer) -> bool,
) -> Answer {
    let polled = async {
        loop {
            let answer = ask().await;
            if wanted(&answer) {
                return answer;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, polled).await.unwrap_or_else(|_| panic!("{uri}"))
}

fn is_established(answer: &Answer) -> bool {
    condition(&answer.body, "Established")["status"] == "True"
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice);
    conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition["type"] == kind)
        .unwrap_or(&Value::Null)
}

/// Defines a kind unless an earlier scenario did, and waits until `collection` is served.
async fn define(client: &Client, collection: &str, definition: Value) {
    let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
    let answer = post(client, DEFINITIONS, definition).await;
    assert!(matches!(answer.code, 201 | 409), "{answer:?}");
    until(client, &format!("{DEFINITIONS}/{name}"), is_established).await;
    until(client, collection, |answer| answer.code == 200).await;
}

/// Widgets: namespaced, with `/status` and `/scale` in v1, with neither in v1beta1. They stay for all scenarios.
async fn define_widgets(client: &Client) {
    let subresources = json!({
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    });
    let versions = [any_fields("v1", &subresources), any_fields("v1beta1", &json!({}))];
    define(
        client,
        WIDGETS,
        definition("widgets", "Widget", "Namespaced", &versions),
    )
    .await;
}

fn widget(name: &str) -> Value {
    json!({
        "kind": "Widget",
        "apiVersion": "example.com/v1",
        "metadata": { "name": name },
        "spec": { "replicas": 2 },
    })
}

async fn a_created_definition_gets_its_names_and_is_established(client: Client) {
    let name = "firsts.example.com";
    let version = any_fields("v1", &json!({}));
    let created = create(
        &client,
        DEFINITIONS,
        definition("firsts", "First", "Cluster", &[version]),
    )
    .await;
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(
        created["spec"]["names"],
        json!({
            "plural": "firsts",
            "singular": "first",
            "shortNames": ["shortfirsts"],
            "kind": "First",
            "listKind": "FirstList",
        })
    );
    let uri = format!("{DEFINITIONS}/{name}");
    let established = until(&client, &uri, is_established).await.body;
    assert_eq!(established["status"]["acceptedNames"], created["spec"]["names"]);
    assert_eq!(established["status"]["storedVersions"], json!(["v1"]));
    let conditions: Vec<[&str; 4]> = established["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| {
            ["type", "status", "reason", "message"].map(|field| condition[field].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        conditions,
        [
            ["NamesAccepted", "True", "NoConflicts", "no conflicts found"],
            [
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted"
            ],
        ]
    );
    assert_eq!(established["metadata"]["generation"], 1);
    let list = until(&client, "/apis/example.com/v1/firsts", |answer| {
        answer.code == 200
    })
    .await
    .body;
    assert_eq!(
        (&list["kind"], &list["apiVersion"], &list["items"]),
        (&json!("FirstList"), &json!("example.com/v1"), &json!([]))
    );
    delete(&client, &uri, Value::Null).await;
    until(&client, &uri, |answer| answer.code == 404).await;
}

async fn an_object_of_a_definition_is_created_as_it_was_sent(client: Client) {
    define_widgets(&client).await;
    let mut sent = widget("created");
    sent["status"] = json!({ "replicas": 9 });
    sent["nothing"] = Value::Null;
    sent["none"] = json!([]);
    let created = create(&client, WIDGETS, sent).await;
    assert_eq!(
        (&created["kind"], &created["apiVersion"]),
        (&json!("Widget"), &json!("example.com/v1"))
    );
    assert_eq!(created["spec"], json!({ "replicas": 2 }));
    assert_eq!(created.get("status"), None);
    assert_eq!(created.get("nothing"), Some(&Value::Null));
    assert_eq!(created["none"], json!([]));
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["metadata"]["namespace"], "default");
    let uri = format!("{WIDGETS}/created");
    assert_eq!(get(&client, &uri).await.body, created);
    let again = post(&client, WIDGETS, widget("created")).await;
    again.says(409, "widgets.example.com \"created\" already exists");
    let deleted = delete(&client, &uri, Value::Null).await;
    assert_eq!(
        deleted.body["details"],
        json!({
            "name": "created",
            "group": "example.com",
            "kind": "widgets",
            "uid": created["metadata"]["uid"],
        })
    );
    assert_eq!(get(&client, &uri).await.code, 404);
}

async fn an_object_must_say_its_kind_and_version(client: Client) {
    define_widgets(&client).await;
    let nameless = json!({ "metadata": { "name": "kindless" } });
    let kindless = post(&client, WIDGETS, nameless).await;
    kindless.is(400, "BadRequest");
    let message = kindless.body["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in"
        ),
        "{message}"
    );
    for (api_version, named) in [
        (json!("example.com/v1beta1"), "example.com/v1beta1"),
        (json!(""), ""),
    ] {
        let mut other = widget("kindless");
        other["apiVersion"] = api_version;
        let other = post(&client, WIDGETS, other).await;
        other.says(400, &format!(
                    "the API version in the data ({named}) does not match the expected API version (example.com/v1)"
                ));
    }
    let mut other = widget("kindless");
    other["kind"] = json!("Gadget");
    let other = post(&client, WIDGETS, other).await;
    other.says(
        422,
        "Gadget.example.com \"kindless\" is invalid: kind: Invalid value: \"Gadget\": must be Widget",
    );
}

async fn an_object_is_seen_in_every_served_version(client: Client) {
    define_widgets(&client).await;
    let created = create(&client, WIDGETS, widget("versions")).await;
    let uri = format!("{OLD_WIDGETS}/versions");
    let old = get(&client, &uri).await.body;
    assert_eq!(old["apiVersion"], "example.com/v1beta1");
    assert_eq!(
        (&old["metadata"], &old["spec"]),
        (&created["metadata"], &created["spec"])
    );
    let more = json!({ "spec": { "replicas": 3 } });
    let patched = patch(&client, format!("{uri}?fieldManager=younger"), MERGE, more)
        .await
        .body;
    assert_eq!(patched["apiVersion"], "example.com/v1beta1");
    let now = get(&client, format!("{WIDGETS}/versions")).await.body;
    assert_eq!(
        (&now["apiVersion"], &now["spec"]["replicas"]),
        (&json!("example.com/v1"), &json!(3))
    );
    let owners: Vec<Value> = now["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            json!([
                entry["manager"],
                entry["apiVersion"],
                entry["fieldsV1"]["f:spec"]["f:replicas"]
            ])
        })
        .collect();
    assert_eq!(
        owners,
        [
            json!(["scenario", "example.com/v1", null]),
            json!(["younger", "example.com/v1beta1", {}]),
        ]
    );
    delete(&client, &uri, Value::Null).await;
}

async fn an_update_must_say_its_version_and_a_strategic_patch_is_unknown(client: Client) {
    define_widgets(&client).await;
    let created = create(&client, WIDGETS, widget("update")).await;
    let uri = format!("{WIDGETS}/update");
    let blind = put(&client, &uri, widget("update")).await;
    blind.says(
        422,
        "widgets.example.com \"update\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
                 specified for an update",
    );
    let mut stale = widget("update");
    stale["metadata"]["resourceVersion"] = json!("1");
    let stale = put(&client, &uri, stale).await;
    stale.is(409, "Conflict");
    let mut right = created.clone();
    right["spec"]["replicas"] = json!(5);
    let right = put(&client, &uri, right).await;
    assert_eq!((right.code, &right.body["spec"]["replicas"]), (200, &json!(5)));
    let strategic = patch(&client, &uri, STRATEGIC, json!({ "spec": { "replicas": 1 } })).await;
    strategic.says(
        415,
        "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    );
    let other = patch(&client, &uri, MERGE, json!({ "metadata": { "uid": "other" } })).await;
    other.says(
        422,
        "Widget.example.com \"update\" is invalid: metadata.uid: Invalid value: \"other\": field is \
                 immutable",
    );
    delete(&client, &uri, Value::Null).await;
}

async fn the_generation_counts_all_but_metadata_and_a_separate_status(client: Client) {
    define_widgets(&client).await;
    create(&client, WIDGETS, widget("generation")).await;
    let (uri, old) = (
        format!("{WIDGETS}/generation"),
        format!("{OLD_WIDGETS}/generation"),
    );
    let generation = async |uri: &str, body: Value| {
        let patched = patch(&client, uri, MERGE, body).await;
        assert_eq!(patched.code, 200, "{patched:?}");
        patched.body["metadata"]["generation"].clone()
    };
    assert_eq!(
        generation(&uri, json!({ "metadata": { "labels": { "a": "b" } } })).await,
        1
    );
    assert_eq!(generation(&uri, json!({ "status": { "replicas": 1 } })).await, 1);
    assert_eq!(generation(&uri, json!({ "spec": { "replicas": 3 } })).await, 2);
    assert_eq!(generation(&uri, json!({ "other": true })).await, 3);
    let status = json!({ "status": { "replicas": 1 } });
    assert_eq!(generation(&format!("{uri}/status"), status).await, 3);
    // Without a status subresource, as in this version, the status is a field like any other.
    assert_eq!(generation(&old, json!({ "status": { "replicas": 2 } })).await, 4);
    assert_eq!(get(&client, &uri).await.body["status"], json!({ "replicas": 2 }));
    delete(&client, &uri, Value::Null).await;
}

async fn a_status_write_leaves_all_but_the_status(client: Client) {
    define_widgets(&client).await;
    let created = create(&client, WIDGETS, widget("status")).await;
    let uri = format!("{WIDGETS}/status");
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
    let written = patch(&client, format!("{uri}/status?fieldManager=worker"), MERGE, write).await;
    assert_eq!(written.code, 200);
    let written = written.body;
    assert_eq!(written["status"], json!({ "phase": "Good" }));
    assert_eq!(written["spec"], created["spec"]);
    assert_eq!(written.get("other"), None);
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        assert_eq!(written["metadata"].get(field), None, "{field}");
    }
    assert_eq!(written["metadata"]["generation"], 1);
    let entries = written["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == "worker").unwrap();
    assert_eq!(entry["subresource"], "status");
    let mut blind = widget("status");
    blind["status"] = json!({ "phase": "Bad" });
    let blind = put(&client, format!("{uri}/status"), blind).await;
    blind.is(422, "Invalid");
    let mut right = written.clone();
    right.as_object_mut().unwrap().remove("status");
    right["spec"] = json!({});
    let right = put(&client, format!("{uri}/status"), right).await;
    assert_eq!(right.code, 200);
    assert_eq!(right.body.get("status"), None);
    assert_eq!(right.body["spec"], created["spec"]);
    let other = json!({ "metadata": { "uid": "other", "resourceVersion": "1" } });
    let both = patch(&client, format!("{uri}/status"), MERGE, other).await;
    both.is(409, "Conflict");
    let other = json!({ "metadata": { "uid": "other" } });
    let other = patch(&client, format!("{uri}/status"), MERGE, other).await;
    assert_eq!((other.code, &other.body), (200, &right.body));
    delete(&client, &uri, Value::Null).await;
}

async fn the_scale_of_a_custom_resource_follows_the_paths_of_its_definition(client: Client) {
    define_widgets(&client).await;
    create(&client, WIDGETS, widget("scale")).await;
    let uri = format!("{WIDGETS}/scale");
    let status = json!({ "status": { "replicas": 1, "selector": "a=b" } });
    let written = patch(&client, format!("{uri}/status"), MERGE, status).await.body;
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
    assert_eq!(get(&client, format!("{uri}/scale")).await.body, expected);
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
        let missing = get(&client, &path).await;
        assert_eq!(
            (missing.code, &missing.body["message"], &missing.body["details"]),
            (
                404,
                &json!("widgets.example.com \"below\" not found"),
                &json!({ "name": "below", "group": "example.com", "kind": "widgets" })
            ),
            "{path}"
        );
    }
    let uri = format!("{WIDGETS}/below/status");
    for (answer, verb) in [
        (post(&client, &uri, json!({})).await, "create"),
        (delete(&client, &uri, Value::Null).await, "delete"),
    ] {
        assert_eq!(
            (answer.code, &answer.body["message"], &answer.body["details"]),
            (
                405,
                &json!(format!(
                    "{verb} is not supported on resources of kind \"widgets.example.com\""
                )),
                &json!({ "group": "example.com", "kind": "widgets" })
            )
        );
    }
    delete(&client, format!("{WIDGETS}/below"), Value::Null).await;
}

async fn lists_and_watches_of_a_definition_work_as_of_any_kind(client: Client) {
    define_widgets(&client).await;
    let mut labelled = widget("listed");
    labelled["metadata"]["labels"] = json!({ "listed": "yes" });
    let created = create(&client, WIDGETS, labelled).await;
    let selected = "labelSelector=listed";
    let list = get(&client, format!("{WIDGETS}?{selected}")).await.body;
    assert_eq!(
        (&list["kind"], &list["metadata"]["continue"], &list["items"]),
        (&json!("WidgetList"), &json!(""), &json!([created]))
    );
    let list = get(&client, format!("/apis/example.com/v1beta1/widgets?{selected}"))
        .await
        .body;
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1beta1");
    let list = get_as(&client, format!("{WIDGETS}?{selected}"), METADATA_LIST)
        .await
        .body;
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (
            &json!("PartialObjectMetadataList"),
            &json!("PartialObjectMetadata")
        )
    );
    assert_eq!(list["items"][0]["metadata"], created["metadata"]);
    let mut watch = Watch::open(
        &client,
        format!(
            "{OLD_WIDGETS}?watch=1&{selected}&resourceVersion={}",
            version(&created)
        ),
    )
    .await;
    let uri = format!("{WIDGETS}/listed");
    patch(&client, &uri, MERGE, json!({ "spec": { "replicas": 3 } })).await;
    let event = watch.event().await;
    assert_eq!(
        (
            &event["type"],
            &event["object"]["apiVersion"],
            &event["object"]["spec"]
        ),
        (
            &json!("MODIFIED"),
            &json!("example.com/v1beta1"),
            &json!({ "replicas": 3 })
        )
    );
    delete(&client, &uri, Value::Null).await;
    assert_eq!(watch.line().await, "DELETED listed");
}

async fn a_change_of_the_definition_takes_effect(client: Client) {
    let versions = [
        any_fields("v1", &json!({ "status": {} })),
        any_fields("v1beta1", &json!({})),
    ];
    define(
        &client,
        GADGETS,
        definition("gadgets", "Gadget", "Cluster", &versions),
    )
    .await;
    let old = "/apis/example.com/v1beta1/gadgets";
    until(&client, old, |answer| answer.code == 200).await;
    let gadget = json!({ "kind": "Gadget", "apiVersion": "example.com/v1", "metadata": { "name": "g" } });
    create(&client, GADGETS, gadget).await;
    let uri = format!("{GADGETS}/g");
    let status = json!({ "status": { "ok": true } });
    assert_eq!(
        patch(&client, &uri, MERGE, status.clone())
            .await
            .body
            .get("status"),
        None
    );
    let mut without = versions.clone();
    without[0]["subresources"] = json!({});
    without[1]["served"] = json!(false);
    let definition = format!("{DEFINITIONS}/gadgets.example.com");
    let change = json!({ "spec": { "versions": without } });
    let changed = patch(&client, &definition, MERGE, change).await.body;
    assert_eq!(changed["metadata"]["generation"], 2);
    until(&client, &format!("{uri}/status"), |answer| answer.code == 404).await;
    until(&client, old, |answer| answer.code == 404).await;
    // The real server takes its storage away after its paths: until then a status is dropped from writes to the object.
    let store = || patch(&client, &uri, MERGE, status.clone());
    let patched = repeated(&uri, store, |answer| answer.body.get("status").is_some()).await;
    assert_eq!(patched.body["status"], json!({ "ok": true }));
    assert_eq!(patched.body["metadata"]["generation"], 2);
    let blind = json!({ "metadata": { "name": "gadgets.example.com" } });
    assert_eq!(put(&client, &definition, blind).await.code, 422);
    delete(&client, &definition, Value::Null).await;
    until(&client, &definition, |answer| answer.code == 404).await;
}

async fn a_deleted_definition_takes_its_objects_along(client: Client) {
    let collection = "/apis/example.com/v1/brieves";
    let version = any_fields("v1", &json!({}));
    define(
        &client,
        collection,
        definition("brieves", "Brief", "Cluster", &[version]),
    )
    .await;
    let brief = json!({ "kind": "Brief", "apiVersion": "example.com/v1", "metadata": { "name": "b" } });
    let brief = create(&client, collection, brief).await;
    let mut watch = Watch::open(
        &client,
        format!(
            "{collection}?watch=1&resourceVersion={}",
            crate::http::version(&brief)
        ),
    )
    .await;
    let uri = format!("{DEFINITIONS}/brieves.example.com");
    let deleted = delete(&client, &uri, Value::Null).await;
    assert_eq!(deleted.code, 200);
    assert_eq!(watch.line().await, "DELETED b");
    until(&client, &uri, |answer| answer.code == 404).await;
    until(&client, collection, |answer| answer.code == 404).await;
}
