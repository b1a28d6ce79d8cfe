//! `/scale`: the number of replicas of any kind that has one, as an `autoscaling/v1` Scale.

use serde_json::{Value, json};

use super::failure::Failure;
use super::label_selector;
use super::managed_fields::Part;
use super::object::{at, set_at, text};
use super::patch::{Patch, PatchKind};
use super::resource::{Resource, Scale, Selector};
use super::subresources::check_kind;
use super::write::{Ownership, Write, served};

const KIND: &str = "Scale";
const API_VERSION: &str = "autoscaling/v1";

/// What the kinds with a `/scale` take for an absent number of replicas.
const DEFAULT_REPLICAS: i64 = 1;

/// The scale of an object.
pub(super) fn of(resource: &Resource, scale: &Scale, object: &Value) -> Result<Value, Failure> {
    let replicas = match at(object, scale.replicas).and_then(Value::as_i64) {
        Some(replicas) => replicas,
        None if resource.is_custom() => {
            let message = format!("the spec replicas field \".{}\" does not exist", scale.replicas);
            let mut failure = Failure::new(
                500,
                "InternalError",
                format!("Internal error occurred: {message}"),
            );
            failure.details = Some(json!({ "causes": [{ "message": message }] }));
            return Err(failure);
        }
        None => DEFAULT_REPLICAS,
    };
    Ok(shown(scale, object, replicas))
}

fn shown(scale: &Scale, object: &Value, replicas: i64) -> Value {
    let metadata = &object["metadata"];
    let mut shown = json!({
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {},
        "spec": {},
        "status": { "replicas": at(object, scale.status_replicas).and_then(Value::as_i64).unwrap_or(0) },
    });
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(field) {
            shown["metadata"][field] = value.clone();
        }
    }
    if replicas != 0 {
        shown["spec"]["replicas"] = json!(replicas);
    }
    let selector = match scale.selector {
        Selector::None => None,
        Selector::Text(path) => at(object, path).and_then(Value::as_str).map(str::to_owned),
        Selector::Labels(path) => at(object, path).map(label_selector::of_labels),
        Selector::LabelSelector(path) => at(object, path).and_then(label_selector::to_text),
    };
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        shown["status"]["selector"] = json!(selector);
    }
    shown
}

impl Write<'_> {
    /// Replaces the scale of an object; returns the new one.
    pub(super) fn update_scale(self, scale: &Scale, new: &Value) -> Result<Value, Failure> {
        check_kind(new, KIND, "autoscaling", &["v1"])?;
        self.check_named(new)?;
        let current = self.current()?;
        let (uid, found) = (
            text(&new["metadata"], "uid"),
            text(&current.object["metadata"], "uid"),
        );
        if !uid.is_empty() && uid != found {
            return Err(Failure::wrong_uid(self.resource, &self.key(), uid, found));
        }
        let replicas = replicas_of(new).map_err(|cause| {
            Failure::bad_request(format!(
                "Scale in version \"v1\" cannot be handled as a Scale: {cause}"
            ))
        })?;
        self.set_scale(scale, new, replicas.unwrap_or(0))
    }

    /// Patches the scale of an object; returns the new one.
    pub(super) fn patch_scale(self, scale: &Scale, patch: Patch) -> Result<Value, Failure> {
        if patch.kind == PatchKind::Apply {
            return Err(Failure::unsupported_patch());
        }
        self.check_patch(patch.kind)?;
        let current = self.current()?;
        let unset = self.resource.is_custom() && at(&current.object, scale.replicas).is_none();
        let mut new = if unset {
            shown(scale, &current.object, 0)
        } else {
            of(self.resource, scale, &current.object)?
        };
        self.apply_patch(patch.kind, &mut new, patch.parsed.value)?;
        self.check_identity(&new)?;
        let replicas = replicas_of(&new).map_err(|cause| {
            let body = format!(
                "Invalid value: \"{}\": {cause}",
                new.to_string().replace('"', "\\\"")
            );
            Failure::invalid_as("", "", "", "", "FieldValueInvalid", "patch", &body)
        })?;
        if unset && replicas.is_none() {
            return Err(Failure::bad_request(format!(
                "the spec replicas field \".{}\" cannot be empty",
                scale.replicas
            )));
        }
        let (uid, found) = (
            text(&new["metadata"], "uid"),
            text(&current.object["metadata"], "uid"),
        );
        if uid != found && !uid.is_empty() && !self.resource.is_custom() {
            let called = format!("{}/scale", self.resource.plural);
            let cause =
                format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
            return Err(Failure::conflict(self.resource, &called, self.name, &cause));
        }
        self.set_scale(scale, &new, replicas.unwrap_or(0))
    }

    fn set_scale(mut self, scale: &Scale, new: &Value, replicas: i64) -> Result<Value, Failure> {
        if replicas < 0 {
            return Err(self.negative_scale(scale, replicas));
        }
        let current = self.current()?;
        let mut object = current.object.clone();
        let version = text(&new["metadata"], "resourceVersion");
        if !version.is_empty() || self.resource.unconditional_update {
            object["metadata"]["resourceVersion"] = json!(version);
        }
        if !set_at(&mut object, scale.replicas, json!(replicas)) {
            return Err(Failure::new(
                500,
                "",
                format!("value cannot be set because .{} is not an object", scale.replicas),
            ));
        }
        self.part = Part::Scale;
        let resource = self.resource;
        let stored = self.replace(current, object, Ownership::Tracked)?;
        of(resource, scale, &served(resource, &stored))
    }

    fn negative_scale(&self, scale: &Scale, replicas: i64) -> Failure {
        if self.resource.is_custom() {
            let body = format!("Invalid value: {replicas}: should be a non-negative integer");
            let field = format!(".{}", scale.replicas);
            return Failure::invalid(self.resource, self.name, "FieldValueInvalid", &field, &body);
        }
        let body = format!("Invalid value: {replicas}: must be greater than or equal to 0");
        Failure::invalid_as(
            "Scale.autoscaling",
            "autoscaling",
            KIND,
            self.name,
            "FieldValueInvalid",
            "spec.replicas",
            &body,
        )
    }
}

/// The replicas that a scale asks for; the error is what Go's decoder says of another type.
fn replicas_of(scale: &Value) -> Result<Option<i64>, String> {
    match at(scale, "spec.replicas") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number))
            if number
                .as_i64()
                .is_some_and(|number| i32::try_from(number).is_ok()) =>
        {
            Ok(number.as_i64())
        }
        Some(other) => {
            let found = match other {
                Value::String(_) => "string".to_owned(),
                Value::Bool(_) => "bool".to_owned(),
                Value::Array(_) => "array".to_owned(),
                Value::Object(_) => "object".to_owned(),
                number => format!("number {number}"),
            };
            Err(format!(
                "json: cannot unmarshal {found} into Go struct field ScaleSpec.spec.replicas of type int32"
            ))
        }
    }
}
