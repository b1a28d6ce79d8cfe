//! Which toleration matches a taint.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-2 | `Toleration::tolerates`, `used_tolerations` | `tests/decide_table.rs::a_toleration_matches_a_taint`, `tests/decide_table.rs::a_pod_on_a_tainted_node_is_judged_by_its_tolerations` |

use super::taints::TaintStay;
use crate::view::{Operator, Taint, Toleration};

impl Toleration {
    /// True if the toleration matches `taint` (TE-2). The effect is known to match: the taint's is `NoExecute`, the
    /// toleration's the same or empty.
    ///
    /// `Lt` and `Gt` count whatever our gate says: they only exist where the API server has admitted them.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            Operator::Equal => self.value == taint.value,
            Operator::Exists => true,
            Operator::Lt => compared(taint, self).is_some_and(|(taints, ours)| taints < ours),
            Operator::Gt => compared(taint, self).is_some_and(|(taints, ours)| taints > ours),
            Operator::Unknown => false,
        }
    }

    /// True if the toleration compares numbers.
    pub fn compares(&self) -> bool {
        matches!(self.operator, Operator::Lt | Operator::Gt)
    }
}

fn compared(taint: &Taint, toleration: &Toleration) -> Option<(i64, i64)> {
    Some((
        canonical_integer(&taint.value)?,
        canonical_integer(&toleration.value)?,
    ))
}

/// A decimal integer as people write it: no plus, no leading zeros, no `-0`.
/// Source: `apimachinery/pkg/api/validate/content`, `IsDecimalInteger`.
fn canonical_integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// For each of `taints` the toleration that is used: the first match in the pod's order (TE-2).
///
/// Each toleration is compared only with the taints of its key; the API server admits one per node. A toleration
/// without a key matches all taints, so the search ends with it.
pub fn used_tolerations<'a>(
    tolerations: &'a [Toleration],
    taints: &[TaintStay],
) -> Vec<Option<&'a Toleration>> {
    let key = |at: usize| &*taints[at].taint.key;
    let mut by_key: Vec<_> = (0..taints.len()).collect();
    by_key.sort_by(|a, b| key(*a).cmp(key(*b)));
    let mut used = vec![None; taints.len()];
    let mut unmatched = taints.len();
    for toleration in tolerations {
        if unmatched == 0 {
            break;
        }
        let first = by_key.partition_point(|at| key(*at) < &*toleration.key);
        let of_key = by_key[first..].iter();
        let of_key = of_key.take_while(|at| toleration.key.is_empty() || key(**at) == &*toleration.key);
        for at in of_key {
            if used[*at].is_none() && toleration.tolerates(&taints[*at].taint) {
                used[*at] = Some(toleration);
                unmatched -= 1;
            }
        }
    }
    used
}
