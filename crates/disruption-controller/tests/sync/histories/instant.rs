//! A history that seeds hardly ever draw: a pod changes in the very instant in which a status is sent.

use controller_testing::fault_history::{At, History, run};
use controller_testing::history::{Histories, edits, step};
use embedded_apiserver::{PODS, Server};
use rstest::rstest;
use serde_json::json;

use super::suite::Budgets;
use crate::world::{pdb, pod};

/// The second pod makes one eviction possible, for this many milliseconds. A status that allows it is sent after 100.
#[rstest]
#[case::before_it_is_sent(99, 0)]
#[case::as_it_is_sent(100, 1)]
#[case::after_it_is_sent(101, 1)]
fn a_status_may_be_sent_in_the_instant_in_which_it_becomes_wrong(#[case] stays: u64, #[case] sent: usize) {
    let furnish = step("two pods and a budget come", |_, server: &Server| {
        let selector = json!({ "matchLabels": { "app": "b" } });
        let objects = [
            pod("pod-0", &json!({ "app": "b" }), true, true, None),
            pod("pod-1", &json!({ "app": "a" }), true, true, None),
            pdb("budget", &json!({ "minAvailable": 1, "selector": selector })),
        ];
        for object in objects {
            server.insert(object).unwrap();
        }
    });
    let relabel = |app: &'static str| {
        edits(
            format!("pod-1 becomes {app}"),
            &PODS,
            "pod-1".to_owned(),
            move |pod| {
                pod["metadata"]["labels"]["app"] = json!(app);
            },
        )
    };
    let history = History {
        seed: 0,
        replicas: 1,
        actions: vec![
            At::millis(0, furnish),
            At::millis(30_000, relabel("b")),
            At::millis(30_000 + stays, relabel("a")),
        ],
        faults: Vec::new(),
    };
    let run = run(&Histories::<Budgets>::sound(), &history);
    assert!(run.outcome.is_ok(), "{:?}", run.outcome);
    let allows = run
        .requests
        .writes()
        .only(|write| write.body["status"]["disruptionsAllowed"] == 1);
    assert_eq!(allows.len(), sent);
}
