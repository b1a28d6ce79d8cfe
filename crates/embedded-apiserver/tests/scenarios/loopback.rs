//! The transport for other processes, with real sockets in real time.

use std::time::Duration;

use embedded_apiserver::{Fault, Loopback, Server, User, from_protobuf};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::*;
use crate::server;

async fn listening() -> (Server, Loopback) {
    let server = server();
    let loopback = server.listen(0).await.unwrap();
    (server, loopback)
}

fn client(loopback: &Loopback) -> Client {
    let mut config = Config::new(loopback.url().parse().unwrap());
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

async fn client_from(kubeconfig: Value) -> Client {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
    local_control_plane::client(file.path()).await.unwrap()
}

async fn lists(client: &Client) -> bool {
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.list(&ListParams::default()).await.is_ok()
}

fn connect(loopback: &Loopback) -> impl Future<Output = std::io::Result<TcpStream>> {
    TcpStream::connect(loopback.url().replace("http://", ""))
}

#[tokio::test]
async fn a_watch_is_streamed_event_by_event() {
    let (server, loopback) = listening().await;
    let mut watch = Watch::open(&client(&loopback), format!("{NODES}?watch=1&resourceVersion=1")).await;
    for name in ["a", "b"] {
        server
            .insert(json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": name } }))
            .unwrap();
        assert_eq!(watch.line().await, format!("ADDED {name}"));
    }
    server.close_watches();
    assert_eq!(watch.next_within(Duration::from_secs(10)).await, Next::End);
}

#[tokio::test]
async fn a_large_list_arrives_whole() {
    let (server, loopback) = listening().await;
    server.seed_nodes(300);
    let list = get(&client(&loopback), NODES).await;
    assert_eq!(names(&list.body).len(), 300);
}

#[tokio::test]
async fn many_connections_are_served_at_once() {
    let (server, loopback) = listening().await;
    server.seed_nodes(1);
    let version = server.version();
    let request = format!("GET {NODES}?watch=1&resourceVersion={version} HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut watches = Vec::new();
    for _ in 0..200 {
        let mut stream = BufReader::new(connect(&loopback).await.unwrap());
        stream.write_all(request.as_bytes()).await.unwrap();
        watches.push(stream.lines());
    }
    for watch in &mut watches {
        assert_eq!(watch.next_line().await.unwrap().unwrap(), "HTTP/1.1 200 OK");
    }
    server.delete(&embedded_apiserver::NODES, "", "node-1").unwrap();
    for watch in &mut watches {
        while !watch.next_line().await.unwrap().unwrap().contains("\"DELETED\"") {}
    }
}

#[tokio::test]
async fn a_server_that_goes_down_cuts_every_connection_and_refuses_new_ones() {
    let (server, loopback) = listening().await;
    let client = client(&loopback);
    assert!(lists(&client).await);
    let mut watch = Watch::open(&client, format!("{NODES}?watch=1&resourceVersion=1")).await;
    let mut idle = connect(&loopback).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");

    server.down();
    assert_eq!(watch.next_within(Duration::from_secs(10)).await, Next::Broken);
    let mut rest = Vec::new();
    // The connection ends, with or without an error.
    idle.read_to_end(&mut rest).await.unwrap_or_default();
    // The listener ends when its task runs.
    let refused = async {
        loop {
            match connect(&loopback).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(refused) => return refused,
            }
        }
    };
    let refused = timeout(Duration::from_secs(10), refused).await.unwrap();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(!lists(&client).await);

    server.up();
    while connect(&loopback).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert!(lists(&client).await);
}

#[tokio::test]
async fn a_request_whose_connection_fails_gets_no_answer() {
    let (server, loopback) = listening().await;
    let client = client(&loopback);
    server.fail_next(1, |request| request.resource == "nodes", Fault::DropBefore);
    assert!(!lists(&client).await);
    assert!(lists(&client).await);
}

#[tokio::test]
async fn one_connection_serves_request_after_request() {
    let (_server, loopback) = listening().await;
    let mut stream = connect(&loopback).await.unwrap();
    for _ in 0..3 {
        let request = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok") {
            answer.push(stream.read_u8().await.unwrap());
        }
    }
}

#[tokio::test]
async fn a_dropped_door_is_closed() {
    let (server, loopback) = listening().await;
    let mut watch = Watch::open(&client(&loopback), format!("{NODES}?watch=1&resourceVersion=1")).await;
    let address = loopback.url().replace("http://", "");
    drop(loopback);
    assert_eq!(watch.next_within(Duration::from_secs(10)).await, Next::Broken);
    assert!(TcpStream::connect(&address).await.is_err());
    drop(server);
}

#[tokio::test]
async fn tokens_of_a_kubeconfig_say_who_the_client_is() {
    let (server, loopback) = listening().await;
    server.add_user("alice", &["system:masters"], "secret");
    server.enforce_rbac();
    let who = async |kubeconfig: Value| {
        let client = client_from(kubeconfig).await;
        get(&client, NODES).await.code
    };
    assert_eq!(who(loopback.kubeconfig_for("secret")).await, 200);
    assert_eq!(who(loopback.kubeconfig_for("wrong")).await, 401);
    assert_eq!(who(loopback.kubeconfig()).await, 403);
    let anonymous = client_from(loopback.kubeconfig()).await;
    assert_eq!(
        get(&anonymous, NODES).await.body["message"],
        format!(
            "nodes is forbidden: User \"{}\" cannot list resource \"nodes\" in API group \"\" at the cluster scope",
            User::anonymous().name
        )
    );
}

#[tokio::test]
async fn protobuf_is_read_and_written() {
    let (server, loopback) = listening().await;
    let request = http::Request::post("/api/v1/namespaces")
        .header("content-type", "application/vnd.kubernetes.protobuf")
        .header("accept", "application/vnd.kubernetes.protobuf,application/json");
    let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x05\x0a\x03\x0a\x01x";
    let request = request.body(Body::from(body.to_vec())).unwrap();
    let answer = client(&loopback).send(request).await.unwrap();
    assert_eq!(answer.status(), 201);
    let written = answer.into_body().collect().await.unwrap().to_bytes();
    from_protobuf(&written)
        .unwrap()
        .shows(json!({ "kind": "Namespace", "metadata.name": "x" }));
    assert_eq!(
        server.requests().lines(),
        [r#"create namespaces {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}"#]
    );
    let unknown = http::Request::post("/api/v1/namespaces")
        .header("content-type", "application/vnd.kubernetes.protobuf");
    assert_eq!(
        send(&client(&loopback), unknown, b"k8s\0".to_vec()).await.code,
        415
    );
}
