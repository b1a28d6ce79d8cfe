//! The encoding of an answer, negotiated by `Accept`.

use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::Value;

use super::protobuf;

const JSON: &str = "application/json";
const ONLY_METADATA: [&str; 2] = ["PartialObjectMetadata", "PartialObjectMetadataList"];

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

/// The `Accept` header of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accept<'a> {
    header: &'a str,
    /// True if the server writes protobuf.
    protobuf: bool,
}

/// One form in `Accept`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clause {
    pub(super) encoding: Encoding,
    pub(super) shape: Shape,
    weight: f32,
}

/// The part of an object that an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Whole,
    Metadata,
    /// A form that the server does not know.
    Unknown,
}

impl Encoding {
    pub(super) fn media(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => protobuf::MEDIA,
        }
    }

    /// The media type of a watch's body.
    pub(super) fn media_of_watch(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// Encodes an object made for the answer, such as a `Status`.
    pub(super) fn document(self, object: &Value) -> Bytes {
        let in_protobuf = match self {
            Self::Json => None,
            Self::Protobuf => protobuf::to_protobuf(object),
        };
        in_protobuf.unwrap_or_else(|| object.to_string().into())
    }

    /// Encodes a watch event about such an object.
    pub(super) fn event(self, kind: &str, object: &Value) -> Bytes {
        match self {
            Self::Json => format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into(),
            Self::Protobuf => protobuf::frame(kind, &self.document(object)),
        }
    }
}

impl<'a> Accept<'a> {
    /// The header of a request; `protobuf` says whether the server writes protobuf.
    pub(super) fn of(headers: &'a HeaderMap, protobuf: bool) -> Self {
        let header = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        Self {
            header: header.unwrap_or_default(),
            protobuf,
        }
    }

    /// The forms in encodings that the server writes, the preferred one first.
    pub(super) fn clauses(self) -> Vec<Clause> {
        let clauses = self.header.split(',').filter_map(Clause::parse);
        let mut clauses: Vec<Clause> = clauses
            .filter(|clause| self.protobuf || clause.encoding == Encoding::Json)
            .collect();
        clauses.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        clauses
    }

    /// The encoding of a refusal, which is always a whole object.
    pub(super) fn of_refusals(self) -> Encoding {
        let clauses = self.clauses();
        let whole = clauses.iter().find(|clause| clause.shape == Shape::Whole);
        whole.map_or(Encoding::Json, |clause| clause.encoding)
    }
}

impl Clause {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let encoding = match parts.next() {
            Some(JSON | "application/*" | "*/*" | "*" | "") => Encoding::Json,
            Some(protobuf::MEDIA) => Encoding::Protobuf,
            _ => return None,
        };
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let value = |name: &str| {
            let found = parameters.iter().find(|(key, _)| *key == name);
            found.map_or("", |(_, value)| value)
        };
        let shape = match (value("as"), value("g"), value("v")) {
            ("", "", "") => Shape::Whole,
            (kind, "meta.k8s.io", "v1") if ONLY_METADATA.contains(&kind) => Shape::Metadata,
            _ => Shape::Unknown,
        };
        Some(Self {
            encoding,
            shape,
            weight: value("q").parse().unwrap_or(1.0),
        })
    }
}
