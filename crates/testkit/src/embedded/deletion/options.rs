//! `meta/v1` `DeleteOptions`: from the body of a delete or, without one, from its query.

use serde_json::Value;

use crate::embedded::call::Call;
use crate::embedded::failure::{Cause, Failure};
use crate::embedded::options::Parameters;
use crate::embedded::write::Preconditions;

/// How an object is to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::embedded) struct DeleteOptions {
    /// Seconds; none for the default of the object, less than 0 for 1.
    pub(in crate::embedded) grace: Option<i64>,
    pub(in crate::embedded) preconditions: Preconditions,
    /// The older form of `propagation`.
    pub(in crate::embedded) orphan_dependents: Option<bool>,
    pub(in crate::embedded) propagation: Option<Propagation>,
    pub(in crate::embedded) dry_run: bool,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Propagation {
    /// They are deleted before it.
    Foreground,
    /// They are deleted after it.
    Background,
    /// They stay.
    Orphan,
}

/// The options as they were sent.
#[derive(Debug, Default)]
struct Sent {
    grace: Option<i64>,
    preconditions: Preconditions,
    orphan_dependents: Option<bool>,
    propagation: Option<String>,
    dry_run: Vec<String>,
}

impl DeleteOptions {
    /// Without delay or traces: grace 0, Background.
    pub(in crate::embedded) fn at_once() -> Self {
        Self {
            grace: Some(0),
            propagation: Some(Propagation::Background),
            ..Self::default()
        }
    }

    /// After the usual grace period.
    pub(in crate::embedded) fn with(propagation: Propagation) -> Self {
        Self {
            propagation: Some(propagation),
            ..Self::default()
        }
    }

    /// Insists on one incarnation of the object.
    #[must_use]
    pub(in crate::embedded) fn of_uid(mut self, uid: &str) -> Self {
        self.preconditions.uid = Some(uid.to_owned());
        self
    }

    /// The options of a delete; a body takes the place of the whole query.
    pub(in crate::embedded) fn of(call: &Call) -> Result<Self, Failure> {
        if call.body.is_empty() {
            return Sent::in_query(&call.query)?.checked();
        }
        if !call.content_type.is_empty() && !call.has_content_type("application/json") {
            return Err(Failure::unsupported_body());
        }
        let body = serde_json::from_slice(&call.body).map_err(|error| {
            Failure::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
        Self::from_json(&body)
    }

    /// Reads options that are part of a body, e.g. of an eviction; null stands for none.
    pub(in crate::embedded) fn from_json(options: &Value) -> Result<Self, Failure> {
        Sent::in_json(options)?.checked()
    }
}

impl Sent {
    fn in_query(query: &Parameters) -> Result<Self, Failure> {
        let text = |name| Some(query.get(name).to_owned()).filter(|value| !value.is_empty());
        let given = |name| query.all(name).next();
        Ok(Self {
            grace: query.number("gracePeriodSeconds")?,
            preconditions: Preconditions {
                uid: text("uid"),
                version: text("resourceVersion"),
            },
            orphan_dependents: given("orphanDependents")
                .map(|value| value != "0" && !value.eq_ignore_ascii_case("false")),
            propagation: given("propagationPolicy").map(str::to_owned),
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
        })
    }

    fn in_json(options: &Value) -> Result<Self, Failure> {
        if options.is_null() {
            return Ok(Self::default());
        }
        if !options.is_object() {
            return Err(Failure::bad_request(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type \
                 struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                 \"json:\\\"kind,omitempty\\\"\" }}",
                go_type(options)
            )));
        }
        let kind = options["kind"].as_str().unwrap_or_default();
        if !matches!(kind, "" | "DeleteOptions") {
            let version = options["apiVersion"].as_str().unwrap_or_default();
            return Err(Failure::bad_request(format!(
                "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        let preconditions = typed(options, "preconditions", "v1.Preconditions", |value| {
            value.is_object().then(|| value.clone())
        })?
        .unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Self {
            grace: typed(options, "gracePeriodSeconds", "int64", Value::as_i64)?,
            preconditions: Preconditions {
                uid: typed(&preconditions, "uid", "types.UID", text)?,
                version: typed(&preconditions, "resourceVersion", "string", text)?,
            },
            orphan_dependents: typed(options, "orphanDependents", "bool", Value::as_bool)?,
            propagation: typed(options, "propagationPolicy", "v1.DeletionPropagation", text)?,
            dry_run: typed(options, "dryRun", "[]string", |value| {
                value.as_array()?.iter().map(text).collect()
            })?
            .unwrap_or_default(),
        })
    }

    /// Refuses what contradicts itself or means nothing.
    fn checked(self) -> Result<DeleteOptions, Failure> {
        let mut causes = Vec::new();
        if let (Some(policy), Some(_)) = (&self.propagation, self.orphan_dependents) {
            causes.push(Cause {
                reason: "FieldValueInvalid",
                field: "propagationPolicy".to_owned(),
                message: format!(
                    "Invalid value: \"{policy}\": orphanDependents and deletionPropagation cannot be both set"
                ),
            });
        }
        let propagation = self.propagation.as_deref().and_then(Propagation::named);
        if let Some(policy) = self.propagation.as_ref().filter(|_| propagation.is_none()) {
            causes.push(Cause {
                reason: "FieldValueNotSupported",
                field: "propagationPolicy".to_owned(),
                message: format!(
                    "Unsupported value: \"{policy}\": supported values: \"Foreground\", \"Background\", \
                     \"Orphan\", \"nil\""
                ),
            });
        }
        if self.dry_run.iter().any(|stage| stage != "All") {
            causes.push(Cause {
                reason: "FieldValueNotSupported",
                field: "dryRun".to_owned(),
                message: format!(
                    "Unsupported value: {}: supported values: \"All\"",
                    Value::from(self.dry_run)
                ),
            });
            return Err(Failure::bad_options("DeleteOptions", &causes));
        }
        if !causes.is_empty() {
            return Err(Failure::bad_options("DeleteOptions", &causes));
        }
        Ok(DeleteOptions {
            grace: self.grace,
            preconditions: self.preconditions,
            orphan_dependents: self.orphan_dependents,
            propagation,
            dry_run: !self.dry_run.is_empty(),
        })
    }
}

impl Propagation {
    fn named(name: &str) -> Option<Self> {
        match name {
            "Foreground" => Some(Self::Foreground),
            "Background" => Some(Self::Background),
            "Orphan" => Some(Self::Orphan),
            _ => None,
        }
    }
}

/// A field of the options; none when it is absent or null.
fn typed<T>(
    options: &Value,
    field: &str,
    go: &str,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>, Failure> {
    let Some(value) = options.get(field).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    read(value).map(Some).ok_or_else(|| {
        let found = match value {
            Value::Number(number) if go == "int64" => format!("number {number}"),
            value => go_type(value).to_owned(),
        };
        let path = match go {
            "types.UID" | "string" => format!("preconditions.{field}"),
            _ => field.to_owned(),
        };
        Failure::bad_request(format!(
            "json: cannot unmarshal {found} into Go struct field DeleteOptions.{path} of type {go}"
        ))
    })
}

/// What Go's JSON decoder calls a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
