//! How many pods should exist.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-2 | `expected_pods` | `tests/decide_table.rs::expected_pods_are_counted_or_the_sum_of_the_scales` |
//! | DIS-19 | `expected_pods` | `tests/decide_table/owner_chains.rs::pods_that_exist_are_never_fewer_than_expected` |
//! | DIS-20 | `expected_pods` | `tests/decide_table/owner_chains.rs::pods_that_exist_are_never_fewer_than_expected` |
//! | DIS-11 | `expected_pods` | `tests/decide_table.rs::a_controller_that_is_gone_counts_nothing_while_all_its_pods_terminate` |

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::meta::OwnerRef;

use crate::decide::counts::Counts;
use crate::decide::demand::Demand;
use crate::decide::failure::{Cause, SyncFailure};
use crate::decide::scale::{Scale, Scales};

/// The expected pods: those that exist, or the sum of the scales of their distinct controllers.
pub fn expected_pods(
    demand: Demand,
    counts: &Counts,
    scales: &Scales,
    smallest_pod: impl Fn(&[&OwnerRef]) -> Option<Arc<str>>,
) -> Result<i64, SyncFailure> {
    match demand {
        Demand::Nothing => return Ok(0),
        Demand::Available(_) => return Ok(counts.matched),
        _ => {}
    }
    let (mut by_uid, mut counted) = (BTreeMap::new(), 0);
    let (mut orphans, mut orphaned) = (Vec::new(), 0);
    let (mut failures, mut unasked) = (Vec::new(), Vec::new());
    for (controller, owned) in &counts.controllers {
        match scales.get(controller) {
            // Replicas below zero must not hide what another controller wants.
            Some(scale @ Scale::Of { uid, replicas, .. }) => {
                let (wanted, existing, counts_pods) = by_uid.entry(uid).or_insert((0, 0, false));
                *wanted = (*replicas).max(*wanted);
                *existing += owned.existing();
                *counts_pods |= scale.counts_pods();
            }
            Some(Scale::Pods(_)) => counted += owned.existing(),
            Some(Scale::Gone) if owned.pods == owned.terminating => {}
            Some(Scale::Gone) => {
                orphans.push(&**controller);
                orphaned += owned.pods;
            }
            Some(Scale::Unknown(failure)) => failures.push(failure.clone()),
            // Another scale failed before this one was queried.
            None => unasked.push(SyncFailure::transient(Cause::NoScaleKnown)),
        }
    }
    if !orphans.is_empty() {
        let pod = smallest_pod(&orphans).unwrap_or_default();
        failures.push(SyncFailure::permanent(Cause::NoController(pod, orphaned - 1)));
    }
    if failures.is_empty() {
        failures = unasked;
    }
    if let Some(failure) = SyncFailure::first(failures) {
        return Err(failure);
    }
    let wanted = by_uid.into_values();
    let wanted =
        wanted.map(|(wanted, existing, counts_pods)| wanted.max(if counts_pods { existing } else { 0 }));
    Ok(wanted.fold(counted, i64::saturating_add))
}
