//! Metadata: what clients can set, and what only the server sets.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::kinds::every_kind;
use crate::rows;

crate::scenarios![
    what_the_server_says_of_an_object_cannot_be_brought_along,
    what_the_server_says_of_an_object_cannot_be_changed,
    a_deletion_cannot_be_written,
    a_namespace_means_nothing_where_there_are_none,
    a_generated_name_is_cut_to_length,
    annotations_have_a_size,
    owners_must_be_whole,
    one_owner_is_the_controller,
    finalizers_look_like_label_keys,
    an_update_is_held_to_the_same_rules,
];

async fn what_the_server_says_of_an_object_cannot_be_brought_along(client: Client) {
    for kind in every_kind() {
        let mut object = kind.object("brought");
        object["metadata"] = json!({
            "name": "brought",
            "uid": "00000000-0000-0000-0000-00000000cafe",
            "creationTimestamp": "2001-01-01T00:00:00Z",
            "deletionTimestamp": "2001-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 7,
            "generation": 77,
            "selfLink": "/somewhere/else",
        });
        let created = create(&client, kind.uri, object.clone()).await;
        for own in ["uid", "creationTimestamp"] {
            assert_ne!(created["metadata"][own], object["metadata"][own]);
        }
        // A kind that does not count generations keeps the value sent.
        let counts = [PODS, JOBS, PDBS, REPLICA_SETS].contains(&kind.uri);
        created["metadata"].shows(json!({
            "deletionTimestamp": null,
            "deletionGracePeriodSeconds": null,
            "selfLink": null,
            "generation": if counts { 1 } else { 77 },
        }));
    }
}

async fn what_the_server_says_of_an_object_cannot_be_changed(client: Client) {
    for kind in every_kind() {
        let created = create(&client, kind.uri, kind.object("fixed")).await;
        let changes = json!({
            "creationTimestamp": "2001-01-01T00:00:00Z",
            "generation": 77,
            "selfLink": "/somewhere/else",
            "labels": { "changed": "yes" },
        });
        let uri = format!("{}/fixed", kind.uri);
        let patched = merge(&client, &uri, json!({ "metadata": changes })).await;
        for field in [
            "uid",
            "creationTimestamp",
            "name",
            "namespace",
            "generation",
            "selfLink",
        ] {
            let (is, was) = (&patched["metadata"][field], &created["metadata"][field]);
            assert_eq!(is, was, "{uri} {field}");
        }
        patched.shows(json!({ "metadata.labels.changed": "yes" }));
    }
}

async fn a_deletion_cannot_be_written(client: Client) {
    create(&client, NODES, named("n")).await;
    let uri = format!("{NODES}/n");
    for (field, value) in [
        ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(5)),
    ] {
        let why = format!("metadata.{field}: Invalid value: {value}: field is immutable");
        let mut body = named("n");
        body["metadata"][field] = value;
        for refused in [
            put(&client, &uri, body.clone()).await,
            patch(&client, &uri, MERGE, body.clone()).await,
        ] {
            refused.says(422, &format!("Node \"n\" is invalid: {why}"));
        }
    }
    let nothing = json!({ "metadata": { "deletionTimestamp": null, "deletionGracePeriodSeconds": null } });
    merge(&client, &uri, nothing).await;
}

async fn a_namespace_means_nothing_where_there_are_none(client: Client) {
    let node = json!({ "metadata": { "name": "n", "namespace": "default" } });
    let node = create(&client, NODES, node).await;
    node.shows(json!({ "metadata.namespace": null }));
    let lease = create(&client, LEASES, named("l")).await;
    lease.shows(json!({ "metadata.namespace": "default" }));
}

async fn a_generated_name_is_cut_to_length(client: Client) {
    for (prefix, kept) in [("short-", 6), (&*"x".repeat(58), 58), (&*"y".repeat(100), 58)] {
        let lease = json!({ "metadata": { "generateName": prefix } });
        let lease = create(&client, LEASES, lease).await;
        let name = lease["metadata"]["name"].as_str().unwrap();
        assert_eq!(name.len(), kept + 5, "{name}");
        assert!(prefix.starts_with(&name[..kept]), "{name}");
        assert_eq!(lease["metadata"]["generateName"], prefix);
        let suffix = &name[kept..];
        let alphabet = "bcdfghjklmnpqrstvwxz2456789";
        assert!(suffix.chars().all(|letter| alphabet.contains(letter)), "{name}");
    }
    let both = json!({ "metadata": { "name": "mine", "generateName": "other-" } });
    let both = create(&client, LEASES, both).await;
    both.shows(json!({ "metadata.name": "mine", "metadata.generateName": "other-" }));
}

fn lease(metadata: Value) -> Value {
    let mut lease = json!({});
    lease["metadata"] = metadata;
    lease["metadata"]["name"] = json!("l");
    lease
}

async fn assert_refused(client: &Client, metadata: Value, reason: &str, field: &str, why: &str) {
    let message = format!("Lease.coordination.k8s.io \"l\" is invalid: {field}: {why}");
    let details = json!({
        "name": "l",
        "group": "coordination.k8s.io",
        "kind": "Lease",
        "causes": [{ "reason": reason, "message": why, "field": field }],
    });
    let refused = post(client, LEASES, lease(metadata)).await;
    refused.refuses(422, "Invalid", &message, &details);
}

