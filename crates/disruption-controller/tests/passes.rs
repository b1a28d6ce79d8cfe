//! What is sent in which pass, step by step: the test is the API server and the clock.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass, Call, CallFailed, Verb};
use controller_core::cache::{self, Freshness, Page};
use controller_core::controller::{Accepted, Completed, Effect, Loop, LoopEvent, Now, RequestOf};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use controller_testing::sim::{NOW, START, SimResource, Unlimited, Watch};
use disruption_controller::config::Config;
use disruption_controller::discovery::Kind;
use disruption_controller::requests::{Answer, Query, Write};
use disruption_controller::view::{Amount, PdbView, PodView};
use disruption_controller::{DisruptionController, Stores};
use prometheus::Registry;
use serde_json::{Value, json};

use crate::support;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const NOTHING: [String; 0] = [];

struct Rig {
    pods: SimResource<DisruptionController, PodView>,
    pdbs: SimResource<DisruptionController, PdbView>,
    event_loop: Loop<DisruptionController>,
    now: Now,
    in_flight: Vec<Effect<DisruptionController>>,
}

/// Of the widget of this name, if one is named.
fn pod(name: &str, ready: bool, widget: Option<&str>) -> PodView {
    PodView {
        controller: widget.map(|widget| support::owner("example.com/v1", "Widget", widget, widget)),
        ready,
        ..support::pod(name, &json!({}))
    }
}

fn pdb_key() -> ObjectKey {
    ObjectKey::namespaced("ns", "foobar")
}

impl Rig {
    /// A budget of all pods, and these pods.
    fn new(spec: &Value, pods: impl IntoIterator<Item = PodView>) -> Self {
        let now = NOW;
        let mut all = SimResource::new(|stores: &mut Stores| &mut stores.pods);
        let mut pdbs = SimResource::new(|stores: &mut Stores| &mut stores.pdbs);
        for pod in pods {
            let uid = pod.uid.clone();
            all.put(pod, uid);
        }
        let mut spec = spec.clone();
        spec["selector"] = json!({});
        pdbs.put(support::pdb(&spec), Uid::from("pdb"));
        let controller = DisruptionController::new(&Config::default(), &Registry::new()).unwrap();
        let mut event_loop = Loop::new(Arc::new(controller), [None, None, None], false);
        all.restart();
        pdbs.restart();
        all.deliver(&mut event_loop, now);
        pdbs.deliver(&mut event_loop, now);
        event_loop.on_event(LoopEvent::Synced, now);
        event_loop.on_event(LoopEvent::Leading(true), now);
        Self {
            pods: all,
            pdbs,
            event_loop,
            now,
            in_flight: Vec::new(),
        }
    }

    /// What is sent now: how many disruptions a status allows, or what is asked.
    fn turn(&mut self) -> Vec<String> {
        let effects = self.event_loop.poll(self.now, &Unlimited).effects;
        let sent = effects.iter().map(|effect| match &effect.ask {
            RequestOf::Write(Write::Status(write)) => format!("allow {}", write.status.allowed()),
            RequestOf::Query(Query::Kinds(_)) => "kinds".to_owned(),
            RequestOf::Query(Query::Scale(target)) => format!("scale of {}", target.name),
            RequestOf::Query(Query::Pod(pod)) => format!("pod {}", pod.name),
            other => panic!("{other:?}"),
        });
        let sent = sent.collect();
        self.in_flight.extend(effects);
        sent
    }

    fn after(&mut self, time: Duration) -> Vec<String> {
        self.now.uptime += time;
        self.now.wall = saturating_add(self.now.wall, time);
        self.turn()
    }

    fn put(&mut self, pod: PodView) {
        let uid = pod.uid.clone();
        self.pods.put(pod, uid);
        assert!(self.pods.deliver(&mut self.event_loop, self.now));
    }

    fn edit_pdb(&mut self, edit: impl FnOnce(&mut PdbView)) {
        let held = self.pdbs.objects()[&pdb_key()].clone();
        let mut view = held.view;
        edit(&mut view);
        view.version = self.pdbs.next_version().to_string().into();
        self.pdbs.put(view, held.uid);
        while self.pdbs.deliver(&mut self.event_loop, self.now) {}
    }

