//! What holds for every kind that the controllers use.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

crate::scenarios![
    every_kind_is_created_read_listed_and_deleted,
    every_kind_refuses_a_name_that_is_taken,
    every_kind_refuses_a_stale_update,
    every_kind_refuses_a_stale_patch,
    every_kind_refuses_an_update_for_another_uid,
    only_leases_and_budgets_insist_on_a_version_in_an_update,
    every_kind_keeps_its_version_when_nothing_changes,
    every_kind_tells_its_watchers_what_happens_to_it,
    every_kind_can_be_tried_without_an_effect,
    every_kind_lists_nothing_as_an_empty_list_of_its_type,
    every_kind_is_selected_by_name_and_namespace,
    every_kind_refuses_selection_by_a_field_that_it_does_not_offer,
    a_missing_object_of_every_kind_is_named_in_the_same_way,
    a_name_stands_for_one_object_per_kind_and_namespace,
];

/// One of the kinds: its collection, its names, and what an object of it needs.
pub(crate) struct Kind {
    pub(crate) uri: &'static str,
    pub(crate) name: &'static str,
    pub(crate) api_version: &'static str,
    /// Plural and group, as messages have them.
    pub(crate) qualified: &'static str,
    /// What its keys in etcd start with.
    table: &'static str,
    body: Value,
}

impl Kind {
    /// An object under a name.
    pub(crate) fn object(&self, name: &str) -> Value {
        let mut object = self.body.clone();
        object["metadata"] = json!({ "name": name });
        object
    }

    fn plural(&self) -> &str {
        self.qualified.split('.').next().unwrap()
    }

    /// The details of a Status about an object.
    fn details(&self, name: &str) -> Value {
        match self.qualified.split_once('.') {
            None => json!({ "name": name, "kind": self.qualified }),
            Some((plural, group)) => json!({ "name": name, "group": group, "kind": plural }),
        }
    }

    fn is_namespaced(&self) -> bool {
        self.uri != NODES
    }
}

pub(crate) fn pod_spec() -> Value {
    json!({ "containers": [{ "name": "c", "image": "i" }] })
}

pub(crate) fn every_kind() -> Vec<Kind> {
    let kind = |uri, name, api_version, qualified, table, body| Kind {
        uri,
        name,
        api_version,
        qualified,
        table,
        body,
    };
    let mut once = pod_spec();
    once["restartPolicy"] = json!("Never");
    let labels = json!({ "a": "b" });
    let replica_set = json!({ "spec": {
        "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": pod_spec() },
    } });
    let request = json!({ "name": "r", "exactly": { "deviceClassName": "gpu.example.com" } });
    let event = json!({
        "involvedObject": { "kind": "Pod", "namespace": "default", "name": "p" },
        "reason": "Tried",
        "type": "Normal",
    });
    vec![
        kind(NODES, "Node", "v1", "nodes", "minions", json!({})),
        kind(
            LEASES,
            "Lease",
            "coordination.k8s.io/v1",
            "leases.coordination.k8s.io",
            "leases",
            json!({ "spec": { "holderIdentity": "a" } }),
        ),
        kind(PODS, "Pod", "v1", "pods", "pods", json!({ "spec": pod_spec() })),
        kind(
            JOBS,
            "Job",
            "batch/v1",
            "jobs.batch",
            "jobs",
            json!({ "spec": { "template": { "spec": once } } }),
        ),
        kind(
            PDBS,
            "PodDisruptionBudget",
            "policy/v1",
            "poddisruptionbudgets.policy",
            "poddisruptionbudgets",
            json!({ "spec": { "maxUnavailable": 1, "selector": { "matchLabels": labels } } }),
        ),
        kind(
            REPLICA_SETS,
            "ReplicaSet",
            "apps/v1",
            "replicasets.apps",
            "replicasets",
            replica_set,
        ),
        kind(
            CLAIMS,
            "ResourceClaim",
            "resource.k8s.io/v1",
            "resourceclaims.resource.k8s.io",
            "resourceclaims",
            json!({ "spec": { "devices": { "requests": [request] } } }),
        ),
        kind(CORE_EVENTS, "Event", "v1", "events", "events", event),
    ]
}

/// Deletes at once, whatever the kind would wait for.
pub(crate) async fn remove(client: &Client, uri: &str, name: &str) -> Answer {
    let options = json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Background" });
    delete(client, format!("{uri}/{name}"), options).await
}

