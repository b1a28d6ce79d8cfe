//! The form of objects in answers: of a served resource, whole or metadata only, JSON or protobuf.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::encoding::{Accept, Encoding, Shape};
use super::failure::StatusError;
use super::options::ListOptions;
use super::protobuf::{self, encode};
use super::reply::{self, Body};
use super::resource::Resource;
use super::schema::Message;
use super::store::Stored;

/// The form of objects that a client wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    resource: &'static Resource,
    metadata_only: bool,
    /// Message of the object in protobuf; `None` in JSON.
    message: Option<&'static Message>,
}

#[derive(Deserialize)]
struct MetadataOnly<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(Deserialize)]
struct Labelled {
    metadata: Labels,
}

#[derive(Deserialize)]
struct Labels {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl View {
    /// The first acceptable form that the server can write.
    pub(super) fn accepted(resource: &'static Resource, accept: Accept<'_>) -> Result<Self, StatusError> {
        let mut forms = accept.clauses().into_iter().filter_map(|clause| {
            let view = Self {
                resource,
                metadata_only: match clause.shape {
                    Shape::Whole => false,
                    Shape::Metadata => true,
                    Shape::Unknown => return None,
                },
                message: None,
            };
            match clause.encoding {
                Encoding::Json => Some(view),
                Encoding::Protobuf => view.in_protobuf(),
            }
        });
        forms.next().ok_or_else(StatusError::not_acceptable)
    }

    /// The same form in protobuf; `None` if its kind has no message.
    fn in_protobuf(self) -> Option<Self> {
        if self.is_custom() {
            return None;
        }
        let (kind, api_version) = self.type_meta("");
        let message = Some(Message::of_kind(&api_version, &kind)?);
        Some(Self { message, ..self })
    }

    pub(super) fn encoding(self) -> Encoding {
        match self.message {
            None => Encoding::Json,
            Some(_) => Encoding::Protobuf,
        }
    }

    /// The message of an object; `None` in JSON.
    pub(super) fn protobuf(self) -> Option<&'static Message> {
        self.message
    }

    /// An answer with the object.
    pub(super) fn answer(self, code: StatusCode, stored: &Stored) -> Response<Body> {
        reply::answer(code, self.encoding(), self.object(stored))
    }

    /// The object with its `kind` and `apiVersion`.
    fn object(self, stored: &Stored) -> Bytes {
        if let Some(of) = self.message {
            let mut raw = Vec::new();
            encode(of, &self.shown(stored), &mut raw);
            let (kind, api_version) = self.type_meta("");
            return protobuf::envelope(&api_version, &kind, &raw);
        }
        let mut bytes = BytesMut::new();
        self.write_object(stored, &mut bytes);
        bytes.freeze()
    }

    /// The object in this form, parsed.
    pub(super) fn shown(self, stored: &Stored) -> Value {
        serde_json::from_slice(&self.body(stored)).unwrap_or_default()
    }

    fn write_object(self, stored: &Stored, to: &mut BytesMut) {
        let body = self.body(stored);
        let (kind, api_version) = self.type_meta("");
        to.put_slice(format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",").as_bytes());
        to.put_slice(body.get(1..).unwrap_or_default());
    }

    /// True for whole custom resources, which are shown as their clients wrote them.
    pub(super) fn is_custom(self) -> bool {
        self.resource.is_custom() && !self.metadata_only
    }

    /// The object as an item of a list. A whole object omits `kind` and `apiVersion`, unless it is a custom resource.
    pub(super) fn item(self, stored: &Stored) -> Bytes {
        if self.metadata_only || self.resource.is_custom() {
            self.object(stored)
        } else {
            self.body(stored)
        }
    }

    pub(super) fn event(self, kind: &str, stored: &Stored) -> Bytes {
        if self.message.is_some() {
            return protobuf::frame(kind, &self.object(stored));
        }
        let mut bytes = BytesMut::with_capacity(stored.body.len() + 128);
        bytes.put_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        self.write_object(stored, &mut bytes);
        bytes.put_slice(b"}\n");
        bytes.freeze()
    }

    /// A bookmark: tells the client up to which version it has seen everything.
    pub(super) fn bookmark(self, version: u64, ends_initial_events: bool) -> Bytes {
        let (kind, api_version) = self.type_meta("");
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if ends_initial_events {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata });
        self.encoding().event("BOOKMARK", &object)
    }

    /// The part of a list before its items: `{"kind":…,"metadata":…,"items":[`.
    pub(super) fn list_head(self, metadata: &Value) -> Bytes {
        let (kind, api_version) = self.type_meta("List");
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[")
            .into()
    }

    /// True if the selectors of `options` select the object.
    pub(super) fn is_selected(self, options: &ListOptions, stored: &Stored) -> bool {
        let has_labels = || {
            serde_json::from_slice::<Labelled>(&stored.body)
                .is_ok_and(|object| options.labels.matches(&object.metadata.labels))
        };
        let has_fields = || {
            let mut object: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
            self.resource.to_served(&mut object);
            options.fields.matches(&object)
        };
        (options.labels.is_everything() || has_labels()) && (options.fields.is_everything() || has_fields())
    }

    pub(super) fn type_meta(self, suffix: &str) -> (String, String) {
        if self.metadata_only {
            (
                format!("PartialObjectMetadata{suffix}"),
                "meta.k8s.io/v1".to_owned(),
            )
        } else {
            (
                format!("{}{suffix}", self.resource.kind),
                self.resource.api_version(),
            )
        }
    }

    /// The object without `kind` and `apiVersion`; shares the store's bytes if the form is the same.
    fn body(self, stored: &Stored) -> Bytes {
        if self.metadata_only {
            return serde_json::from_slice::<MetadataOnly<'_>>(&stored.body).map_or_else(
                |_| stored.body.clone(),
                |object| format!("{{\"metadata\":{}}}", object.metadata).into(),
            );
        }
        if self.resource.alias.is_none() {
            return stored.body.clone();
        }
        let mut object: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
        self.resource.to_served(&mut object);
        object.to_string().into()
    }
}
