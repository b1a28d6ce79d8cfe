//! Histories that seeds hardly ever draw: a pod ends before its status names its claim for extended resources.

use std::time::Duration;

use controller_testing::fault_history::{At, History, run};
use controller_testing::history::{Histories, step};
use controller_testing::objects::edit;
use embedded_apiserver::{PODS, Server};
use rstest::rstest;
use serde_json::json;

use super::scheduler::Pace;
use super::steps::{Made, pod, pod_name};
use super::suite::Claims;

/// The scheduler makes the claim after 3.5 s, protects it after 5.5 s, reserves it after 7.5 s, and would name it after
/// 9.5 s.
#[rstest]
#[case::before_there_is_one(3_000)]
#[case::before_it_is_protected(4_500)]
#[case::before_it_is_reserved(6_500)]
#[case::before_it_is_named(8_500)]
fn the_claim_of_a_pod_whose_status_never_named_it_goes_with_the_pod(#[case] ends: u64) {
    let made = Made {
        entries: vec![],
        extended: true,
        group: None,
        name_is_taken: false,
    };
    let pace = Pace {
        pause: Duration::from_secs(2),
        fails_once: false,
    };
    let schedule = step("there is room for the pod", move |claims: &mut Claims, server| {
        claims.scheduler.wants(server, &claims.ledger, &pod_name(0), pace);
    });
    let end = step("the pod ends", |claims: &mut Claims, server: &Server| {
        edit(server, &PODS, &pod_name(0), |pod| {
            pod["status"]["phase"] = json!("Succeeded");
        });
        claims.ledger.lock().look(server);
    });
    let die = step(
        "the scheduler dies and comes back",
        |claims: &mut Claims, server| {
            claims.scheduler.dies(server, &claims.ledger);
        },
    );
    let history = History {
        seed: 0,
        replicas: 1,
        actions: vec![
            At::millis(0, pod(pod_name(0), made)),
            At::millis(1_000, schedule),
            At::millis(ends, end),
            At::millis(9_000, die),
        ],
        faults: Vec::new(),
    };
    let run = run(&Histories::<Claims>::sound(), &history);
    assert!(run.outcome.is_ok(), "{:?}", run.outcome);
}