async fn every_kind_is_created_read_listed_and_deleted(client: Client) {
    for kind in every_kind() {
        let created = create(&client, kind.uri, kind.object("crud")).await;
        assert_eq!(created["kind"], kind.name);
        assert_eq!(created["apiVersion"], kind.api_version);
        let namespace = created["metadata"].get("namespace");
        let expected = json!("default");
        assert_eq!(namespace, kind.is_namespaced().then_some(&expected));
        let uri = format!("{}/crud", kind.uri);
        let read = get(&client, &uri).await;
        assert_eq!((read.code, &read.body), (200, &created), "{uri}");
        let list = get(&client, kind.uri).await.body;
        let mut item = created.clone();
        item.as_object_mut().unwrap().remove("kind");
        item.as_object_mut().unwrap().remove("apiVersion");
        assert_eq!(list["items"], json!([item]), "{uri}");
        assert!(version(&list) >= version(&created));
        assert_eq!(remove(&client, kind.uri, "crud").await.code, 200, "{uri}");
        assert_eq!(get(&client, &uri).await.code, 404, "{uri}");
        assert_eq!(get(&client, kind.uri).await.body["items"], json!([]));
    }
}

async fn every_kind_refuses_a_name_that_is_taken(client: Client) {
    for kind in every_kind() {
        create(&client, kind.uri, kind.object("taken")).await;
        let again = post(&client, kind.uri, kind.object("taken")).await;
        assert_eq!(
            again.body,
            json!({
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": format!("{} \"taken\" already exists", kind.qualified),
                "reason": "AlreadyExists",
                "details": kind.details("taken"),
                "code": 409,
            })
        );
    }
}

fn modified(kind: &Kind, name: &str) -> String {
    format!(
        "Operation cannot be fulfilled on {} \"{name}\": the object has been modified; please apply your changes \
         to the latest version and try again",
        kind.qualified
    )
}

async fn every_kind_refuses_a_stale_update(client: Client) {
    for kind in every_kind() {
        let created = create(&client, kind.uri, kind.object("stale")).await;
        let uri = format!("{}/stale", kind.uri);
        let mut object = created.clone();
        object["metadata"]["labels"] = json!({ "one": "1" });
        let updated = put(&client, &uri, object.clone()).await;
        assert_eq!(updated.code, 200, "{updated:?}");
        assert!(version(&updated.body) > version(&created));
        object["metadata"]["labels"] = json!({ "two": "2" });
        let stale = put(&client, &uri, object).await;
        stale.is(409, "Conflict");
        assert_eq!(stale.body["message"], modified(&kind, "stale"));
        assert_eq!(stale.body["details"], kind.details("stale"));
        assert_eq!(get(&client, &uri).await.body, updated.body);
    }
}

async fn every_kind_refuses_a_stale_patch(client: Client) {
    for kind in every_kind() {
        create(&client, kind.uri, kind.object("stale")).await;
        let uri = format!("{}/stale", kind.uri);
        for content_type in [MERGE, STRATEGIC] {
            let label = |version: &str| json!({ "metadata": { "resourceVersion": version, "labels": { "x": version } } });
            let stale = patch(&client, &uri, content_type, label("1")).await;
            assert_eq!(
                (stale.code, &stale.body["message"]),
                (409, &json!(modified(&kind, "stale"))),
                "{uri}"
            );
            let current = get(&client, &uri).await.body;
            let current = current["metadata"]["resourceVersion"].as_str().unwrap();
            let fresh = patch(&client, &uri, content_type, label(current)).await;
            assert_eq!(fresh.code, 200, "{uri}");
            assert_eq!(fresh.body["metadata"]["labels"]["x"], current);
        }
    }
}

async fn every_kind_refuses_an_update_for_another_uid(client: Client) {
    for kind in every_kind() {
        let mut object = create(&client, kind.uri, kind.object("other")).await;
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        object["metadata"]["uid"] = json!("foreign");
        let key = if kind.is_namespaced() {
            format!("/registry/{}/default/other", kind.table)
        } else {
            format!("/registry/{}/other", kind.table)
        };
        let refused = put(&client, format!("{}/other", kind.uri), object).await;
        refused.says(409, &format!(
                    "Operation cannot be fulfilled on {} \"other\": StorageError: invalid object, Code: 4, Key: {key}, \
                     ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: foreign, UID \
                     in object meta: {uid}",
                    kind.qualified
                ));
    }
}

