//! What the controller reads of a node: its name and its TTL annotation. All else is skipped while decoding.
//!
//! | rule | code | test |
//! |---|---|---|
//! | TTL-7 | `NodeWire` | `tests/sync/boundary.rs::nodes_are_watched_as_metadata_only` |

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use controller_core::cache::protobuf::{METADATA_ONLY, Message};
use controller_core::cache::{DecodeError, Identity, View, Wire};
use controller_core::meta::ObjectKey;
use serde::Deserialize;

/// A value that is not an integer is kept only for messages; annotations may be 256 KiB long.
const SHOWN_CHARS: usize = 64;

/// What the store keeps of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub key: ObjectKey,
    pub annotation: Annotation,
}

/// The TTL annotation as found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Annotation {
    #[default]
    Missing,
    /// An integer as Go's `strconv.Atoi`, which the kubelet uses, reads it: an optional sign and digits.
    Seconds(i64),
    /// Anything else, cut to 64 characters.
    NotAnInteger(Arc<str>),
}

/// The decoded part of a node.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeWire {
    metadata: NodeMetadata,
}

#[derive(Clone, Debug, Deserialize)]
struct NodeMetadata {
    annotations: Option<Annotations>,
}

/// The only annotation that is read; serde skips the rest.
#[derive(Clone, Debug, Deserialize)]
struct Annotations {
    #[serde(rename = "node.alpha.kubernetes.io/ttl")]
    ttl: Option<String>,
}

impl Annotation {
    /// The annotation with this number of seconds, or none.
    pub fn of(ttl_seconds: Option<i64>) -> Self {
        ttl_seconds.map_or(Self::Missing, Self::Seconds)
    }

    pub fn parse(text: &str) -> Self {
        match text.parse() {
            Ok(seconds) => Self::Seconds(seconds),
            Err(_) => Self::NotAnInteger(text.chars().take(SHOWN_CHARS).collect::<String>().into()),
        }
    }
}

impl fmt::Display for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("none"),
            Self::Seconds(seconds) => write!(f, "{seconds}"),
            Self::NotAnInteger(text) => write!(f, "{text:?}"),
        }
    }
}

impl View for NodeView {
    type Index = Infallible;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

impl Wire for NodeWire {
    type View = NodeView;

    const METADATA_ONLY: bool = true;
    const MESSAGE: Option<Message> = Some(METADATA_ONLY);

    fn into_view(self, node: Identity) -> Result<NodeView, DecodeError> {
        let text = self.metadata.annotations.and_then(|annotations| annotations.ttl);
        let annotation = text.map_or(Annotation::Missing, |text| Annotation::parse(&text));
        Ok(NodeView {
            key: node.key,
            annotation,
        })
    }
}
