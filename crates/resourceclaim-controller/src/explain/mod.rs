//! `resourceclaim-controller explain NAMESPACE/POD|NAMESPACE/CLAIM`: each entry of a pod with its claim, or each user of a
//! claim, what would be done now, and why.

mod read;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use controller_core::meta::{ObjectKey, Uid};

pub use self::read::find;
use crate::decide::{Being, Gates, Known};
use crate::view::{ClaimView, Consumer, ConsumerKind, PodGroupView, PodView, TemplateView};

/// What is there to explain, as the API server has it.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The pod of the name that was asked for.
    pub pod: Option<PodView>,
    /// The claim of that name.
    pub claim: Option<ClaimView>,
    /// The group of the pod.
    pub group: Option<PodGroupView>,
    /// The claims of the namespace.
    pub claims: BTreeMap<ObjectKey, Arc<ClaimView>>,
    /// The templates of the namespace.
    pub templates: BTreeMap<ObjectKey, Arc<TemplateView>>,
    /// Who has the names of the claims' consumers and owners.
    pub beings: HashMap<Name, Being>,
    /// The gates of the flags, as far as the API server goes along.
    pub gates: Gates,
}

/// The name of a pod or a group.
pub type Name = (ConsumerKind, Arc<str>);

impl Found {
    /// Who has the name of the consumer.
    fn being(&self, consumer: &Consumer) -> Option<Being> {
        let name = (consumer.kind, Arc::clone(&consumer.name));
        self.beings.get(&name).cloned()
    }
}

impl Known for Found {
    fn claim(&self, key: &ObjectKey) -> Option<Arc<ClaimView>> {
        self.claims.get(key).cloned()
    }

    fn controlled_by(&self, uid: &Uid) -> Vec<Arc<ClaimView>> {
        let claims = self.claims.values().filter(|claim| claim.is_controlled_by(uid));
        claims.cloned().collect()
    }

    fn template(&self, key: &ObjectKey) -> Option<Arc<TemplateView>> {
        self.templates.get(key).cloned()
    }
}

/// Explains what was found; nothing when neither a pod nor a claim has the name. What a controller that runs would
/// remember is not known here.
pub fn explain(found: &Found) -> Option<String> {
    let pod = found.pod.as_ref().map(|pod| text::Pod(found, pod).to_string());
    let claim = found
        .claim
        .as_ref()
        .map(|claim| text::Claim(found, claim).to_string());
    match (pod, claim) {
        (None, None) => None,
        (pod, claim) => Some(pod.into_iter().chain(claim).collect()),
    }
}
