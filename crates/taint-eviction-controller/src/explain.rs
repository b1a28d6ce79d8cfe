//! `taint-eviction-controller explain NAMESPACE/POD`: each taint of the pod's node, the toleration used for it, and
//! when the pod goes, or why not.

use std::sync::Arc;

use controller_core::app::{Explanation, Prepared};
use controller_core::controller::{self, Pass};
use controller_core::meta::ObjectKey;
use jiff::{SignedDuration, Timestamp};

use crate::TaintEvictionController;
use crate::decide::{
    BrakeRules, Judgement, JudgementTime, KeepReason, LeaseNotes, Moment, PendingEviction, Rules, Sight,
    TaintStay, Verdict, bound, by_least_held, clock_ahead, judge, off_until, seen, used_tolerations,
};
use crate::requests::{Answer, LeaseRead, Query};
use crate::view::{PodView, Taint, Toleration};

/// Explains the pod `key`, once the pod and its node are read.
pub fn explain(
    pass: &Pass<TaintEvictionController>,
    key: &ObjectKey,
    now: controller::Now,
    rules: &Rules,
    brake: Option<&BrakeRules>,
) -> Explanation<TaintEvictionController> {
    let query = Query::Pod(key.clone());
    let pod = match pass.answer(&query).map(|reply| &reply.value) {
        None => return Ok(Prepared::Queries(vec![query])),
        Some(Ok(Answer::Pod(Some(pod)))) => pod,
        Some(Err(failed)) if !failed.is_gone() => return Err(failed.clone().into()),
        Some(_) => return Err(format!("no pod {key}, or it is bound to no node").into()),
    };
    let name = Arc::clone(&pod.node);
    let query = Query::Node { name, change: 0 };
    let Some(reply) = pass.answer(&query) else {
        return Ok(Prepared::Queries(vec![query]));
    };
    let taints = match &reply.value {
        Ok(Answer::Node(taints)) => &taints[..],
        Err(failed) if !failed.is_gone() => return Err(failed.clone().into()),
        Ok(Answer::Pod(_) | Answer::Lease(..)) | Err(_) => &[],
    };
    let ahead = reply.ahead().map(clock_ahead).unwrap_or_default();
    // By the API server's clock, like all times in the objects.
    let servers_time = now.wall.checked_sub(ahead).unwrap_or(now.wall);
    let (verdict, text) = explanation(pod, taints, ahead, servers_time, rules, brake);
    let held = brake.and_then(|brake| Some((brake, brake.lease.clone()?)));
    let (Verdict::Evict(pending), Some((brake, lease))) = (verdict, held) else {
        return Ok(Prepared::Ready(text));
    };
    if pending.deadline > servers_time || brake.exempts(&pending.taint) {
        return Ok(Prepared::Ready(text));
    }
    let query = Query::Lease(lease);
    match pass.answer(&query).map(|reply| &reply.value) {
        None => Ok(Prepared::Queries(vec![query])),
        Some(Ok(Answer::Lease(LeaseRead { notes, .. }))) => {
            Ok(Prepared::Ready(text + &held_back(&pending, notes, servers_time)))
        }
        Some(Err(failed)) if !failed.is_gone() => Err(failed.clone().into()),
        Some(_) => Ok(Prepared::Ready(text)),
    }
}

/// What the Lease says about a pod that is due.
fn held_back(pending: &PendingEviction, notes: &LeaseNotes, now: Timestamp) -> String {
    let due = pending.deadline;
    match (off_until(notes, now), notes.engaged_since) {
        (Ok(Some(until)), _) => format!("due since {due}: the brake is off until {until}\n"),
        (_, Some(since)) => {
            format!("due since {due}, held back by the brake: it holds evictions back since {since}\n")
        }
        (_, None) => String::new(),
    }
}

/// The verdict on a pod on a node with these taints, and its explanation, at `now` by the API server's clock; ours is
/// `ahead` of it. What a running controller would remember of the taints is unknown here.
fn explanation(
    pod: &PodView,
    taints: &[Taint],
    ahead: SignedDuration,
    now: Timestamp,
    rules: &Rules,
    brake: Option<&BrakeRules>,
) -> (Verdict, String) {
    let mut stay = 0;
    let taints = seen(&[], taints, now, || {
        stay += 1;
        stay
    });
    let judged_at = JudgementTime {
        ours: now,
        ahead: SignedDuration::ZERO,
        behind: SignedDuration::ZERO,
        sight: Sight::none().regained(Timestamp::MIN),
    };
    let bound = bound(pod, now);
    let holds = |taint: &Taint| brake.is_some_and(|brake| !brake.exempts(taint)).into();
    let judge = |taints: &[TaintStay]| judge(pod, bound, taints, &[], &judged_at, rules);
    let Judgement { verdict, .. } = by_least_held(&taints, holds, now, judge);
    let bound = since("", bound);
    let head = format!("Pod {}: bound to node {} {bound}\n", pod.key, pod.node);
    let clocks = if ahead.is_zero() {
        String::new()
    } else {
        format!("this machine's clock is {ahead:#} ahead of the API server's, whose time counts\n")
    };
    let used = used_tolerations(&pod.tolerations, &taints);
    let taints = taints
        .iter()
        .zip(used)
        .map(|(TaintStay { taint, since: at, .. }, used)| {
            let tolerated = toleration(pod, used);
            format!("taint {taint} {}: {tolerated}\n", since("there ", *at))
        });
    let would = format!("would {}\n", outlook(&verdict, now));
    let text = [head, clocks].into_iter().chain(taints).chain([would]);
    (verdict, text.collect())
}

