//! What a budget's spec demands.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-2 | `Demand::needs_scales` | `tests/decide_table.rs::expected_pods_are_counted_or_the_sum_of_the_scales` |
//! | DIS-3 | `demand`, `desired_healthy` | `tests/decide_table.rs::percentages_round_up`, `tests/decide_table.rs::what_the_api_server_would_refuse_fails_safe` |

use crate::decide::failure::Cause;
use crate::selector::Selector;
use crate::view::{Amount, PdbView};

/// What must be available, or may be unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    Nothing,
    /// `minAvailable`, in pods.
    Available(i64),
    /// `minAvailable`, in percent of the expected pods.
    AvailablePercent(i64),
    /// `maxUnavailable`, in pods.
    Unavailable(i64),
    /// `maxUnavailable`, in percent of the expected pods.
    UnavailablePercent(i64),
}

/// The demand of `pdb`; an error if the API server would refuse its spec.
pub fn demand(pdb: &PdbView) -> Result<Demand, Cause> {
    if let Selector::Invalid(problem) = &*pdb.selector {
        return Err(Cause::Selector(problem.to_string()));
    }
    match (&pdb.min_available, &pdb.max_unavailable) {
        (None, None) => Ok(Demand::Nothing),
        (Some(_), Some(_)) => Err(Cause::Spec(
            "minAvailable and maxUnavailable are both set".to_owned(),
        )),
        (Some(amount), None) => read(
            "minAvailable",
            amount,
            Demand::Available,
            Demand::AvailablePercent,
        ),
        (None, Some(amount)) => read(
            "maxUnavailable",
            amount,
            Demand::Unavailable,
            Demand::UnavailablePercent,
        ),
    }
}

fn read(
    field: &str,
    amount: &Amount,
    pods: fn(i64) -> Demand,
    percent: fn(i64) -> Demand,
) -> Result<Demand, Cause> {
    let refuse = |problem: &str| Err(Cause::Spec(format!("{field} {problem}")));
    match amount {
        Amount::Int(number) if *number < 0 => refuse(&format!("is negative: {number}")),
        Amount::Int(number) => Ok(pods(*number)),
        Amount::Text(text) => match text.strip_suffix('%').filter(|digits| is_number(digits)) {
            None => refuse(&format!("is neither a number nor a percentage: {text:?}")),
            Some(digits) => match digits.parse() {
                Ok(number @ 0..=100) => Ok(percent(number)),
                _ => refuse(&format!("is over 100%: {text:?}")),
            },
        },
        Amount::Other => refuse("is neither a number nor a percentage"),
    }
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl Demand {
    /// True if the expected pods are those that the controllers want, not those that exist (DIS-2).
    pub const fn needs_scales(self) -> bool {
        matches!(
            self,
            Self::AvailablePercent(_) | Self::Unavailable(_) | Self::UnavailablePercent(_)
        )
    }

    /// How many of `expected` pods must be healthy (DIS-3).
    pub fn desired_healthy(self, expected: i64) -> i64 {
        let desired = match self {
            Self::Nothing => 0,
            Self::Available(pods) => pods,
            Self::AvailablePercent(percent) => percent_of(percent, expected),
            Self::Unavailable(pods) => expected.saturating_sub(pods),
            Self::UnavailablePercent(percent) => expected.saturating_sub(percent_of(percent, expected)),
        };
        desired.max(0)
    }
}

/// Rounded up.
fn percent_of(percent: i64, pods: i64) -> i64 {
    pods.max(0).saturating_mul(percent).saturating_add(99) / 100
}
