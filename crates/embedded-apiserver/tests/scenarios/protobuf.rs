//! Answers in protobuf.

use std::time::Duration;

use bytes::Bytes;
use embedded_apiserver::{Fault, FaultRule, NODES as NODES_RESOURCE, from_protobuf, to_protobuf};
use futures::StreamExt;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http::*;
use crate::objects::{pod, workload};
use crate::server;

crate::scenarios![
    a_watch_tells_what_happens_in_frames,
    a_streaming_list_ends_in_a_bookmark,
    metadata_alone_is_listed_and_watched,
    writes_are_answered_in_protobuf,
    a_body_in_protobuf_is_what_it_is_in_json,
    a_stateful_set_is_written_in_protobuf_as_by_the_real_server,
];

const ONLY: &str = "application/vnd.kubernetes.protobuf";
const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const MAGIC: &[u8] = b"k8s\0";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// An answer with its body as received.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) code: StatusCode,
    pub(crate) media: String,
    pub(crate) body: Bytes,
}

impl Raw {
    /// Fails unless the answer has this code and media type.
    #[track_caller]
    fn is(&self, code: u16, media: &str) {
        assert_eq!((self.code.as_u16(), &*self.media), (code, media), "{self:?}");
    }

    /// Decodes the body, which must be protobuf.
    #[track_caller]
    fn read(&self) -> Value {
        from_protobuf(&self.body).unwrap()
    }
}

async fn raw(client: &Client, request: http::request::Builder, body: Vec<u8>) -> Raw {
    let response = client
        .send(request.body(Body::from(body)).unwrap())
        .await
        .unwrap();
    let (head, body) = response.into_parts();
    Raw {
        code: head.status,
        media: head.headers[header::CONTENT_TYPE].to_str().unwrap().to_owned(),
        body: body.collect().await.unwrap().to_bytes(),
    }
}

pub(crate) async fn fetch(client: &Client, uri: &str, accept: &str) -> Raw {
    raw(
        client,
        Request::get(uri).header(header::ACCEPT, accept),
        Vec::new(),
    )
    .await
}

/// An open watch in protobuf.
struct Frames {
    body: Body,
    read: Vec<u8>,
}

impl Frames {
    async fn open(client: &Client, uri: &str, accept: &str) -> Self {
        let request = Request::get(uri).header(header::ACCEPT, accept);
        let response = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_TYPE], WATCH);
        Self {
            body: response.into_body(),
            read: Vec::new(),
        }
    }

    /// The next event: its type (field 1) and its object, in an envelope (field 2).
    async fn event(&mut self) -> (String, Value) {
        loop {
            if let Some((length, rest)) = self.read.split_first_chunk() {
                let length = u32::from_be_bytes(*length) as usize;
                if let Some(event) = rest.get(..length) {
                    let kind = String::from_utf8(event[2..2 + usize::from(event[1])].to_vec());
                    let at = event.windows(4).position(|part| part == MAGIC).unwrap();
                    let object = from_protobuf(&event[at..]).unwrap_or_default();
                    self.read.drain(..4 + length);
                    return (kind.unwrap(), object);
                }
            }
            let mut stream = (&mut self.body).into_data_stream();
            let more = timeout(Duration::from_secs(10), stream.next()).await.unwrap();
            self.read.extend(more.unwrap().unwrap());
        }
    }

    /// Fails unless this is the next event.
    async fn tells(&mut self, kind: &str, object: &Value) {
        assert_eq!(self.event().await, (kind.to_owned(), object.clone()));
    }
}

async fn a_watch_tells_what_happens_in_frames(client: Client) {
    let first = create(&client, LEASES, named("first")).await;
    let uri = format!("{LEASES}?watch=1&resourceVersion={}", version(&first));
    let mut watch = Frames::open(&client, &uri, PROTOBUF).await;
    let second = create(&client, LEASES, named("second")).await;
    watch.tells("ADDED", &second).await;
    let held = json!({ "spec": { "holderIdentity": "h" } });
    let held = merge(&client, format!("{LEASES}/second"), held).await;
    watch.tells("MODIFIED", &held).await;
    remove(&client, LEASES, "second").await;
    let (kind, gone) = watch.event().await;
    assert_eq!(kind, "DELETED");
    gone.shows(json!({ "metadata.uid": second["metadata"]["uid"] }));
}

