//! A cluster of the largest size on the embedded server: 5,000 nodes and 150,000 pods. Takes gigabytes, so
//! only `cargo xtask ci --nightly` runs it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test: it fails by panicking, prints what it measures, and real time is what it measures"
)]

use std::time::{Duration, Instant};

use embedded_apiserver::Server;
use http_body_util::BodyExt;
use local_control_plane::ProcessUsage;
use tokio::net::TcpStream;

const NODES: usize = 5_000;
const PODS: usize = 150_000;
const SEEDED_WITHIN: Duration = Duration::from_secs(30);
const MEMORY: u64 = 4 << 30;

/// What a client got, and how long it took.
struct Read {
    bytes: usize,
    objects: usize,
    took: Duration,
}

/// Reads an answer of the loopback door as `curl` would, up to its end or to `end`, and counts what
/// `marker` marks.
async fn read(url: &str, path: &str, marker: &[u8], end: Option<&[u8]>) -> Read {
    let started = Instant::now();
    let address = url.strip_prefix("http://").unwrap();
    let stream = hyper_util::rt::TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::get(path)
        .header(http::header::HOST, address)
        .body(String::new())
        .unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    let mut read = Read {
        bytes: 0,
        objects: 0,
        took: Duration::ZERO,
    };
    // What a marker may lie across: the end of the frame before.
    let mut tail = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.unwrap().into_data() else {
            continue;
        };
        read.bytes += data.len();
        tail.extend_from_slice(&data);
        let mut rest = tail.as_slice();
        while let Some(at) = find(rest, marker) {
            read.objects += 1;
            rest = &rest[at + marker.len()..];
        }
        if end.is_some_and(|end| find(rest, end).is_some()) {
            break;
        }
        let keep = rest.len().min(marker.len().max(end.map_or(0, <[u8]>::len)) - 1);
        tail = rest[rest.len() - keep..].to_vec();
    }
    connection.abort();
    read.took = started.elapsed();
    read
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = needle.first()?;
    let mut from = 0;
    while let Some(at) = haystack[from..].iter().position(|byte| byte == first) {
        if haystack[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "nightly: takes 3 GiB of memory"]
async fn the_largest_cluster_fits_into_memory_and_is_served() {
    let me = std::process::id();
    let server = Server::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let started = Instant::now();
    server.seed_nodes(NODES);
    server.seed_pods(PODS);
    let took = started.elapsed();
    let ProcessUsage { rss, cpu, .. } = ProcessUsage::of(me).unwrap();
    println!(
        "seeded {NODES} nodes and {PODS} pods in {took:.1?} ({cpu:.1?} of CPU), {} MiB",
        rss >> 20
    );

    let transport = server.listen(0).await.unwrap();
    let marker = br#""containerStatuses":"#;
    let list = read(&transport.url(), "/api/v1/pods", marker, None).await;
    println!("full list: {} MiB in {:.1?}", list.bytes >> 20, list.took);
    let streaming = "/api/v1/pods?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
                     &resourceVersionMatch=NotOlderThan";
    let stream = read(
        &transport.url(),
        streaming,
        marker,
        Some(b"k8s.io/initial-events-end"),
    )
    .await;
    println!(
        "streaming list: {} MiB in {:.1?}",
        stream.bytes >> 20,
        stream.took
    );
    let peak = ProcessUsage::of(me).unwrap().peak_rss;
    println!("at most {} MiB", peak >> 20);

    assert_eq!((list.objects, stream.objects), (PODS, PODS));
    // It does nothing but compute: what else the machine has to do must not fail it.
    assert!(cpu < SEEDED_WITHIN, "seeded with {cpu:?} of CPU");
    assert!(peak < MEMORY, "{} MiB", peak >> 20);
}
