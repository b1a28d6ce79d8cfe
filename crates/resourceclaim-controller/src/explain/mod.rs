//! `resourceclaim-controller explain NAMESPACE/POD|NAMESPACE/CLAIM`: each entry of a pod with its claim, or each user of a
//! claim, what would be done now, and why.

mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use controller_core::api::CallFailed;
use controller_core::app::{Failure, Prepared};
use controller_core::controller::Pass;
use controller_core::meta::ObjectKey;

use crate::ResourceClaimController;
use crate::decide::{ClaimantId, ConsumerLookup, Gates, Groups, Known};
use crate::gates::{self, Answers};
use crate::requests::{Answer, Query};
use crate::view::{ClaimView, ClaimantKind, ClaimantView, Consumer, TemplateView, in_namespace_of};

/// What to explain, as the API server has it.
#[derive(Clone, Copy)]
struct Found<'a> {
    pass: &'a Pass<ResourceClaimController>,
    /// The gates set by flags that the API server supports.
    gates: Gates,
    /// The pod with the requested name.
    pod: Option<&'a ClaimantView>,
    /// The claim with the requested name.
    claim: Option<&'a ClaimView>,
    /// The group of the pod.
    group: Option<&'a ClaimantView>,
    /// The claims in the namespace of the pod.
    claims: &'a [ClaimView],
    templates: &'a [TemplateView],
}

impl<'a> Found<'a> {
    /// The pod and the claim of this name, and everything that counts for them, as far as there are answers.
    fn ask(answers: &mut Answers<'a>, asked: Gates, key: &ObjectKey) -> Result<Self, CallFailed> {
        let pod = answers.get(Query::Claimant(ClaimantKind::Pod, key.clone()))?;
        let claim = answers.get(Query::Claim(key.clone()))?;
        let mut found = Self {
            pass: answers.pass,
            gates: answers.gates(asked)?,
            pod: pod.and_then(Answer::claimant).map(|pod| &pod.view),
            claim: claim.and_then(Answer::claim).map(|claim| &claim.view),
            group: None,
            claims: &[],
            templates: &[],
        };
        if let Some(pod) = found.pod {
            found.ask_in_namespace(answers, pod)?;
        }
        let of_pod = found.pod.into_iter().flat_map(ClaimantView::claims);
        let of_pod = of_pod.filter_map(|name| found.claim(&in_namespace_of(key, &name)));
        let claims = of_pod.chain(found.claim.cloned().map(Arc::new));
        let consumers = claims.flat_map(|claim| {
            let owner = claim.owning_pod().map(Consumer::pod);
            let consumers: Vec<_> = claim.reserved.iter().cloned().chain(owner).collect();
            consumers
        });
        let queries = consumers.filter_map(|consumer| found.query(key, &consumer));
        for query in queries.collect::<BTreeSet<_>>() {
            answers.get(query)?;
        }
        Ok(found)
    }

    /// Adds the pod's group, and what is in its namespace.
    fn ask_in_namespace(&mut self, answers: &mut Answers<'a>, pod: &ClaimantView) -> Result<(), CallFailed> {
        let namespace = &pod.key.namespace;
        if let Some(Answer::Claims(claims)) = answers.get(Query::Claims(namespace.clone()))? {
            self.claims = claims;
        }
        if let Some(Answer::Templates(templates)) = answers.get(Query::Templates(namespace.clone()))? {
            self.templates = templates;
        }
        if let (Some(group), Groups::On(version)) = (&pod.group, self.gates.groups) {
            let kind = ClaimantKind::PodGroup(version);
            let query = Query::Claimant(kind, in_namespace_of(&pod.key, group));
            let group = answers.get(query)?.and_then(Answer::claimant);
            self.group = group.map(|group| &group.view);
        }
        Ok(())
    }

    /// The query whether the consumer of a claim exists; `None` if that does not count.
    fn query(&self, claim: &ObjectKey, consumer: &Consumer) -> Option<Query> {
        Some(Query::Being(ClaimantId::of_consumer(
            claim, consumer, self.gates,
        )?))
    }

    /// The object with the name of a claim's consumer.
    fn sight(&self, claim: &ClaimView, consumer: &Consumer) -> ConsumerLookup {
        let query = self.query(&claim.key, consumer);
        let reply = query.and_then(|query| self.pass.answer(&query));
        ConsumerLookup::Live(match reply.map(|reply| &reply.value) {
            Some(Ok(Answer::Being(being))) => Some(being.clone()),
            _ => None,
        })
    }
}

impl Known for Found<'_> {
    fn claim(&self, key: &ObjectKey) -> Option<Arc<ClaimView>> {
        let mut claims = self.claims.iter();
        claims.find(|claim| claim.key == *key).cloned().map(Arc::new)
    }

    fn made_for(&self, owner: &ClaimantView, entry: &str) -> Vec<Arc<ClaimView>> {
        let claims = self.claims.iter();
        let claims = claims.filter(|claim| claim.is_made_for(owner, entry));
        claims.cloned().map(Arc::new).collect()
    }

    fn template(&self, key: &ObjectKey) -> Option<Arc<TemplateView>> {
        let mut templates = self.templates.iter();
        templates
            .find(|template| template.key == *key)
            .cloned()
            .map(Arc::new)
    }
}

/// Explains the pod and the claim of this name, once everything that counts for them is read. What a running controller
/// would remember is unknown here.
pub fn explain(
    pass: &Pass<ResourceClaimController>,
    asked: Gates,
    key: &ObjectKey,
) -> Result<Prepared<Query>, Failure> {
    let mut answers = Answers::of(pass);
    let found = Found::ask(&mut answers, asked, key)?;
    if !answers.open.is_empty() {
        return Ok(Prepared::Queries(answers.open));
    }
    gates::warn(asked, found.gates);
    let pod = found.pod.map(|pod| text::Pod(&found, pod).to_string());
    let claim = found.claim.map(|claim| text::Claim(&found, claim).to_string());
    match (pod, claim) {
        (None, None) => Err(format!("no pod and no ResourceClaim {key}").into()),
        (pod, claim) => Ok(Prepared::Ready(pod.into_iter().chain(claim).collect())),
    }
}
