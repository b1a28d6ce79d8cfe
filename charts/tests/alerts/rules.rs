//! The alerts of a chart, as installed.

use std::path::{Path, PathBuf};

use serde_json::Value;

pub(crate) fn file(controller: &str) -> PathBuf {
    folder().join(controller).join("files/alerts.yaml")
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts")
}

pub(crate) fn text(controller: &str) -> String {
    std::fs::read_to_string(file(controller)).unwrap()
}

/// Names of the alerts, without the controller's prefix.
pub(crate) fn alerts(controller: &str) -> Vec<String> {
    let rules: Value = serde_saphyr::from_str(&text(controller)).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap().clone();
    let names = rules.iter().map(|rule| rule["alert"].as_str().unwrap());
    names
        .map(|name| name.strip_prefix(&*prefix(controller)).unwrap().to_owned())
        .collect()
}

/// Prefix of the names of the controller's alerts: `TtlController`.
pub(crate) fn prefix(controller: &str) -> String {
    let words = controller.split('-').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    words.collect()
}
