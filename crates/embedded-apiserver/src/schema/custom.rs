//! Schemas of custom resources, from the `openAPIV3Schema` of their definition.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Field, Identity, Kind, Merge, OBJECT_META, Presence, Scalar, Struct, Types};

impl Types {
    /// The types of a custom resource. `schema` is `spec.versions[].schema.openAPIV3Schema` of its definition; metadata
    /// always has its own type.
    ///
    /// A `Resource` holds `&'static` types, so the caller leaks the result with `Box::leak`.
    pub(crate) fn of_custom_resource(schema: &Value) -> Self {
        let mut types = Self::default();
        let declared = types.structure(schema, "");
        let root = whole_object(declared.fields, declared.others);
        let mut rooted = Self::rooted(root);
        rooted.structs.extend(types.structs);
        rooted
    }

    /// Converts the struct at `path`; adds the structs below it to the types.
    fn structure(&mut self, schema: &Value, path: &str) -> Struct {
        let mut fields = BTreeMap::new();
        for (name, below) in schema["properties"].as_object().into_iter().flatten() {
            let field = Field {
                kind: self.kind(below, &format!("{path}.{name}")),
                presence: Presence::Given,
                default: below.get("default").cloned(),
            };
            fields.insert(name.clone(), field);
        }
        Struct {
            fields,
            others: is_set(schema, "x-kubernetes-preserve-unknown-fields").then_some(Kind::Any),
        }
    }

    fn kind(&mut self, schema: &Value, path: &str) -> Kind {
        if is_set(schema, "x-kubernetes-int-or-string") {
            return Kind::Scalar(Scalar::IntOrText);
        }
        let atomic = schema["x-kubernetes-map-type"] == "atomic";
        match schema["type"].as_str() {
            Some("object") => {
                let values = &schema["additionalProperties"];
                if values.is_object() {
                    return Kind::Map {
                        values: Box::new(self.kind(values, &format!("{path}[]"))),
                        atomic,
                    };
                }
                let structure = self.structure(schema, path);
                if structure.fields.is_empty() && structure.others.is_some() && !atomic {
                    return Kind::Any;
                }
                self.structs.insert(path.to_owned(), structure);
                Kind::Struct {
                    name: path.to_owned(),
                    atomic,
                }
            }
            Some("array") => Kind::List {
                items: Box::new(self.kind(&schema["items"], &format!("{path}[]"))),
                told_apart_by: match schema["x-kubernetes-list-type"].as_str() {
                    Some("set") => Identity::Value,
                    Some("map") => Identity::Keys(texts(&schema["x-kubernetes-list-map-keys"])),
                    _ => Identity::None,
                },
                merge: Merge::Replace,
            },
            Some("string") => Kind::Scalar(Scalar::Text),
            Some("boolean") => Kind::Scalar(Scalar::Bool),
            Some("integer") if schema["format"] == "int32" => Kind::Scalar(Scalar::Int32),
            Some("integer") => Kind::Scalar(Scalar::Int64),
            Some("number") => Kind::Scalar(Scalar::Float),
            _ => Kind::Any,
        }
    }
}

/// The type of a whole custom resource: the declared fields, and those that every object has.
pub(super) fn whole_object(mut fields: BTreeMap<String, Field>, others: Option<Kind>) -> Struct {
    let field = |kind, presence| Field {
        kind,
        presence,
        default: None,
    };
    for name in ["apiVersion", "kind"] {
        let text = Kind::Scalar(Scalar::Text);
        fields.insert(name.to_owned(), field(text, Presence::NotZero));
    }
    let metadata = Kind::Struct {
        name: OBJECT_META.to_owned(),
        atomic: false,
    };
    fields.insert("metadata".to_owned(), field(metadata, Presence::Always));
    Struct { fields, others }
}

fn is_set(schema: &Value, mark: &str) -> bool {
    schema[mark] == true
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|text| Some(text.as_str()?.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Parts, Schema, decode};
    use super::*;

    fn schema() -> Schema {
        let types = Types::of_custom_resource(&json!({
            "type": "object",
            "properties": { "spec": {
                "type": "object",
                "properties": {
                    "replicas": { "type": "integer", "format": "int32", "default": 1 },
                    "size": { "x-kubernetes-int-or-string": true },
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port"],
                        "items": { "type": "object", "properties": { "port": { "type": "integer" } } },
                    },
                    "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                    "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                },
            } },
        }));
        Schema::of(Some(Box::leak(Box::new(types))), "example.com/v1", "Foo")
    }

    #[test]
    fn a_custom_resource_is_pruned_and_defaulted_by_its_own_schema() {
        let mut object = json!({
            "apiVersion": "example.com/v1",
            "kind": "Foo",
            "metadata": { "name": "a", "nope": 1 },
            "spec": { "size": "3", "extra": 1, "labels": { "a": "b" }, "free": { "x": { "y": null } }, "ports": [] },
            "status": {},
        });
        decode(schema(), &mut object).unwrap();
        assert_eq!(
            object,
            json!({
                "apiVersion": "example.com/v1",
                "kind": "Foo",
                "metadata": { "name": "a" },
                "spec": {
                    "replicas": 1,
                    "size": "3",
                    "labels": { "a": "b" },
                    "free": { "x": { "y": null } },
                    "ports": [],
                },
            })
        );
        let mut wrong = json!({ "spec": { "ports": [{ "port": "x" }] } });
        assert!(decode(schema(), &mut wrong).is_err());
    }

    #[test]
    fn lists_of_a_custom_resource_are_divided_as_it_says() {
        let list = json!([]);
        let ports = schema().field("spec").unwrap().field("ports").unwrap();
        assert_eq!(ports.parts(&list), Parts::Keyed(&["port".to_owned()]));
        let free = Schema::of(None, "example.com/v1", "Bar");
        assert_eq!(free.field("spec").unwrap().parts(&list), Parts::Whole);
        assert_eq!(free.field("spec").unwrap().parts(&json!({})), Parts::Fields);
    }

    #[test]
    fn a_custom_resource_without_a_schema_is_kept_as_it_is() {
        let mut object =
            json!({ "metadata": { "name": "a" }, "spec": { "a": null, "b": [], "c": 0 }, "more": [1] });
        let before = object.clone();
        let free = Schema::of(None, "example.com/v1", "Bar");
        assert_eq!(decode(free, &mut object), Ok(()));
        assert_eq!(object, before);
    }
}
