//! The resource defined by one version of a custom resource definition.

use serde_json::{Value, json};

use crate::object::{at, items, text};
use crate::resource::{Resource, Scale, Selector, Source, StatusRule, USER_METADATA};
use crate::schema::Types;

/// A resource and the definition that it comes from.
#[derive(Debug)]
pub(super) struct Defined {
    pub(super) resource: &'static Resource,
    pub(super) is_served: bool,
    /// The parts of the definition that the resource depends on.
    source: Value,
}

impl Defined {
    /// The resource of a version. Reuses `known` if it was made from the same definition.
    ///
    /// Resources are leaked: all others are static, and a test defines only a few.
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
    let short_names = items(names, "shortNames").iter().filter_map(Value::as_str);
    let fields = items(version, "selectableFields").iter();
    let schema = at(version, "schema.openAPIV3Schema");
    let has_status = at(version, "subresources.status").is_some();
    let is_namespaced = definition["spec"]["scope"] == "Namespaced";
    let of_scope = if is_namespaced {
        Resource::namespaced
    } else {
        Resource::cluster
    };
    Resource {
        source: Source::Definition,
        generation: true,
        unconditional_update: false,
        status_keeps: USER_METADATA,
        short_names: short_names.map(kept).collect::<Vec<_>>().leak(),
        status: if has_status {
            StatusRule::SubresourceOnly
        } else {
            StatusRule::Ordinary
        },
        scale: at(version, "subresources.scale").map(scale),
        types: schema.map(|schema| &*Box::leak(Box::new(Types::of_custom_resource(schema)))),
        fields: fields
            .map(|field| (path(field, "jsonPath"), ""))
            .collect::<Vec<_>>()
            .leak(),
        ..of_scope(
            kept(text(&definition["spec"], "group")),
            kept(text(version, "name")),
            kept(text(names, "kind")),
            kept(text(names, "plural")),
        )
    }
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

/// A JSON path, without its leading dot.
fn path(object: &Value, field: &str) -> &'static str {
    let path = text(object, field);
    kept(path.strip_prefix('.').unwrap_or(path))
}

fn kept(text: &str) -> &'static str {
    text.to_owned().leak()
}
