//! Behavior that all kinds share.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::{job, labels, pod, workload};
use crate::rows;

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

/// A kind: its collection, its names, and the required fields of an object.
pub(crate) struct Kind {
    pub(crate) uri: &'static str,
    pub(crate) name: &'static str,
    pub(crate) api_version: &'static str,
    /// Plural and group, as in messages.
    pub(crate) qualified: &'static str,
    /// Prefix of its keys in etcd.
    table: &'static str,
    body: Value,
}

impl Kind {
    /// An object with this name.
    pub(crate) fn object(&self, name: &str) -> Value {
        let mut object = self.body.clone();
        object["metadata"] = json!({ "name": name });
        object
    }

    fn plural(&self) -> &str {
        self.qualified.split('.').next().unwrap()
    }

    /// The details of a Status about the object `name`.
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

pub(crate) fn every_kind() -> Vec<Kind> {
    let kind = |uri, name, api_version, qualified, table, body| Kind {
        uri,
        name,
        api_version,
        qualified,
        table,
        body,
    };
    let request = json!({ "name": "r", "exactly": { "deviceClassName": "gpu.example.com" } });
    let devices = json!({ "spec": { "devices": { "requests": [request] } } });
    let budget = json!({ "spec": { "maxUnavailable": 1, "selector": { "matchLabels": labels() } } });
    let event = json!({
        "involvedObject": { "kind": "Pod", "namespace": "default", "name": "p" },
        "reason": "Tried",
        "type": "Normal",
    });
    let (pod, held) = (
        pod("p", Value::Null),
        json!({ "spec": { "holderIdentity": "a" } }),
    );
    let replica_set = workload("w", &pod);
    let rows = rows! {
        NODES, "Node", "v1", "nodes", "minions" => json!({});
        LEASES, "Lease", "coordination.k8s.io/v1", "leases.coordination.k8s.io", "leases" => held;
        PODS, "Pod", "v1", "pods", "pods" => pod;
        JOBS, "Job", "batch/v1", "jobs.batch", "jobs" => job("j");
        PDBS, "PodDisruptionBudget", "policy/v1", "poddisruptionbudgets.policy", "poddisruptionbudgets" => budget;
        REPLICA_SETS, "ReplicaSet", "apps/v1", "replicasets.apps", "replicasets" => replica_set;
        CLAIMS, "ResourceClaim", "resource.k8s.io/v1", "resourceclaims.resource.k8s.io", "resourceclaims" => devices;
        CORE_EVENTS, "Event", "v1", "events", "events" => event;
    };
    let row = |(uri, name, api_version, qualified, table, body)| {
        kind(uri, name, api_version, qualified, table, body)
    };
    rows.map(row).into()
}

/// Deletes an object at once, without grace period or waiting for dependents.
pub(crate) async fn remove(client: &Client, uri: &str, name: &str) -> Answer {
    let options = json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Background" });
    delete(client, format!("{uri}/{name}"), options).await
}

async fn every_kind_is_created_read_listed_and_deleted(client: Client) {
    for kind in every_kind() {
        let created = create(&client, kind.uri, kind.object("crud")).await;
        let namespace = kind.is_namespaced().then_some("default");
        created.shows(json!({
            "kind": kind.name,
            "apiVersion": kind.api_version,
            "metadata.namespace": namespace,
        }));
        let uri = format!("{}/crud", kind.uri);
        assert_eq!(read(&client, &uri).await, created);
        let list = read(&client, kind.uri).await;
        let mut item = created.clone();
        item.as_object_mut()
            .unwrap()
            .retain(|field, _| field != "kind" && field != "apiVersion");
        assert_eq!(list["items"], json!([item]), "{uri}");
        assert!(version(&list) >= version(&created));
        assert_eq!(remove(&client, kind.uri, "crud").await.code, 200, "{uri}");
        is_gone(&client, &uri).await;
        assert_eq!(read(&client, kind.uri).await["items"], json!([]));
    }
}

async fn every_kind_refuses_a_name_that_is_taken(client: Client) {
    for kind in every_kind() {
        create(&client, kind.uri, kind.object("taken")).await;
        let again = post(&client, kind.uri, kind.object("taken")).await;
        let message = format!("{} \"taken\" already exists", kind.qualified);
        again.refuses(409, "AlreadyExists", &message, &kind.details("taken"));
    }
}

/// Fails unless the write of `stale` was refused as a conflict of versions.
#[track_caller]
fn is_modified(answer: &Answer, kind: &Kind) {
    let message = format!(
        "Operation cannot be fulfilled on {} \"stale\": the object has been modified; please apply your changes to the \
         latest version and try again",
        kind.qualified
    );
    answer.refuses(409, "Conflict", &message, &kind.details("stale"));
}

async fn every_kind_refuses_a_stale_update(client: Client) {
    for kind in every_kind() {
        let created = create(&client, kind.uri, kind.object("stale")).await;
        let uri = format!("{}/stale", kind.uri);
        let mut object = created.clone();
        object["metadata"]["labels"] = json!({ "one": "1" });
        let updated = update(&client, &uri, object.clone()).await;
        assert!(version(&updated) > version(&created));
        object["metadata"]["labels"] = json!({ "two": "2" });
        is_modified(&put(&client, &uri, object).await, &kind);
        assert_eq!(read(&client, &uri).await, updated);
    }
}

async fn every_kind_refuses_a_stale_patch(client: Client) {
    for kind in every_kind() {
        create(&client, kind.uri, kind.object("stale")).await;
        let uri = format!("{}/stale", kind.uri);
        for content_type in [MERGE, STRATEGIC] {
            let label = async |version: &Value| {
                let metadata = json!({ "resourceVersion": version, "labels": { "x": version } });
                patch(&client, &uri, content_type, json!({ "metadata": metadata })).await
            };
            is_modified(&label(&json!("1")).await, &kind);
            let current = read(&client, &uri).await;
            let current = &current["metadata"]["resourceVersion"];
            label(current)
                .await
                .shows(json!({ "code": 200, "metadata.labels.x": current }));
        }
    }
}

async fn every_kind_refuses_an_update_for_another_uid(client: Client) {
    for kind in every_kind() {
        let mut object = create(&client, kind.uri, kind.object("other")).await;
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        object["metadata"]["uid"] = json!("foreign");
        let namespace = if kind.is_namespaced() { "default/" } else { "" };
        let message = format!(
            "Operation cannot be fulfilled on {} \"other\": StorageError: invalid object, Code: 4, Key: \
             /registry/{}/{namespace}other, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
             precondition: foreign, UID in object meta: {uid}",
            kind.qualified, kind.table
        );
        put(&client, format!("{}/other", kind.uri), object)
            .await
            .says(409, &message);
    }
}

async fn only_leases_and_budgets_insist_on_a_version_in_an_update(client: Client) {
    for kind in every_kind() {
        let created = create(&client, kind.uri, kind.object("blind")).await;
        let mut object = without(created, "resourceVersion");
        object["metadata"]["labels"] = json!({ "seen": "no" });
        let blind = put(&client, format!("{}/blind", kind.uri), object).await;
        if matches!(kind.plural(), "leases" | "poddisruptionbudgets") {
            let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
            blind.says(422, &format!("{} \"blind\" is invalid: {why}", kind.qualified));
        } else {
            blind.shows(json!({ "code": 200, "metadata.labels": { "seen": "no" } }));
        }
    }
}

async fn every_kind_keeps_its_version_when_nothing_changes(client: Client) {
    for kind in every_kind() {
        // The first write to a job takes ownership of the labels that the server set.
        if kind.plural() == "jobs" {
            continue;
        }
        let created = create(&client, kind.uri, kind.object("same")).await;
        let uri = format!("{}/same", kind.uri);
        let same = json!({ "metadata": { "annotations": { "absent": null } } });
        assert_eq!(update(&client, &uri, created.clone()).await, created);
        assert_eq!(merge(&client, &uri, same).await, created);
        assert_eq!(strategic(&client, &uri, json!({})).await, created);
        assert_eq!(read(&client, &uri).await, created);
    }
}

async fn every_kind_tells_its_watchers_what_happens_to_it(client: Client) {
    for kind in every_kind() {
        let empty = read(&client, kind.uri).await;
        let mut watch = Watch::since(&client, kind.uri, &empty).await;
        let created = create(&client, kind.uri, kind.object("seen")).await;
        watch.tells("ADDED", &created).await;
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        let labelled = merge(&client, format!("{}/seen", kind.uri), label).await;
        watch.tells("MODIFIED", &labelled).await;
        assert!(version(&labelled) > version(&created));
        remove(&client, kind.uri, "seen").await;
        let mut last = watch.event().await;
        // A pod is first marked as being deleted.
        if last["type"] == "MODIFIED" && kind.plural() == "pods" {
            last = watch.event().await;
        }
        last.shows(json!({
            "type": "DELETED",
            "object.kind": kind.name,
            "object.metadata.uid": created["metadata"]["uid"],
            "object.metadata.labels.a": "b",
        }));
        assert!(version(&last["object"]) > version(&labelled));
    }
}

async fn every_kind_can_be_tried_without_an_effect(client: Client) {
    for kind in every_kind() {
        let kept = create(&client, kind.uri, kind.object("kept")).await;
        let collection = format!("{}?dryRun=All", kind.uri);
        let tried = create(&client, &collection, kind.object("tried")).await;
        assert_eq!(tried["metadata"]["uid"].as_str().unwrap().len(), 36);
        let uri = format!("{}/kept", kind.uri);
        let dry = format!("{uri}?dryRun=All");
        let label = json!({ "dry": "yes" });
        let mut changed = kept.clone();
        changed["metadata"]["labels"] = label.clone();
        for tried in [
            update(&client, &dry, changed).await,
            merge(&client, &dry, json!({ "metadata": { "labels": label } })).await,
        ] {
            let version = &kept["metadata"]["resourceVersion"];
            tried.shows(json!({ "metadata.labels.dry": "yes", "metadata.resourceVersion": version }));
        }
        let taken = post(&client, &collection, kind.object("kept")).await;
        assert_eq!(taken.code, 409);
        lists(&client, kind.uri, &["kept"]).await;
        assert_eq!(read(&client, &uri).await, kept);
    }
}

async fn every_kind_lists_nothing_as_an_empty_list_of_its_type(client: Client) {
    let written = create(&client, LEASES, named("written")).await;
    remove(&client, LEASES, "written").await;
    for kind in every_kind() {
        let list = get(&client, kind.uri).await;
        assert_eq!(list.headers["content-type"], "application/json");
        let list_kind = format!("{}List", kind.name);
        list.shows(json!({ "code": 200, "kind": list_kind, "apiVersion": kind.api_version, "items": [] }));
        let metadata = list.body["metadata"].as_object().unwrap();
        assert_eq!(metadata.keys().collect::<Vec<_>>(), ["resourceVersion"]);
        // The version of a list is that of the whole store, even if the collection is empty.
        assert!(version(&list.body) > version(&written), "{}", kind.uri);
    }
}

async fn every_kind_is_selected_by_name_and_namespace(client: Client) {
    for kind in every_kind() {
        for name in ["one", "two", "three"] {
            create(&client, kind.uri, kind.object(name)).await;
        }
        for (selector, selected) in rows! {
            "metadata.name%3Dtwo" => "two";
            "metadata.name!%3Dtwo" => "one three";
            "metadata.name%3Dnobody" => "";
            "metadata.name!%3Done,metadata.name!%3Dtwo" => "three";
            "metadata.namespace%3Ddefault,metadata.name%3D%3Done" => "one";
            "metadata.namespace!%3Ddefault" => "";
        } {
            if kind.is_namespaced() || !selector.contains("namespace") {
                let list = read(&client, format!("{}?fieldSelector={selector}", kind.uri)).await;
                assert_eq!(names(&list).join(" "), selected, "{selector}");
            }
        }
    }
}

async fn every_kind_refuses_selection_by_a_field_that_it_does_not_offer(client: Client) {
    for kind in every_kind() {
        for query in ["", "watch=1&"] {
            let uri = format!("{}?{query}fieldSelector=spec.nothing%3Da", kind.uri);
            get(&client, uri).await.is(400, "BadRequest");
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
            let message = format!("{} \"nobody\" not found", kind.qualified);
            answer.refuses(404, "NotFound", &message, &kind.details("nobody"));
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
    let elsewhere = create(&client, &there, named("shared")).await;
    uids.push(elsewhere["metadata"]["uid"].clone());
    assert_eq!(remove(&client, &there, "shared").await.code, 200);
    for (kind, uid) in every_kind().iter().zip(&uids) {
        let read = get(&client, format!("{}/shared", kind.uri)).await;
        assert_eq!(read.body["metadata"]["uid"], *uid);
    }
    let distinct: std::collections::BTreeSet<&str> = uids.iter().filter_map(Value::as_str).collect();
    assert_eq!(distinct.len(), 9);
}
