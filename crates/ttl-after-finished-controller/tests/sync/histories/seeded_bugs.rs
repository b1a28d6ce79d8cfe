//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::collections::HashMap;

use controller_core::cache::SourceEvent;
use controller_testing::fault_history::FaultKind;
use controller_testing::history::Histories;
use controller_testing::seeded_bugs::{
    Surroundings, edited, forgets_to_retry, found_by, ignores_the_servers_clock, retold,
};
use serde_json::Value;
use ttl_after_finished_controller::view::{Finish, JobWire};

use super::scene::Debris;

type Jobs = Debris<false>;

controller_testing::seeded_bugs! { Jobs;
    // The shortest ttl that a Job ever had counts.
    an_ignored_raise_of_the_ttl_is_found: found(|env| believing(env, true), 5, "it expires in");
    // The last state that the watch showed is taken for the Job's current state.
    a_delete_without_the_version_is_found: found_with_faults(|env| believing(env, false), 55, "it expires in");
    a_forgotten_retry_is_found: found_with_faults(forgets_to_retry, 4, "is still there");
}

#[test]
fn a_fast_clock_that_counts_is_found() {
    let trusts_itself = Histories::<Jobs>::with(ignores_the_servers_clock);
    found_by(&trusts_itself, FaultKind::FastClock, 0, "it expires in");
}

#[test]
fn a_clock_that_jumps_and_counts_is_found() {
    let trusts_itself = Histories::<Jobs>::with(ignores_the_servers_clock);
    found_by(&trusts_itself, FaultKind::ClockJumps, 0, "it expires in");
}

/// A Job that finished later than now, by the process's own clock, counts as one that runs.
#[test]
fn an_end_in_the_future_that_does_not_count_is_found_by_slow_clocks() {
    let doubts = Histories::<Jobs>::with(|env| {
        let clock = env.clock.clone();
        retold::<JobWire>(env, move || {
            let clock = clock.clone();
            Box::new(move |event| {
                if let SourceEvent::InitItem(job) | SourceEvent::Applied(job) = event
                    && let Some(Finish::At(finish)) = job.view.finish
                    && finish > clock.now()
                {
                    job.view.finish = None;
                }
            })
        })
    });
    found_by(&doubts, FaultKind::SlowClock, 0, "is still there");
}

/// Deletes a Job whatever its version.
fn believing(env: Surroundings, shortest_counts: bool) -> Surroundings {
    let env = edited(env, |_, options| {
        options["preconditions"]["resourceVersion"] = Value::Null;
    });
    retold::<JobWire>(env, move || {
        let mut shortest = HashMap::new();
        Box::new(move |event| {
            if let SourceEvent::InitItem(job) | SourceEvent::Applied(job) = event
                && let Some(ttl) = job.view.ttl_seconds.as_mut().filter(|_| shortest_counts)
            {
                let shortest = shortest.entry(job.uid.clone()).or_insert(*ttl);
                *shortest = (*shortest).min(*ttl);
                *ttl = *shortest;
            }
        })
    })
}
