//! Judges pods by the cache, and by an answer of the API server.

use std::borrow::Cow;
use std::sync::Arc;

use controller_core::controller::{Action, Context, Reply};
use jiff::SignedDuration;

use crate::TaintEvictionController;
use crate::decide::{self, Judgement, TaintStay, Verdict, after_jump};
use crate::reconcile::StateChange;
use crate::requests::Answer;
use crate::results::taints_of;
use crate::view::{PodView, Taint};

impl TaintEvictionController {
    /// Judges pods; a pod whose judgement is unchanged is only scheduled.
    pub(crate) fn reconcile_judging(&self, cx: &Context<'_, Self>, pods: Vec<Arc<PodView>>) -> Action<Self> {
        let mut judged = Vec::new();
        let mut requeues = Vec::new();
        for pod in pods {
            let judgement = self.judge(cx, &pod);
            match (&judgement.verdict, cx.state.eviction_of(&pod)) {
                _ if !cx.state.knows(&pod, &judgement) => judged.push((pod, judgement)),
                (Verdict::Evict(pending), Some(entry)) => {
                    requeues.push((cx.state.brake.first_key(&pod.key), entry.requeue(pending)));
                }
                _ => {}
            }
        }
        if judged.is_empty() {
            Action::Done(requeues)
        } else {
            Action::Remember(StateChange::Judged(judged))
        }
    }

    /// Judges a pod by the cache.
    pub(crate) fn judge(&self, cx: &Context<'_, Self>, pod: &PodView) -> Judgement {
        let taints = cx.state.taints.of(&pod.node);
        self.judge_on(cx, pod, &taints, SignedDuration::ZERO)
    }

    fn judge_on(
        &self,
        cx: &Context<'_, Self>,
        pod: &PodView,
        taints: &[TaintStay],
        ahead: SignedDuration,
    ) -> Judgement {
        let Context { state, now, .. } = cx;
        let jumped = state.clock.jumped(*now);
        let first_sight = state.first_sight(pod, state.clock.without_jumps(*now));
        let bound = decide::bound(pod, after_jump(first_sight, jumped));
        let mut remembered = Cow::Borrowed(state.remembered(pod));
        let mut taints = Cow::Borrowed(taints);
        if !jumped.is_zero() {
            let remembered = remembered.to_mut().iter_mut().map(|known| &mut known.since);
            let moments = remembered.chain(taints.to_mut().iter_mut().map(|seen| &mut seen.since));
            moments.for_each(|since| *since = since.after_jump(jumped));
        }
        let now = decide::JudgementTime {
            ours: now.wall,
            ahead,
            behind: state.clock.behind(*now),
            sight: state.sight.after_jump(jumped),
        };
        let judge = |taints: &[TaintStay]| decide::judge(pod, bound, taints, &remembered, &now, &self.rules);
        let mut judgement = decide::by_least_held(&taints, |taint| self.holds(taint), now.ours, judge);
        for known in &mut judgement.remembered {
            known.since = known.since.after_jump(-jumped);
        }
        judgement
    }

    /// How much an eviction by this taint is held back: not at all, by the brake, or by budgets.
    fn holds(&self, taint: &Taint) -> u8 {
        let by_budgets = self.through_budgets.iter().any(|entry| entry.selects(taint));
        let by_brake = self.brake.as_ref().is_some_and(|brake| !brake.exempts(taint));
        if by_budgets { 2 } else { by_brake.into() }
    }

    /// Judges a pod by the taints on the API server, without remembering anything. Returns also whether these are the
    /// taints of the cache: if not, the watch will tell whether a new one took the place of another (TE-5).
    pub(crate) fn judge_fresh(
        &self,
        cx: &Context<'_, Self>,
        pod: &PodView,
        cache: &Reply<Answer>,
        ahead: SignedDuration,
    ) -> (Verdict, bool) {
        let known = cx.state.taints.of(&pod.node);
        let judge = |taints: &[TaintStay]| self.judge_on(cx, pod, taints, ahead).verdict;
        let Some(taints) = taints_of(cache) else {
            return (judge(&known), true);
        };
        let confirmed = decide::confirmed(&known, taints);
        // Taints that the cache has not shown yet get stays that nothing is remembered for.
        let mut unknown = u64::MAX;
        let now = cx.state.clock.without_jumps(cx.now);
        let seen = decide::seen(&confirmed, taints, now, || {
            unknown -= 1;
            unknown
        });
        (judge(&seen), confirmed.len() == known.len())
    }
}
