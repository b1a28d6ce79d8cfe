//! Delete and deletecollection, from a call to its answer.

use http::{Response, StatusCode};
use serde_json::json;

use super::call::Call;
use super::failure::StatusError;
use super::list::Page;
use super::options::ListOptions;
use super::reply::{Body, document};
use super::shared::Shared;
use super::store::Stored;
use super::write::deletion::{DeleteOptions, Deleted};
use super::write::{Write, served};

impl Shared {
    pub(super) fn delete(&self, call: &Call) -> Result<Response<Body>, StatusError> {
        let options = call.delete_options()?;
        let deleted = call.writing(self, |write| write.delete(&options))?;
        Ok(match deleted {
            Deleted::Gone(last) if !call.resource.returned_when_deleted => success(call, &last),
            Deleted::Gone(stored) | Deleted::Waiting(stored) => call.view.answer(StatusCode::OK, &stored),
        })
    }

    /// Deletes the objects that a list with the same query shows, and answers with that list.
    pub(super) fn delete_collection(&self, call: &Call) -> Result<Response<Body>, StatusError> {
        let mut list = ListOptions::parse(call.resource, &call.query, false)?;
        if list.limit == 0 {
            // kube-apiserver reads the collection in pages, and these show exactly the version asked for.
            list.limit = usize::MAX;
        }
        let options = call.delete_options()?;
        let page = call.writing(self, |write| write.delete_listed(call, &list, &options))?;
        Ok(page.into_answer(call.view))
    }
}

impl Write<'_> {
    fn delete_listed(
        self,
        call: &Call,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Page, StatusError> {
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

/// The `Status` for a deleted object.
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
    document(StatusCode::OK, call.view.encoding(), &status)
}
