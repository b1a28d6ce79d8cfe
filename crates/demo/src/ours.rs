//! The label of all objects that the demo creates.

use std::collections::BTreeMap;

use kube::ResourceExt;

const LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "controllers-demo");

pub(crate) fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([(LABEL.0.to_owned(), LABEL.1.to_owned())])
}

/// Selector for all of them.
pub(crate) fn selector() -> String {
    format!("{}={}", LABEL.0, LABEL.1)
}

pub(crate) fn is_ours(object: &impl ResourceExt) -> bool {
    object.labels().get(LABEL.0).is_some_and(|value| value == LABEL.1)
}
