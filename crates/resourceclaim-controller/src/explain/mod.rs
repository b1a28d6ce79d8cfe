//! `resourceclaim-controller explain NAMESPACE/POD|NAMESPACE/CLAIM`: each entry of a pod with its claim, or each user of a
//! claim, what would be done now, and why.

mod read;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use controller_core::controller::{Explained, Pass};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::runtime::Failure;

use crate::ResourceClaimController;
use crate::decide::{Being, Gates, Known};
use crate::gates::{self, Answers};
use crate::requests::Question;
use crate::view::{ClaimView, Consumer, ConsumerKind, PodGroupView, PodView, TemplateView};

/// What is there to explain, as the API server has it.
#[derive(Clone, Debug, Default)]
struct Found {
    /// The pod of the name that was asked for.
    pod: Option<PodView>,
    /// The claim of that name.
    claim: Option<ClaimView>,
    /// The group of the pod.
    group: Option<PodGroupView>,
    /// The claims of the namespace.
    claims: BTreeMap<ObjectKey, Arc<ClaimView>>,
    /// The templates of the namespace.
    templates: BTreeMap<ObjectKey, Arc<TemplateView>>,
    /// Who has the names of the claims' consumers and owners.
    beings: HashMap<Name, Being>,
    /// The gates of the flags, as far as the API server goes along.
    gates: Gates,
}

/// The name of a pod or a group.
type Name = (ConsumerKind, Arc<str>);

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

/// Explains the pod and the claim of this name, once all that counts for them is read. What a controller that runs would
/// remember is not known here.
pub fn explain(
    pass: &Pass<ResourceClaimController>,
    asked: Gates,
    key: &ObjectKey,
) -> Result<Explained<Question>, Failure> {
    let mut answers = Answers::of(pass);
    let found = read::find(&mut answers, asked, key)?;
    if !answers.open.is_empty() {
        return Ok(Explained::Ask(answers.open));
    }
    gates::warn(asked, found.gates);
    let pod = found.pod.as_ref().map(|pod| text::Pod(&found, pod).to_string());
    let claim = found.claim.as_ref();
    let claim = claim.map(|claim| text::Claim(&found, claim).to_string());
    match (pod, claim) {
        (None, None) => Err(format!("no pod and no ResourceClaim {key}").into()),
        (pod, claim) => Ok(Explained::Text(pod.into_iter().chain(claim).collect())),
    }
}
