//! The right to write, which only the holder of the Lease has.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use embedded_apiserver::{LEASES, RecordedRequest, Server};

/// Namespace of the controllers' Leases.
pub(super) const NAMESPACE: &str = "kube-system";
/// Interval at which the thief renews the Lease, as a leader does.
pub(super) const RENEWAL: Duration = Duration::from_secs(2);
const THIEF: &str = "thief";
/// Time after its last renewal for which a leader may write (client-go's renew deadline): until then it cannot know
/// that its Lease was tampered with.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// The holder of the Lease of this name, as the server knows it.
pub(super) fn holder(server: &Server, name: &str) -> Option<String> {
    let lease = server.get(&LEASES, NAMESPACE, name)?;
    Some(lease["spec"]["holderIdentity"].as_str()?.to_owned())
}

/// Writes the thief's name into the Lease; returns false if there is none.
pub(super) fn steal(server: &Server, name: &str) -> bool {
    let steal = |lease: &mut Value| lease["spec"]["holderIdentity"] = json!(THIEF);
    server.edit(&LEASES, NAMESPACE, name, steal).is_ok()
}

/// Renews the Lease if it is the thief's.
pub(super) fn renew(server: &Server, name: &str, now: Timestamp) {
    if holder(server, name).as_deref() == Some(THIEF) {
        let renew = |lease: &mut Value| lease["spec"]["renewTime"] = json!(format!("{now:.6}"));
        // The Lease existed a moment ago.
        let _ = server.edit(&LEASES, NAMESPACE, name, renew);
    }
}

/// Checks that the sender of a write may make it now. `tampered`: when the Lease was last changed behind the replicas'
/// backs.
pub(super) fn permits(
    server: &Server,
    request: &RecordedRequest,
    lease: &str,
    tampered: Option<Duration>,
) -> Result<(), String> {
    let Some(sender) = sender(request, lease) else {
        return Ok(());
    };
    let about_itself = matches!(request.resource.as_str(), "leases" | "events");
    if about_itself || !request.verb.is_write() {
        return Ok(());
    }
    let holder = holder(server, lease);
    let may_not_know = tampered.is_some_and(|at| server.elapsed() <= at + RENEW_DEADLINE);
    if holder.as_deref() == Some(sender) || may_not_know {
        return Ok(());
    }
    Err(format!(
        "{sender} writes while the lease is held by {}: {request}",
        holder.as_deref().unwrap_or("nobody")
    ))
}

/// The identity of the replica that sent the request, if a replica did.
pub(super) fn sender<'a>(request: &'a RecordedRequest, controller: &str) -> Option<&'a str> {
    request.user_agent.strip_prefix(controller)?.strip_prefix('/')
}
