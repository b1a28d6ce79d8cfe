//! What holds for all policies and all objects.

use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::Now;
use controller_core::labels::Labels;
use controller_core::time::saturating_add;
use proptest::prelude::*;
use serde_json::{Value, json};
use ttl_after_finished_controller::policy::decide::{Memory, Verdict, applying, judge};
use ttl_after_finished_controller::policy::state::PolicyState;
use ttl_after_finished_controller::policy::view::{Candidate, NamespaceView};
use ttl_after_finished_controller::policy::{FinishedKind, Policies};
use ttl_after_finished_controller::state::Key;
use ttl_after_finished_controller::view::Finish;

use super::support::{HOUR, at, named, namespace, policies};

fn any_selector() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({}),
        json!({ "matchLabels": { "app": "a" } }),
        json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["a", "b"] }] }),
        json!({ "matchExpressions": [{ "key": "app", "operator": "DoesNotExist" }] }),
    ])
}

fn any_policies() -> impl Strategy<Value = Policies> {
    let ttl = || prop::sample::select(vec!["never", "0s", "5m", "3h"]);
    let kinds = prop::sample::select(vec![json!(["Job"]), json!(["Pod"]), json!(["Job", "Pod"])]);
    let policy = (
        kinds,
        prop::option::of(any_selector()),
        prop::option::of(any_selector()),
        ttl(),
        ttl(),
        any::<bool>(),
    );
    prop::collection::vec(policy, 0..5).prop_map(|list| {
        let list = list.into_iter().enumerate().map(
            |(number, (kinds, objects, namespaces, succeeded, failed, owned))| {
                let mut policy = json!({
                    "name": format!("p{number}"), "kinds": kinds, "ttlAfterSucceeded": succeeded,
                    "ttlAfterFailed": failed, "includeOwned": owned,
                });
                for (field, selector) in [("selector", objects), ("namespaceSelector", namespaces)] {
                    if let Some(selector) = selector {
                        policy[field] = selector;
                    }
                }
                policy
            },
        );
        policies(list.collect())
    })
}

fn any_labels() -> impl Strategy<Value = Labels> {
    prop::option::of(prop::sample::select(vec!["a", "b", "c"]))
        .prop_map(|app| Labels::new(app.map(|app| ("app", app))))
}

fn any_object() -> impl Strategy<Value = Candidate> {
    let finish = prop::option::weighted(0.9, 0..20_000_u64);
    let flags = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
    );
    let ttl = prop::option::weighted(0.2, 0..100_i32);
    (finish, flags, any_labels(), ttl).prop_map(
        |(finish, (pod, failed, owned, keep, mirror), labels, ttl)| {
            let mut object = named(if pod { FinishedKind::Pod } else { FinishedKind::Job }, "object");
            object.object.finish =
                finish.map(|after| Finish::At(saturating_add(at("06:00:00"), Duration::from_secs(after))));
            object.object.ttl_seconds = ttl.filter(|_| !pod);
            object.owner = owned.then(|| "owner".into());
            Candidate {
                failed,
                keep,
                mirror,
                labels: Arc::new(labels),
                ..object
            }
        },
    )
}

fn any_namespace() -> impl Strategy<Value = NamespaceView> {
    (any_labels(), prop::bool::weighted(0.1)).prop_map(|(labels, keep)| NamespaceView {
        labels,
        keep,
        ..namespace(&[])
    })
}

proptest! {
    #[test]
    fn nothing_that_no_policy_names_is_ever_deleted(
        all in any_policies(), object in any_object(), team in any_namespace(),
    ) {
        let Ok(index) = applying(&all, &object, Some(&team)) else { return Ok(()); };
        let policy = &all.list[index];
        let selects = |policy: &ttl_after_finished_controller::policy::Policy| {
            policy.kinds.contains(&object.kind)
                && policy.objects.as_ref().is_none_or(|selector| selector.matches(&object.labels))
                && policy.namespaces.as_ref().is_none_or(|selector| selector.matches(&team.labels))
        };
        prop_assert!(selects(policy));
        prop_assert!(!all.list[..index].iter().any(selects), "an earlier one selects it");
        prop_assert!(!object.keep && !team.keep && !object.mirror);
        prop_assert!(object.kind == FinishedKind::Pod || object.object.ttl_seconds.is_none(), "its own ttl wins");
        prop_assert!(object.owner.is_none() || policy.include_owned);
    }

    #[test]
    fn nothing_goes_within_the_grace_period_or_before_its_ttl(
        all in any_policies(), object in any_object(), team in any_namespace(),
        since in 0..20_000_u64, uptime in 0..20_000_u64, wall in 0..60_000_u64,
    ) {
        let Ok(index) = applying(&all, &object, Some(&team)) else { return Ok(()); };
        let since = Duration::from_secs(since);
        let memory = Memory { since, counts_from: Duration::ZERO, is_last_failed: false, is_braked: false };
        let now = Now {
            wall: saturating_add(at("00:00:00"), Duration::from_secs(wall)),
            uptime: Duration::from_secs(uptime),
        };
        if let Verdict::Due { due, finish, .. } = judge(&all, index, &object, memory, now) {
            let ttl = if object.failed { all.list[index].after_failed } else { all.list[index].after_succeeded };
            prop_assert_eq!(saturating_add(finish, ttl.unwrap()), due);
            prop_assert!(now.wall >= due);
            prop_assert!(now.uptime >= since + HOUR);
        }
    }

    /// Whatever changes an object, its namespace or the file, an hour passes before a policy that was none before may
    /// delete the object.
    #[test]
    fn a_change_of_file_or_labels_begins_the_grace_period_anew(
        first in any_policies(), second in any_policies(),
        objects in prop::collection::vec(any_object(), 1..8),
        teams in prop::collection::vec(any_namespace(), 1..4),
    ) {
        let now = |uptime: u64| Now { wall: at("18:00:00"), uptime: Duration::from_secs(uptime) };
        let mut state = PolicyState::default();
        let team = Arc::new(teams[0].clone());
        let seen = |object: &Candidate| Candidate { kind: objects[0].kind, ..object.clone() };
        let mut object = seen(&objects[0]);
        state.begin(&Arc::new(first.clone()), now(0), [(&object, Some(Arc::clone(&team)))]);
        let key = Key::of(&object);
        let mut applied = (applying(&first, &object, Some(&team)), 0);
        let mut time = 0;
        for next in &objects[1..] {
            time += 600;
            let next = seen(next);
            state.candidate_changed(&first, (Some(&object), Some(&next)), Some(&team), now(time));
            object = next;
            let applies = applying(&first, &object, Some(&team));
            if applies != applied.0 {
                applied = (applies, time);
            }
            prop_assert!(applies.is_err() || state.since(&key, None) == Duration::from_secs(applied.1));
        }
        let mut team = team;
        for next in &teams[1..] {
            time += 600;
            state.namespace_changed(&first, (Some(&team), Some(next)), &[Arc::new(object.clone())], now(time));
            team = Arc::new(next.clone());
            let applies = applying(&first, &object, Some(&team));
            if applies != applied.0 {
                applied = (applies, time);
            }
            prop_assert!(applies.is_err() || state.since(&key, None) == Duration::from_secs(applied.1));
        }
        time += 600;
        state.begin(&Arc::new(second), now(time), [(&object, Some(team))]);
        prop_assert_eq!(state.since(&key, None), Duration::from_secs(time));
    }
}
