//! Custom resource definitions, and the objects of the kinds that they define.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::twin::repeated;

crate::scenarios![
    a_created_definition_gets_its_names_and_is_established,
    an_object_of_a_definition_is_created_as_it_was_sent,
    an_object_must_say_its_kind_and_version,
    an_object_is_seen_in_every_served_version,
    an_update_must_say_its_version_and_a_strategic_patch_is_unknown,
    lists_and_watches_of_a_definition_work_as_of_any_kind,
    a_change_of_the_definition_takes_effect,
    a_deleted_definition_takes_its_objects_along,
];

const GROUP: &str = "example.com";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
pub(crate) const OLD_WIDGETS: &str = "/apis/example.com/v1beta1/namespaces/default/widgets";
const GADGETS: &str = "/apis/example.com/v1/gadgets";

/// A version of a definition without a schema for its fields.
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

/// Repeats a get of `uri` until the answer is as `wanted`.
async fn until(client: &Client, uri: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
    repeated(uri, || get(client, uri), wanted).await
}

fn is_established(answer: &Answer) -> bool {
    found(&answer.body["status"]["conditions"], "type", "Established")["status"] == "True"
}

/// Waits until `collection` is served.
async fn is_served(client: &Client, collection: &str) -> Value {
    until(client, collection, |answer| answer.code == 200).await.body
}

async fn is_gone_in_a_while(client: &Client, uri: &str) {
    until(client, uri, |answer| answer.code == 404).await;
}

/// Defines a kind unless an earlier scenario has, and waits until `collection` is served.
async fn define(client: &Client, collection: &str, definition: Value) {
    let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
    let answer = post(client, DEFINITIONS, definition).await;
    assert!(matches!(answer.code, 201 | 409), "{answer:?}");
    until(client, &format!("{DEFINITIONS}/{name}"), is_established).await;
    is_served(client, collection).await;
}

/// Defines Widgets: namespaced, with `/status` and `/scale` in v1, without them in v1beta1. The definition stays for
/// all scenarios.
pub(crate) async fn define_widgets(client: &Client) {
    let subresources = json!({
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    });
    let versions = [any_fields("v1", &subresources), any_fields("v1beta1", &json!({}))];
    let widgets = definition("widgets", "Widget", "Namespaced", &versions);
    define(client, WIDGETS, widgets).await;
}

pub(crate) fn widget(name: &str) -> Value {
    json!({
        "kind": "Widget",
        "apiVersion": "example.com/v1",
        "metadata": { "name": name },
        "spec": { "replicas": 2 },
    })
}

async fn a_created_definition_gets_its_names_and_is_established(client: Client) {
    let firsts = definition("firsts", "First", "Cluster", &[any_fields("v1", &json!({}))]);
    let created = create(&client, DEFINITIONS, firsts).await;
    created.shows(json!({ "metadata.generation": 1, "spec.names": {
        "plural": "firsts",
        "singular": "first",
        "shortNames": ["shortfirsts"],
        "kind": "First",
        "listKind": "FirstList",
    } }));
    let uri = format!("{DEFINITIONS}/firsts.example.com");
    let established = until(&client, &uri, is_established).await.body;
    established.shows(json!({
        "metadata.generation": 1,
        "status.acceptedNames": created["spec"]["names"],
        "status.storedVersions": ["v1"],
    }));
    let conditions = established["status"]["conditions"].as_array().unwrap().iter();
    let conditions: Vec<[&str; 4]> = conditions
        .map(|condition| {
            ["type", "status", "reason", "message"].map(|field| condition[field].as_str().unwrap())
        })
        .collect();
    let accepted = ["NamesAccepted", "True", "NoConflicts", "no conflicts found"];
    let message = "the initial names have been accepted";
    assert_eq!(
        conditions,
        [accepted, ["Established", "True", "InitialNamesAccepted", message]]
    );
    let list = is_served(&client, "/apis/example.com/v1/firsts").await;
    list.shows(json!({ "kind": "FirstList", "apiVersion": "example.com/v1", "items": [] }));
    delete(&client, &uri, Value::Null).await;
    is_gone_in_a_while(&client, &uri).await;
}