async fn annotations_have_a_size(client: Client) {
    const LIMIT: usize = 256 * 1024;
    let (field, why) = (
        "metadata.annotations",
        "Too long: may not be more than 262144 bytes",
    );
    for annotations in [
        json!({ "a": "x".repeat(LIMIT) }),
        json!({ "a": "x".repeat(LIMIT / 2), "b": "x".repeat(LIMIT / 2) }),
        // The limit counts bytes, not characters.
        json!({ "a": "é".repeat(LIMIT / 2) }),
    ] {
        let metadata = json!({ "annotations": annotations });
        assert_refused(&client, metadata, "FieldValueTooLong", field, why).await;
    }
    let widest = json!({ "annotations": { "a": "x".repeat(LIMIT - 1) } });
    create(&client, LEASES, lease(widest)).await;
}

const OWNERS: &str = "metadata.ownerReferences";

fn owner(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": name })
}

async fn owners_must_be_whole(client: Client) {
    for (field, value, why) in rows! {
        "apiVersion", "" => "Required value: must not be empty";
        "apiVersion", "a/b/c" => "Invalid value: \"a/b/c\": must be <group>/<version> or <version>";
        "kind", "" => "Required value: must not be empty";
        "name", "" => "Required value: must not be empty";
        "uid", "" => "Required value: must not be empty";
    } {
        let mut broken = owner("n");
        broken[field] = json!(value);
        let metadata = json!({ "ownerReferences": [owner("m"), broken] });
        let field = format!("metadata.ownerReferences[1].{field}");
        let reason = if value.is_empty() {
            "FieldValueRequired"
        } else {
            "FieldValueInvalid"
        };
        assert_refused(&client, metadata, reason, &field, why).await;
    }
    let mut event = owner("n");
    event["kind"] = json!("Event");
    let why = "Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"n\",\"uid\":\"n\"}: /v1, \
               Kind=Event is disallowed from being an owner";
    let metadata = json!({ "ownerReferences": [event] });
    let field = "metadata.ownerReferences[0]";
    assert_refused(&client, metadata, "FieldValueInvalid", field, why).await;
    let bare = post(&client, LEASES, lease(json!({ "ownerReferences": [{}] }))).await;
    assert_eq!(bare.causes().len(), 4);
    // An owner need not exist.
    let owners = json!([owner("n"), owner("m")]);
    let owned = create(&client, LEASES, lease(json!({ "ownerReferences": owners }))).await;
    assert_eq!(owned["metadata"]["ownerReferences"], owners);
}

async fn one_owner_is_the_controller(client: Client) {
    let controller = |name: &str, controls: bool| {
        let mut owner = owner(name);
        owner["controller"] = json!(controls);
        owner
    };
    let two = json!({ "ownerReferences": [controller("n", true), owner("o"), controller("m", true)] });
    let why = "Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"n\",\"uid\":\"n\",\"controller\":\
               true},{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"o\",\"uid\":\"o\"},{\"apiVersion\":\"v1\",\
               \"kind\":\"Node\",\"name\":\"m\",\"uid\":\"m\",\"controller\":true}]: Only one reference can have \
               Controller set to true. Found \"true\" in references for Node/n and Node/m";
    assert_refused(&client, two, "FieldValueInvalid", OWNERS, why).await;
    let one = json!({ "ownerReferences": [controller("n", true), controller("m", false), owner("o")] });
    create(&client, LEASES, lease(one)).await;
}

async fn finalizers_look_like_label_keys(client: Client) {
    for (finalizer, whys) in [
        ("/x", &["prefix part must be non-empty"][..]),
        (
            "example.com/",
            &[
                "name part must be non-empty",
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                 alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ],
        ),
    ] {
        let refused = post(&client, LEASES, lease(json!({ "finalizers": [finalizer] }))).await;
        assert_eq!(refused.code, 422);
        let message = message(&refused);
        let start = format!("metadata.finalizers: Invalid value: \"{finalizer}\": ");
        assert!(message.contains(&start), "{message}");
        assert!(whys.iter().all(|why| message.contains(why)), "{message}");
    }
    // A finalizer may occur twice.
    let twice = json!({ "finalizers": ["example.com/x", "example.com/x"] });
    let kept = create(&client, LEASES, lease(twice)).await;
    kept.shows(json!({ "metadata.finalizers": ["example.com/x", "example.com/x"] }));
    release(&client, format!("{LEASES}/l")).await;
}

async fn an_update_is_held_to_the_same_rules(client: Client) {
    create(&client, NODES, named("n")).await;
    let uri = format!("{NODES}/n");
    let mut nameless = owner("m");
    nameless["name"] = json!("");
    for (field, value, why) in rows! {
        "annotations", json!({ "a": "x".repeat(256 * 1024) }) => ": Too long: may not be more than 262144 bytes";
        "ownerReferences", json!([nameless]) => "[0].name: Required value: must not be empty";
        "finalizers", json!(["/x"]) => ": Invalid value: \"/x\": prefix part must be non-empty";
    } {
        let mut body = named("n");
        body["metadata"][field] = value;
        for refused in [
            patch(&client, &uri, MERGE, body.clone()).await,
            put(&client, &uri, body.clone()).await,
        ] {
            refused.says(422, &format!("Node \"n\" is invalid: metadata.{field}{why}"));
        }
    }
}
