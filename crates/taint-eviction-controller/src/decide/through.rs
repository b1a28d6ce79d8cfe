//! Which pods wait for their budgets, and for how long.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-19 | `waits_until`, `tries_again_after` | `tests/sync/budgets.rs::pods_go_as_their_budget_allows_and_are_deleted_after_the_longest_wait`, `tests/sync/budgets.rs::a_refused_pod_is_tried_again_the_later_the_more_there_are` |

use std::str::FromStr;
use std::time::Duration;

use controller_core::config::GoDuration;
use controller_core::time::saturating_add;
use jiff::Timestamp;

use super::brake::TaintSelector;
use crate::view::Taint;

/// Tries by the Eviction API in a second of which none was accepted, at most.
pub const TRIES_A_SECOND: u32 = 10;
/// A refused pod is tried again after this time, or later if many are refused.
pub const TRIES_AGAIN: Duration = Duration::from_secs(5);

/// One entry of `--evict-through-budgets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThroughBudgets {
    taints: TaintSelector,
    /// How long after its deadline a pod waits for its budgets; `None`: for ever.
    max_wait: Option<Duration>,
}

/// Until when a pod with this deadline waits for its budgets, by the first entry that selects the taint;
/// [`Timestamp::MAX`] for ever, `None` if it does not wait.
pub fn waits_until(entries: &[ThroughBudgets], taint: &Taint, deadline: Timestamp) -> Option<Timestamp> {
    let entry = entries.iter().find(|entry| entry.selects(taint))?;
    let until = entry.max_wait.map(|wait| saturating_add(deadline, wait));
    Some(until.unwrap_or(Timestamp::MAX))
}

/// How long a refused pod waits for its next try while `refused` pods are: all of them cost half of
/// [`TRIES_A_SECOND`], so that pods of others find a free one.
pub fn tries_again_after(refused: usize) -> Duration {
    let all = Duration::from_secs(refused as u64) * 2 / TRIES_A_SECOND;
    all.max(TRIES_AGAIN)
}

impl ThroughBudgets {
    /// True if pods that this taint evicts wait for their budgets.
    pub fn selects(&self, taint: &Taint) -> bool {
        self.taints.selects(taint)
    }
}

impl FromStr for ThroughBudgets {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (taints, wait) = text.split_once(':').unwrap_or((text, "forever"));
        let max_wait = match wait {
            "forever" => None,
            wait => {
                let wait: GoDuration = wait
                    .parse()
                    .map_err(|_| "expected a longest wait such as 1h, or forever, after the colon")?;
                Some(wait.get())
            }
        };
        let taints = taints.parse()?;
        Ok(Self { taints, max_wait })
    }
}
