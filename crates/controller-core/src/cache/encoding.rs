//! Encodings: the `Accept` header of a request, and the decoding of lists and watches.

use std::borrow::Cow;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use kube_core::{ObjectList, Status};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::guard::Lenient;
use super::protobuf;
use super::view::Wire;
use crate::config::Encoding;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The annotation of the bookmark that ends the initial events of a streaming list. Source:
/// `metav1.InitialEventsAnnotationKey`.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";
/// No object is larger: the API server takes requests of up to 3 MiB.
const LARGEST_EVENT: usize = 64 << 20;

/// A page of a list.
pub struct ListPage<W> {
    /// The `resourceVersion` of the list.
    pub version: Option<String>,
    /// Continues the list, if there is more.
    pub token: Option<String>,
    /// The objects of the page.
    pub items: Vec<Lenient<W>>,
}

/// An event of a watch.
pub enum WatchEvent<W> {
    /// `ADDED` or `MODIFIED`.
    Applied(Lenient<W>),
    /// `DELETED`.
    Deleted(Lenient<W>),
    /// The version that the watch has reached.
    Bookmark {
        /// `metadata.resourceVersion`.
        version: String,
        /// True if the initial events of a streaming list end here.
        ends_initial_events: bool,
    },
    /// The watch has failed.
    Error(Status),
}

/// Splits the body of a watch into events.
pub struct Frames {
    encoding: Encoding,
    buffer: BytesMut,
    /// The first bytes of `buffer` that are known to hold no end of a line.
    searched: usize,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

impl Encoding {
    /// The `Accept` header for objects of `W`, or for a list of them. JSON is always accepted.
    pub fn accept<W: Wire>(self, is_list: bool) -> String {
        let of = match (W::METADATA_ONLY, is_list) {
            (false, _) => "",
            (true, false) => ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            (true, true) => ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        };
        match self {
            Self::Protobuf if W::MESSAGE.is_some() => format!("{PROTOBUF}{of},{JSON}{of}"),
            Self::Protobuf | Self::Json => format!("{JSON}{of}"),
        }
    }

    /// Returns whether this status refuses protobuf: the request must be sent again for JSON.
    pub fn is_refused(status: StatusCode) -> bool {
        matches!(
            status,
            StatusCode::NOT_ACCEPTABLE | StatusCode::UNSUPPORTED_MEDIA_TYPE
        )
    }

    /// The encoding of an answer; JSON if the answer does not say.
    pub fn of(headers: &HeaderMap) -> Self {
        let media = headers
            .get(header::CONTENT_TYPE)
            .map_or(&[][..], |media| media.as_bytes());
        if media.starts_with(PROTOBUF.as_bytes()) {
            Self::Protobuf
        } else {
            Self::Json
        }
    }

    /// Reads a page. One bad object does not fail it; the error is a text.
    pub fn page<W: Wire>(self, body: &[u8]) -> Result<ListPage<W>, String> {
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        match self {
            Self::Json => {
                let list: ObjectList<Lenient<W>> =
                    serde_json::from_slice(body).map_err(|error| error.to_string())?;
                Ok(ListPage {
                    version: list.metadata.resource_version.and_then(some),
                    token: list.metadata.continue_.and_then(some),
                    items: list.items,
                })
            }
            Self::Protobuf => {
                let list = protobuf::read_list(body).map_err(|error| error.to_string())?;
                Ok(ListPage {
                    version: some(list.version),
                    token: list.token,
                    items: list.items.into_iter().map(Lenient::read_protobuf).collect(),
                })
            }
        }
    }

    fn event<W: Wire>(self, frame: &[u8]) -> Result<WatchEvent<W>, String> {
        match self {
            Self::Json => json_event(frame).map_err(|error| error.to_string()),
            Self::Protobuf => protobuf_event(frame).map_err(|error| error.to_string()),
        }
    }
}

fn json_event<W: Wire>(line: &[u8]) -> serde_json::Result<WatchEvent<W>> {
    let Line { kind, object } = serde_json::from_slice(line)?;
    let object = object.get();
    Ok(match &*kind {
        "ADDED" | "MODIFIED" => WatchEvent::Applied(Lenient::read_json(object)),
        "DELETED" => WatchEvent::Deleted(Lenient::read_json(object)),
        "BOOKMARK" => serde_json::from_str::<Bookmark>(object)?.into(),
        "ERROR" => WatchEvent::Error(serde_json::from_str(object)?),
        other => {
            return Err(serde::de::Error::custom(format_args!(
                "an event of type {other:?}"
            )));
        }
    })
}

fn protobuf_event<W: Wire>(frame: &[u8]) -> Result<WatchEvent<W>, protobuf::Error> {
    let (kind, object) = protobuf::read_event(frame)?;
    Ok(match kind {
        "ADDED" | "MODIFIED" => WatchEvent::Applied(Lenient::read_protobuf(protobuf::unwrapped(object)?)),
        "DELETED" => WatchEvent::Deleted(Lenient::read_protobuf(protobuf::unwrapped(object)?)),
        "BOOKMARK" => {
            protobuf::read::<Bookmark>(protobuf::METADATA_ONLY, protobuf::unwrapped(object)?)?.into()
        }
        "ERROR" => WatchEvent::Error(protobuf::read_status(object)?),
        other => {
            return Err(serde::de::Error::custom(format_args!(
                "an event of type {other:?}"
            )));
        }
    })
}

impl<W> From<Bookmark> for WatchEvent<W> {
    fn from(Bookmark { metadata }: Bookmark) -> Self {
        Self::Bookmark {
            ends_initial_events: metadata.annotations.contains_key(INITIAL_EVENTS_END),
            version: metadata.resource_version,
        }
    }
}

impl Frames {
    /// Nothing has arrived yet.
    pub fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// Adds the bytes that have arrived.
    pub fn push(&mut self, data: &Bytes) {
        self.buffer.extend_from_slice(data);
    }

    /// The next complete event. The error is a text; what follows it cannot be trusted.
    pub fn next_event<W: Wire>(&mut self) -> Option<Result<WatchEvent<W>, String>> {
        let frame = match self.encoding {
            Encoding::Json => self.line()?,
            Encoding::Protobuf => self.frame()?,
        };
        Some(match frame {
            Ok(frame) => self.encoding.event(&frame),
            Err(length) => Err(format!("an event of {length} bytes")),
        })
    }

    /// An event in JSON ends with a newline; empty lines are skipped.
    fn line(&mut self) -> Option<Result<BytesMut, usize>> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(end) = unsearched.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                return (self.searched > LARGEST_EVENT).then_some(Err(self.searched));
            };
            let line = self.buffer.split_to(self.searched + end);
            self.buffer.advance(1);
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Some(Ok(line));
            }
        }
    }

    /// An event in protobuf follows its length, which has 4 bytes.
    fn frame(&mut self) -> Option<Result<BytesMut, usize>> {
        let length = u32::from_be_bytes(*self.buffer.first_chunk()?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > LARGEST_EVENT {
            return Some(Err(length));
        }
        if self.buffer.len() < 4 + length {
            return None;
        }
        self.buffer.advance(4);
        Some(Ok(self.buffer.split_to(length)))
    }
}
