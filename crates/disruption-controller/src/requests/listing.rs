//! Lists of whole namespaces, page by page, for `explain` and `blockers`.

use std::sync::Arc;

use controller_core::api::Verb;
use controller_core::cache::Page;
use controller_core::controller::{Request, requests_to};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_core::Resource;
use kube_core::params::ListParams;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Answer;
use crate::decide::Builtin;
use crate::view::{DrainedPodWire, PdbWire, WorkloadWire};

/// How many objects a page of a list has. A page is in memory as a whole.
const PAGE: u32 = 250;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listing {
    pub of: Listed,
    /// `None`: of all namespaces.
    pub namespace: Option<Arc<str>>,
    /// Continues the list; `None` at its begin.
    pub token: Option<Arc<str>>,
}

/// What is listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Listed {
    Pdbs,
    Pods,
    Workloads(Builtin),
    /// The node of this name.
    Node(Arc<str>),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodesWire {
    items: Vec<IgnoredAny>,
}

impl Listing {
    pub(super) fn request(&self) -> Request {
        match &self.of {
            Listed::Pdbs => self
                .list::<PodDisruptionBudget>("poddisruptionbudgets.policy", None)
                .read_as::<PdbWire>(),
            Listed::Pods => self.list::<Pod>("pods", None).read_as::<DrainedPodWire>(),
            Listed::Node(name) => self.list::<Node>("nodes", Some(name)),
            Listed::Workloads(kind) => match kind {
                Builtin::ReplicationController => {
                    self.list::<ReplicationController>("replicationcontrollers", None)
                }
                Builtin::ReplicaSet => self.list::<ReplicaSet>("replicasets.apps", None),
                Builtin::Deployment => self.list::<Deployment>("deployments.apps", None),
                Builtin::StatefulSet => self.list::<StatefulSet>("statefulsets.apps", None),
            }
            .read_as::<WorkloadWire>(),
        }
    }

    pub(super) fn read(&self, body: &[u8]) -> serde_json::Result<Answer> {
        Ok(match self.of {
            Listed::Pdbs => Answer::Pdbs(Page::read::<PdbWire>(body)?),
            Listed::Pods => Answer::Drained(Page::read::<DrainedPodWire>(body)?),
            Listed::Workloads(_) => Answer::Workloads(Page::read::<WorkloadWire>(body)?),
            Listed::Node(_) => Answer::Nodes(serde_json::from_slice::<NodesWire>(body)?.items.len()),
        })
    }

    fn list<K: Resource<DynamicType = ()>>(&self, resource: &'static str, name: Option<&str>) -> Request {
        let mut params = ListParams::default().limit(PAGE);
        params.continue_token = self.token.as_deref().map(str::to_owned);
        params.field_selector = name.map(|name| format!("metadata.name={name}"));
        let http = requests_to::<K>(self.namespace.as_deref()).list(&params);
        let target = match &self.namespace {
            Some(namespace) => format!("in {namespace}"),
            None => "in all namespaces".to_owned(),
        };
        Request::new(Verb::List, resource, &target, http)
    }
}