async fn only_leases_and_budgets_insist_on_a_version_in_an_update(client: Client) {
    for kind in every_kind() {
        let mut object = create(&client, kind.uri, kind.object("blind")).await;
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        object["metadata"]["labels"] = json!({ "seen": "no" });
        let blind = put(&client, format!("{}/blind", kind.uri), object).await;
        if matches!(kind.plural(), "leases" | "poddisruptionbudgets") {
            blind.says(
                422,
                &format!(
                    "{} \"blind\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified \
                         for an update",
                    kind.qualified
                ),
            );
        } else {
            assert_eq!(blind.code, 200, "{blind:?}");
            assert_eq!(blind.body["metadata"]["labels"], json!({ "seen": "no" }));
        }
    }
}

async fn every_kind_keeps_its_version_when_nothing_changes(client: Client) {
    for kind in every_kind() {
        // The first write to a job takes over the labels that the server gave it.
        if kind.plural() == "jobs" {
            continue;
        }
        let created = create(&client, kind.uri, kind.object("same")).await;
        let uri = format!("{}/same", kind.uri);
        let same = json!({ "metadata": { "annotations": { "absent": null } } });
        for answer in [
            put(&client, &uri, created.clone()).await,
            patch(&client, &uri, MERGE, same.clone()).await,
            patch(&client, &uri, STRATEGIC, json!({})).await,
            get(&client, &uri).await,
        ] {
            assert_eq!((answer.code, &answer.body), (200, &created));
        }
    }
}

async fn every_kind_tells_its_watchers_what_happens_to_it(client: Client) {
    for kind in every_kind() {
        let start = version(&get(&client, kind.uri).await.body);
        let uri = format!("{}?watch=1&resourceVersion={start}", kind.uri);
        let mut watch = Watch::open(&client, uri).await;
        let created = create(&client, kind.uri, kind.object("seen")).await;
        assert_eq!(watch.event().await, json!({ "type": "ADDED", "object": created }));
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        let labelled = patch(&client, format!("{}/seen", kind.uri), MERGE, label)
            .await
            .body;
        assert_eq!(
            watch.event().await,
            json!({ "type": "MODIFIED", "object": labelled })
        );
        assert!(version(&labelled) > version(&created));
        remove(&client, kind.uri, "seen").await;
        let mut last = watch.event().await;
        // A pod is marked before it goes.
        if last["type"] == "MODIFIED" && kind.plural() == "pods" {
            last = watch.event().await;
        }
        assert_eq!(last["type"], "DELETED");
        assert_eq!(last["object"]["kind"], kind.name);
        assert_eq!(last["object"]["metadata"]["uid"], created["metadata"]["uid"]);
        assert_eq!(last["object"]["metadata"]["labels"]["a"], "b");
        assert!(version(&last["object"]) > version(&labelled));
    }
}

async fn every_kind_can_be_tried_without_an_effect(client: Client) {
    for kind in every_kind() {
        let kept = create(&client, kind.uri, kind.object("kept")).await;
        let tried = post(&client, format!("{}?dryRun=All", kind.uri), kind.object("tried")).await;
        assert_eq!(tried.code, 201, "{tried:?}");
        assert_eq!(tried.body["metadata"]["uid"].as_str().unwrap().len(), 36);
        let uri = format!("{}/kept", kind.uri);
        let dry = format!("{uri}?dryRun=All");
        let mut changed = kept.clone();
        changed["metadata"]["labels"] = json!({ "dry": "yes" });
        for tried in [
            put(&client, &dry, changed.clone()).await,
            patch(
                &client,
                &dry,
                MERGE,
                json!({ "metadata": { "labels": { "dry": "yes" } } }),
            )
            .await,
        ] {
            assert_eq!(tried.code, 200, "{tried:?}");
            assert_eq!(tried.body["metadata"]["labels"]["dry"], "yes");
            assert_eq!(
                tried.body["metadata"]["resourceVersion"],
                kept["metadata"]["resourceVersion"]
            );
        }
        let taken = post(&client, format!("{}?dryRun=All", kind.uri), kind.object("kept")).await;
        assert_eq!(taken.code, 409);
        assert_eq!(names(&get(&client, kind.uri).await.body), ["kept"]);
        assert_eq!(get(&client, &uri).await.body, kept);
    }
}

