//! What there is to explain, from the API server.

use std::collections::BTreeSet;
use std::sync::Arc;

use controller_core::api::CallFailed;
use controller_core::meta::{ObjectKey, Uid};

use super::{Found, Name};
use crate::decide::{ClaimantKind, Gates};
use crate::gates::Answers;
use crate::requests::{Answer, Question};
use crate::view::{ClaimView, ConsumerKind, PodView, beside};

/// The pod and the claim of this name, and all that counts for them, as far as the answers go.
pub(super) fn find(answers: &mut Answers<'_>, gates: Gates, key: &ObjectKey) -> Result<Found, CallFailed> {
    let pod = answers.get(Question::Claimant(ClaimantKind::Pod, key.clone()))?;
    let claim = answers.get(Question::Claim(key.clone()))?;
    let mut found = Found {
        gates: answers.gates(gates)?,
        pod: pod.and_then(Answer::pod).map(|pod| pod.view.clone()),
        claim: claim.and_then(Answer::claim).map(|claim| claim.view.clone()),
        ..Found::default()
    };
    if let Some(pod) = found.pod.clone() {
        find_beside(answers, &mut found, &pod)?;
    }
    let of_pod: Vec<_> = found.pod.iter().flat_map(PodView::claims).collect();
    let of_pod = of_pod
        .iter()
        .filter_map(|name| found.claims.get(&beside(key, name)));
    let claims = of_pod.map(|claim| &**claim).chain(&found.claim);
    for (name, uid) in claims.flat_map(names_in).collect::<BTreeSet<_>>() {
        let kind = match name.0 {
            ConsumerKind::Pod => ClaimantKind::Pod,
            ConsumerKind::PodGroup if found.gates.workload_claims => ClaimantKind::PodGroup,
            ConsumerKind::PodGroup | ConsumerKind::Other => continue,
        };
        if let Some(Answer::Being(being)) = answers.get(Question::Being(kind, beside(key, &name.1), uid))? {
            found.beings.insert(name, being.clone());
        }
    }
    Ok(found)
}

/// What there is in the namespace of the pod, and its group.
fn find_beside(answers: &mut Answers<'_>, found: &mut Found, pod: &PodView) -> Result<(), CallFailed> {
    let namespace = &pod.key.namespace;
    if let Some(Answer::Claims(claims)) = answers.get(Question::Claims(namespace.clone()))? {
        let claims = claims.iter();
        found.claims = claims
            .map(|claim| (claim.key.clone(), Arc::new(claim.clone())))
            .collect();
    }
    if let Some(Answer::Templates(templates)) = answers.get(Question::Templates(namespace.clone()))? {
        let templates = templates.iter();
        found.templates = templates
            .map(|template| (template.key.clone(), Arc::new(template.clone())))
            .collect();
    }
    if let (Some(group), true) = (&pod.group, found.gates.workload_claims) {
        let question = Question::Claimant(ClaimantKind::PodGroup, beside(&pod.key, group));
        let group = answers.get(question)?.and_then(Answer::group);
        found.group = group.map(|group| group.view.clone());
    }
    Ok(())
}

/// For whom the claim is reserved, and the pod that controls it.
fn names_in(claim: &ClaimView) -> impl Iterator<Item = (Name, Uid)> + '_ {
    let consumers = claim.reserved.iter();
    let consumers =
        consumers.map(|consumer| ((consumer.kind, Arc::clone(&consumer.name)), consumer.uid.clone()));
    let owner = claim.owning_pod();
    consumers.chain(owner.map(|pod| ((ConsumerKind::Pod, Arc::clone(&pod.name)), pod.uid.clone())))
}
