//! How the controller is run through a history, and what must have become of the pods.

use std::sync::Arc;
use std::time::Duration;

use harness::history::{Ends, Fate};
use harness::{Run, Start};
use parking_lot::Mutex;
use taint_eviction_controller::TaintEvictionController;
use taint_eviction_controller::config::Config;
use testkit::embedded::{NODES, PODS, Request, Requests, Resource, Server, Verb};
use testkit::history::{self, At, Draw, History, State, Suite};

use super::ledger::{Eyes, Ledger, Life, millis};
use super::steps::{self, Action};
use super::world::{self, lives};

/// Without faults a pod that is due goes within this time, in milliseconds.
const PROMPTLY: i64 = 300;
/// A read of a node serves for so long, in milliseconds (TE-8), with some room.
const READ_SERVES: i64 = 2_500;

/// The taint-eviction-controller, or one with a bug put in.
#[derive(Clone)]
pub(super) struct Pods {
    run: Run<Config>,
    /// What happened in the run.
    ledger: Arc<Mutex<Ledger>>,
}

impl Pods {
    pub(super) fn new(run: Run<Config>) -> Self {
        Self {
            run,
            ledger: Arc::default(),
        }
    }

    /// Of the pods that nobody else deleted.
    fn ends(&self, server: &Server) -> Ends {
        let ledger = self.ledger.lock();
        let end = |life: &Life| (ledger.fate(life), lives(server, life));
        ledger
            .standing()
            .map(|life| (life.name.clone(), end(life)))
            .collect()
    }
}

impl Suite for Pods {
    type Action = Action;

    const NAME: &'static str = "taint-eviction-controller";
    const RESOURCES: &'static [&'static Resource] = &[&PODS, &NODES];

    /// Five minutes pass before the client gives up a watch that is silent.
    const SETTLES_WITHIN: Duration = Duration::from_mins(10);

    fn fresh(&self) -> Self {
        Self::new(self.run)
    }

    fn actions(&self, draw: &mut Draw) -> Vec<At<Action>> {
        steps::drawn(draw, Self::LENGTH)
    }

    fn act(&self, server: &Server, action: &Action) {
        world::take(server, &mut self.ledger.lock(), action);
    }

    fn process(&self, life: history::Life) -> impl Future<Output = Result<(), String>> + Send + 'static {
        Start::of::<TaintEvictionController>()
            .running(self.run)
            .live(life)
    }

    fn settled(&self, server: &Server, _: &[At<Action>]) -> Result<(), String> {
        harness::history::settled(&self.ends(server))
    }

    fn state(&self, server: &Server) -> State {
        harness::history::state(self.ends(server))
    }

    fn permits(&self, server: &Server, request: &Request) -> Result<(), String> {
        if !matches!(request.resource.as_str(), "pods" | "nodes") || !request.verb.is_write() {
            return Ok(());
        }
        let no = |why: &str| Err(format!("{why}: {request}"));
        let uid = match (request.resource.as_str(), request.verb) {
            ("pods", Verb::Patch) if request.subresource == "status" => &request.body["metadata"]["uid"],
            ("pods", Verb::Delete) => &request.body["preconditions"]["uid"],
            _ => return no("no such write is ever needed"),
        };
        let Some(uid) = uid.as_str() else {
            return no("it may hit another pod of the name");
        };
        let ledger = self.ledger.lock();
        let Some(life) = ledger
            .pods
            .iter()
            .find(|life| life.uid == uid && life.name == request.name)
        else {
            return no("there never was such a pod");
        };
        if life.until.is_some() {
            // The API server refuses it.
            return Ok(());
        }
        let asked = server
            .requests()
            .only(|other| other.user_agent == request.user_agent);
        let marks = asked.only(|other| {
            other.verb == Verb::Patch && other.body["metadata"]["uid"] == uid && other.served.is_some()
        });
        let Some(marked) = marks.iter().map(|mark| millis(mark.arrived)).max() else {
            return no("it is deleted without its condition");
        };
        let window = knows(&asked, &life.node, marked);
        let pending = ledger.pending_eviction(life, window, millis(server.elapsed()), eyes(&asked));
        pending.or_else(|why| no(&why))
    }

    /// Without faults a pod that is due goes before anybody can save it, and no other one does.
    fn afterwards(&self, server: &Server, history: &History<Action>) -> Result<(), String> {
        if !history.troubles.is_empty() {
            return Ok(());
        }
        for (name, end) in self.ends(server) {
            match end {
                (Fate::MayGo(overdue), true) if overdue > PROMPTLY => {
                    return Err(format!("{name} was due for {overdue} ms and lives"));
                }
                (Fate::MayGo(overdue), false) if overdue < -PROMPTLY => {
                    return Err(format!("{name} went {} ms early", -overdue));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What one process of the controller, which made these requests, can know.
fn eyes(asked: &Requests) -> Eyes {
    let lists = asked.only(|request| request.verb == Verb::List && request.resource == "nodes");
    let lists = lists.iter().filter_map(|list| list.served).map(millis);
    let leases = asked.only(|request| request.verb.is_write() && request.resource == "leases");
    let leases = leases.iter().filter_map(|write| write.served).map(millis);
    Eyes {
        open: lists.clone().min().unwrap_or(i64::MAX),
        // Without election from the start.
        leads: leases.min().unwrap_or(0),
        // The first list has nothing to be taken for.
        listed: lists.skip(1).max().unwrap_or(i64::MIN),
        // What it is told of a pod may be late.
        lags: true,
    }
}

/// Since when what the controller knew at `at` of the node is true: since its last read of it, or, where that
/// failed, nobody can say.
fn knows(asked: &Requests, node: &str, at: i64) -> i64 {
    let reads = asked.only(|request| {
        request.verb == Verb::Get
            && request.resource == "nodes"
            && request.name == node
            && millis(request.arrived) <= at
    });
    let Some(last) = reads.iter().map(|read| millis(read.arrived)).max() else {
        return 0;
    };
    let recent = reads
        .iter()
        .filter(|read| millis(read.arrived) >= last - READ_SERVES);
    let known = recent.map(|read| match (read.code, read.served) {
        (Some(200 | 404), Some(served)) => millis(served),
        _ => 0,
    });
    known.min().unwrap_or(0)
}
