//! The resource that one version of a definition stands for.

use serde_json::{Value, json};

use crate::embedded::object::{at, items, text};
use crate::embedded::resource::{Resource, Scale, Scope, Selector, StatusRule};
use crate::embedded::schema::Types;

/// A version of a definition as a resource.
#[derive(Debug)]
pub(super) struct Defined {
    pub(super) resource: &'static Resource,
    pub(super) is_served: bool,
    /// What it was made from.
    source: Value,
}

impl Defined {
    /// The resource of a version; `known` is used again if it was made from the same.
    ///
    /// Resources are never freed: all others are static, and a test defines a handful.
    pub(super) fn of(definition: &Value, version: &Value, known: Option<Self>) -> Self {
        let (spec, status) = (&definition["spec"], &definition["status"]);
        let source = json!([spec["group"], spec["scope"], status["acceptedNames"], version]);
        if let Some(known) = known.filter(|known| known.source == source) {
            return known;
        }
        Self {
            resource: Box::leak(Box::new(of_version(definition, version))),
            is_served: version["served"] == json!(true),
            source,
        }
    }
}

fn of_version(definition: &Value, version: &Value) -> Resource {
    let names = &definition["status"]["acceptedNames"];
    let mut resource = Resource::cluster(
        kept(text(&definition["spec"], "group")),
        kept(text(version, "name")),
        kept(text(names, "kind")),
        kept(text(names, "plural")),
    )
    .custom();
    if definition["spec"]["scope"] == "Namespaced" {
        resource.scope = Scope::Namespaced;
    }
    let short_names: Vec<&'static str> = items(names, "shortNames")
        .iter()
        .filter_map(Value::as_str)
        .map(kept)
        .collect();
    resource.short_names = short_names.leak();
    if at(version, "subresources.status").is_some() {
        resource.status = StatusRule::SubresourceOnly;
    }
    resource.scale = at(version, "subresources.scale").map(scale);
    if let Some(schema) = at(version, "schema.openAPIV3Schema") {
        resource.types = Some(Box::leak(Box::new(Types::of_custom_resource(schema))));
    }
    let fields: Vec<(&'static str, &'static str)> = items(version, "selectableFields")
        .iter()
        .map(|field| (path(field, "jsonPath"), ""))
        .collect();
    resource.fields = fields.leak();
    resource
}

fn scale(paths: &Value) -> Scale {
    Scale {
        replicas: path(paths, "specReplicasPath"),
        status_replicas: path(paths, "statusReplicasPath"),
        selector: match path(paths, "labelSelectorPath") {
            "" => Selector::None,
            path => Selector::Text(path),
        },
    }
}

/// A JSON path of fields without its leading dot.
fn path(object: &Value, field: &str) -> &'static str {
    let path = text(object, field);
    kept(path.strip_prefix('.').unwrap_or(path))
}

fn kept(text: &str) -> &'static str {
    text.to_owned().leak()
}
