//! What the rules demand, counted by hand, without the controller's own code.

use controller_testing::objects::each;
use serde_json::Value;

/// Allowed, current, desired and expected.
pub(crate) type ByHand = [i64; 4];

/// The numbers of a budget with `current` healthy pods, whose controllers want `expected` pods if it
/// [`counts_scales`]; otherwise that many exist.
pub(crate) fn by_hand(spec: &Value, current: i64, expected: i64) -> ByHand {
    let most = || part(&spec["maxUnavailable"], expected).map(|most| (expected - most).max(0));
    let desired = part(&spec["minAvailable"], expected).or_else(most);
    let desired = desired.unwrap_or_default();
    let allowed = if expected > 0 {
        (current - desired).max(0)
    } else {
        0
    };
    [allowed, current, desired, expected]
}

/// True if what the controllers of the pods want counts, and not the pods that exist.
pub(crate) fn counts_scales(spec: &Value) -> bool {
    spec["minAvailable"].is_string() || !spec["maxUnavailable"].is_null()
}

/// An amount in pods, or in percent of `of`, rounded up.
fn part(amount: &Value, of: i64) -> Option<i64> {
    let percent = || amount.as_str()?.strip_suffix('%')?.parse::<i64>().ok();
    amount.as_i64().or_else(|| Some((of * percent()? + 99) / 100))
}

pub(crate) fn matches(selector: &Value, labels: &Value) -> bool {
    let mut pairs = selector["matchLabels"].as_object().into_iter().flatten();
    let meets = |expression: &Value| {
        let held = &labels[expression["key"].as_str().unwrap_or_default()];
        let listed = each(&expression["values"]).any(|value| value == held);
        match expression["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            Some("Exists") => !held.is_null(),
            Some("DoesNotExist") => held.is_null(),
            _ => false,
        }
    };
    let has_pairs = pairs.all(|(key, value)| labels[key] == *value);
    !selector.is_null() && has_pairs && each(&selector["matchExpressions"]).all(meets)
}