    fn complete(&mut self, completed: Completed<Answer>) {
        let effect = self.in_flight.remove(0);
        self.event_loop.completed(effect.id, completed, self.now);
    }

    fn answer(&mut self, answer: Answer) {
        self.complete(Completed::Read(Ok(answer), None));
    }

    fn accept(&mut self) {
        let RequestOf::Write(Write::Status(write)) = self.in_flight[0].ask.clone() else {
            panic!("{:?}", self.in_flight[0]);
        };
        let held = self.pdbs.objects()[&pdb_key()].clone();
        let version = self.pdbs.next_version();
        self.pdbs.put(
            write.status.applied_to(&held.view, Some(version)),
            held.uid.clone(),
        );
        self.complete(Completed::Wrote(Ok(Accepted {
            uid: Some(held.uid),
            version: Some(version),
            deleting: false,
        })));
    }

    fn answer_pod(&mut self, pod: PodView) {
        let uid = pod.uid.clone();
        let items = vec![cache::Versioned {
            view: pod,
            uid,
            version: None,
        }];
        self.answer(Answer::Pods(Page { items, token: None }));
    }

    /// A question cannot be answered.
    fn fail(&mut self, outcome: AnswerClass, code: u16) {
        self.complete(Completed::Read(Err(failed(outcome, code)), None));
    }

    /// A write is refused.
    fn refuse(&mut self, outcome: AnswerClass, code: u16) {
        self.complete(Completed::Wrote(Err(failed(outcome, code))));
    }
}

fn failed(outcome: AnswerClass, code: u16) -> CallFailed {
    CallFailed::Answered {
        call: Call {
            verb: Verb::Get,
            resource: "rig",
            target: String::new(),
        },
        outcome,
        code: Some(code),
        message: "refused by the test".to_owned(),
    }
}

/// A pod of each of these widgets.
fn of_widgets<const N: usize>(widgets: [&str; N]) -> Rig {
    let pods = widgets.map(|widget| pod(&format!("of-{widget}"), true, Some(widget)));
    Rig::new(&json!({ "maxUnavailable": 1 }), pods)
}

fn widgets() -> Answer {
    Answer::Kinds(Arc::new(vec![widget(true)]))
}

fn widget(scales: bool) -> Kind {
    Kind {
        name: "Widget".to_owned(),
        plural: "widgets".to_owned(),
        namespaced: true,
        scales,
    }
}

fn three_of_one() -> Rig {
    let pods = ["a", "b", "c"].map(|name| pod(name, true, None));
    Rig::new(&json!({ "minAvailable": 1 }), pods)
}

/// DIS-14: a burst is not written as fast as the API server answers.
#[test]
fn what_allows_more_waits_for_the_next_pass() {
    let mut rig = three_of_one();
    assert_eq!(rig.turn(), ["allow 2"]);
    rig.put(pod("d", true, None));
    rig.accept();
    assert_eq!(rig.turn(), NOTHING);
    assert_eq!(rig.after(99 * MS), NOTHING);
    assert_eq!(rig.after(MS), ["allow 3"]);
}

#[test]
fn what_allows_less_is_written_in_the_same_pass() {
    let mut rig = three_of_one();
    assert_eq!(rig.turn(), ["allow 2"]);
    rig.put(pod("a", false, None));
    rig.accept();
    assert_eq!(rig.turn(), ["allow 1"]);
}

#[test]
fn after_a_refusal_nothing_more_is_written_in_the_pass() {
    let mut rig = three_of_one();
    assert_eq!(rig.turn(), ["allow 2"]);
    rig.put(pod("d", true, None));
    rig.refuse(AnswerClass::Conflict, 409);
    assert_eq!(rig.turn(), NOTHING);
    assert_eq!(rig.after(5 * MS), ["allow 3"]);
}

/// Each names the version that was judged: the same write once more is carried out once at most.
#[test]
fn after_a_lost_answer_nothing_is_in_doubt() {
    let mut rig = three_of_one();
    assert_eq!(rig.turn(), ["allow 2"]);
    rig.refuse(AnswerClass::retry(true), 500);
    assert_eq!(
        rig.event_loop.stores().pdbs.freshness(&pdb_key()),
        Freshness::Synced
    );
    assert_eq!(rig.after(5 * MS), NOTHING);
    assert_eq!(rig.after(5 * MS), ["allow 2"]);
}

