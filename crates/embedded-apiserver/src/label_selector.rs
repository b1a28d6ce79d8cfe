//! `metav1.LabelSelector` of an object, converted to the text form that queries use.

use serde_json::Value;

use super::object::{items, text};

/// The selector as text; `None` if it selects nothing because it is absent or invalid. The empty text selects
/// everything.
pub(super) fn to_text(selector: &Value) -> Option<String> {
    let fields = selector.as_object()?;
    let mut terms: Vec<(&str, String)> = Vec::new();
    for (key, value) in fields
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        terms.push((key, format!("{key}={}", value.as_str()?)));
    }
    for expression in items(selector, "matchExpressions") {
        let key = text(expression, "key");
        let mut values: Vec<&str> = items(expression, "values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        values.dedup();
        let values = values.join(",");
        let term = match text(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        terms.push((key, term));
    }
    Some(joined(terms))
}

/// A map of labels as a selector, in text form.
pub(super) fn of_labels(labels: &Value) -> String {
    let terms = labels.as_object().into_iter().flatten();
    joined(
        terms
            .map(|(key, value)| {
                (
                    key.as_str(),
                    format!("{key}={}", value.as_str().unwrap_or_default()),
                )
            })
            .collect(),
    )
}

/// Joins the terms in the order of their keys.
fn joined(mut terms: Vec<(&str, String)>) -> String {
    terms.sort_by_key(|(key, _)| *key);
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    terms.join(",")
}