async fn a_streaming_list_ends_in_a_bookmark(client: Client) {
    let lease = create(&client, LEASES, named("l")).await;
    let uri = format!(
        "{LEASES}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut watch = Frames::open(&client, &uri, PROTOBUF).await;
    watch.tells("ADDED", &lease).await;
    let (kind, bookmark) = watch.event().await;
    assert_eq!(kind, "BOOKMARK");
    assert!(version(&bookmark) >= version(&lease));
    bookmark.shows(json!({
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata.name": null,
        "metadata.annotations": { "k8s.io/initial-events-end": "true" },
    }));
}

async fn metadata_alone_is_listed_and_watched(client: Client) {
    let lease = create(&client, LEASES, named("l")).await;
    let one = fetch(&client, &format!("{LEASES}/l"), METADATA).await;
    one.is(200, ONLY);
    assert_eq!(one.read(), partial(&lease));
    let list = fetch(&client, LEASES, METADATA_LIST).await;
    list.is(200, ONLY);
    let list = list.read();
    list.shows(json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1" }));
    assert_eq!(list["items"], json!([{ "metadata": lease["metadata"] }]));
    let uri = format!("{LEASES}?watch=1&resourceVersion={}", version(&lease));
    let mut watch = Frames::open(&client, &uri, METADATA).await;
    let other = create(&client, LEASES, named("other")).await;
    watch.tells("ADDED", &partial(&other)).await;
}

async fn writes_are_answered_in_protobuf(client: Client) {
    let uri = format!("{LEASES}/w");
    let write = async |request: http::request::Builder, content_type, body: Value| {
        let request = request.header(header::ACCEPT, PROTOBUF);
        let request = request.header(header::CONTENT_TYPE, content_type);
        raw(&client, request, body.to_string().into_bytes()).await
    };
    let created = write(Request::post(LEASES), JSON, named("w")).await;
    created.is(201, ONLY);
    assert_eq!(created.read(), read(&client, &uri).await);
    let held = json!({ "spec": { "holderIdentity": "h" } });
    let held = write(Request::patch(&uri), MERGE, held).await;
    held.is(200, ONLY);
    held.read().shows(json!({ "spec.holderIdentity": "h" }));
    let gone = write(Request::delete(&uri), JSON, json!({})).await;
    gone.is(200, ONLY);
    gone.read()
        .shows(json!({ "kind": "Status", "status": "Success", "details.name": "w" }));
}

async fn a_body_in_protobuf_is_what_it_is_in_json(client: Client) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": "b", "labels": { "a": "b" } },
        "spec": { "holderIdentity": "h", "leaseDurationSeconds": 15 },
    });
    let request = Request::post(LEASES).header(header::CONTENT_TYPE, ONLY);
    let body = to_protobuf(&lease).unwrap().to_vec();
    let created = send(&client, request, body).await;
    created.shows(json!({ "code": 201, "spec": lease["spec"], "metadata.labels": { "a": "b" } }));
}

async fn a_stateful_set_is_written_in_protobuf_as_by_the_real_server(client: Client) {
    let mut object = workload("w", &pod("p", Value::Null));
    object["spec"]["serviceName"] = json!("s");
    object["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "v" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    let created = create(&client, STATEFUL_SETS, object).await;
    // Protobuf omits the kind of a volume claim template, so the object cannot be restored from it.
    let sent = fetch(&client, &format!("{STATEFUL_SETS}/w"), PROTOBUF).await.body;
    let written = to_protobuf(&created).unwrap();
    assert_eq!(
        written.escape_ascii().to_string(),
        sent.escape_ascii().to_string()
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_compacted_version_ends_in_a_frame() {
    let server = server();
    server.seed_nodes(2);
    let old = server.version() - 1;
    server.compact();
    let uri = format!("{NODES}?watch=1&resourceVersion={old}");
    for accept in [PROTOBUF, METADATA] {
        let mut watch = Frames::open(&server.client(), &uri, accept).await;
        let (kind, status) = watch.event().await;
        assert_eq!(kind, "ERROR");
        status.shows(json!({ "kind": "Status", "code": 410, "reason": "Expired" }));
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_has_no_form_in_protobuf_is_malformed_but_for_its_metadata() {
    let server = server();
    server.seed_nodes(2);
    let bad = |node: &mut Value| node["spec"]["unschedulable"] = json!("perhaps");
    server.spoil(&NODES_RESOURCE, "", "node-1", bad).unwrap();
    let client = server.client();
    let one = format!("{NODES}/node-1");
    assert_eq!(from_protobuf(&fetch(&client, &one, PROTOBUF).await.body), None);
    assert_eq!(from_protobuf(&fetch(&client, NODES, PROTOBUF).await.body), None);
    let metadata = fetch(&client, NODES, METADATA_LIST).await.read();
    assert_eq!(names(&metadata), ["node-1", "node-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_can_be_without_protobuf() {
    let server = server().without_protobuf();
    server.seed_nodes(1);
    let client = server.client();
    fetch(&client, NODES, PROTOBUF).await.is(200, JSON);
    fetch(&client, NODES, METADATA_LIST).await.is(200, JSON);
    fetch(&client, NODES, ONLY).await.is(406, JSON);
    let request = Request::post(NODES).header(header::CONTENT_TYPE, ONLY);
    raw(&client, request, b"k8s\0".to_vec()).await.is(415, JSON);
}

#[tokio::test(start_paused = true)]
async fn protobuf_can_be_refused_to_who_asks_for_it() {
    let server = server();
    let refusal = FaultRule::new(Fault::status(406, "NotAcceptable"));
    server.fail(refusal.matching(|request| request.accept.contains("protobuf")));
    let client = server.client();
    fetch(&client, NODES, PROTOBUF).await.is(406, ONLY);
    fetch(&client, NODES, JSON).await.is(200, JSON);
}
