//! Nodes that come and go, across a step of the TTL and back.

use embedded_apiserver::{Actors, NODES, Server};
use futures::FutureExt;
use serde_json::{Value, json};
use ttl_controller::TtlController;

use crate::cluster::{Controller, now, start, start_dry};
use crate::faults::Fault;

const TTL: &str = "node.alpha.kubernetes.io/ttl";
/// Up to 100 nodes carry 0, more carry 15; they return to 0 below 90 nodes.
const FEWEST: u64 = 85;
/// Number of nodes that come before as many of the oldest go.
const WAVE: u64 = 20;
/// Ticks from one node to the next.
const TICKS_A_NODE: u64 = 3;

/// A node that stays; the rival writes to it.
const CONTESTED: u64 = 999;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "ttl-controller",
    start: start::<TtlController>,
    start_dry: start_dry::<TtlController>,
    prepare: |server| (0..FEWEST).for_each(|number| join(server, number)),
    actors: Actors::new,
    load: |server, tick| async move { load(&server, tick) }.boxed(),
    faults: FAULTS,
};

const FAULTS: &[Fault] = &[Fault {
    name: "the built-in loop was not switched off, and thinks otherwise",
    begin: |cluster| {
        join(&cluster.server, CONTESTED);
        cluster.fault = Some(|server, _| async move { undo(&server) }.boxed());
    },
    told_by: &["NodesOutOfDate", "RivalWriter"],
}];

fn load(server: &Server, tick: u64) {
    let (waves, step) = (tick / TICKS_A_NODE / (2 * WAVE), tick / TICKS_A_NODE % (2 * WAVE));
    let (came, went) = (
        waves * WAVE + step.min(WAVE),
        waves * WAVE + step.saturating_sub(WAVE),
    );
    let beat = |node: &mut Value| {
        node["status"]["conditions"] = json!([{"type": "Ready", "lastHeartbeatTime": now(server)}]);
    };
    server
        .edit(&NODES, "", &name(went + 1 + tick % (FEWEST - 1)), beat)
        .unwrap();
    if !tick.is_multiple_of(TICKS_A_NODE) {
        return;
    }
    if step < WAVE {
        join(server, FEWEST + came);
    } else {
        server.delete(&NODES, "", &name(went)).unwrap();
    }
}

fn join(server: &Server, number: u64) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name(number)}});
    server.insert(node).unwrap();
}

/// What a rival does as soon as it sees our value.
fn undo(server: &Server) {
    let differ = |node: &mut Value| node["metadata"]["annotations"][TTL] = json!("300");
    server.edit(&NODES, "", &name(CONTESTED), differ).unwrap();
}

fn name(number: u64) -> String {
    format!("node-{number:03}")
}
