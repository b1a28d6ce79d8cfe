//! Validation of objects and of changes to them.
//!
//! Not all of kube-apiserver's rules, only those that a controller's writes may break.

mod claims;
mod metadata;
mod pod_groups;
mod pods;
mod specs;

use std::fmt;

use serde_json::Value;

use crate::failure::{Cause, StatusError};
use crate::managed_fields::Part;
use crate::resource::Resource;
use crate::resource::table::{
    POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS,
};
use crate::write::{Origin, Write};

pub(super) use claims::drop_deallocated_devices;
pub(super) use metadata::causes_of_update;

/// The errors of an object.
#[derive(Debug, Default)]
struct Causes(Vec<Cause>);

impl Causes {
    fn add(&mut self, reason: &'static str, field: &str, message: String) {
        self.0.push(Cause::new(reason, field, message));
    }

    fn required(&mut self, field: &str, why: &str) {
        let colon = if why.is_empty() { "" } else { ": " };
        self.add("FieldValueRequired", field, format!("Required value{colon}{why}"));
    }

    fn invalid(&mut self, field: &str, value: &Value, why: &str) {
        self.0.push(Cause::invalid(field, &value.to_string(), why));
    }

    fn forbidden(&mut self, field: &str, why: &str) {
        self.add("FieldValueForbidden", field, format!("Forbidden: {why}"));
    }

    fn unsupported(&mut self, field: &str, value: &str, supported: &[&str]) {
        self.0.push(Cause::unsupported(field, value, supported));
    }

    fn duplicate(&mut self, field: &str, value: impl fmt::Display) {
        self.add("FieldValueDuplicate", field, format!("Duplicate value: {value}"));
    }

    fn too_many(&mut self, field: &str, count: usize, limit: usize) {
        let message = format!("Too many: {count}: must have at most {limit} items");
        self.add("FieldValueTooMany", field, message);
    }

    /// Adds errors unless the text has the syntax of `rule`.
    fn syntax(&mut self, field: &str, text: &str, rule: fn(&str) -> Vec<String>) {
        for why in rule(text) {
            self.invalid(field, &Value::from(text), &why);
        }
    }

    /// Checks a required name.
    fn name(&mut self, field: &str, name: &str, rule: fn(&str) -> Vec<String>) {
        match name {
            "" => self.required(field, ""),
            given => self.syntax(field, given, rule),
        }
    }

    /// Checks an optional field of the entry at `at`.
    fn optional(&mut self, at: &str, entry: &Value, field: &str, rule: fn(&str) -> Vec<String>) {
        if let Some(given) = entry[field].as_str() {
            self.syntax(&format!("{at}.{field}"), given, rule);
        }
    }

    fn not_negative(&mut self, object: &Value, field: &str) {
        let value = at(object, field);
        if value.as_i64().is_some_and(|number| number < 0) {
            self.invalid(field, value, "must be greater than or equal to 0");
        }
    }

    fn immutable(&mut self, old: &Value, new: &Value, field: &str) {
        if at(old, field) != at(new, field) {
            self.invalid(field, at(new, field), "field is immutable");
        }
    }

    fn into_result(self, resource: &Resource, name: &str) -> Result<(), StatusError> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(StatusError::invalid_fields(resource, name, &self.0))
    }
}

/// The object as JSON with its fields in the order of the Go type.
fn in_order(object: &Value, fields: &[&str]) -> String {
    let given = fields
        .iter()
        .filter_map(|field| Some((field, object.get(field)?)));
    let given: Vec<String> = given
        .map(|(field, value)| format!("\"{field}\":{value}"))
        .collect();
    format!("{{{}}}", given.join(","))
}

/// The value at a path of fields; null if absent.
fn at<'a>(object: &'a Value, field: &str) -> &'a Value {
    field.split('.').fold(object, |value, name| &value[name])
}

impl Write<'_> {
    /// Refuses an object that breaks the rules of its kind, or that changes an immutable field of `old`. A test's
    /// direct writes may do what controllers of the cluster do, so only the rules for metadata apply to them.
    pub(super) fn validate(&self, old: Option<&Value>, new: &Value, name: &str) -> Result<(), StatusError> {
        let mut causes = Causes::default();
        if self.origin == Origin::Client {
            match old.filter(|_| self.part == Part::Status) {
                Some(old) => self.check_status(old, new, &mut causes),
                None => self.check_spec(old, new, &mut causes),
            }
        }
        let of_spec = std::mem::take(&mut causes);
        // The metadata of a new budget is looked at once its spec is right.
        if of_spec.0.is_empty() || old.is_some() || !self.resource.is(&POD_DISRUPTION_BUDGETS) {
            metadata::check(self.resource, new, name, old.is_none(), &mut causes);
        }
        causes.0.extend(of_spec.0);
        causes.into_result(self.resource, name)
    }

    fn check_spec(&self, old: Option<&Value>, new: &Value, causes: &mut Causes) {
        if old.is_none() && self.resource.is(&RESOURCE_CLAIMS) {
            self.check_asked_access(&new["spec"], causes);
        } else if old.is_none() && self.resource.is(&RESOURCE_CLAIM_TEMPLATES) {
            self.check_asked_access(&new["spec"]["spec"], causes);
        }
        specs::check(self.resource, old, new, causes);
    }

    fn check_status(&self, old: &Value, new: &Value, causes: &mut Causes) {
        if self.resource.is(&RESOURCE_CLAIMS) {
            self.check_claim_status(old, new, causes);
        } else if self.resource.is(&PODS) {
            pods::check_status(new, causes);
        } else if self.resource.is(&POD_GROUPS) {
            pod_groups::check_status(new, causes);
        }
    }
}
