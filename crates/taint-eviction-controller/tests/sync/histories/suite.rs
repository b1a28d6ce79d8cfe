//! What the controller may write, and what must have become of the pods.

use controller_testing::fault_history::{At, Draw};
use controller_testing::history::{NEVER_NEEDED, Scene, Scripted};
use controller_testing::past::{Ends, at, millis};
use embedded_apiserver::{NODES, PODS, RecordedRequest, RecordedRequests, RequestVerb, Resource, Server};
use jiff::Timestamp;
use taint_eviction_controller::TaintEvictionController;

use super::steps;
use crate::ledger::{Eyes, Ledger, check_due};

/// How long a read of a node serves, in milliseconds (TE-8), with some room.
const READ_SERVES: i64 = 2_500;

/// A clock that is behind by more than this, in milliseconds, is slow.
const TOLERATED: i64 = 500;

impl Scene for Ledger {
    type App = TaintEvictionController;

    const READS: &'static [&'static Resource] = &[&PODS, &NODES];
    const WRITES: &'static [&'static Resource] = &[&PODS];
    const PROMPTLY: i64 = 300;

    fn steps(draw: &mut Draw) -> Vec<At<Scripted<Self>>> {
        steps::drawn(draw, Self::LENGTH)
    }

    fn ends(&self, server: &Server) -> Ends {
        self.pods.ends(server, &PODS, |pod| self.fate(pod))
    }

    fn permits(&mut self, server: &Server, write: &RecordedRequest) -> Result<(), String> {
        let uid = match (&*write.resource, write.verb, &*write.subresource) {
            ("pods", RequestVerb::Patch, "status") => &write.body["metadata"]["uid"],
            ("pods", RequestVerb::Delete, "") => &write.body["preconditions"]["uid"],
            _ => return Err(NEVER_NEEDED.to_owned()),
        };
        let uid = uid.as_str().ok_or("it may hit another pod of the name")?;
        let mut pods = self.pods.0.iter();
        let pod = pods.find(|pod| pod.uid == uid && pod.name == write.name);
        let pod = pod.ok_or("there never was such a pod")?;
        if pod.until.is_some() {
            // The API server refuses the write.
            return Ok(());
        }
        let asked = server.requests_where(|other| other.user_agent == write.user_agent);
        // A condition that the API server calls invalid does not stop the delete (TE-9).
        let marks = asked.only(|other| {
            let is_told = other.served.is_some() || other.code == Some(422);
            other.verb == RequestVerb::Patch && other.body["metadata"]["uid"] == uid && is_told
        });
        let marked = marks.iter().map(|mark| millis(mark.arrived)).max();
        let marked = marked.ok_or("it is deleted without its condition")?;
        let read = knows(&asked, &pod.last().node, marked);
        let window = read.map_or(0, |read| read.max(pod.from()));
        let due = self.earliest(pod, window, eyes(&asked));
        if read.is_none() {
            self.by_the_cache.insert(uid.to_owned());
        }
        check_due(due, millis(server.elapsed()))
    }
}

/// What one process of the controller, which made these requests, can know.
fn eyes(asked: &RecordedRequests) -> Eyes {
    let lists = asked.only(|request| request.lists() && request.resource == "nodes");
    let lists = lists.iter().filter_map(|list| list.served).map(millis);
    let leases = asked.only(|request| request.verb.is_write() && request.resource == "leases");
    let is_slow = leases.iter().any(|write| {
        let renewed = write.body["spec"]["renewTime"].as_str();
        let renewed: Option<Timestamp> = renewed.and_then(|renewed| renewed.parse().ok());
        renewed.is_some_and(|renewed| renewed < at(millis(write.arrived) - TOLERATED))
    });
    let leases = leases.iter().filter_map(|write| write.served).map(millis);
    Eyes {
        open: lists.clone().min().unwrap_or(i64::MAX),
        // Without election, from the start.
        leads: leases.min().unwrap_or(0),
        // The first list cannot confuse two stays.
        listed: lists.skip(1).max().unwrap_or(i64::MIN),
        // Its view of a pod may lag.
        lags: true,
        is_slow,
    }
}

/// The time from which the controller's knowledge of the node at `at` is true: its last read of the node, or the start
/// if it never read the node. `None` if that read failed, as the cache, which may lag, decides then (TE-8).
fn knows(asked: &RecordedRequests, node: &str, at: i64) -> Option<i64> {
    let reads = asked.only(|request| {
        let is_read = request.verb == RequestVerb::Get && request.resource == "nodes" && request.name == node;
        is_read && millis(request.arrived) <= at
    });
    let Some(last) = reads.iter().map(|read| millis(read.arrived)).max() else {
        return Some(0);
    };
    let recent = reads
        .iter()
        .filter(|read| millis(read.arrived) >= last - READ_SERVES);
    let known = recent.map(|read| match (read.code, read.served) {
        (Some(200 | 404), Some(served)) if !read.garbled => Some(millis(served)),
        _ => None,
    });
    known.min().flatten()
}
