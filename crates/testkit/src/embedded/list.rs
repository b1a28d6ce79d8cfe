//! Lists: consistent pages, streamed so that items stay shared with the store.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;

use super::failure::Failure;
use super::options::{Continue, ListOptions, VersionMatch};
use super::resource::Resource;
use super::store::{Store, Stored};
use super::view::View;

/// Size from which the items of a list become one frame of its body.
const FRAME: usize = 64 * 1024;

/// One page of a list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) items: Vec<Stored>,
    version: u64,
    next: Option<Continue>,
    remaining: Option<usize>,
}

/// The version that a list has to wait for: it is not served an older state.
pub(super) fn awaited_version(options: &ListOptions) -> u64 {
    match &options.resume {
        Some(resume) => resume.version.unwrap_or_default(),
        None => options.version.unwrap_or_default(),
    }
}

impl Page {
    /// Reads a page. `prefix` is that of the keys in the namespace; `latest` is the version that is shown to
    /// those who do not ask for one.
    pub(super) fn read(
        store: &Store,
        resource: &'static Resource,
        prefix: &str,
        options: &ListOptions,
        view: View,
        latest: u64,
    ) -> Result<Self, Failure> {
        let version = exact_version(options).unwrap_or(latest);
        // Version 0 is answered from a cache, which does not page.
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
            // Only an unfiltered list says how much is left.
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

    /// The body of the answer, frame by frame.
    pub(super) fn into_frames(self, view: View) -> impl Iterator<Item = Bytes> + Send {
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
        let head = view.list_head(&metadata);
        let mut items = self.items.into_iter();
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
        std::iter::once(head)
            .chain(frames)
            .chain(std::iter::once(Bytes::from_static(b"]}")))
    }
}

/// The one version that a list must show, if it must.
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

fn expired(options: &ListOptions) -> Failure {
    match &options.resume {
        None => Failure::list_expired(),
        Some(resume) => Failure::continue_expired(
            Continue {
                version: None,
                after: resume.after.clone(),
            }
            .to_token(),
        ),
    }
}
