//! Nodes as an API server stores them.

use controller_core::controller::{Now, RequestOf};
use controller_core::meta::ObjectKey;
use controller_testing::sim;
use embedded_apiserver::{NODES, Server};
use serde_json::json;
use ttl_controller::TtlController;
use ttl_controller::decide::OBJECT_TTL_ANNOTATION_KEY;
use ttl_controller::requests::Query;
use ttl_controller::view::{Annotation, NodeView, NodeWire};

use super::{Bug, Cluster};

impl Cluster {
    /// With the nodes that `ask` is about.
    pub(super) fn as_stored(&self, ask: &RequestOf<TtlController>, now: Now) -> Option<Server> {
        let nodes = self.nodes.stored(concerned(ask), |node| {
            let text = match &node.view.annotation {
                Annotation::Missing => return json!({ "apiVersion": "v1", "kind": "Node" }),
                Annotation::Seconds(seconds) => seconds.to_string(),
                Annotation::NotAnInteger(text) => text.to_string(),
            };
            let path = format!("f:{OBJECT_TTL_ANNOTATION_KEY}");
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {
                    "annotations": { OBJECT_TTL_ANNOTATION_KEY: text },
                    "managedFields": [{
                        "manager": "somebody", "operation": "Update", "apiVersion": "v1",
                        "fieldsType": "FieldsV1", "fieldsV1": { "f:metadata": { "f:annotations": { path: {} } } },
                    }],
                },
            })
        });
        let version = self.nodes.next_version() - 1;
        let is_compared = matches!(self.bug, None | Some(Bug::VersionAhead));
        is_compared.then(|| sim::server(now, nodes.collect(), version))
    }

    pub(super) fn compare_stored(
        &self,
        ask: &RequestOf<TtlController>,
        server: &Server,
    ) -> Result<(), String> {
        let is_concerned = concerned(ask);
        let compared = |node: &NodeView| is_concerned(&node.key).then(|| node.clone());
        self.nodes.compare_with::<NodeWire>(server, &NODES, compared)
    }
}

/// The nodes that are written or read.
fn concerned(ask: &RequestOf<TtlController>) -> impl Fn(&ObjectKey) -> bool {
    let only = match ask {
        RequestOf::Query(Query::Page(_)) => None,
        RequestOf::Query(Query::Node(node)) => Some(node.clone()),
        RequestOf::Write(write) => Some(write.node.clone()),
    };
    move |node| only.as_ref().is_none_or(|only| only == node)
}
