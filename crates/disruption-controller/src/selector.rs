//! Label selectors, compiled once, and the labels that they select.
//!
//! | rule | code | test |
//! |---|---|---|
//! | DIS-1 | `Selector::compile`, `Selector::matches` | `src/selector.rs::a_selector_selects_by_all_its_requirements`, `src/selector.rs::what_the_api_server_refuses_is_invalid` |
//! | DIS-14 | `Selector::pairs` | `src/selector.rs::a_selector_is_found_by_its_narrowest_requirement` |

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use controller_core::informer::intern;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// The longest name of a label, without its prefix, and the longest value. Source: `apimachinery/pkg/util/validation`.
const LONGEST_NAME: usize = 63;
/// The longest prefix of a label.
const LONGEST_PREFIX: usize = 253;
/// A requirement of more values is not found by them: an index entry for each would cost more than the requirement.
const MOST_PAIRS: usize = 16;

/// A key and a value.
pub type Pair = (Arc<str>, Arc<str>);

/// The labels of an object, ordered by key. Equal sets of pods are one, behind an `Arc`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[Pair]>);

/// Which pods a budget is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// No selector: none.
    Nothing,
    /// All that meet every requirement; without requirements, all.
    Where(Vec<Requirement>),
    /// One that cannot be compiled, and why.
    Invalid(Arc<str>),
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: Arc<str>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Test {
    In(Values),
    NotIn(Values),
    Exists,
    DoesNotExist,
}

/// Values in their order, one text for all: whoever writes a budget makes them up, in any number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Values {
    text: Box<str>,
    /// Where each value ends in it.
    ends: Box<[u32]>,
}

impl Labels {
    /// Those of `labels`.
    pub fn new(labels: BTreeMap<impl Into<Arc<str>>, impl Into<Arc<str>>>) -> Self {
        let pairs = labels.into_iter().map(|(key, value)| (key.into(), value.into()));
        Self(pairs.collect())
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        let at = self.0.binary_search_by(|(held, _)| (**held).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// All of them, ordered by key.
    pub fn pairs(&self) -> &[Pair] {
        &self.0
    }
}

impl Selector {
    /// Compiles `selector`; no selector at all selects nothing, an empty one everything.
    pub fn compile(selector: Option<&LabelSelector>) -> Self {
        let Some(selector) = selector else {
            return Self::Nothing;
        };
        let equal = selector.match_labels.iter().flatten().map(|(key, value)| {
            let values = std::slice::from_ref(value);
            Requirement::new(key, "In", values)
        });
        let expressions = selector.match_expressions.iter().flatten().map(|expression| {
            let values = expression.values.as_deref().unwrap_or_default();
            Requirement::new(&expression.key, &expression.operator, values)
        });
        match equal.chain(expressions).collect() {
            Ok(requirements) => Self::Where(requirements),
            Err(problem) => Self::Invalid(problem.into()),
        }
    }

    /// Whether it selects an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing | Self::Invalid(_) => false,
            Self::Where(requirements) => requirements.iter().all(|required| required.met_by(labels)),
        }
    }

    /// How many values its requirements name.
    pub fn values(&self) -> usize {
        let Self::Where(requirements) = self else { return 0 };
        let values = requirements.iter().map(|required| match &required.test {
            Test::In(values) | Test::NotIn(values) => values.ends.len(),
            Test::Exists | Test::DoesNotExist => 0,
        });
        values.sum()
    }

    /// The pairs of which whatever it selects has exactly one; nothing when there are none, because no requirement
    /// names the values that it wants, or only few of them.
    pub fn pairs(&self) -> Option<Vec<Pair>> {
        let Self::Where(requirements) = self else {
            return Some(Vec::new());
        };
        let wanted = requirements.iter().filter_map(|required| match &required.test {
            Test::In(values) if values.ends.len() <= MOST_PAIRS => Some((&required.key, values)),
            _ => None,
        });
        let (key, values) = wanted.min_by_key(|(_, values)| values.ends.len())?;
        let pairs = values.iter().map(|value| (Arc::clone(key), intern(value)));
        Some(pairs.collect())
    }
}

