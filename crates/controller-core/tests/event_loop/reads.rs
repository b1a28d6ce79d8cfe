//! Which keys receive an answer, how often a query is sent, and how long an answer is shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use controller_core::api::AnswerClass;
use controller_core::controller::{Action, QueryPolicy};
use controller_core::workqueue::QueueMetrics;
use prometheus::Registry;

use crate::rig::{MS, NOTHING, Rig, SECOND, Setup};
use crate::scripted::{Q, Scripted, Seen, Text, reads, writes};

const NO_ANSWER: AnswerClass = AnswerClass::retry(false);

/// Sends `query`, then writes its answer.
fn ask_then_write(query: Text) -> impl Fn(&Seen<'_>) -> Action<Scripted> {
    move |seen| match seen.answer(query) {
        None => reads([query]),
        Some(answer) if seen.is_accepted(answer) => Action::Done(vec![]),
        Some(answer) => writes([answer]),
    }
}

fn ask_all(queries: &'static [Text]) -> impl Fn(&Seen<'_>) -> Action<Scripted> {
    move |seen| {
        let open = queries.iter().filter(|query| seen.reply(query).is_none());
        let open: Vec<_> = open.copied().collect();
        if open.is_empty() {
            Action::Done(vec![])
        } else {
            reads(open)
        }
    }
}

fn asked(result: &[String]) -> Vec<&str> {
    let asked = result.iter().filter_map(|text| text.strip_prefix("asks "));
    asked.collect()
}

#[test]
fn an_answer_of_the_pass_serves_it() {
    let mut rig = Setup::default().rig(ask_then_write("q"));
    assert_eq!(rig.enqueued("a"), ["a asks q"]);
    assert_eq!(rig.answered("q", "o=1"), ["a writes o=1"]);
    assert_eq!(rig.accepted("o=1"), NOTHING);
    let result = ["Leading(true)", "asks q", "q: o=1", "writes o=1", "o=1: accepted"];
    assert_eq!(rig.result()[1..], result);
}

#[test]
fn an_answer_serves_no_later_pass() {
    let mut rig = Setup::default().rig(ask_all(&["q"]));
    for _ in 0..2 {
        assert_eq!(rig.enqueued("a"), ["a asks q"]);
        assert_eq!(rig.answered("q", "x"), NOTHING);
    }
}

#[test]
fn the_same_query_is_asked_once_for_all_who_ask_and_its_answer_is_remembered_once() {
    let mut rig = Setup::workers(3).rig(ask_then_write("q"));
    rig.enqueue_all(["a", "b", "c"]);
    assert_eq!(rig.turn(), ["a asks q"]);
    rig.asked();
    assert_eq!(rig.answered("q", "o=1"), ["a writes o=1"]);
    // All keys have the answer; their writes go out one per object at a time.
    assert_eq!(rig.asked(), ["a", "b", "c"]);
    assert_eq!(rig.result()[2..], ["asks q", "q: o=1", "writes o=1"]);
}

#[test]
fn several_queries_go_side_by_side_and_all_answers_are_waited_for() {
    let mut rig = Setup::default().rig(ask_all(&["p", "q", "r"]));
    assert_eq!(rig.enqueued("a"), ["a asks p", "a asks q", "a asks r"]);
    rig.answer("r", "x");
    assert_eq!(rig.answered("p", "x"), NOTHING);
    assert_eq!(rig.answered("q", "x"), NOTHING);
    assert_eq!(rig.event_loop.held(), 0);
}

/// At most two reads of `/scale` at a time, and any number of others.
fn of_two_scales() -> Setup {
    Setup {
        querying: |kind| QueryPolicy {
            kind: kind.into(),
            at_most: if kind == "scale" { 2 } else { usize::MAX },
            ..QueryPolicy::default()
        },
        ..Setup::workers(9)
    }
}