/// No change tells that time has passed.
#[test]
fn an_entry_that_expires_while_a_status_is_on_its_way_is_dropped_with_the_next() {
    let mut rig = three_of_one();
    assert_eq!(rig.turn(), ["allow 2"]);
    rig.accept();
    assert_eq!(rig.turn(), NOTHING);
    rig.edit_pdb(|pdb| {
        pdb.status.disrupted_pods.insert("a".into(), START);
    });
    assert_eq!(rig.after(10 * MS), ["allow 1"]);
    assert_eq!(rig.after(121 * SECOND), NOTHING);
    rig.accept();
    assert_eq!(rig.turn(), ["pod a"]);
    rig.answer_pod(pod("a", true, None));
    assert_eq!(rig.turn(), NOTHING);
    assert_eq!(rig.after(100 * MS), ["allow 2"]);
}

/// A read that takes its time makes those next to it no older.
#[test]
fn an_answer_serves_its_pass() {
    let mut rig = of_widgets(["one", "two"]);
    assert_eq!(rig.turn(), ["kinds"]);
    rig.answer(widgets());
    assert_eq!(rig.turn(), ["scale of one", "scale of two"]);
    rig.answer(Answer::Scale(Uid::from("one"), 1));
    assert_eq!(rig.after(90 * SECOND), NOTHING);
    rig.answer(Answer::Scale(Uid::from("two"), 1));
    assert_eq!(rig.turn(), ["allow 1"]);
}

#[test]
fn after_a_404_only_what_discovery_says_from_then_on_counts() {
    let mut rig = of_widgets(["one"]);
    assert_eq!(rig.turn(), ["kinds"]);
    rig.answer(widgets());
    assert_eq!(rig.after(SECOND), ["scale of one"]);
    rig.fail(AnswerClass::Gone, 404);
    assert_eq!(rig.turn(), ["kinds"]);
    rig.answer(widgets());
    assert_eq!(rig.turn(), ["allow 0"]);
}

/// The definition of a kind may be on its way; a kind does not get a scale by itself.
#[test]
fn an_unknown_kind_is_looked_for_again_soon_and_a_scale_that_it_has_not_is_not() {
    for (kinds, soon) in [(vec![], vec!["kinds"]), (vec![widget(false)], vec![])] {
        let mut rig = of_widgets(["one"]);
        assert_eq!(rig.turn(), ["kinds"]);
        rig.answer(Answer::Kinds(Arc::new(kinds)));
        assert_eq!(rig.turn(), ["allow 0"]);
        rig.accept();
        assert_eq!(rig.turn(), NOTHING);
        assert_eq!(rig.after(3 * SECOND), soon);
    }
}

#[test]
fn a_scale_is_not_read_again_before_the_api_server_wants_that() {
    let mut rig = of_widgets(["one"]);
    assert_eq!(rig.turn(), ["kinds"]);
    rig.answer(widgets());
    assert_eq!(rig.turn(), ["scale of one"]);
    rig.fail(AnswerClass::Throttled(7 * SECOND), 429);
    assert_eq!(rig.turn(), ["allow 0"]);
    rig.accept();
    assert_eq!(rig.turn(), NOTHING);
    assert_eq!(rig.after(6_999 * MS), NOTHING);
    assert_eq!(rig.after(MS), ["scale of one"]);
}

#[test]
fn how_urgent_a_change_is_depends_on_what_was_computed_last() {
    let mut rig = three_of_one();
    assert_eq!(rig.turn(), ["allow 2"]);
    rig.accept();
    assert_eq!(rig.turn(), NOTHING);
    rig.edit_pdb(|pdb| {
        pdb.generation = 2;
        pdb.min_available = Some(Amount::Int(2));
    });
    assert_eq!(rig.turn(), NOTHING, "a burst is one write");
    assert_eq!(rig.after(10 * MS), ["allow 1"]);
    rig.accept();
    assert_eq!(rig.turn(), NOTHING);
    rig.put(pod("a", false, None));
    assert_eq!(rig.after(10 * MS), ["allow 0"]);
}