impl Requirement {
    fn new(key: &str, operator: &str, values: &[String]) -> Result<Self, String> {
        if !is_label_key(key) {
            return Err(format!("{key:?} is not the key of a label"));
        }
        if let Some(value) = values.iter().find(|value| !is_label_value(value)) {
            return Err(format!("{value:?} is not the value of a label"));
        }
        let wanted = || Values::new(values);
        let test = match (operator, values.is_empty()) {
            ("In", false) => Test::In(wanted()),
            ("NotIn", false) => Test::NotIn(wanted()),
            ("Exists", true) => Test::Exists,
            ("DoesNotExist", true) => Test::DoesNotExist,
            ("In" | "NotIn", true) => return Err(format!("{operator} of {key:?} needs values")),
            ("Exists" | "DoesNotExist", false) => {
                return Err(format!("{operator} of {key:?} takes no values"));
            }
            _ => return Err(format!("{operator:?} is not an operator of a label selector")),
        };
        Ok(Self {
            key: intern(key),
            test,
        })
    }

    fn met_by(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.test {
            Test::In(wanted) => value.is_some_and(|value| wanted.contains(value)),
            Test::NotIn(unwanted) => value.is_none_or(|value| !unwanted.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
        }
    }
}

impl Values {
    fn new(values: &[String]) -> Self {
        let mut wanted: Vec<&str> = values.iter().map(String::as_str).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut end = 0;
        let ends = wanted.iter().map(|value| {
            // The API server takes no object of 4 GiB.
            end += u32::try_from(value.len()).unwrap_or(u32::MAX);
            end
        });
        Self {
            ends: ends.collect(),
            text: wanted.concat().into_boxed_str(),
        }
    }

    fn get(&self, at: usize) -> Option<&str> {
        let place = |end: &u32| usize::try_from(*end).unwrap_or(usize::MAX);
        let begin = at.checked_sub(1).and_then(|before| self.ends.get(before));
        self.text.get(begin.map_or(0, place)..place(self.ends.get(at)?))
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).filter_map(|at| self.get(at))
    }

    fn contains(&self, value: &str) -> bool {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.get(middle).map(|held| held.cmp(value)) {
                Some(Ordering::Equal) => return true,
                Some(Ordering::Less) => low = middle + 1,
                Some(Ordering::Greater) | None => high = middle,
            }
        }
        false
    }
}

/// As `kubectl --selector` takes it; what selects nothing, or everything, in words.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no selector"),
            Self::Invalid(problem) => write!(f, "an invalid selector: {problem}"),
            Self::Where(requirements) if requirements.is_empty() => f.write_str("an empty selector"),
            Self::Where(requirements) => {
                let requirements: Vec<_> = requirements.iter().map(ToString::to_string).collect();
                f.write_str(&requirements.join(","))
            }
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, test } = self;
        match test {
            Test::In(values) if values.ends.len() == 1 => write!(f, "{key}={}", values.text),
            Test::In(values) => write!(f, "{key} in ({values})"),
            Test::NotIn(values) => write!(f, "{key} notin ({values})"),
            Test::Exists => f.write_str(key),
            Test::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, value) in self.iter().enumerate() {
            write!(f, "{}{value}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// `name` or `prefix/name`, the prefix a DNS subdomain. Source: `IsQualifiedName`.
fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        None => !key.is_empty() && is_label_value(key),
        Some((prefix, name)) => is_subdomain(prefix) && !name.is_empty() && is_label_value(name),
    }
}

/// Empty, or letters, digits, `-`, `_` and `.`, the ends alphanumeric. Source: `IsValidLabelValue`.
fn is_label_value(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    value.len() <= LONGEST_NAME && value.bytes().all(inner) && has_alphanumeric_ends(value)
}

