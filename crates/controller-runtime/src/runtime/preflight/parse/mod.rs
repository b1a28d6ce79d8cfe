//! Turns answers of the API server into facts.

use std::time::Duration;

use controller_core::app::Fields;
use controller_core::controller::Query;
use controller_core::time::saturating_add;
use controller_core::version::ServerVersion;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{Controllers, Lease, Manager, Node, Read, Trace, Version};

/// Name of kube-controller-manager's Lease and field manager.
pub(super) const MANAGER: &str = "kube-controller-manager";

pub(super) const SYSTEM: &str = "kube-system";

/// The node annotation in which k3s keeps its arguments.
const K3S_ARGUMENTS: &str = "k3s.io/node-args";

pub(super) fn read_version(body: &[u8]) -> Read<Version> {
    let info: Value =
        serde_json::from_slice(body).map_err(|error| format!("cannot read the version: {error}"))?;
    let minor = ServerVersion.read(body).ok().flatten();
    Ok(Version {
        release: text(&info, "/gitVersion"),
        minor,
    })
}

/// Lower bound of how far our clock is ahead of the API server's. Our clock read `before` when the request was sent and
/// `after` when the answer came; the API server's read `date`, without its fraction, in between.
pub(super) fn ahead(before: Timestamp, after: Timestamp, date: Timestamp) -> SignedDuration {
    let latest = saturating_add(date, Duration::from_secs(1));
    if before > latest {
        before.duration_since(latest)
    } else if after < date {
        after.duration_since(date)
    } else {
        SignedDuration::ZERO
    }
}

/// When kube-controller-manager wrote the fields of an object; `None` if it did not.
pub(super) fn written(fields: &Fields, plural: &str, mut object: Value) -> Option<Trace> {
    let metadata: ObjectMeta = serde_json::from_value(object.get_mut("metadata")?.take()).ok()?;
    let entry = metadata.managed_fields.iter().flatten().find(|entry| {
        entry.manager.as_deref() == Some(MANAGER)
            && entry.subresource.as_deref().unwrap_or_default() == fields.subresource
    })?;
    let mut owned = &entry.fields_v1.as_ref()?.0;
    let mut is_alone = true;
    for field in fields.fields {
        let others = owned
            .as_object()?
            .keys()
            .filter(|key| key != field && *key != ".");
        is_alone &= others.count() == 0;
        owned = owned.get(field)?;
    }
    // The entry's time is that of its last changed field, whichever that was.
    let at = if is_alone {
        entry.time.as_ref()?.0
    } else {
        metadata.creation_timestamp.as_ref()?.0
    };
    let name = metadata.name.unwrap_or_default();
    let place = metadata
        .namespace
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    Some(Trace {
        what: format!("it wrote {plural} {place}{name}"),
        at,
    })
}

/// When `component` last reported an event. Our own events have no such source.
pub(super) fn told(component: &str, event: &Value) -> Option<Trace> {
    if text(event, "/deprecatedSource/component") != component {
        return None;
    }
    let at = [
        "/series/lastObservedTime",
        "/deprecatedLastTimestamp",
        "/eventTime",
    ]
    .into_iter()
    .find_map(|place| event.pointer(place)?.as_str()?.parse().ok())?;
    let (namespace, name) = (
        text(event, "/regarding/namespace"),
        text(event, "/regarding/name"),
    );
    Some(Trace {
        what: format!("it wrote an event about {namespace}/{name}"),
        at,
    })
}

/// The lines of `/healthz?verbose` are `[+]name ok`. A process that does not lead names no loop.
pub(super) fn named_by_health(page: &str, controller: &str) -> Option<bool> {
    let names = page.lines().filter_map(|line| {
        let line = line.strip_prefix("[+]").or_else(|| line.strip_prefix("[-]"))?;
        line.split(' ').next()
    });
    let loops: Vec<_> = names.filter(|name| name.ends_with("-controller")).collect();
    (!loops.is_empty()).then(|| loops.contains(&controller))
}

pub(super) fn manager_of_pod(pod: &Value) -> Option<(String, Manager)> {
    if text(pod, "/status/phase") == "Failed" || text(pod, "/status/phase") == "Succeeded" {
        return None;
    }
    let containers = pod.pointer("/spec/containers")?.as_array()?;
    let words = containers.iter().flat_map(|container| {
        let lists = [container.get("command"), container.get("args")];
        lists
            .into_iter()
            .flatten()
            .filter_map(Value::as_array)
            .flatten()
            .filter_map(Value::as_str)
    });
    let name = text(pod, "/metadata/name");
    let manager = Manager {
        name: format!("pod {SYSTEM}/{name}"),
        node: text(pod, "/spec/nodeName"),
        controllers: Controllers::of_command(words),
        runs: None,
    };
    Some((name, manager))
}

/// The kube-controller-manager in the k3s process of a node.
pub(super) fn manager_of_k3s(node: &Node) -> Option<Manager> {
    let arguments = node.annotations.get(K3S_ARGUMENTS)?;
    let arguments: Vec<String> = serde_json::from_str(arguments).ok()?;
    (arguments.first()? == "server").then(|| Manager {
        name: format!("k3s on node {}", node.name),
        node: node.name.clone(),
        controllers: Controllers::of_k3s(&arguments),
        runs: None,
    })
}

pub(super) fn node_of(node: &Value) -> Node {
    let map = |place| {
        let map = node.pointer(place).cloned().unwrap_or_default();
        serde_json::from_value(map).unwrap_or_default()
    };
    Node {
        name: text(node, "/metadata/name"),
        labels: map("/metadata/labels"),
        annotations: map("/metadata/annotations"),
        provider_id: text(node, "/spec/providerID"),
    }
}

pub(super) fn lease_of(lease: &Value) -> Lease {
    let time = |place| -> Option<Timestamp> { lease.pointer(place)?.as_str()?.parse().ok() };
    let seconds = lease
        .pointer("/spec/leaseDurationSeconds")
        .and_then(Value::as_u64);
    let renewed = time("/spec/renewTime");
    Lease {
        namespace: text(lease, "/metadata/namespace"),
        holder: text(lease, "/spec/holderIdentity"),
        acquired: time("/spec/acquireTime"),
        ends: renewed.map(|at| saturating_add(at, Duration::from_secs(seconds.unwrap_or_default()))),
    }
}

/// The text at `place`; empty if there is none.
fn text(value: &Value, place: &str) -> String {
    let text = value.pointer(place).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
