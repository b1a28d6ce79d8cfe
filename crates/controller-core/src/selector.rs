//! Label selectors, compiled once.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use crate::cache::intern;
use crate::labels::{Labels, Texts};

/// The longest name of a label, without its prefix, and the longest value. Source: `apimachinery/pkg/util/validation`.
const LONGEST_NAME: usize = 63;
/// The longest prefix of a label.
const LONGEST_PREFIX: usize = 253;
/// A requirement with more values is not indexed: an index entry for each value would cost more than the requirement.
const MOST_PAIRS: usize = 16;

/// Key and value of a label.
pub type Pair = (Arc<str>, Arc<str>);

/// A `LabelSelector` as it is decoded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SelectorWire {
    match_labels: Option<Labels>,
    match_expressions: Option<Vec<RequirementWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RequirementWire {
    key: String,
    operator: String,
    values: Option<Texts>,
}

/// Which objects a selector covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// No selector: no objects.
    Nothing,
    /// Objects that have these labels and meet every requirement; if both are empty, all objects.
    Where(Labels, Box<[Requirement]>),
    /// A selector that cannot be compiled, and why.
    Invalid(Arc<str>),
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    test: Test,
    /// The key, then the values in order. One text, because the author of a budget may add any number of values.
    texts: Texts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Test {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// The empty selector, which selects everything.
    pub fn all() -> Self {
        Self::Where(Labels::default(), Box::default())
    }

    /// Compiles `selector`: a missing one selects nothing, an empty one everything.
    pub fn compile(selector: Option<SelectorWire>) -> Self {
        let Some(SelectorWire {
            match_labels,
            match_expressions,
        }) = selector
        else {
            return Self::Nothing;
        };
        let labels = match_labels.unwrap_or_default();
        let expressions = match_expressions.into_iter().flatten();
        let requirements = expressions.map(Requirement::new).collect();
        match checked(&labels).and(requirements) {
            Ok(requirements) => Self::Where(labels, requirements),
            Err(problem) => Self::Invalid(problem.into()),
        }
    }

    /// True if the selector selects an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing | Self::Invalid(_) => false,
            Self::Where(wanted, requirements) => {
                { wanted.iter() }.all(|(key, value)| labels.get(key) == Some(value))
                    && requirements.iter().all(|required| required.met_by(labels))
            }
        }
    }

    /// The number of values in the selector.
    pub fn values(&self) -> usize {
        let Self::Where(labels, requirements) = self else {
            return 0;
        };
        let values = requirements.iter().map(|required| required.values().len());
        values.sum::<usize>() + labels.iter().count()
    }

    /// Label pairs of which every selected object has exactly one; `None` if no requirement names its values, or all
    /// name too many.
    pub fn pairs(&self) -> Option<Vec<Pair>> {
        let Self::Where(labels, requirements) = self else {
            return Some(Vec::new());
        };
        if let Some((key, value)) = labels.iter().next() {
            return Some(vec![(intern(key), intern(value))]);
        }
        let few =
            |required: &&Requirement| required.test == Test::In && required.values().len() <= MOST_PAIRS;
        let narrowest = requirements.iter().filter(few);
        let narrowest = narrowest.min_by_key(|required| required.values().len())?;
        let pairs = narrowest
            .values()
            .map(|value| (intern(narrowest.key()), intern(value)));
        Some(pairs.collect())
    }
}

/// Refuses labels that the API server would refuse.
fn checked(labels: &Labels) -> Result<(), String> {
    { labels.iter() }.try_for_each(|(key, value)| checked_key(key).and(checked_value(value)))
}

fn checked_key(key: &str) -> Result<(), String> {
    let problem = || format!("{key:?} is not the key of a label");
    is_label_key(key).then_some(()).ok_or_else(problem)
}

fn checked_value(value: &str) -> Result<(), String> {
    let problem = || format!("{value:?} is not the value of a label");
    is_label_value(value).then_some(()).ok_or_else(problem)
}

impl Requirement {
    fn new(wire: RequirementWire) -> Result<Self, String> {
        let RequirementWire {
            key,
            operator,
            values,
        } = wire;
        let values = values.unwrap_or_default();
        checked_key(&key)?;
        { values.iter() }.try_for_each(checked_value)?;
        let test = match (&*operator, values.is_empty()) {
            ("In", false) => Test::In,
            ("NotIn", false) => Test::NotIn,
            ("Exists", true) => Test::Exists,
            ("DoesNotExist", true) => Test::DoesNotExist,
            ("In" | "NotIn", true) => return Err(format!("{operator} of {key:?} needs values")),
            ("Exists" | "DoesNotExist", false) => {
                return Err(format!("{operator} of {key:?} takes no values"));
            }
            _ => return Err(format!("{operator:?} is not an operator of a label selector")),
        };
        let mut values: Vec<&str> = values.iter().collect();
        values.sort_unstable();
        values.dedup();
        let texts = Texts::new([&*key].into_iter().chain(values));
        Ok(Self { test, texts })
    }

    fn key(&self) -> &str {
        self.texts.get(0).unwrap_or_default()
    }

    fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        (1..self.texts.len()).map(|at| self.texts.get(at).unwrap_or_default())
    }

    fn met_by(&self, labels: &Labels) -> bool {
        let value = labels.get(self.key());
        let named = |value| self.texts.find(1, 1, value).is_some();
        match self.test {
            Test::In => value.is_some_and(named),
            Test::NotIn => !value.is_some_and(named),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
        }
    }
}

/// As `kubectl --selector` takes it; a selector of nothing or everything in words.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no selector"),
            Self::Invalid(problem) => write!(f, "an invalid selector: {problem}"),
            Self::Where(..) if *self == Self::all() => f.write_str("an empty selector"),
            Self::Where(labels, requirements) => {
                let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
                let requirements = requirements.iter().map(ToString::to_string);
                f.write_str(&labels.chain(requirements).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        let values = || self.values().collect::<Vec<_>>().join(",");
        match self.test {
            Test::In if self.values().len() == 1 => write!(f, "{key}={}", values()),
            Test::In => write!(f, "{key} in ({})", values()),
            Test::NotIn => write!(f, "{key} notin ({})", values()),
            Test::Exists => f.write_str(key),
            Test::DoesNotExist => write!(f, "!{key}"),
        }
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
        Selector::compile(serde_json::from_value(selector).unwrap())
    }

    fn labels(labels: &Value) -> Labels {
        serde_json::from_value(labels.clone()).unwrap()
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
