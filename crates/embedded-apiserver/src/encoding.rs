//! In which of its encodings the server answers: what `Accept` says.

use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::Value;

use super::protobuf;

const JSON: &str = "application/json";
const ONLY_METADATA: [&str; 2] = ["PartialObjectMetadata", "PartialObjectMetadataList"];

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

/// What a client takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accept<'a> {
    header: &'a str,
    /// Whether the server writes protobuf.
    protobuf: bool,
}

/// One of the forms that a client takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clause {
    pub(super) encoding: Encoding,
    pub(super) shape: Shape,
    weight: f32,
}

/// What is to be shown of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Whole,
    Metadata,
    /// Nothing that the server knows.
    Unknown,
}

impl Encoding {
    /// The media type of an answer.
    pub(super) fn media(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => protobuf::MEDIA,
        }
    }

    /// The media type of a watch.
    pub(super) fn media_of_watch(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// An object that the server makes for its answer, such as a `Status`.
    pub(super) fn document(self, object: &Value) -> Bytes {
        let in_protobuf = match self {
            Self::Json => None,
            Self::Protobuf => protobuf::to_protobuf(object),
        };
        in_protobuf.unwrap_or_else(|| object.to_string().into())
    }

    /// An event of a watch about such an object.
    pub(super) fn event(self, kind: &str, object: &Value) -> Bytes {
        match self {
            Self::Json => format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into(),
            Self::Protobuf => protobuf::frame(kind, &self.document(object)),
        }
    }
}

impl<'a> Accept<'a> {
    /// What a request says, to a server that writes protobuf or does not.
    pub(super) fn of(headers: &'a HeaderMap, protobuf: bool) -> Self {
        let header = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        Self {
            header: header.unwrap_or_default(),
            protobuf,
        }
    }

    /// What can be had of it, the best first.
    pub(super) fn clauses(self) -> Vec<Clause> {
        let clauses = self.header.split(',').filter_map(Clause::parse);
        let mut clauses: Vec<Clause> = clauses
            .filter(|clause| self.protobuf || clause.encoding == Encoding::Json)
            .collect();
        clauses.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        clauses
    }

    /// How a refusal is written, which nobody can ask to be anything but whole.
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
