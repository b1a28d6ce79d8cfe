//! The reason and the fix in words. `blockers` and `explain` say the same.

use std::collections::BTreeMap;

use super::filters::Obstacle;
use super::{Awaited, Finding, Judged, Reason, Verdict};
use crate::decide::{Best, DELETION_TIMEOUT, Fate, Never, Outlook, Scale};
use crate::view::{Amount, DrainedPod, PdbView, Phase};

/// How many pods, controllers or budgets a reason names.
const NAMED: usize = 3;

/// A pod that the Eviction API takes.
pub(super) fn goes(pod: &DrainedPod, budgets: &[&Judged<'_>], held: &[Obstacle]) -> Finding {
    let (reason, message, fix) = match held {
        [] => (Reason::Evictable, taken(pod, budgets), String::new()),
        [worst, ..] => {
            let messages: Vec<_> = held.iter().map(|obstacle| said(obstacle, pod)).collect();
            let fixes: Vec<_> = held.iter().map(|obstacle| remedy(obstacle, pod)).collect();
            (
                Reason::Held(worst.clone()),
                messages.join(", and "),
                fixes.join("; "),
            )
        }
    };
    Finding {
        verdict: Verdict::Now,
        reason,
        message,
        fix,
    }
}

/// Why the Eviction API takes the pod.
fn taken(pod: &DrainedPod, budgets: &[&Judged<'_>]) -> String {
    match budgets {
        _ if pod.pod.deleting => "it is being deleted already".to_owned(),
        _ if pod.pod.is_over() => "it has ended".to_owned(),
        _ if pod.pod.phase == Phase::Pending => "it is Pending, for which no budget counts".to_owned(),
        [] => "no budget selects it".to_owned(),
        [budget, ..] if !pod.pod.ready && budget.said().allowed <= 0 => {
            format!("it is not ready, and {} lets such pods go", name(budget.pdb()))
        }
        [budget, ..] => {
            let allowed = budget.said().allowed;
            let differs = budget
                .differs()
                .map(|ours| format!(", though its pods allow {ours}"));
            let differs = differs.unwrap_or_default();
            format!("{} allows {allowed}{differs}", name(budget.pdb()))
        }
    }
}

/// What holds a pod that the Eviction API takes.
fn said(obstacle: &Obstacle, pod: &DrainedPod) -> String {
    match obstacle {
        Obstacle::Terminating(ends, finalizers) => match finalizers.as_slice() {
            [] => format!(
                "it is being deleted, its grace period ended at {ends}, and the kubelet of {} has not ended it",
                pod.pod.node.as_deref().unwrap_or("its node")
            ),
            [finalizer] => {
                format!(
                    "it is being deleted, its grace period ended at {ends}, and the finalizer {finalizer} holds it"
                )
            }
            finalizers => format!(
                "it is being deleted, its grace period ended at {ends}, and the finalizers {} hold it",
                finalizers.join(", ")
            ),
        },
        Obstacle::NoController => {
            "no controller makes it again, so kubectl drain asks for --force".to_owned()
        }
        Obstacle::EmptyDir => {
            "its emptyDir would be lost, so kubectl drain asks for --delete-emptydir-data".to_owned()
        }
        Obstacle::DoNotDisrupt => "Karpenter leaves it alone by karpenter.sh/do-not-disrupt".to_owned(),
        Obstacle::NotSafeToEvict => {
            "the cluster-autoscaler keeps its node by cluster-autoscaler.kubernetes.io/safe-to-evict"
                .to_owned()
        }
    }
}

fn remedy(obstacle: &Obstacle, pod: &DrainedPod) -> String {
    match obstacle {
        Obstacle::Terminating(_, finalizers) if finalizers.is_empty() => format!(
            "see whether {} is up; if it never comes back, delete the pod with --force --grace-period=0",
            pod.pod.node.as_deref().unwrap_or("its node")
        ),
        Obstacle::Terminating(..) => "see why whoever set the finalizer does not remove it".to_owned(),
        Obstacle::NoController => "give kubectl drain --force, which loses the pod".to_owned(),
        Obstacle::EmptyDir => "give kubectl drain --delete-emptydir-data".to_owned(),
        Obstacle::DoNotDisrupt => "remove the annotation karpenter.sh/do-not-disrupt".to_owned(),
        Obstacle::NotSafeToEvict => {
            "remove the annotation cluster-autoscaler.kubernetes.io/safe-to-evict".to_owned()
        }
    }
}

/// Why the Eviction API refuses a pod that these budgets select. `budget` is the first.
pub(super) fn refused(
    reason: &Reason,
    budgets: &[&Judged<'_>],
    budget: &Judged<'_>,
    held: &[Obstacle],
) -> String {
    let pdb = name(budget.pdb());
    let said = budget.said();
    let message = match reason {
        Reason::SeveralBudgets => {
            let names = budgets.iter().map(|budget| budget.pdb().key.name.to_string());
            format!(
                "the PodDisruptionBudgets {} select it, and the Eviction API refuses such a pod",
                some_of(names.collect())
            )
        }
        Reason::Never(_) => never(budget).unwrap_or_default(),
        Reason::StatusOutdated => {
            let (observed, generation) = (said_generation(budget), budget.pdb().generation);
            let ours = budget.differs().unwrap_or(said.allowed);
            let behind = if observed < generation {
                format!("is of generation {observed}, and its spec of {generation}")
            } else {
                format!("allows {}, and its pods allow {ours}", said.allowed)
            };
            format!("the status of {pdb} {behind}; waits for the disruption controller to write it")
        }
        Reason::TooManyEvictions => format!(
            "{pdb} has {} approved evictions of pods that still exist",
            budget.pdb().status.disrupted_pods.len()
        ),
        Reason::NotComputable => {
            let failure = match (&budget.decision.result, &budget.outlook) {
                (Err(failure), _) | (_, Outlook::Unknown(failure)) => failure.to_string(),
                _ => "the reason is gone".to_owned(),
            };
            format!("{pdb} cannot be computed: {failure}")
        }
        Reason::NotEnoughHealthy => budget.awaited().message.clone(),
        Reason::Evictable | Reason::Held(_) => String::new(),
    };
    match asked_for(held).as_slice() {
        [] => message,
        flags => format!("{message}; kubectl drain also asks for {}", flags.join(" and ")),
    }
}

/// The flags of `kubectl drain` that the pod needs.
fn asked_for(held: &[Obstacle]) -> Vec<&'static str> {
    let flags = held.iter().filter_map(|obstacle| match obstacle {
        Obstacle::NoController => Some("--force"),
        Obstacle::EmptyDir => Some("--delete-emptydir-data"),
        _ => None,
    });
    flags.collect()
}

fn said_generation(budget: &Judged<'_>) -> i64 {
    budget.pdb().status.observed_generation
}

/// Why the budget never lets a pod go; `None` if it does.
pub fn never(budget: &Judged<'_>) -> Option<String> {
    let Outlook::Never(never, best) = &budget.outlook else {
        return None;
    };
    let pdb = name(budget.pdb());
    let asks = demand(budget.pdb());
    let Best {
        healthy,
        desired,
        expected,
        ..
    } = best;
    Some(match never {
        Never::MaxUnavailableZero => format!("{pdb} lets no pod go ({asks})"),
        Never::MinAvailableTooHigh if matches!(budget.pdb().min_available, Some(Amount::Int(_))) => {
            format!(
                "{pdb} keeps {} healthy, and has no more than {healthy} ({asks})",
                pods(*desired)
            )
        }
        Never::MinAvailableTooHigh => {
            format!("{pdb} keeps {desired} of {} healthy ({asks})", pods(*expected))
        }
        Never::SelectorTooNarrow => format!(
            "{pdb} keeps {desired} of the {} of {}, and selects no more than {healthy} ({asks})",
            pods(*expected),
            controllers(budget)
        ),
        Never::UnmanagedPods => {
            format!("{pdb} expects no pods, for no controller wants those that it selects ({asks})")
        }
        Never::NothingExpected => format!(
            "{pdb} expects no pods, for {} wants none ({asks})",
            controllers(budget)
        ),
        Never::ControllerGone(cause) | Never::NoScale(cause) | Never::InvalidBudget(cause) => {
            format!("{pdb} cannot be computed: {cause}")
        }
    })
}

/// What to do, for the first budget of the pod; empty if only time helps.
pub(super) fn fix(
    reason: &Reason,
    budgets: &[&Judged<'_>],
    budget: &Judged<'_>,
    held: &[Obstacle],
) -> String {
    let fix = match reason {
        Reason::SeveralBudgets => {
            let others = budgets.iter().skip(1);
            let others = others.map(|budget| budget.pdb().key.name.to_string());
            format!(
                "keep {}, and delete {} or change the selectors",
                budget.pdb().key.name,
                some_of(others.collect())
            )
        }
        Reason::Never(_) => never_fix(budget).unwrap_or_default(),
        Reason::NotEnoughHealthy if budget.awaited().has_ill => {
            "make the pods that it waits for ready".to_owned()
        }
        _ => String::new(),
    };
    match asked_for(held).as_slice() {
        [] => fix,
        flags if fix.is_empty() => format!("give kubectl drain {}", flags.join(" ")),
        flags => format!("{fix}; give kubectl drain {}", flags.join(" ")),
    }
}

/// The field to change and a value that works, for a budget that never lets a pod go.
pub fn never_fix(budget: &Judged<'_>) -> Option<String> {
    let Outlook::Never(never, best) = &budget.outlook else {
        return None;
    };
    let pdb = &budget.pdb().key.name;
    let pods = format!("set minAvailable: {}", best.min_available());
    let pods = if budget.pdb().max_unavailable.is_some() {
        format!("{pods} instead of maxUnavailable")
    } else {
        pods
    };
    let relative = match best.max_unavailable() {
        Some(most) if budget.pdb().min_available.is_some() => {
            format!("set maxUnavailable: {most} instead of minAvailable")
        }
        Some(most) => format!("set maxUnavailable: {most}"),
        None => pods.clone(),
    };
    Some(match never {
        Never::MaxUnavailableZero | Never::MinAvailableTooHigh => format!("{relative} in {pdb}"),
        Never::SelectorTooNarrow => {
            format!(
                "have {pdb} select every pod of {}, or {pods}",
                controllers(budget)
            )
        }
        Never::UnmanagedPods | Never::NothingExpected | Never::NoScale(_) => format!("{pods} in {pdb}"),
        Never::ControllerGone(_) => format!("delete the pods whose controller is gone, or {pods} in {pdb}"),
        Never::InvalidBudget(_) => format!("correct the spec of {pdb}"),
    })
}

/// What a budget of too few healthy pods waits for, and since when.
pub(super) fn awaited(budget: &Judged<'_>) -> Awaited {
    let numbers = budget
        .decision
        .result
        .as_ref()
        .map_or_else(|_| budget.said(), |ours| (*ours).into());
    let mut awaited: Vec<String> = budget.pods.iter().filter_map(|pod| why_ill(pod)).collect();
    awaited.extend(approved(budget));
    awaited.extend(missing(budget));
    let awaited = if awaited.is_empty() {
        String::new()
    } else {
        format!("; waits for {}", some_of(awaited))
    };
    let (kept, has) = (pods(numbers.desired), numbers.healthy);
    let pdb = name(budget.pdb());
    Awaited {
        message: format!("{pdb} keeps {kept} healthy, and has {has}{awaited}"),
        has_ill: budget.pods.iter().any(|pod| is_ill(pod)),
    }
}

/// True for a pod that could be ready, and is not.
fn is_ill(pod: &DrainedPod) -> bool {
    !pod.pod.ready && pod.pod.is_live()
}

/// Why the pod does not count, and since when; `None` if it does, or is over.
fn why_ill(pod: &DrainedPod) -> Option<String> {
    let name = &pod.pod.key.name;
    let since = pod
        .since
        .map(|since| format!(" since {since}"))
        .unwrap_or_default();
    let ends = pod.hold.as_deref().and_then(|hold| hold.ends);
    match ends {
        Some(ends) if pod.pod.deleting => Some(format!("{name} (being deleted, until {ends})")),
        _ if !is_ill(pod) => None,
        _ if pod.pod.node.is_none() => Some(format!("{name} (not scheduled{since})")),
        _ => Some(format!("{name} (not ready{since})")),
    }
}

/// The healthy pods whose eviction was approved.
fn approved<'a>(budget: &'a Judged<'_>) -> impl Iterator<Item = String> + 'a {
    let dropped = budget
        .decision
        .plan
        .as_ref()
        .map_or(&[][..], |plan| &plan.dropped);
    let going = budget.situation.entries.iter().filter(move |entry| {
        matches!(entry.fate, Fate::Here { healthy: true, .. }) && !dropped.contains(&entry.name)
    });
    going.map(|entry| {
        let (name, since) = (&entry.name, entry.since);
        let minutes = DELETION_TIMEOUT.as_secs() / 60;
        format!("{name} (its eviction was approved at {since}, and counts for {minutes} min)")
    })
}

/// The pods that the controllers want, and that do not exist.
fn missing<'a>(budget: &'a Judged<'_>) -> impl Iterator<Item = String> + 'a {
    let counts = &budget.situation.counts;
    let mut by_uid = BTreeMap::new();
    for (controller, owned) in &counts.controllers {
        if let Some(Scale::Of {
            uid, replicas, who, ..
        }) = budget.scales.get(controller)
        {
            let (_, _, has) = by_uid.entry(uid.clone()).or_insert((who, *replicas, 0));
            *has += owned.pods - owned.terminating;
        }
    }
    let short = by_uid.into_values().filter(|(_, wanted, has)| has < wanted);
    short.map(|(who, wanted, has)| format!("{} more of {who}", pods(wanted - has)))
}

/// The controllers of the budget's pods.
fn controllers(budget: &Judged<'_>) -> String {
    let mut names: Vec<_> = budget
        .scales
        .values()
        .filter_map(|scale| match scale {
            Scale::Of { who, .. } => Some(who.clone()),
            Scale::Pods(kind) => Some(kind.to_string()),
            Scale::Gone | Scale::Unknown(_) => None,
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    some_of(names)
}

fn name(pdb: &PdbView) -> String {
    format!("PodDisruptionBudget {}", pdb.key.name)
}

/// The field of the spec, as it is written there.
fn demand(pdb: &PdbView) -> String {
    match (&pdb.min_available, &pdb.max_unavailable) {
        (Some(min), None) => format!("minAvailable {min}"),
        (None, Some(max)) => format!("maxUnavailable {max}"),
        _ => "its spec".to_owned(),
    }
}

/// `a, b and c`, or `a, b, c and 7 more`.
pub(super) fn some_of(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    match names.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn pods(count: i64) -> String {
    match count {
        1 => "1 pod".to_owned(),
        count => format!("{count} pods"),
    }
}