/// The number of the used toleration among the pod's, from 1, and its text.
fn toleration(pod: &PodView, used: Option<&Toleration>) -> String {
    let Some(used) = used else {
        return "not tolerated".to_owned();
    };
    let before = pod
        .tolerations
        .iter()
        .take_while(|toleration| *toleration != used);
    let place = before.count() + 1;
    match used.seconds {
        None => format!("tolerated for ever by toleration {place}"),
        Some(seconds) => format!("tolerated for {seconds} s by toleration {place}"),
    }
}

fn outlook(verdict: &Verdict, now: Timestamp) -> String {
    match verdict {
        Verdict::Keep(KeepReason::BeingDeleted) => "leave it: it is being deleted".to_owned(),
        Verdict::Keep(KeepReason::Untainted) => {
            "leave it: its node has no NoExecute taint, or is gone".to_owned()
        }
        Verdict::Keep(KeepReason::ToleratesForEver) => {
            "leave it: it tolerates every taint for ever".to_owned()
        }
        Verdict::Evict(PendingEviction { taint, deadline, .. }) if *deadline <= now => {
            format!("evict it now for {taint}: deadline {deadline}")
        }
        Verdict::Evict(PendingEviction { taint, deadline, .. }) => {
            let left = deadline.duration_since(now);
            format!("evict it for {taint} at {deadline}: in {left:#}")
        }
    }
}

fn since(what: &str, moment: Moment) -> String {
    match moment {
        Moment::Stamped(at) => format!("{what}since {at}"),
        Moment::Observed(_) => {
            format!("{what}since it is first seen (no time given, or one that lies ahead)")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use controller_core::meta::{ObjectKey, Uid};

    use super::*;
    use crate::view::Operator;

    const RULES: Rules = Rules {
        comparison_operators: false,
        catch_up_grace: Duration::from_secs(30),
        toleration_extensions: false,
    };

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T{time}Z").parse().unwrap()
    }

    fn explained(taints: &[(&str, Option<&str>)], ahead: SignedDuration) -> String {
        let tolerates = |key: &str, seconds| Toleration {
            key: key.into(),
            operator: Operator::Exists,
            value: "".into(),
            seconds,
        };
        let pod = PodView {
            key: ObjectKey::namespaced("ns", "p"),
            uid: Uid::from("uid"),
            node: "n".into(),
            tolerations: Arc::new(vec![tolerates("a", Some(300)), tolerates("b", None)]),
            bound: Some(at("11:00:00")),
            generation: 1,
            deleting: false,
        };
        let taints = taints.iter().map(|(key, time)| Taint {
            key: (*key).into(),
            value: "v".into(),
            time_added: time.map(at),
        });
        let taints: Vec<_> = taints.collect();
        explanation(&pod, &taints, ahead, at("12:00:00"), &RULES, None).1
    }

    #[test]
    fn each_taint_is_reported_with_the_toleration_that_is_used_and_the_deadline() {
        assert_eq!(
            explained(&[("a", Some("11:58:00")), ("b", None)], SignedDuration::ZERO),
            "Pod ns/p: bound to node n since 2026-01-01T11:00:00Z\n\
             taint a=v:NoExecute there since 2026-01-01T11:58:00Z: tolerated for 300 s by toleration 1\n\
             taint b=v:NoExecute there since it is first seen (no time given, or one that lies ahead): tolerated for \
             ever by toleration 2\n\
             would evict it for a=v:NoExecute at 2026-01-01T12:03:00Z: in 3m\n"
        );
    }

    #[test]
    fn what_is_not_tolerated_goes_now_whatever_this_machines_clock_says() {
        assert_eq!(
            explained(&[("c", Some("11:58:00"))], SignedDuration::from_hours(1)),
            "Pod ns/p: bound to node n since 2026-01-01T11:00:00Z\n\
             this machine's clock is 1h ahead of the API server's, whose time counts\n\
             taint c=v:NoExecute there since 2026-01-01T11:58:00Z: not tolerated\n\
             would evict it now for c=v:NoExecute: deadline 2026-01-01T11:58:00Z\n"
        );
    }

    #[test]
    fn what_the_brake_does_with_a_due_pod_is_explained() {
        let pending = PendingEviction {
            taint: Arc::new(Taint {
                key: "k".into(),
                value: "".into(),
                time_added: None,
            }),
            deadline: at("11:58:00"),
            at: None,
        };
        let told = |notes: LeaseNotes| held_back(&pending, &notes, at("12:00:00"));
        let held = LeaseNotes {
            engaged_since: Some(at("11:59:00")),
            ..LeaseNotes::default()
        };
        assert_eq!(told(LeaseNotes::default()), "");
        assert_eq!(
            told(held.clone()),
            "due since 2026-01-01T11:58:00Z, held back by the brake: it holds evictions back since \
             2026-01-01T11:59:00Z\n"
        );
        let off = LeaseNotes {
            off_until: Some("2026-01-01T13:00:00Z".to_owned()),
            ..held
        };
        assert_eq!(
            told(off),
            "due since 2026-01-01T11:58:00Z: the brake is off until 2026-01-01T13:00:00Z\n"
        );
    }

    #[test]
    fn why_a_pod_stays_is_explained() {
        let untainted = explained(&[], SignedDuration::ZERO);
        assert!(untainted.ends_with("would leave it: its node has no NoExecute taint, or is gone\n"));
        let patient = explained(&[("b", None)], SignedDuration::ZERO);
        assert!(patient.ends_with("would leave it: it tolerates every taint for ever\n"));
    }
}