fn two_scales(next: impl Fn(&Seen<'_>) -> Action<Scripted> + Send + Sync + 'static) -> Rig {
    of_two_scales().rig(next)
}

#[test]
fn a_pass_that_waits_for_long_to_ask_is_slow_and_one_whose_answer_never_comes_is_stuck() {
    const KEYS: [Text; 8] = [
        "scale:a", "scale:b", "scale:c", "scale:d", "scale:e", "scale:f", "scale:g", "scale:h",
    ];
    let uptime = Arc::new(AtomicU64::new(0));
    let seconds = Arc::clone(&uptime);
    let now = move || Duration::from_secs(seconds.load(Ordering::Relaxed));
    let metrics = QueueMetrics::register(&Registry::new(), now, "q").unwrap();
    let setup = Setup {
        metrics: vec![Some(metrics.clone()), None],
        ..of_two_scales()
    };
    let mut rig = setup.rig(|seen| match seen.answer(seen.key) {
        None => reads([seen.key]),
        Some(_) => Action::Done(vec![]),
    });
    rig.enqueue_all(KEYS);
    rig.turn();
    for key in KEYS {
        uptime.fetch_add(100, Ordering::Relaxed);
        rig.after(100 * SECOND);
        assert!(metrics.longest_stuck() <= 200 * SECOND, "{key}");
        rig.answered(key, "x");
    }
    assert_eq!(metrics.longest_stuck(), Duration::ZERO);
    rig.enqueued("scale:a");
    uptime.fetch_add(500, Ordering::Relaxed);
    rig.after(500 * SECOND);
    assert_eq!(metrics.longest_stuck(), 500 * SECOND);
}

#[test]
fn as_many_queries_of_a_kind_are_out_as_may_be() {
    let mut rig = two_scales(|seen| match seen.answer(seen.key) {
        None => reads([seen.key]),
        Some(_) => Action::Done(vec![]),
    });
    rig.enqueue_all(["scale:a", "scale:b", "scale:c", "scale:d", "pod:e"]);
    assert_eq!(
        rig.turn(),
        ["scale:a asks scale:a", "scale:b asks scale:b", "pod:e asks pod:e"]
    );
    assert_eq!(rig.answered("pod:e", "x"), NOTHING);
    assert_eq!(rig.answered("scale:b", "x"), ["scale:c asks scale:c"]);
    rig.fail("scale:a", NO_ANSWER);
    assert_eq!(rig.turn(), ["scale:d asks scale:d"]);
}

#[test]
fn a_query_that_is_out_for_another_needs_no_place_of_its_kind() {
    let mut rig = two_scales(|seen| match seen.answer("scale:x") {
        None => reads(["scale:x"]),
        Some(_) => Action::Done(vec![]),
    });
    rig.enqueue_all(["a", "b", "c"]);
    assert_eq!(rig.turn(), ["a asks scale:x"]);
    assert_eq!(rig.answered("scale:x", "x"), NOTHING);
    assert_eq!(rig.event_loop.held(), 0);
}

#[test]
fn a_kind_that_is_full_stops_no_query_of_another_kind() {
    let mut rig = two_scales(ask_all(&["scale:a", "scale:b", "scale:c", "pod:d"]));
    rig.enqueue("key");
    assert_eq!(
        rig.turn(),
        ["key asks scale:a", "key asks scale:b", "key asks pod:d"]
    );
    assert_eq!(rig.answered("scale:a", "x"), ["key asks scale:c"]);
}

#[test]
fn a_query_is_asked_three_times_in_a_pass_which_then_is_retried_later_and_later() {
    let mut rig = Setup::default().rig(|_| reads(["q"]));
    rig.enqueue("a");
    for wait in [5, 10, 20] {
        for _ in 0..3 {
            // The watch may have delivered something newer.
            assert_eq!(rig.turn(), ["a asks q"]);
            rig.answer("q", "x");
            rig.change();
        }
        assert_eq!(rig.turn(), NOTHING);
        assert_eq!(rig.again, Some(wait * MS));
        assert_eq!(rig.told().last().unwrap(), "a makes no progress");
        rig.now.uptime += wait * MS;
    }
}

#[test]
fn queries_without_end_are_no_progress() {
    let mut rig = Setup::default().rig(|seen| {
        let answers = seen.state.iter().filter(|text| text.ends_with(": x"));
        reads([&*answers.count().to_string().leak()])
    });
    rig.enqueue("a");
    for n in 0..1_000 {
        assert_eq!(rig.turn(), [format!("a asks {n}")]);
        rig.answer(n.to_string().leak(), "x");
    }
    assert_eq!(rig.turn(), NOTHING);
    assert_eq!(rig.told().last().unwrap(), "a makes no progress");
}

/// Answers to queries of kind `long` are shared for a minute, others for two seconds.
fn shared() -> Rig {
    let setup = Setup {
        querying: |kind| QueryPolicy {
            shared_for: Duration::from_secs(if kind == "long" { 60 } else { 2 }),
            ..QueryPolicy::default()
        },
        ..Setup::default()
    };
    setup.rig(|seen| match seen.shared(seen.key) {
        None if seen.reply(seen.key).is_none() => reads([seen.key]),
        _ => Action::Done(vec![]),
    })
}

#[test]
fn an_answer_serves_other_keys_for_as_long_as_is_said() {
    let mut rig = shared();
    assert_eq!(rig.enqueued("q"), ["q asks q"]);
    rig.answered("q", "x");
    rig.after(1_999 * MS);
    assert_eq!(rig.event_loop.shared(&Q("q")).unwrap().value, Ok("x"));
    rig.after(MS);
    assert!(rig.event_loop.shared(&Q("q")).is_none());
}

#[test]
fn an_answer_frees_one_pass_of_those_that_wait_to_ask_a_query_of_its_kind() {
    let keys: Vec<Text> = (0..1_000).map(|key| &*format!("scale:{key}").leak()).collect();
    let setup = Setup {
        querying: of_two_scales().querying,
        ..Setup::workers(2_000)
    };
    let mut rig = setup.rig(|seen| match seen.answer(seen.key) {
        None => reads([seen.key]),
        Some(_) => Action::Done(vec![]),
    });
    rig.enqueue_all(keys.iter().copied());
    rig.turn();
    for at in 0..998 {
        rig.asked();
        assert_eq!(rig.answered(keys[at], "x").len(), 1);
        assert_eq!(
            rig.asked(),
            [keys[at + 2], keys[at]],
            "the key that asks, and the key that has its answer"
        );
    }
    rig.answered(keys[998], "x");
    rig.answered(keys[999], "x");
    assert_eq!(rig.event_loop.held(), 0);
}

#[test]
fn a_pass_that_waits_to_ask_of_two_kinds_loses_neither_place() {
    let setup = Setup {
        querying: |kind| QueryPolicy {
            kind: kind.into(),
            at_most: 1,
            ..QueryPolicy::default()
        },
        ..Setup::workers(9)
    };
    let mut rig = setup.rig(|seen| match seen.key {
        "both" => ask_all(&["pod:2", "node:2"])(seen),
        key if seen.reply(key).is_none() => reads([key]),
        _ => Action::Done(vec![]),
    });
    rig.enqueue_all(["pod:1", "node:1", "both"]);
    assert_eq!(rig.turn(), ["pod:1 asks pod:1", "node:1 asks node:1"]);
    // Both slots become free before the pass continues.
    rig.answer("pod:1", "x");
    rig.answer("node:1", "x");
    assert_eq!(rig.turn(), ["both asks pod:2", "both asks node:2"]);
    rig.answered("pod:2", "x");
    rig.answered("node:2", "x");
    assert_eq!(rig.event_loop.held(), 0);
    rig.enqueue_all(["pod:1", "node:1"]);
    assert_eq!(rig.turn(), ["pod:1 asks pod:1", "node:1 asks node:1"]);
}

#[test]
fn a_place_to_ask_that_a_pass_does_not_need_any_more_serves_the_next() {
    let mut rig = two_scales(|seen| match seen.answer(seen.key) {
        _ if seen.key == "scale:c" && seen.knows("gone") => Action::Done(vec![]),
        _ if seen.key == "tells" && !seen.knows("gone") => Action::Remember("gone"),
        None if seen.key != "tells" => reads([seen.key]),
        _ => Action::Done(vec![]),
    });
    rig.enqueue_all(["scale:a", "scale:b", "scale:c", "scale:d"]);
    assert_eq!(rig.turn(), ["scale:a asks scale:a", "scale:b asks scale:b"]);
    assert_eq!(rig.enqueued("tells"), NOTHING);
    assert_eq!(rig.answered("scale:a", "x"), ["scale:d asks scale:d"]);
}

#[test]
fn a_key_that_is_woken_while_it_waits_for_an_answer_is_asked_about_at_once() {
    let mut rig = Setup::default().rig(|seen| match seen.answer("q") {
        _ if seen.knows("changed") => writes(["x=1"]),
        None => reads(["q"]),
        Some(_) => Action::Done(vec![]),
    });
    assert_eq!(rig.enqueued("a"), ["a asks q"]);
    rig.asked();
    assert_eq!(rig.enqueued("a"), NOTHING);
    assert_eq!(rig.asked(), ["a"]);
    rig.lead(true);
    rig.turn();
    assert_eq!(rig.asked(), NOTHING, "not unless the key is enqueued");
}

#[test]
fn a_newer_answer_serves_from_when_it_came() {
    let setup = Setup {
        querying: |_| QueryPolicy {
            shared_for: 2 * SECOND,
            ..QueryPolicy::default()
        },
        ..Setup::default()
    };
    let mut rig = setup.rig(ask_all(&["q"]));
    for answer in ["old", "new"] {
        assert_eq!(rig.enqueued("a"), ["a asks q"]);
        rig.answer("q", answer);
        rig.after(SECOND);
    }
    rig.after(999 * MS);
    assert_eq!(rig.event_loop.shared(&Q("q")).unwrap().value, Ok("new"));
    rig.after(MS);
    assert!(rig.event_loop.shared(&Q("q")).is_none());
}

#[test]
fn an_answer_that_serves_long_keeps_no_other_from_going() {
    let mut rig = shared();
    for query in ["long:a", "b"] {
        rig.enqueued(query);
        rig.answer(query, "x");
    }
    rig.after(2 * SECOND);
    assert!(rig.event_loop.shared(&Q("long:a")).is_some());
    assert!(rig.event_loop.shared(&Q("b")).is_none());
}

#[test]
fn a_reply_says_when_it_was_asked_for_and_when_it_came() {
    let mut rig = shared();
    rig.enqueue("q");
    rig.after(SECOND);
    rig.now.uptime += 300 * MS;
    rig.answer("q", "x");
    let reply = rig.event_loop.shared(&Q("q")).unwrap();
    assert_eq!(reply.asked.uptime, SECOND);
    assert_eq!(reply.answered.uptime, 1_300 * MS);
}

#[test]
fn every_request_is_remembered_before_its_answer() {
    let mut rig = Setup::workers(2).rig(ask_all(&["p", "q"]));
    rig.enqueue("a");
    rig.enqueued("b");
    rig.answer("q", "x");
    rig.fail("p", NO_ANSWER);
    rig.turn();
    assert_eq!(asked(rig.result()), ["p", "q"]);
    assert_eq!(rig.result()[4..], ["q: x", "p: Failed"]);
    assert_eq!(rig.again, Some(5 * MS), "both passes have failed");
    assert_eq!(rig.after(10 * MS), ["a asks p", "a asks q"]);
}
