//! `/flagz` and `/statusz`, as Kubernetes' own components show them.
//!
//! Sources: `k8s.io/apiserver`, `pkg/server/flagz` and `pkg/server/statusz`. They draw the separator of the text anew
//! for each answer, so that nobody parses the text; here it is always the same one of theirs.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Group and version of the structured answers.
const GROUP: &str = "config.k8s.io";
const VERSION: &str = "v1beta1";

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

/// The answer of one endpoint, in both forms.
pub(super) struct Page {
    kind: &'static str,
    text: String,
    object: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

/// `/flagz`: the flags of `component` with their values.
pub(super) fn flagz(component: &str, flags: &BTreeMap<String, String>) -> Page {
    let lines = flags.iter().map(|(name, value)| format!("{name}={value}\n"));
    let text = lines.collect::<String>();
    Page::new("Flagz", component, &text, json!({ "flags": flags }))
}

/// `/statusz`: start time, version and other paths of `component`.
pub(super) fn statusz(
    component: &str,
    started: Timestamp,
    uptime: Duration,
    version: &str,
    paths: &[&str],
) -> Page {
    let seconds = uptime.as_secs();
    let text = format!(
        "\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nBinary version: {version}\nPaths: {}\n",
        started.strftime("%a %b %e %H:%M:%S UTC %Y"),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        paths.join(" ")
    );
    let status = json!({
        "startTime": started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "uptimeSeconds": seconds,
        "binaryVersion": version,
        "paths": paths,
    });
    Page::new("Statusz", component, &text, status)
}

impl Page {
    fn new(kind: &'static str, component: &str, text: &str, mut object: Value) -> Self {
        object["kind"] = json!(kind);
        object["apiVersion"] = json!(format!("{GROUP}/{VERSION}"));
        object["metadata"] = json!({ "name": component });
        Self {
            kind,
            text: format!("\n{component} {}\n{WARNING}\n{text}", kind.to_ascii_lowercase()),
            object,
        }
    }

    /// The answer in a form that the caller accepts, or the refusal.
    pub(super) fn answer(self, headers: &HeaderMap) -> Response {
        let accept = headers.get_all(ACCEPT).iter();
        let accept: Vec<_> = accept.filter_map(|value| value.to_str().ok()).collect();
        match form(&accept.join(","), self.kind) {
            Some(Form::Text) => ([(CONTENT_TYPE, "text/plain; charset=utf-8")], self.text).into_response(),
            Some(Form::Json) => Json(self.object).into_response(),
            None => {
                let kind = self.kind;
                let served =
                    format!("there are text/plain and application/json;g={GROUP};v={VERSION};as={kind}\n");
                (StatusCode::NOT_ACCEPTABLE, served).into_response()
            }
        }
    }
}

/// The first form that `accept` names; text if anything is accepted. JSON only if `accept` names its kind.
fn form(accept: &str, kind: &str) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    let of_object = format!("g={GROUP};v={VERSION};as={kind}");
    accept.split(',').find_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next()?.to_ascii_lowercase();
        let named = |name: &&str| ["g=", "v=", "as="].iter().any(|known| name.starts_with(known));
        let mut object: Vec<_> = parts.filter(named).collect();
        object.sort_by_key(|part| of_object.find(part));
        match (&*media, object.join(";")) {
            ("text/plain" | "text/*" | "*/*", object) if object.is_empty() => Some(Form::Text),
            ("application/json" | "application/*" | "*/*", object) if object == of_object => Some(Form::Json),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing("", Some(Form::Text))]
    #[case::curl("*/*", Some(Form::Text))]
    #[case::text("text/plain", Some(Form::Text))]
    #[case::text_with_parameters("text/plain;charset=utf-8;q=0.9", Some(Form::Text))]
    #[case::a_browser("text/html,application/xhtml+xml,*/*;q=0.8", Some(Form::Text))]
    #[case::the_object("application/json;g=config.k8s.io;v=v1beta1;as=Flagz", Some(Form::Json))]
    #[case::in_another_order("application/json; as=Flagz; v=v1beta1; g=config.k8s.io", Some(Form::Json))]
    #[case::the_object_first(
        "application/json;g=config.k8s.io;v=v1beta1;as=Flagz, text/plain",
        Some(Form::Json)
    )]
    #[case::no_kind("application/json", None)]
    #[case::another_kind("application/json;g=config.k8s.io;v=v1beta1;as=Statusz", None)]
    #[case::a_version_that_is_going("application/json;g=config.k8s.io;v=v1alpha1;as=Flagz", None)]
    #[case::half_a_kind("application/json;g=config.k8s.io;as=Flagz", None)]
    #[case::a_kind_as_text("text/plain;g=config.k8s.io;v=v1beta1;as=Flagz", None)]
    #[case::yaml("application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz", None)]
    #[case::or_else_text("application/json, text/plain", Some(Form::Text))]
    fn the_form_is_negotiated_as_upstream_does(#[case] accept: &str, #[case] expected: Option<Form>) {
        assert_eq!(form(accept, "Flagz"), expected);
    }
}