fn is_subdomain(prefix: &str) -> bool {
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    prefix.len() <= LONGEST_PREFIX
        && prefix
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(lower) && has_alphanumeric_ends(part))
}

fn has_alphanumeric_ends(text: &str) -> bool {
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.iter().flatten().all(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn compiled(selector: Value) -> Selector {
        let wire: Option<LabelSelector> = serde_json::from_value(selector).unwrap();
        Selector::compile(wire.as_ref())
    }

    fn labels(labels: &Value) -> Labels {
        Labels::new(serde_json::from_value::<BTreeMap<String, String>>(labels.clone()).unwrap())
    }

    fn expression(operator: &str, values: &Value) -> Value {
        json!({ "matchExpressions": [{ "key": "app", "operator": operator, "values": values }] })
    }

    #[rstest]
    #[case::no_selector(json!(null), json!({ "app": "web" }), false)]
    #[case::an_empty_one(json!({}), json!({ "app": "web" }), true)]
    #[case::an_empty_one_and_no_labels(json!({}), json!({}), true)]
    #[case::a_label(json!({ "matchLabels": { "app": "web" } }), json!({ "app": "web", "tier": "front" }), true)]
    #[case::another_value(json!({ "matchLabels": { "app": "web" } }), json!({ "app": "db" }), false)]
    #[case::one_of_two_labels(json!({ "matchLabels": { "app": "web", "tier": "a" } }), json!({ "app": "web" }), false)]
    #[case::one_of_the_values(expression("In", &json!(["db", "web"])), json!({ "app": "web" }), true)]
    #[case::none_of_the_values(expression("In", &json!(["db", "web"])), json!({ "app": "x" }), false)]
    #[case::not_in_without_the_label(expression("NotIn", &json!(["web"])), json!({}), true)]
    #[case::not_in_with_the_value(expression("NotIn", &json!(["web"])), json!({ "app": "web" }), false)]
    #[case::exists(expression("Exists", &json!(null)), json!({ "app": "" }), true)]
    #[case::exists_without_the_label(expression("Exists", &json!([])), json!({}), false)]
    #[case::does_not_exist(expression("DoesNotExist", &json!([])), json!({ "tier": "web" }), true)]
    #[case::does_not_exist_with_the_label(expression("DoesNotExist", &json!([])), json!({ "app": "x" }), false)]
    #[case::labels_and_expressions(
        json!({ "matchLabels": { "tier": "a" }, "matchExpressions": [{ "key": "app", "operator": "Exists" }] }),
        json!({ "tier": "a" }),
        false
    )]
    fn a_selector_selects_by_all_its_requirements(
        #[case] selector: Value,
        #[case] of: Value,
        #[case] matches: bool,
    ) {
        assert_eq!(compiled(selector).matches(&labels(&of)), matches);
    }

    #[rstest]
    #[case::slashes(json!({ "matchLabels": { "k8s.io/too/many/slashes": "value" } }),
        "\"k8s.io/too/many/slashes\" is not the key of a label")]
    #[case::a_prefix_with_capitals(json!({ "matchLabels": { "K8s.io/a": "value" } }), "\"K8s.io/a\" is not the key of a label")]
    #[case::no_name(json!({ "matchLabels": { "k8s.io/": "value" } }), "\"k8s.io/\" is not the key of a label")]
    #[case::no_key(json!({ "matchLabels": { "": "value" } }), "\"\" is not the key of a label")]
    #[case::a_value_with_a_space(json!({ "matchLabels": { "a": "b c" } }), "\"b c\" is not the value of a label")]
    #[case::a_value_with_an_open_end(json!({ "matchLabels": { "a": "b-" } }), "\"b-\" is not the value of a label")]
    #[case::an_operator(expression("illegal", &json!(["bar"])), "\"illegal\" is not an operator of a label selector")]
    #[case::in_nothing(expression("In", &json!([])), "In of \"app\" needs values")]
    #[case::exists_with_values(expression("Exists", &json!(["a"])), "Exists of \"app\" takes no values")]
    fn what_the_api_server_refuses_is_invalid(#[case] selector: Value, #[case] problem: &str) {
        let selector = compiled(selector);
        assert_eq!(selector, Selector::Invalid(problem.into()));
        assert!(!selector.matches(&labels(&json!({ "app": "bar" }))));
    }

    #[rstest]
    #[case::no_selector(json!(null), "no selector")]
    #[case::an_empty_one(json!({}), "an empty selector")]
    #[case::labels(json!({ "matchLabels": { "app": "web", "tier": "" } }), "app=web,tier=")]
    #[case::expressions(
        json!({ "matchExpressions": [
            { "key": "app", "operator": "In", "values": ["web", "db"] },
            { "key": "tier", "operator": "NotIn", "values": ["back"] },
            { "key": "a", "operator": "Exists" },
            { "key": "b", "operator": "DoesNotExist" },
        ] }),
        "app in (db,web),tier notin (back),a,!b"
    )]
    #[case::an_invalid_one(expression("In", &json!([])), "an invalid selector: In of \"app\" needs values")]
    fn a_selector_is_printed_as_kubectl_takes_it(#[case] selector: Value, #[case] printed: &str) {
        assert_eq!(compiled(selector).to_string(), printed);
    }

    #[test]
    fn each_of_many_values_is_found_and_no_other() {
        let values: Vec<String> = (0..1_000).map(|value| format!("v{}", value * 2)).collect();
        let selector = compiled(expression("In", &json!(values)));
        assert_eq!(selector.values(), 1_000);
        for value in 0..2_000 {
            let of = labels(&json!({ "app": format!("v{value}") }));
            assert_eq!(selector.matches(&of), value % 2 == 0, "{value}");
        }
        assert!(!selector.matches(&labels(&json!({ "app": "" }))));
    }

    #[test]
    fn a_selector_of_many_values_takes_no_more_than_three_times_its_size_on_the_wire() {
        let values: Vec<String> = (0..150_000).map(|value| format!("v{value}")).collect();
        let on_the_wire: usize = values.iter().map(|value| value.len() + 2).sum();
        let Values { text, ends } = Values::new(&values);
        assert!(text.len() + size_of_val(&*ends) <= 3 * on_the_wire);
    }

    #[test]
    fn keys_and_values_as_long_as_they_may_be_are_valid() {
        let longest = "a".repeat(LONGEST_NAME);
        assert!(is_label_key(&format!("kubernetes.io/{longest}")) && is_label_value(&longest));
        let longer = "a".repeat(LONGEST_NAME + 1);
        assert!(!is_label_key(&longer) && !is_label_value(&longer));
    }

    #[rstest]
    #[case::a_label(json!({ "matchLabels": { "app": "web" } }), Some(vec![("app", "web")]))]
    #[case::the_fewest_values(
        json!({ "matchExpressions": [
            { "key": "app", "operator": "In", "values": ["b", "a", "b"] },
            { "key": "tier", "operator": "In", "values": ["x", "y", "z"] },
        ] }),
        Some(vec![("app", "a"), ("app", "b")])
    )]
    #[case::no_values(json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] }), None)]
    #[case::only_unwanted_values(expression("NotIn", &json!(["web"])), None)]
    #[case::more_values_than_are_worth_an_index(
        expression("In", &json!((0..=MOST_PAIRS).map(|value| value.to_string()).collect::<Vec<_>>())),
        None
    )]
    #[case::everything(json!({}), None)]
    #[case::nothing(json!(null), Some(vec![]))]
    fn a_selector_is_found_by_its_narrowest_requirement(
        #[case] selector: Value,
        #[case] pairs: Option<Vec<(&str, &str)>>,
    ) {
        let pairs = pairs.map(|pairs| {
            let pairs = pairs.into_iter();
            pairs.map(|(key, value)| (key.into(), value.into())).collect()
        });
        assert_eq!(compiled(selector).pairs(), pairs);
    }
}
