//! Raw requests and answers.

use http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

pub(crate) use crate::watch::{Next, Watch};

/// `User-Agent` of scenarios; their field manager is `scenario`.
pub(crate) const AGENT: &str = "scenario/1.0";

pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const JSON: &str = "application/json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
/// `Accept` of a client that prefers protobuf and accepts JSON.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub(crate) const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
pub(crate) const CLAIM_TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const PDBS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
pub(crate) const CORE_EVENTS: &str = "/api/v1/namespaces/default/events";
pub(crate) const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
pub(crate) const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
pub(crate) const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
pub(crate) const REPLICATION_CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
pub(crate) const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
pub(crate) const SERVICE_ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
pub(crate) const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

/// An answer; `body` is a string if it is not JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// Fails unless the answer has this code and message.
    #[track_caller]
    pub(crate) fn says(&self, code: u16, message: &str) {
        let said = self.body["message"].as_str().unwrap_or_default();
        assert_eq!((self.code, said), (code, message));
    }

    /// Fails unless the answer has this code and reason.
    #[track_caller]
    pub(crate) fn is(&self, code: u16, reason: &str) {
        let given = self.body["reason"].as_str().unwrap_or_default();
        assert_eq!((self.code, given), (code, reason), "{self:?}");
    }

    /// Fails unless the answer has this code, and a message that starts with `start`.
    #[track_caller]
    pub(crate) fn begins(&self, code: u16, start: &str) {
        let said = self.body["message"].as_str().unwrap_or_default();
        assert!(self.code == code && said.starts_with(start), "{self:?}");
    }

    /// Fails unless exactly these fields are refused, for these reasons (without the prefix `FieldValue`).
    #[track_caller]
    pub(crate) fn blames(&self, expected: &[(&str, &str)]) {
        assert_eq!(self.causes(), expected, "{self:?}");
    }

    /// As [`causes_of`] its body.
    pub(crate) fn causes(&self) -> Vec<(&str, &str)> {
        self.is(422, "Invalid");
        causes_of(&self.body)
    }

    /// Fails unless the answer is a `Status` with exactly this code, reason (empty for none), message and details (null
    /// for none).
    #[track_caller]
    pub(crate) fn refuses(&self, code: u16, reason: &str, message: &str, details: &Value) {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "message": message,
        });
        if !reason.is_empty() {
            status["reason"] = json!(reason);
        }
        if !details.is_null() {
            status["details"] = details.clone();
        }
        assert_eq!((self.code, &self.body), (code, &status));
    }
}

/// The fields that a Status refuses, and the reasons (without the prefix `FieldValue`), without the second error about
/// the uid from the real server.
pub(crate) fn causes_of(status: &Value) -> Vec<(&str, &str)> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let mut causes: Vec<_> = causes.map(named_cause).collect();
    causes.dedup_by(|next, last| next == last && next.0 == "metadata.uid");
    causes
}

fn named_cause(cause: &Value) -> (&str, &str) {
    let text = |field: &str| cause[field].as_str().unwrap_or_default();
    (text("field"), text("reason").trim_start_matches("FieldValue"))
}

/// Expectations for a part of an object or answer.
pub(crate) trait Shows {
    /// Fails unless the fields in `expected` have these values. Keys are paths joined by dots; null means absent;
    /// `code` is the HTTP code of an answer.
    fn shows(&self, expected: Value);
}

impl Shows for Value {
    #[track_caller]
    fn shows(&self, expected: Value) {
        for (path, expected) in expected.as_object().unwrap() {
            let found = path.split('.').try_fold(self, |value, part| match value {
                Self::Array(items) => items.get(part.parse::<usize>().ok()?),
                other => other.get(part),
            });
            let wanted = Some(expected).filter(|expected| !expected.is_null());
            assert_eq!(found, wanted, "{path} of {self:#}");
        }
    }
}

impl Shows for Answer {
    #[track_caller]
    fn shows(&self, mut expected: Value) {
        if let Some(code) = expected.as_object_mut().unwrap().remove("code") {
            assert_eq!(json!(self.code), code, "{self:?}");
        }
        self.body.shows(expected);
    }
}

pub(crate) async fn send(client: &Client, request: http::request::Builder, body: Vec<u8>) -> Answer {
    let response = client
        .send(request.body(Body::from(body)).unwrap())
        .await
        .unwrap();
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer {
        code: head.status.as_u16(),
        headers: head.headers,
        body: serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))),
    }
}

pub(crate) async fn get(client: &Client, uri: impl AsRef<str>) -> Answer {
    get_as(client, uri, JSON).await
}

