//! The sync of a claim: reservations of who is gone go, then the allocation, the finalizer and the claim (RC-9 to
//! RC-15).

use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::leader::Term;
use controller_core::meta::{ObjectKey, Uid};
use controller_core::workers::Next;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::rivals::Deed;
use super::{Controller, SIDE_BY_SIDE};
use crate::apply::Applied;
use crate::decide::{
    Being, Evidence, Known, Next as NextStep, Ownership, Sight, Standing, Step, must_be_known, next_step,
    owner, standing,
};
use crate::error::Error;
use crate::view::{ClaimView, Consumer, ConsumerKind, beside};

/// How many writes one sync makes at most.
const MOST_STEPS: u32 = 4;

impl Controller {
    pub(super) async fn sync_claim(&self, key: &ObjectKey, term: &Term) -> Result<Next, Error> {
        let _turn = self.turns.take(key).await;
        let Some(mut claim) = self.caches.claim(key) else {
            return Ok(Next::Settled);
        };
        let mut evidence = Evidence {
            gone: self.gone(&claim).await.map_err(Error::Look)?,
            owner: Ownership::Leave,
            unchanged: Duration::ZERO,
        };
        // Release, finalizer, delete, finalizer: more there is not, whatever the API server answers.
        for _ in 0..MOST_STEPS {
            evidence.unchanged = self.quiet.lock().unchanged(&claim, self.clock.instant());
            if claim.reserved.is_empty() && claim.deleting.is_none() {
                evidence.owner = self.owner(&claim).await.map_err(Error::Look)?;
            }
            let step = match next_step(&claim, &evidence) {
                NextStep::Leave => return Ok(Next::Settled),
                NextStep::LookAgain(wait) => return Ok(Next::After(wait)),
                NextStep::Do(step) => step,
            };
            let deletion = Deed::deleted(&claim).filter(|_| step == Step::Delete);
            if deletion.is_some()
                && let Some(wait) = self.leave_undeleted(&claim).await
            {
                return Ok(Next::After(wait));
            }
            let sending = self.caches.written.claims.sending(key);
            let applied = self.apply.step(&claim, &step, term).await;
            let applied = applied.map_err(Error::GiveBack)?;
            if let (Some(deletion), Applied::Written(_) | Applied::Gone) = (&deletion, &applied) {
                self.did(deletion);
            }
            match applied {
                Applied::Gone => {
                    sending.is_gone(&claim);
                    return Ok(Next::Settled);
                }
                Applied::Written(written) => {
                    sending.holds(&written);
                    claim = written;
                }
                Applied::Planned => match step.done_to(&claim) {
                    Some(as_if) => claim = as_if.into(),
                    None => return Ok(Next::Settled),
                },
            }
        }
        Ok(Next::Settled)
    }

    /// The consumers of the claim that need it no more (RC-9).
    async fn gone(&self, claim: &ClaimView) -> Result<Vec<Uid>, CallFailed> {
        let consumers = claim.reserved.iter();
        let standings: Vec<_> = consumers.map(|consumer| self.standing(claim, consumer)).collect();
        let standings = stream::iter(standings).buffered(SIDE_BY_SIDE);
        let standings: Vec<_> = standings.try_collect().await?;
        let judged = claim.reserved.iter().zip(standings);
        let gone = judged.filter(|(_, standing)| matches!(standing, Standing::Done | Standing::Gone));
        Ok(gone.map(|(consumer, _)| consumer.uid.clone()).collect())
    }

    async fn standing(&self, claim: &ClaimView, consumer: &Consumer) -> Result<Standing, CallFailed> {
        let key = beside(&claim.key, &consumer.name);
        let of_group = consumer.kind == ConsumerKind::PodGroup;
        let departed = self.caches.is_departed(&consumer.uid);
        let cached = if of_group {
            self.caches.group(&key).map(|group| Being::group(&group))
        } else {
            self.caches.pod(&key).map(|pod| Being::pod(&pod))
        };
        let judged = standing(consumer, departed, &Sight::Cached(cached), self.gates);
        if judged != Standing::Unsure || !must_be_known(consumer.kind, self.gates) {
            return Ok(judged);
        }
        let live = if of_group {
            self.live.group(&key).await?.map(|group| Being::group(&group))
        } else {
            self.live.pod(&key).await?.map(|pod| Being::pod(&pod))
        };
        Ok(standing(consumer, departed, &Sight::Live(live), self.gates))
    }

    /// How it stands with the pod that controls the claim (RC-13).
    async fn owner(&self, claim: &ClaimView) -> Result<Ownership, CallFailed> {
        let Some(pod) = claim.owning_pod() else {
            return Ok(Ownership::Leave);
        };
        let key = beside(&claim.key, &pod.name);
        let departed = self.caches.is_departed(&pod.uid);
        let cached = self.caches.pod(&key).map(|pod| Being::pod(&pod));
        match owner(claim, departed, &Sight::Cached(cached)) {
            Ownership::Unsure => {
                let live = self.live.pod(&key).await?.map(|pod| Being::pod(&pod));
                Ok(owner(claim, departed, &Sight::Live(live)))
            }
            judged => Ok(judged),
        }
    }
}
