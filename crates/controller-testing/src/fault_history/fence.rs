//! The right to write, which only the holder of the Lease has.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use embedded_apiserver::{LEASES, RecordedRequest, Server};

/// Namespace of the controllers' Leases.
const NAMESPACE: &str = "kube-system";
/// Interval at which the thief renews the Lease, as a leader does.
pub(super) const RENEWAL: Duration = Duration::from_secs(2);
/// When the server's state is backed up first: there is a leader.
pub(super) const BACKUP: Duration = Duration::from_secs(5);
const THIEF: &str = "thief";
/// Time after its last renewal for which a leader may write (client-go's renew deadline): until then it cannot know
/// that its Lease was tampered with.
pub(super) const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// Who held the Lease when.
#[derive(Debug)]
pub(super) struct Fence {
    /// Name of the Lease: the controller's.
    lease: &'static str,
    terms: Vec<Term>,
    /// A write of the Lease was carried out at this time, and its effect was not looked at yet.
    written: Option<Duration>,
}

#[derive(Debug)]
struct Term {
    holder: Option<String>,
    from: Duration,
    /// When it ended, and whether behind the replicas' backs.
    end: Option<(Duration, bool)>,
}

impl Term {
    /// True if a replica that holds the Lease in this term may send a write at `sent`.
    fn permits(&self, sender: &str, sent: Duration) -> bool {
        let end = self.end.map(
            |(end, tampered)| {
                if tampered { end + RENEW_DEADLINE } else { end }
            },
        );
        let is_within = self.from <= sent && end.is_none_or(|end| sent <= end);
        is_within && self.holder.as_deref() == Some(sender)
    }
}

impl Fence {
    pub(super) fn new(lease: &'static str) -> Self {
        Self {
            lease,
            terms: Vec::new(),
            written: None,
        }
    }

    /// Deletes the Lease behind the replicas' backs; returns false if nobody held it.
    pub(super) fn delete(&mut self, server: &Server) -> bool {
        self.tamper(server, |server, name| {
            server.delete(&LEASES, NAMESPACE, name).is_ok()
        })
    }

    /// Writes the thief's name into the Lease; returns false if there is none, or if it is there.
    pub(super) fn steal(&mut self, server: &Server) -> bool {
        let steal = |lease: &mut Value| lease["spec"]["holderIdentity"] = json!(THIEF);
        self.tamper(server, |server, name| {
            server.edit(&LEASES, NAMESPACE, name, steal).is_ok()
        })
    }

    fn tamper(&mut self, server: &Server, tamper: impl FnOnce(&Server, &str) -> bool) -> bool {
        self.look(server);
        let terms = self.terms.len();
        if tamper(server, self.lease) {
            self.change(server, server.elapsed(), true);
        }
        self.terms.len() > terms
    }

    /// The server's version, if there is a Lease.
    pub(super) fn version(&self, server: &Server) -> Option<u64> {
        holder(server, self.lease).map(|_| server.version())
    }

    /// Sets etcd back to this version, behind the replicas' backs; returns false if the Lease was not written since, by
    /// which replicas notice it.
    pub(super) fn set_back(&mut self, server: &Server, version: u64) -> bool {
        self.look(server);
        let lease = server.get(&LEASES, NAMESPACE, self.lease).unwrap_or_default();
        let written = lease["metadata"]["resourceVersion"].as_str();
        let written: Option<u64> = written.and_then(|written| written.parse().ok());
        let is_set_back = written > Some(version) && server.set_back(version);
        if is_set_back {
            self.change(server, server.elapsed(), true);
        }
        is_set_back
    }

    /// Renews the Lease if it is the thief's.
    pub(super) fn renew(&self, server: &Server, now: Timestamp) {
        if holder(server, self.lease).as_deref() == Some(THIEF) {
            let renew = |lease: &mut Value| lease["spec"]["renewTime"] = json!(format!("{now:.6}"));
            // The Lease existed a moment ago.
            let _ = server.edit(&LEASES, NAMESPACE, self.lease, renew);
        }
    }

    /// Checks that the sender of a write held the Lease when it sent the write. Must see every write of a Lease before
    /// its effect.
    pub(super) fn permits(&mut self, server: &Server, request: &RecordedRequest) -> Result<(), String> {
        self.look(server);
        if !request.verb.is_write() || request.resource == "events" {
            return Ok(());
        }
        if request.resource == "leases" {
            self.written = Some(server.elapsed());
            return Ok(());
        }
        let Some(sender) = sender(request, self.lease) else {
            return Ok(());
        };
        if self
            .terms
            .iter()
            .any(|term| term.permits(sender, request.arrived))
        {
            return Ok(());
        }
        let holder = self.terms.last().and_then(|term| term.holder.as_deref());
        Err(format!(
            "{sender} writes while the lease is held by {}: {request}",
            holder.unwrap_or("nobody")
        ))
    }

    /// Learns what the last write of the Lease has changed.
    fn look(&mut self, server: &Server) {
        if let Some(written) = self.written.take() {
            self.change(server, written, false);
        }
    }

    fn change(&mut self, server: &Server, at: Duration, is_tampering: bool) {
        let holder = holder(server, self.lease);
        let last = self.terms.last_mut();
        if last.as_ref().is_some_and(|last| last.holder == holder) {
            return;
        }
        if let Some(last) = last {
            last.end = Some((at, is_tampering));
        }
        self.terms.push(Term {
            holder,
            from: at,
            end: None,
        });
    }
}

/// The holder of the Lease of this name, as the server knows it.
fn holder(server: &Server, name: &str) -> Option<String> {
    let lease = server.get(&LEASES, NAMESPACE, name)?;
    Some(lease["spec"]["holderIdentity"].as_str()?.to_owned())
}

/// The identity of the replica that sent the request, if a replica did.
pub(super) fn sender<'a>(request: &'a RecordedRequest, controller: &str) -> Option<&'a str> {
    request.user_agent.strip_prefix(controller)?.strip_prefix('/')
}
