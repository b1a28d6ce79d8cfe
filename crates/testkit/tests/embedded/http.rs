//! Requests and answers as they are on the wire.

use std::time::Duration;

use futures::StreamExt;
use http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::timeout;

/// Who scenarios say they are; their field manager is `scenario`.
pub(crate) const AGENT: &str = "scenario/1.0";

pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const JSON: &str = "application/json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
pub(crate) const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

pub(crate) const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
pub(crate) const CLAIM_TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const PDBS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
pub(crate) const CORE_EVENTS: &str = "/api/v1/namespaces/default/events";
pub(crate) const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
pub(crate) const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
pub(crate) const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
pub(crate) const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups";
pub(crate) const REPLICATION_CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
pub(crate) const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
pub(crate) const SERVICE_ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
pub(crate) const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

/// An answer in full; `body` is text where it is not JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// Fails unless it has this code and this message.
    #[track_caller]
    pub(crate) fn says(&self, code: u16, message: &str) {
        let said = self.body["message"].as_str().unwrap_or_default();
        assert_eq!((self.code, said), (code, message));
    }

    /// Fails unless it has this code and this reason.
    #[track_caller]
    pub(crate) fn is(&self, code: u16, reason: &str) {
        let given = self.body["reason"].as_str().unwrap_or_default();
        assert_eq!((self.code, given), (code, reason), "{self:?}");
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

/// Patches with a body that need not be JSON.
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

/// Creates an object that must not be there yet and returns it.
pub(crate) async fn create(client: &Client, uri: &str, object: Value) -> Value {
    let answer = post(client, uri, object).await;
    assert_eq!(answer.code, 201, "{answer:?}");
    answer.body
}

/// Waits until what the server may answer from its cache is as new as the last write to `collection`: the
/// real one's cache may lag behind its store for a moment.
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
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

/// An open watch, read event by event.
pub(crate) struct Watch {
    body: Body,
    read: Vec<u8>,
}

/// What came next on a watch.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Event(Value),
    End,
    Broken,
    Silence,
}

impl Watch {
    pub(crate) async fn open(client: &Client, uri: impl AsRef<str>) -> Self {
        Self::open_as(client, uri, JSON).await
    }

    pub(crate) async fn open_as(client: &Client, uri: impl AsRef<str>, accept: &str) -> Self {
        let request = Request::get(uri.as_ref())
            .header(header::ACCEPT, accept)
            .body(Body::empty())
            .unwrap();
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self {
            body: response.into_body(),
            read: Vec::new(),
        }
    }

    /// What comes within `limit`.
    pub(crate) async fn next_within(&mut self, limit: Duration) -> Next {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Next::Event(serde_json::from_slice(&line).unwrap());
            }
            let mut stream = (&mut self.body).into_data_stream();
            match timeout(limit, stream.next()).await {
                Err(_) => return Next::Silence,
                Ok(None) => return Next::End,
                Ok(Some(Err(_))) => return Next::Broken,
                Ok(Some(Ok(bytes))) => self.read.extend(bytes),
            }
        }
    }

    /// The next event; the test fails when none comes in 10 s.
    pub(crate) async fn event(&mut self) -> Value {
        match self.next_within(Duration::from_secs(10)).await {
            Next::Event(event) => event,
            other => panic!("expected an event, got {other:?}"),
        }
    }

    /// The next event as `TYPE name`.
    pub(crate) async fn line(&mut self) -> String {
        let event = self.event().await;
        format!(
            "{} {}",
            event["type"].as_str().unwrap(),
            event["object"]["metadata"]["name"].as_str().unwrap_or("-")
        )
    }

    /// Whether nothing comes for a while; what is under way takes milliseconds.
    pub(crate) async fn is_silent(&mut self) -> bool {
        self.next_within(Duration::from_millis(300)).await == Next::Silence
    }
}
