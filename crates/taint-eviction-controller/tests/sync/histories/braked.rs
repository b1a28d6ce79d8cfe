//! The same steps with a brake, or with budgets that refuse every eviction: what must never happen, whatever fails.

use std::sync::Arc;

use controller_core::config::GoDuration;
use controller_testing::fault_history::{At, Draw, EndState, History};
use controller_testing::history::{Histories, Scene, Scripted, assert_sound, step};
use controller_testing::past::millis;
use controller_testing::{RunController, run_of};
use embedded_apiserver::{RecordedRequest, RequestVerb, Resource, Server};
use serde_json::json;
use taint_eviction_controller::TaintEvictionController;
use taint_eviction_controller::config::Config;

use super::steps::KEYS;
use crate::ledger::{Ledger, check_due};

/// Two pods within half a minute.
const PODS: usize = 2;
const WINDOW: i64 = 30_000;
/// How long pods wait for their budgets.
const WAIT: i64 = 20_000;

/// With a brake.
#[derive(Default)]
struct Braked(Ledger);

/// With a budget of all pods that refuses every eviction.
#[derive(Default)]
struct Budgeted(Ledger);

impl Scene for Braked {
    type App = TaintEvictionController;

    const READS: &'static [&'static Resource] = Ledger::READS;
    const WRITES: &'static [&'static Resource] = Ledger::WRITES;
    /// What replicas have told each other of the brake would be lost.
    const REWINDS: bool = false;

    fn steps(draw: &mut Draw) -> Vec<At<Scripted<Self>>> {
        within(Ledger::steps(draw), |Self(ledger)| ledger)
    }

    fn permits(&mut self, server: &Server, write: &RecordedRequest) -> Result<(), String> {
        self.0.permits(server, write)
    }

    /// Who is held back stays, so the ends differ.
    fn settled(&mut self, _: &Server) -> Result<(), String> {
        Ok(())
    }

    fn state(&self, _: &Server) -> EndState {
        EndState::default()
    }

    fn afterwards(&self, server: &Server, _: &History<Scripted<Self>>) -> Result<(), String> {
        let deletes = server.requests_where(|request| {
            let is_done = request.served.is_some() && request.code.is_none_or(|code| code == 200);
            request.verb == RequestVerb::Delete && request.resource == "pods" && is_done
        });
        let mut went: Vec<_> = deletes
            .iter()
            .filter_map(|delete| delete.served)
            .map(millis)
            .collect();
        went.sort_unstable();
        match went.windows(PODS + 1).find(|some| some[PODS] - some[0] < WINDOW) {
            Some(some) => Err(format!(
                "more than {PODS} pods went within {WINDOW} ms: at {some:?}"
            )),
            None => Ok(()),
        }
    }
}

impl Scene for Budgeted {
    type App = TaintEvictionController;

    const READS: &'static [&'static Resource] = Ledger::READS;
    const WRITES: &'static [&'static Resource] = Ledger::WRITES;

    fn steps(draw: &mut Draw) -> Vec<At<Scripted<Self>>> {
        let budget = step("a budget refuses every eviction", |_, server: &Server| {
            let _ = server.insert(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": { "name": "all", "namespace": "default" },
                "spec": { "maxUnavailable": 0, "selector": {} },
            }));
        });
        let steps = within(Ledger::steps(draw), |Self(ledger)| ledger);
        [At::seconds(0, budget)].into_iter().chain(steps).collect()
    }

    /// No pod is deleted before its wait is over; its condition is written then, too.
    fn permits(&mut self, server: &Server, write: &RecordedRequest) -> Result<(), String> {
        let is_try = write.subresource == "eviction";
        let uid = if is_try {
            &write.body["deleteOptions"]["preconditions"]["uid"]
        } else if write.verb == RequestVerb::Delete {
            &write.body["preconditions"]["uid"]
        } else {
            &write.body["metadata"]["uid"]
        };
        let pod = self.0.pods.0.iter().find(|pod| Some(&*pod.uid) == uid.as_str());
        let pod = pod.ok_or("there never was such a pod")?;
        if pod.until.is_some() {
            return Ok(());
        }
        let wait = if is_try { 0 } else { WAIT };
        let first = self.0.first_deadline(pod, pod.from());
        check_due(first.map(|first| first + wait), millis(server.elapsed()))
    }

    fn settled(&mut self, _: &Server) -> Result<(), String> {
        Ok(())
    }

    fn state(&self, _: &Server) -> EndState {
        EndState::default()
    }

    fn afterwards(&self, _: &Server, _: &History<Scripted<Self>>) -> Result<(), String> {
        Ok(())
    }
}

fn within<S: 'static>(
    steps: Vec<At<Scripted<Ledger>>>,
    of: fn(&mut S) -> &mut Ledger,
) -> Vec<At<Scripted<S>>> {
    let of_step = |At { time, what }: At<Scripted<Ledger>>| At {
        time,
        what: what.within(of),
    };
    steps.into_iter().map(of_step).collect()
}

fn configured(configure: fn(&mut Config)) -> RunController<Config> {
    let run = run_of::<TaintEvictionController>();
    Arc::new(move |mut config, env| {
        configure(&mut config);
        run(config, env)
    })
}

#[test]
fn in_no_window_more_pods_go_than_the_brake_lets_whatever_fails() {
    let run = configured(|config| {
        config.eviction_brake_pods = Some(PODS.to_string());
        config.eviction_brake_window = GoDuration::from_secs(30);
    });
    assert_sound(&Histories::<Braked>::of(run));
}

#[test]
fn no_pod_is_deleted_before_its_wait_is_over_while_its_budget_refuses() {
    let run = configured(|config| {
        config.evict_through_budgets = Some(KEYS.map(|key| format!("{key}:20s")).join(","));
    });
    assert_sound(&Histories::<Budgeted>::of(run));
}