pub(crate) async fn get_as(client: &Client, uri: impl AsRef<str>, accept: &str) -> Answer {
    let request = Request::get(uri.as_ref()).header(header::ACCEPT, accept);
    send(client, request, Vec::new()).await
}

pub(crate) async fn post(client: &Client, uri: impl AsRef<str>, body: Value) -> Answer {
    let request = Request::post(uri.as_ref()).header(header::CONTENT_TYPE, JSON);
    send(client, request, body.to_string().into_bytes()).await
}

pub(crate) async fn put(client: &Client, uri: impl AsRef<str>, body: Value) -> Answer {
    let request = Request::put(uri.as_ref()).header(header::CONTENT_TYPE, JSON);
    send(client, request, body.to_string().into_bytes()).await
}

pub(crate) async fn patch(client: &Client, uri: impl AsRef<str>, content_type: &str, body: Value) -> Answer {
    patch_text(client, uri, content_type, &body.to_string()).await
}

/// Sends a patch that need not be JSON.
pub(crate) async fn patch_text(
    client: &Client,
    uri: impl AsRef<str>,
    content_type: &str,
    body: &str,
) -> Answer {
    let request = Request::patch(uri.as_ref()).header(header::CONTENT_TYPE, content_type);
    send(client, request, body.as_bytes().to_vec()).await
}

pub(crate) async fn delete(client: &Client, uri: impl AsRef<str>, options: Value) -> Answer {
    let request = Request::delete(uri.as_ref()).header(header::CONTENT_TYPE, JSON);
    let body = if options.is_null() {
        Vec::new()
    } else {
        options.to_string().into_bytes()
    };
    send(client, request, body).await
}

/// Deletes an object at once, without grace period or waiting for dependents.
pub(crate) async fn remove(client: &Client, uri: &str, name: &str) -> Answer {
    let options = json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Background" });
    delete(client, format!("{uri}/{name}"), options).await
}

/// The object with metadata only.
pub(crate) fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

/// Creates an object that must not exist, and returns it.
pub(crate) async fn create(client: &Client, uri: &str, object: Value) -> Value {
    let answer = post(client, uri, object).await;
    assert_eq!(answer.code, 201, "{answer:?}");
    answer.body
}

/// An object with only a name.
pub(crate) fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

/// Reads an object or list that must exist.
pub(crate) async fn read(client: &Client, uri: impl AsRef<str>) -> Value {
    accepted(get(client, uri).await)
}

/// Fails unless a list shows exactly these names.
pub(crate) async fn lists(client: &Client, uri: impl AsRef<str>, expected: &[&str]) {
    let list = read(client, uri.as_ref()).await;
    assert_eq!(names(&list), expected, "{}", uri.as_ref());
}

/// Sends a merge patch; fails if it is refused.
pub(crate) async fn merge(client: &Client, uri: impl AsRef<str>, body: Value) -> Value {
    accepted(patch(client, uri, MERGE, body).await)
}

/// Sends a strategic merge patch; fails if it is refused.
pub(crate) async fn strategic(client: &Client, uri: impl AsRef<str>, body: Value) -> Value {
    accepted(patch(client, uri, STRATEGIC, body).await)
}

#[track_caller]
fn accepted(answer: Answer) -> Value {
    assert_eq!(answer.code, 200, "{answer:?}");
    answer.body
}

/// Fails if the object exists.
pub(crate) async fn is_gone(client: &Client, uri: impl AsRef<str>) {
    let answer = get(client, uri).await;
    assert_eq!(answer.code, 404, "{answer:?}");
}

/// Waits until the server's watch cache has the last write to `collection`: the cache of a real server may lag behind
/// its store for a moment.
pub(crate) async fn catch_up(client: &Client, collection: &str) {
    let now = version(&get(client, collection).await.body);
    let cached = format!("{collection}?resourceVersion={now}&resourceVersionMatch=NotOlderThan");
    assert_eq!(get(client, cached).await.code, 200);
}

pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

/// The item of a list whose field has this value; null if there is none.
pub(crate) fn found<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .find(|item| item[field] == value)
        .unwrap_or(&Value::Null)
}

/// The entry of a manager in `managedFields`.
pub(crate) fn fields_of<'a>(object: &'a Value, manager: &str) -> &'a Value {
    found(&object["metadata"]["managedFields"], "manager", manager)
}

/// Manager, operation and fields of each entry in `managedFields`.
pub(crate) fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.map(Vec::as_slice).unwrap_or_default().iter();
    entries
        .map(|entry| json!([entry["manager"], entry["operation"], entry["fieldsV1"]]))
        .collect()
}

/// The object without this field of its metadata.
pub(crate) fn without(mut object: Value, field: &str) -> Value {
    object["metadata"].as_object_mut().unwrap().remove(field);
    object
}
