//! Which toleration matches a taint (TE-2).

use crate::view::{Operator, Taint, Toleration};

impl Toleration {
    /// Whether it matches `taint` (TE-2). Both have the effect `NoExecute`, or the toleration has any.
    ///
    /// `Lt` and `Gt` count whatever our gate says: there are none but where the API server has admitted them.
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

    /// Whether it compares numbers.
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

/// The toleration that is used for `taint`: the first that matches, in the pod's order (TE-2).
pub fn used_toleration<'a>(tolerations: &'a [Toleration], taint: &Taint) -> Option<&'a Toleration> {
    tolerations.iter().find(|toleration| toleration.tolerates(taint))
}
