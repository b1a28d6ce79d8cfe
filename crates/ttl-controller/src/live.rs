//! Reads of the API server itself, past the cache; all of them lists of metadata, so that `list` is the
//! only right they need.

use std::collections::BTreeMap;

use controller_core::api::{Call, CallFailed, Caller, Verb};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::rival::manager_of;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::ListParams;

use crate::decide::OBJECT_TTL_ANNOTATION_KEY;
use crate::view::{Annotation, NodeView};

/// How many nodes a page of a list holds, as client-go's pager has it.
const PAGE_SIZE: u32 = 500;

/// The nodes as the API server has them now.
#[derive(Clone, Debug)]
pub struct LiveNodes {
    nodes: Api<Node>,
    caller: Caller,
}

/// A node, and who wrote its annotation last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The node's uid.
    pub uid: Uid,
    /// The field manager, where the API server tells.
    pub manager: Option<String>,
}

impl LiveNodes {
    /// Reads through `client`.
    pub fn new(client: kube::Client, caller: Caller) -> Self {
        Self {
            nodes: Api::all(client),
            caller,
        }
    }

    /// Every node, ordered by name.
    pub async fn all(&self) -> Result<Vec<NodeView>, CallFailed> {
        let mut nodes = BTreeMap::new();
        let mut params = ListParams::default().limit(PAGE_SIZE);
        loop {
            let call = Call {
                verb: Verb::List,
                resource: "nodes",
                target: String::new(),
            };
            let page = self.caller.read(call, self.nodes.list_metadata(&params)).await?;
            nodes.extend(
                page.items
                    .iter()
                    .filter_map(|node| view(&node.metadata))
                    .map(|v| (v.key.clone(), v)),
            );
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(nodes.into_values().collect()),
            }
        }
    }

    /// One node; `None` when there is none of that name.
    pub async fn one(&self, node: &ObjectKey) -> Result<Option<NodeView>, CallFailed> {
        Ok(self.metadata(node).await?.as_ref().and_then(view))
    }

    /// Who wrote the node's TTL annotation last; `None` when there is no such node.
    pub async fn owner_of_annotation(&self, node: &ObjectKey) -> Result<Option<Owner>, CallFailed> {
        let annotation = format!("f:{OBJECT_TTL_ANNOTATION_KEY}");
        let metadata = self.metadata(node).await?;
        Ok(metadata.map(|metadata| Owner {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            manager: manager_of(
                &metadata.managed_fields.unwrap_or_default(),
                &["f:metadata", "f:annotations", &annotation],
            ),
        }))
    }

    async fn metadata(&self, node: &ObjectKey) -> Result<Option<ObjectMeta>, CallFailed> {
        let params = ListParams::default().fields(&format!("metadata.name={}", node.name));
        let call = Call {
            verb: Verb::List,
            resource: "nodes",
            target: node.to_string(),
        };
        let found = self.caller.read(call, self.nodes.list_metadata(&params)).await?;
        Ok(found.items.into_iter().next().map(|node| node.metadata))
    }
}

fn view(metadata: &ObjectMeta) -> Option<NodeView> {
    let annotations = metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(OBJECT_TTL_ANNOTATION_KEY));
    Some(NodeView {
        key: ObjectKey::cluster(metadata.name.as_deref()?),
        annotation: text.map_or(Annotation::Missing, |text| Annotation::parse(text)),
    })
}
