//! Large clusters: seeds from the embedded server, written into the etcd of the real one.

use anyhow::Context;
use embedded_apiserver::Server;
use local_control_plane::ControlPlane;
use serde_json::{Value, json};

/// Objects copied at a time.
const PAGE: usize = 500;

/// Seeds the control plane with `nodes` nodes and `pods` running pods of 11 KB, each changed by `adapt`; returns the
/// pods that `adapt` keeps.
pub(super) async fn cluster(
    control_plane: &ControlPlane,
    nodes: usize,
    pods: usize,
    adapt: impl Fn(&mut Value) -> bool,
) -> anyhow::Result<Vec<Value>> {
    let source = Server::new(now);
    source.seed_nodes(nodes);
    source.seed_pods(pods);
    let client = source.client();
    let mut kept = Vec::new();
    for (plural, kind, registry) in [
        ("namespaces", "Namespace", "namespaces"),
        ("nodes", "Node", "minions"),
        ("pods", "Pod", "pods"),
    ] {
        let mut next = String::new();
        loop {
            let path = format!("/api/v1/{plural}?limit={PAGE}&continue={next}");
            let request = http::Request::get(path).body(Vec::new())?;
            let mut list: Value = client.request(request).await?;
            let mut page = match list["items"].take() {
                Value::Array(page) => page,
                other => anyhow::bail!("a list of {plural} holds {other}"),
            };
            for object in &mut page {
                object["apiVersion"] = json!("v1");
                object["kind"] = json!(kind);
                let metadata = object["metadata"].as_object_mut();
                metadata
                    .context("an object has no metadata")?
                    .remove("resourceVersion");
            }
            if plural == "namespaces" {
                // Every cluster already has these.
                page.retain(|namespace| {
                    namespace["metadata"]["name"]
                        .as_str()
                        .is_some_and(|name| name.starts_with("seed-"))
                });
            }
            let keep: Vec<bool> = match plural {
                "pods" => page.iter_mut().map(&adapt).collect(),
                _ => Vec::new(),
            };
            control_plane.store(registry, &page).await?;
            let of_page = page.into_iter().zip(keep);
            kept.extend(of_page.filter_map(|(pod, keep)| keep.then_some(pod)));
            match list["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => next = token.to_owned(),
                _ => break,
            }
        }
    }
    Ok(kept)
}

/// Creation time of the seeded objects.
#[allow(clippy::disallowed_methods, reason = "no test owns this time")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
