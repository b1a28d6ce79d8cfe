//! Lists: consistent pages, streamed so that items stay shared with the store.

use std::mem;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use http::Response;
use serde_json::{Value, json};

use super::failure::StatusError;
use super::options::{Continue, ListOptions, VersionMatch};
use super::protobuf;
use super::reply::{Body, streamed};
use super::resource::Resource;
use super::schema::Message;
use super::store::{Store, Stored};
use super::view::View;

/// Bytes of items after which a frame of the body is sent.
const FRAME: usize = 64 * 1024;

/// One page of a list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) items: Vec<Stored>,
    version: u64,
    next: Option<Continue>,
    remaining: Option<usize>,
}

/// The version that the store must have reached before the list is read.
pub(super) fn awaited_version(options: &ListOptions) -> u64 {
    match &options.resume {
        Some(resume) => resume.version.unwrap_or_default(),
        None => options.version.unwrap_or_default(),
    }
}

impl Page {
    /// Reads a page. `prefix` is that of the namespace's keys; a list that asks for no exact version shows `latest`.
    pub(super) fn read(
        store: &Store,
        resource: &'static Resource,
        prefix: &str,
        options: &ListOptions,
        view: View,
        latest: u64,
    ) -> Result<Self, StatusError> {
        let version = exact_version(options).unwrap_or(latest);
        // kube-apiserver answers version 0 from a cache that does not page.
        let limit = if options.limit == 0 || options.version == Some(0) {
            usize::MAX
        } else {
            options.limit
        };
        let after = options.resume.as_ref().map(|resume| resume.after.as_str());
        let mut items = Vec::new();
        let mut last: Option<Arc<str>> = None;
        let mut beyond = 0;
        let all = store.at_version(resource, prefix, after, version);
        let all = all.map_err(|_| expired(options))?;
        for (key, stored) in all.filter(|(_, stored)| view.is_selected(options, stored)) {
            if items.len() < limit {
                items.push(stored.clone());
                last = Some(key.clone());
                continue;
            }
            beyond += 1;
            // The rest of a filtered list is not counted.
            if !options.selects_everything() {
                break;
            }
        }
        let next = last.filter(|_| beyond > 0).map(|key| Continue {
            version: Some(version),
            after: key.to_string(),
        });
        Ok(Self {
            items,
            version,
            next,
            remaining: Some(beyond).filter(|count| *count > 0 && options.selects_everything()),
        })
    }

    pub(super) fn into_answer(self, view: View) -> Response<Body> {
        let metadata = self.metadata(view);
        let frames = match view.protobuf() {
            None => in_json(self.items, view, &metadata).map(Ok).left_stream(),
            Some(of) => in_protobuf(&self.items, view, of, &metadata)
                .map(Ok)
                .right_stream(),
        };
        streamed(view.encoding().media(), frames)
    }

    fn metadata(&self, view: View) -> Value {
        let mut metadata = json!({ "resourceVersion": self.version.to_string() });
        if view.is_custom() {
            metadata["continue"] = json!("");
        }
        if let Some(next) = &self.next {
            metadata["continue"] = json!(next.to_token());
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }
}

fn in_json(items: Vec<Stored>, view: View, metadata: &Value) -> impl Stream<Item = Bytes> + Send + use<> {
    let head = view.list_head(metadata);
    let mut items = items.into_iter();
    let mut separator: &[u8] = b"";
    let frames = std::iter::from_fn(move || {
        let mut frame = BytesMut::new();
        while frame.len() < FRAME
            && let Some(stored) = items.next()
        {
            frame.put_slice(separator);
            frame.put_slice(&view.item(&stored));
            separator = b",";
        }
        (!frame.is_empty()).then(|| frame.freeze())
    });
    let end = Bytes::from_static(b"]}");
    stream::iter(std::iter::once(head).chain(frames).chain(std::iter::once(end)))
}

/// Encodes all items before the first is sent: their total length comes first.
fn in_protobuf(
    items: &[Stored],
    view: View,
    of: &'static Message,
    metadata: &Value,
) -> impl Stream<Item = Bytes> + Send + use<> {
    let mut frames = Vec::new();
    let mut frame = Vec::new();
    for stored in items {
        protobuf::put_item(of, &view.shown(stored), &mut frame);
        if frame.len() >= FRAME {
            frames.push(mem::take(&mut frame).into());
        }
    }
    frames.push(frame.into());
    let (kind, api_version) = view.type_meta("List");
    let pieces = protobuf::list(&api_version, &kind, metadata, frames);
    stream::iter(pieces.into_iter().filter(|piece| !piece.is_empty()))
}

/// The only version that the list may show; `None` if any newer one will do.
fn exact_version(options: &ListOptions) -> Option<u64> {
    if let Some(resume) = &options.resume {
        return resume.version;
    }
    let asked = options.version.filter(|version| *version > 0)?;
    let is_exact = match options.version_match {
        Some(VersionMatch::Exact) => true,
        Some(VersionMatch::NotOlderThan) => false,
        None => options.limit > 0,
    };
    is_exact.then_some(asked)
}

fn expired(options: &ListOptions) -> StatusError {
    match &options.resume {
        None => StatusError::list_expired(),
        Some(resume) => StatusError::continue_expired(
            Continue {
                version: None,
                after: resume.after.clone(),
            }
            .to_token(),
        ),
    }
}
