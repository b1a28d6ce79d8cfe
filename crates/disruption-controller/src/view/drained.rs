//! What a drain must know of a pod, apart from what a budget must.

use std::convert::Infallible;
use std::sync::Arc;

use controller_core::cache::View;
use controller_core::meta::ObjectKey;
use jiff::Timestamp;

use super::PodView;

/// What `blockers` keeps of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainedPod {
    pub pod: Arc<PodView>,
    /// Since when its condition `Ready` is what it is; its creation, if it has no such condition.
    pub since: Option<Timestamp>,
    /// A kubelet made it of a file.
    pub mirror: bool,
    /// It has an `emptyDir`.
    pub empty_dir: bool,
    /// What else holds it; most pods have none.
    pub hold: Option<Box<Hold>>,
}

/// What holds a pod on its node, besides budgets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// `metadata.deletionTimestamp`: when its grace period ends.
    pub ends: Option<Timestamp>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Arc<str>>,
    /// Annotated `karpenter.sh/do-not-disrupt: "true"`.
    pub do_not_disrupt: bool,
    /// Annotated `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`.
    pub not_safe_to_evict: bool,
}

impl View for DrainedPod {
    type Index = Infallible;

    fn key(&self) -> &ObjectKey {
        &self.pod.key
    }
}
