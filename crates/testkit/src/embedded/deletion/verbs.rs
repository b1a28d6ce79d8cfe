//! Delete and deletecollection, from a call to its answer.

use std::sync::Arc;

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use super::{DeleteOptions, Deleted};
use crate::embedded::actors;
use crate::embedded::call::Call;
use crate::embedded::failure::Failure;
use crate::embedded::list::Page;
use crate::embedded::options::ListOptions;
use crate::embedded::reply::{Body, answer, streamed};
use crate::embedded::resource::table::{JOBS, NAMESPACES};
use crate::embedded::server::Shared;
use crate::embedded::store::Stored;
use crate::embedded::write::{Write, served};

/// What a client is told that deletes a job without a word about its pods.
const JOB_WARNING: &str = "299 - \"child pods are preserved by default when jobs are deleted; set \
     propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning\"";

impl Shared {
    pub(in crate::embedded) fn delete(self: &Arc<Self>, call: &Call) -> Result<Response<Body>, Failure> {
        let options = DeleteOptions::of(call)?;
        let deleted = self.writing(call, |write| write.delete(&options))?;
        if call.resource.is(&NAMESPACES) {
            actors::end_namespaces(self);
        }
        let response = match deleted {
            Deleted::Gone(last) if call.resource.returned_when_deleted => {
                answer(StatusCode::OK, call.view.object(&last))
            }
            Deleted::Gone(last) => success(call, &last),
            Deleted::Waiting(stored) => {
                // Only the old option is answered with what it amounts to.
                let code = if options.orphan_dependents == Some(false) {
                    StatusCode::ACCEPTED
                } else {
                    StatusCode::OK
                };
                answer(code, call.view.object(&stored))
            }
        };
        Ok(warned(call, &options, response))
    }

    /// Deletes what a list with the same query shows, and answers with that list.
    pub(in crate::embedded) fn delete_collection(&self, call: &Call) -> Result<Response<Body>, Failure> {
        let mut list = ListOptions::parse(call.resource, &call.query, false)?;
        if list.limit == 0 {
            // It is read in pages, and those show the version that is asked for and no later one.
            list.limit = usize::MAX;
        }
        let options = DeleteOptions::of(call)?;
        let page = self.writing(call, |write| write.delete_listed(call, &list, &options))?;
        let frames = page.into_frames(call.view).map(Ok);
        Ok(warned(call, &options, streamed(futures::stream::iter(frames))))
    }
}

impl Write<'_> {
    fn delete_listed(
        self,
        call: &Call,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Page, Failure> {
        let latest = self.store.version();
        let page = Page::read(self.store, self.resource, &call.prefix(), list, call.view, latest)?;
        for stored in &page.items {
            let object = served(self.resource, stored);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let one = Write {
                store: self.store,
                name,
                ..self
            };
            match one.delete(options) {
                Err(failure) if failure.code != 404 => return Err(failure),
                _ => {}
            }
        }
        Ok(page)
    }
}

/// Says which object is gone.
fn success(call: &Call, last: &Stored) -> Response<Body> {
    let mut details = json!({
        "name": call.request.name,
        "kind": call.resource.plural,
        "uid": served(call.resource, last)["metadata"]["uid"],
    });
    if !call.resource.group.is_empty() {
        details["group"] = json!(call.resource.group);
    }
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    });
    answer(StatusCode::OK, status.to_string().into())
}

fn warned(call: &Call, options: &DeleteOptions, mut response: Response<Body>) -> Response<Body> {
    let is_silent = options.orphan_dependents.is_none() && options.propagation.is_none();
    if call.resource.is(&JOBS) && is_silent {
        response
            .headers_mut()
            .insert(header::WARNING, HeaderValue::from_static(JOB_WARNING));
    }
    response
}
