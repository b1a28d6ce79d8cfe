//! Questions and writes as data: the only file that names verbs and bodies. All reads are lists of metadata, so that
//! `list` is the only permission they need.

use controller_core::api::{CallFailed, Verb};
use controller_core::controller::{self, Description, Explained, Object, Pass, Request, requests_to};
use controller_core::informer::Page;
use controller_core::meta::ObjectKey;
use controller_core::rival::manager_of;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ObjectList, PartialObjectMeta};
use serde_json::json;

use crate::decide::{OBJECT_TTL_ANNOTATION_KEY, Plan};
use crate::view::{Annotation, NodeView, NodeWire};
use crate::{NAME, TtlController};

/// How many nodes a page of a list holds, as client-go's pager has it.
const PAGE_SIZE: u32 = 500;

/// A read past the cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    Node(ObjectKey),
    /// All nodes, a page of them: the first, or the one that this token continues.
    Page(Option<String>),
}

/// What a read tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub page: Page<NodeView>,
    /// Of one node: the field manager that wrote its annotation last, where the API server tells.
    pub manager: Option<String>,
}

/// All nodes, as far as the answers of `pass` go.
pub fn listing(pass: &Pass<TtlController>) -> Result<Explained<Query, Vec<&NodeView>>, CallFailed> {
    let mut nodes = Vec::new();
    let mut query = Query::Page(None);
    loop {
        let Some(reply) = pass.answer(&query) else {
            return Ok(Explained::Ask(vec![query]));
        };
        let Answer { page, .. } = reply.value.as_ref().map_err(Clone::clone)?;
        nodes.extend(page.items.iter().map(|node| &node.view));
        match &page.token {
            Some(token) => query = Query::Page(Some(token.clone())),
            None => return Ok(Explained::Text(nodes)),
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
            // Managed fields are read as JSON.
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

impl controller::Write for Plan {
    const PLANNED: &'static [&'static str] = &["annotate", "remove"];

    /// The strategic merge patch of just the annotation.
    fn request(&self) -> Request {
        let value = self.ttl_seconds.map(|seconds| seconds.to_string());
        let patch =
            Patch::Strategic(json!({"metadata": {"annotations": {OBJECT_TTL_ANNOTATION_KEY: value}}}));
        let params = PatchParams {
            field_manager: Some(NAME.to_owned()),
            ..PatchParams::default()
        };
        // The answer is wanted as metadata only: a whole node is a hundred times the size of this patch.
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
