//! Histories that seeds hardly ever draw: what a new leader may not know yet.

use std::time::Duration;

use controller_testing::fault_history::{At, DrawnFault, History, Which, run};
use controller_testing::history::Histories;
use embedded_apiserver::{Fault, PODS, RESOURCE_CLAIMS, Resource};

use super::steps::{Made, delete_claim, entry_name, pod, pod_name, template, template_name};
use super::suite::Claims;
use crate::world::made;

/// How far the watches of both replicas lag.
const LAG: Duration = Duration::from_secs(20);

/// The claim is deleted and made again twice. The first replica has seen both, the second one sees the first time only
/// when it begins to lead.
#[test]
fn a_new_leader_that_lags_gives_no_claim_the_name_of_one_before() {
    let made = Made {
        entries: vec![made(&entry_name(0), &template_name(0))],
        extended: false,
        group: None,
        name_is_taken: false,
    };
    let delete = delete_claim(pod_name(0), 0);
    let stop = DrawnFault::Stop {
        replica: 1,
        restart: Duration::from_secs(30),
    };
    let history = History {
        seed: 0,
        replicas: 2,
        actions: vec![
            At::millis(0, template(0, 1)),
            At::millis(5_000, pod(pod_name(0), made)),
            At::millis(26_000, delete.clone()),
            At::millis(46_500, delete),
        ],
        faults: vec![
            At::millis(1_000, lag(&PODS)),
            At::millis(1_000, lag(&RESOURCE_CLAIMS)),
            At::millis(47_000, stop),
        ],
    };
    let run = run(&Histories::<Claims>::sound(), &history);
    assert!(run.outcome.is_ok(), "{:?}", run.outcome);
    let creates = run
        .requests
        .writes()
        .only(|write| write.resource == "resourceclaims" && write.code == Some(201));
    let makers: Vec<_> = creates.iter().map(|create| &*create.user_agent).collect();
    let [first, second] =
        ["replica-1.1", "replica-2.1"].map(|name| format!("resourceclaim-controller/{name}"));
    assert_eq!(makers, [&*first, &first, &second]);
}

fn lag(resource: &'static Resource) -> DrawnFault {
    DrawnFault::Requests {
        which: Which::Watches(resource),
        count: usize::MAX,
        fault: Fault::WatchLags(LAG),
    }
}
