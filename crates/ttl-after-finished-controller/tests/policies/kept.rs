//! `keepLastFailed`: which failed objects are kept, whatever happens in whichever order.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_core::controller::Now;
use controller_core::time::saturating_add;
use proptest::prelude::*;
use serde_json::json;
use ttl_after_finished_controller::policy::FinishedKind;
use ttl_after_finished_controller::policy::state::PolicyState;
use ttl_after_finished_controller::policy::view::Candidate;
use ttl_after_finished_controller::state::Key;
use ttl_after_finished_controller::view::Finish;

use super::support::{at, named, namespace, policies};

/// An object of this number: failed or not, by one of two owners or by none.
fn object(number: u8, failed: bool, finish: u8, owner: u8) -> Candidate {
    let mut object = named(FinishedKind::Job, &format!("job-{number}"));
    object.failed = failed;
    object.object.finish = Some(Finish::At(saturating_add(
        at("10:00:00"),
        Duration::from_secs(finish.into()),
    )));
    object.owner = (owner > 0).then(|| format!("owner-{owner}").as_str().into());
    object
}

fn any_change() -> impl Strategy<Value = (u8, Option<(bool, u8, u8)>)> {
    (
        0..8_u8,
        prop::option::weighted(0.8, (prop::bool::weighted(0.8), 0..6_u8, 0..3_u8)),
    )
}

proptest! {
    /// Those that are remembered as kept are the last two of each owner, or of the namespace; and each object whose
    /// fate a change of another one turns is named.
    #[test]
    fn the_last_that_failed_are_kept_in_any_order_of_changes(changes in prop::collection::vec(any_change(), 1..40)) {
        let all = policies(json!([{
            "name": "p", "ttlAfterFailed": "1h", "keepLastFailed": 2, "includeOwned": true,
        }]));
        let (mut state, team) = (PolicyState::default(), namespace(&[]));
        let now = Now { wall: at("12:00:00"), uptime: Duration::from_secs(1) };
        let mut objects: BTreeMap<Key, Candidate> = BTreeMap::new();
        let kept = |state: &PolicyState, objects: &BTreeMap<Key, Candidate>| -> Vec<Key> {
            let kept = objects.keys().filter(|key| state.memory(&all, 0, key, None).is_last_failed);
            kept.cloned().collect()
        };
        for (number, change) in changes {
            let key = Key::of(&object(number, true, 0, 0));
            let new = change.map(|(failed, finish, owner)| object(number, failed, finish, owner));
            let old = objects.get(&key).cloned();
            let before = kept(&state, &objects);
            let turned = state.candidate_changed(&all, (old.as_ref(), new.as_ref()), Some(&team), now);
            match new {
                Some(new) => objects.insert(key.clone(), new),
                None => objects.remove(&key),
            };
            let after = kept(&state, &objects);

            let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for (key, object) in objects.iter().filter(|(_, object)| object.failed) {
                let Some(Finish::At(finish)) = object.object.finish else { unreachable!() };
                groups.entry(object.owner.clone()).or_default().push((finish, key.clone()));
            }
            let mut expected: Vec<Key> = Vec::new();
            for group in groups.values_mut() {
                group.sort();
                expected.extend(group.iter().rev().take(2).map(|(_, key)| key.clone()));
            }
            expected.sort();
            prop_assert_eq!(&after, &expected);

            for key in objects.keys().filter(|other| **other != key) {
                let has_turned = before.contains(key) != after.contains(key);
                prop_assert!(!has_turned || turned.contains(key), "{} is not named", key);
            }
        }
        for object in objects.into_values() {
            state.candidate_changed(&all, (Some(&object), None), Some(&team), now);
        }
        prop_assert_eq!(state.held(), 0);
    }
}