async fn an_object_of_a_definition_is_created_as_it_was_sent(client: Client) {
    define_widgets(&client).await;
    let mut sent = widget("created");
    sent["status"] = json!({ "replicas": 9 });
    sent["nothing"] = Value::Null;
    sent["none"] = json!([]);
    let created = create(&client, WIDGETS, sent).await;
    created.shows(json!({
        "kind": "Widget",
        "apiVersion": "example.com/v1",
        "spec": { "replicas": 2 },
        "status": null,
        "none": [],
        "metadata.generation": 1,
        "metadata.namespace": "default",
    }));
    assert_eq!(created.get("nothing"), Some(&Value::Null));
    let uri = format!("{WIDGETS}/created");
    assert_eq!(read(&client, &uri).await, created);
    let again = post(&client, WIDGETS, widget("created")).await;
    again.says(409, "widgets.example.com \"created\" already exists");
    let deleted = delete(&client, &uri, Value::Null).await;
    let uid = &created["metadata"]["uid"];
    let details = json!({ "name": "created", "group": "example.com", "kind": "widgets", "uid": uid });
    assert_eq!(deleted.body["details"], details);
    is_gone(&client, &uri).await;
}

async fn an_object_must_say_its_kind_and_version(client: Client) {
    define_widgets(&client).await;
    let kindless = post(&client, WIDGETS, named("kindless")).await;
    kindless.is(400, "BadRequest");
    let why = "(must be of type Widget): Object 'Kind' is missing in";
    kindless.begins(400, &format!("the object provided is unrecognized {why}"));
    for api_version in ["example.com/v1beta1", ""] {
        let mut other = widget("kindless");
        other["apiVersion"] = json!(api_version);
        let message = format!(
            "the API version in the data ({api_version}) does not match the expected API version (example.com/v1)"
        );
        post(&client, WIDGETS, other).await.says(400, &message);
    }
    let mut other = widget("kindless");
    other["kind"] = json!("Gadget");
    let why = "kind: Invalid value: \"Gadget\": must be Widget";
    let message = format!("Gadget.example.com \"kindless\" is invalid: {why}");
    post(&client, WIDGETS, other).await.says(422, &message);
}

async fn an_object_is_seen_in_every_served_version(client: Client) {
    define_widgets(&client).await;
    let created = create(&client, WIDGETS, widget("versions")).await;
    let uri = format!("{OLD_WIDGETS}/versions");
    let old = read(&client, &uri).await;
    old.shows(json!({
        "apiVersion": "example.com/v1beta1",
        "metadata": created["metadata"],
        "spec": created["spec"],
    }));
    let more = json!({ "spec": { "replicas": 3 } });
    let patched = merge(&client, format!("{uri}?fieldManager=younger"), more).await;
    assert_eq!(patched["apiVersion"], "example.com/v1beta1");
    let now = read(&client, format!("{WIDGETS}/versions")).await;
    now.shows(json!({ "apiVersion": "example.com/v1", "spec.replicas": 3 }));
    for (manager, version, owned) in [("scenario", "v1", Value::Null), ("younger", "v1beta1", json!({}))] {
        let entry = fields_of(&now, manager);
        assert_eq!(entry["apiVersion"], format!("example.com/{version}"));
        assert_eq!(entry["fieldsV1"]["f:spec"]["f:replicas"], owned);
    }
    delete(&client, &uri, Value::Null).await;
}

async fn an_update_must_say_its_version_and_a_strategic_patch_is_unknown(client: Client) {
    define_widgets(&client).await;
    let created = create(&client, WIDGETS, widget("update")).await;
    let uri = format!("{WIDGETS}/update");
    put(&client, &uri, widget("update")).await.says(
        422,
        "widgets.example.com \"update\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an \
         update",
    );
    let mut stale = widget("update");
    stale["metadata"]["resourceVersion"] = json!("1");
    put(&client, &uri, stale).await.is(409, "Conflict");
    let mut right = created.clone();
    right["spec"]["replicas"] = json!(5);
    assert_eq!(update(&client, &uri, right).await["spec"]["replicas"], 5);
    patch(&client, &uri, STRATEGIC, json!({ "spec": { "replicas": 1 } })).await.says(
        415,
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
         application/merge-patch+json, application/apply-patch+yaml",
    );
    let other = patch(&client, &uri, MERGE, json!({ "metadata": { "uid": "other" } })).await;
    let why = "metadata.uid: Invalid value: \"other\": field is immutable";
    other.says(422, &format!("Widget.example.com \"update\" is invalid: {why}"));
    delete(&client, &uri, Value::Null).await;
}