async fn every_kind_lists_nothing_as_an_empty_list_of_its_type(client: Client) {
    let written = create(&client, LEASES, json!({ "metadata": { "name": "written" } })).await;
    remove(&client, LEASES, "written").await;
    for kind in every_kind() {
        let list = get(&client, kind.uri).await;
        assert_eq!(list.code, 200);
        assert_eq!(list.headers["content-type"], "application/json");
        assert_eq!(list.body["kind"], format!("{}List", kind.name));
        assert_eq!(list.body["apiVersion"], kind.api_version);
        assert_eq!(list.body["items"], json!([]));
        let metadata = list.body["metadata"].as_object().unwrap();
        assert_eq!(metadata.keys().collect::<Vec<_>>(), ["resourceVersion"]);
        // Even of an empty collection it is the version of the whole store.
        assert!(version(&list.body) > version(&written), "{}", kind.uri);
    }
}

async fn every_kind_is_selected_by_name_and_namespace(client: Client) {
    for kind in every_kind() {
        for name in ["one", "two", "three"] {
            create(&client, kind.uri, kind.object(name)).await;
        }
        let selected = async |selector: &str| {
            let uri = format!("{}?fieldSelector={selector}", kind.uri);
            let list = get(&client, uri).await.body;
            names(&list).join(" ")
        };
        assert_eq!(selected("metadata.name%3Dtwo").await, "two");
        assert_eq!(selected("metadata.name!%3Dtwo").await, "one three");
        assert_eq!(selected("metadata.name%3Dnobody").await, "");
        assert_eq!(
            selected("metadata.name!%3Done,metadata.name!%3Dtwo").await,
            "three"
        );
        if kind.is_namespaced() {
            assert_eq!(
                selected("metadata.namespace%3Ddefault,metadata.name%3D%3Done").await,
                "one"
            );
            assert_eq!(selected("metadata.namespace!%3Ddefault").await, "");
        }
    }
}

async fn every_kind_refuses_selection_by_a_field_that_it_does_not_offer(client: Client) {
    for kind in every_kind() {
        for query in ["", "watch=1&"] {
            let uri = format!("{}?{query}fieldSelector=spec.nothing%3Da", kind.uri);
            let refused = get(&client, uri).await;
            assert_eq!(
                (refused.code, &refused.body["reason"]),
                (400, &json!("BadRequest")),
                "{}",
                kind.uri
            );
        }
    }
    let everywhere = get(&client, format!("{NODES}?fieldSelector=metadata.namespace%3Dx")).await;
    everywhere.says(400, "field label not supported: metadata.namespace");
}

async fn a_missing_object_of_every_kind_is_named_in_the_same_way(client: Client) {
    for kind in every_kind() {
        let uri = format!("{}/nobody", kind.uri);
        for answer in [
            get(&client, &uri).await,
            get_as(&client, &uri, METADATA).await,
            patch(&client, &uri, MERGE, json!({})).await,
            delete(&client, &uri, Value::Null).await,
        ] {
            assert_eq!(answer.code, 404);
            assert_eq!(
                answer.body["message"],
                format!("{} \"nobody\" not found", kind.qualified)
            );
            assert_eq!(answer.body["reason"], "NotFound");
            assert_eq!(answer.body["details"], kind.details("nobody"));
        }
    }
}

async fn a_name_stands_for_one_object_per_kind_and_namespace(client: Client) {
    let mut uids = Vec::new();
    for kind in every_kind() {
        let here = create(&client, kind.uri, kind.object("shared")).await;
        uids.push(here["metadata"]["uid"].clone());
    }
    let there = LEASES.replace("default", "kube-system");
    let elsewhere = create(&client, &there, json!({ "metadata": { "name": "shared" } })).await;
    uids.push(elsewhere["metadata"]["uid"].clone());
    assert_eq!(remove(&client, &there, "shared").await.code, 200);
    for (kind, uid) in every_kind().iter().zip(&uids) {
        let read = get(&client, format!("{}/shared", kind.uri)).await;
        assert_eq!(read.body["metadata"]["uid"], *uid);
    }
    let distinct: std::collections::BTreeSet<&str> = uids.iter().filter_map(Value::as_str).collect();
    assert_eq!(distinct.len(), 9);
}
