//! Queries and writes as data: the only file that names verbs and bodies. All reads are lists of metadata, so that
//! `list` is the only permission they need.

use controller_core::api::{CallFailed, Verb};
use controller_core::app::Prepared;
use controller_core::cache::Page;
use controller_core::controller::{self, Description, Object, Pass, Request, requests_to};
use controller_core::meta::ObjectKey;
use controller_core::rival::manager_of;
use k8s_openapi::api::core::v1::Node;
use kube_core::params::{ListParams, Patch, PatchParams};
use kube_core::{ObjectList, PartialObjectMeta};
use serde_json::json;

use crate::decide::{AnnotationWrite, OBJECT_TTL_ANNOTATION_KEY};
use crate::view::{Annotation, NodeView, NodeWire};
use crate::{NAME, TtlController};

/// Nodes per page of a list, as in client-go's pager.
const PAGE_SIZE: u32 = 500;

/// A read that bypasses the cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    Node(ObjectKey),
    /// One page of all nodes: the first, or the one after this continue token.
    Page(Option<String>),
}

/// The answer to a [`Query`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub page: Page<NodeView>,
    /// For one node: the field manager that wrote its annotation last, if the API server says so.
    pub manager: Option<String>,
}

/// All nodes, or the query for the next page that `pass` still lacks.
pub fn listing(pass: &Pass<TtlController>) -> Result<Prepared<Query, Vec<&NodeView>>, CallFailed> {
    let mut nodes = Vec::new();
    let mut query = Query::Page(None);
    loop {
        let Some(reply) = pass.answer(&query) else {
            return Ok(Prepared::Queries(vec![query]));
        };
        let Answer { page, .. } = reply.value.as_ref().map_err(Clone::clone)?;
        nodes.extend(page.items.iter().map(|node| &node.view));
        match &page.token {
            Some(token) => query = Query::Page(Some(token.clone())),
            None => return Ok(Prepared::Ready(nodes)),
        }
    }
}

impl controller::Query for Query {
    type Answer = Answer;

    fn request(&self) -> Request {
        let params = ListParams::default();
        let (target, params) = match self {
            Self::Node(node) => (&*node.name, params.fields(&format!("metadata.name={node}"))),
            Self::Page(None) => ("", params.limit(PAGE_SIZE)),
            Self::Page(Some(token)) => ("", params.limit(PAGE_SIZE).continue_token(token)),
        };
        let http = requests_to::<Node>(None).list_metadata(&params);
        let request = Request::new(Verb::List, "nodes", &target, http);
        match self {
            // JSON, because the answer's managed fields are read too.
            Self::Node(_) => request,
            Self::Page(_) => request.read_as::<NodeWire>(),
        }
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<Answer> {
        let page = Page::read::<NodeWire>(body)?;
        let Self::Node(_) = self else {
            return Ok(Answer { page, manager: None });
        };
        let nodes: ObjectList<PartialObjectMeta<Node>> = serde_json::from_slice(body)?;
        let node = nodes.items.into_iter().next();
        let fields = node.and_then(|node| node.metadata.managed_fields);
        let ttl = format!("f:{OBJECT_TTL_ANNOTATION_KEY}");
        let path = ["f:metadata", "f:annotations", &ttl];
        let manager = manager_of(&fields.unwrap_or_default(), &path);
        Ok(Answer { page, manager })
    }
}

impl controller::Write for AnnotationWrite {
    const PLANNED: &'static [&'static str] = &["annotate", "remove"];

    /// A strategic merge patch of the annotation alone.
    fn request(&self) -> Request {
        let value = self.ttl_seconds.map(|seconds| seconds.to_string());
        let patch =
            Patch::Strategic(json!({"metadata": {"annotations": {OBJECT_TTL_ANNOTATION_KEY: value}}}));
        let params = PatchParams {
            field_manager: Some(NAME.to_owned()),
            ..PatchParams::default()
        };
        // Asks for metadata only in the answer: a whole node is a hundred times the size of this patch.
        let http = requests_to::<Node>(None).patch_metadata(&self.node.name, &params, &patch);
        Request::new(Verb::Patch, "nodes", &self.node, http)
    }

    fn object(&self) -> Object {
        Object::new("nodes", &self.node)
    }

    fn describe(&self) -> Description {
        let Some(seconds) = self.ttl_seconds else {
            return Description::new("remove", "TTL annotation taken off");
        };
        let before = match &self.replaces {
            Annotation::NotAnInteger(text) => format!(" over {text:?}, which is not an integer"),
            other => format!(", was {other}"),
        };
        Description::new("annotate", format!("TTL set to {seconds} s{before}"))
    }
}