async fn lists_and_watches_of_a_definition_work_as_of_any_kind(client: Client) {
    define_widgets(&client).await;
    let mut labelled = widget("listed");
    labelled["metadata"]["labels"] = json!({ "listed": "yes" });
    let created = create(&client, WIDGETS, labelled).await;
    let selected = "labelSelector=listed";
    let list = read(&client, format!("{WIDGETS}?{selected}")).await;
    list.shows(json!({ "kind": "WidgetList", "metadata.continue": "", "items": [created] }));
    let list = read(&client, format!("/apis/example.com/v1beta1/widgets?{selected}")).await;
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1beta1");
    let list = get_as(&client, format!("{WIDGETS}?{selected}"), METADATA_LIST).await;
    list.shows(json!({
        "kind": "PartialObjectMetadataList",
        "items.0.kind": "PartialObjectMetadata",
        "items.0.metadata": created["metadata"],
    }));
    let mut watch = Watch::since(&client, format!("{OLD_WIDGETS}?{selected}"), &created).await;
    let uri = format!("{WIDGETS}/listed");
    merge(&client, &uri, json!({ "spec": { "replicas": 3 } })).await;
    watch.event().await.shows(json!({
        "type": "MODIFIED",
        "object.apiVersion": "example.com/v1beta1",
        "object.spec": { "replicas": 3 },
    }));
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
    is_served(&client, old).await;
    let gadget = json!({ "kind": "Gadget", "apiVersion": "example.com/v1", "metadata": { "name": "g" } });
    create(&client, GADGETS, gadget).await;
    let uri = format!("{GADGETS}/g");
    let status = json!({ "status": { "ok": true } });
    assert_eq!(merge(&client, &uri, status.clone()).await.get("status"), None);
    let mut without = versions.clone();
    without[0]["subresources"] = json!({});
    without[1]["served"] = json!(false);
    let definition = format!("{DEFINITIONS}/gadgets.example.com");
    let change = json!({ "spec": { "versions": without } });
    let changed = merge(&client, &definition, change).await;
    assert_eq!(changed["metadata"]["generation"], 2);
    is_gone_in_a_while(&client, &format!("{uri}/status")).await;
    is_gone_in_a_while(&client, old).await;
    // The real server updates its storage after its paths; until then, writes to the object lose their status.
    let store = || patch(&client, &uri, MERGE, status.clone());
    let patched = repeated(&uri, store, |answer| answer.body.get("status").is_some()).await;
    patched.shows(json!({ "status": { "ok": true }, "metadata.generation": 2 }));
    let blind = put(&client, &definition, named("gadgets.example.com")).await;
    assert_eq!(blind.code, 422);
    delete(&client, &definition, Value::Null).await;
    is_gone_in_a_while(&client, &definition).await;
}

async fn a_deleted_definition_takes_its_objects_along(client: Client) {
    let collection = "/apis/example.com/v1/brieves";
    let brieves = definition("brieves", "Brief", "Cluster", &[any_fields("v1", &json!({}))]);
    define(&client, collection, brieves).await;
    let brief = json!({ "kind": "Brief", "apiVersion": "example.com/v1", "metadata": { "name": "b" } });
    let brief = create(&client, collection, brief).await;
    let mut watch = Watch::since(&client, collection, &brief).await;
    let uri = format!("{DEFINITIONS}/brieves.example.com");
    let deleted = delete(&client, &uri, Value::Null).await;
    assert_eq!(deleted.code, 200);
    assert_eq!(watch.line().await, "DELETED b");
    is_gone_in_a_while(&client, &uri).await;
    is_gone_in_a_while(&client, collection).await;
}
