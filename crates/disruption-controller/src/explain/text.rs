//! The explanation in words.

use std::fmt;
use std::sync::Arc;

use super::{Explanation, Workload};
use crate::decide::{Demand, Numbers, Scale, StatusPatch};
use crate::drain::words;
use crate::selector::Selector;
use crate::view::{Amount, Condition, PdbView};

/// How many names a list shows; a namespace may have tens of thousands.
const NAMED: usize = 20;

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pdb, selected) = (&self.judged.situation.pdb, self.judged.situation.counts.matched);
        writeln!(f, "PodDisruptionBudget {}: {}", pdb.key, Asked(pdb))?;
        match &*pdb.selector {
            Selector::Nothing => writeln!(f, "selects no pods: it has no selector")?,
            Selector::Invalid(_) => writeln!(f, "selects no pods: its selector is invalid")?,
            selector @ Selector::Where(..) => writeln!(f, "selects {} by {selector}", pods(selected))?,
        }
        self.write_shared(f)?;
        for workload in self.workloads() {
            writeln!(f, "  {workload}")?;
        }
        match self.unmanaged().as_slice() {
            [] => {}
            [pod] => writeln!(
                f,
                "  1 has no controller, so it is not expected, though it counts when healthy: {pod}"
            )?,
            pods => writeln!(
                f,
                "  {} have no controller, so they are not expected, though they count when healthy: {}",
                pods.len(),
                Names(pods)
            )?,
        }
        match (&self.judged.decision.result, self.demand) {
            (Ok(numbers), Some(demand)) => self.write_numbers(f, *numbers, demand)?,
            (Ok(_), None) => {}
            (Err(failure), _) => {
                self.write_unhealthy(f)?;
                writeln!(f, "disruptionsAllowed 0, for it cannot be computed: {failure}")?;
            }
        }
        match &self.judged.decision.plan {
            None => writeln!(f, "its status says so")?,
            Some(write) => writeln!(
                f,
                "its status does not say so yet; to be written: {}",
                Changes(write)
            )?,
        }
        match (words::never(self.judged), words::never_fix(self.judged)) {
            (Some(why), Some(fix)) => writeln!(f, "no state of its pods lets one go: {why}. Fix: {fix}."),
            _ => Ok(()),
        }
    }
}

impl Explanation<'_> {
    fn write_numbers(&self, f: &mut fmt::Formatter<'_>, numbers: Numbers, demand: Demand) -> fmt::Result {
        let Numbers {
            allowed,
            current,
            desired,
            expected,
        } = numbers;
        let unavailable = i64::from(expected) - i64::from(desired);
        let from_expected = match demand {
            Demand::Nothing => "nothing is asked for",
            Demand::Available(_) => "as many as it selects",
            _ if self.judged.situation.counts.controllers.is_empty() => "no controller wants pods",
            _ if self.judged.scales.values().any(Scale::counts_pods) => {
                "what the controllers of its pods want, or the pods that exist"
            }
            _ => "what the controllers of its pods want",
        };
        writeln!(f, "expectedPods {expected}: {from_expected}")?;
        let from_desired = match demand {
            Demand::Nothing => "nothing is asked for".to_owned(),
            Demand::Available(_) => "minAvailable".to_owned(),
            Demand::AvailablePercent(percent) => format!("{percent}% of {expected} expected, rounded up"),
            Demand::Unavailable(may) if may > i64::from(expected) => {
                format!("{expected} expected, of which {may} may be unavailable")
            }
            Demand::Unavailable(may) => format!("{expected} expected less {may} that may be unavailable"),
            Demand::UnavailablePercent(percent) => format!(
                "{expected} expected less {unavailable} that may be unavailable ({percent}%, rounded up)"
            ),
        };
        writeln!(f, "desiredHealthy {desired}: {from_desired}")?;
        match self.unhealthy().len() {
            0 => writeln!(f, "currentHealthy {current}: all that it selects")?,
            lost => writeln!(
                f,
                "currentHealthy {current}: {} selected less {lost} that {} count",
                self.judged.situation.counts.matched,
                if lost == 1 { "does not" } else { "do not" }
            )?,
        }
        self.write_unhealthy(f)?;
        let missing = i64::from(desired) - i64::from(current);
        let from_allowed = if expected <= 0 {
            "no pods are expected".to_owned()
        } else if missing > 0 {
            format!("{current} healthy, {missing} fewer than desired")
        } else {
            format!("{current} healthy less {desired} desired")
        };
        writeln!(f, "disruptionsAllowed {allowed}: {from_allowed}")
    }

    fn write_unhealthy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unhealthy = self.unhealthy();
        for (pod, why) in unhealthy.iter().take(NAMED) {
            writeln!(f, "  {pod} does not count: {why}")?;
        }
        match unhealthy.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => writeln!(f, "  nor do {more} more"),
        }
    }

    fn write_shared(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (others, pods) in self.shared() {
            let others = match others.as_slice() {
                [other] => format!("PodDisruptionBudget {other} selects them"),
                others => format!("PodDisruptionBudgets {} select them", others.join(", ")),
            };
            writeln!(
                f,
                "  the Eviction API refuses these, for {others}, too: {}",
                Names(&pods)
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = &self.who;
        let has = match self.terminating {
            0 => format!("has {}", self.pods),
            terminating if terminating == self.pods => format!("has {terminating}, all being deleted"),
            terminating => format!("has {}, {terminating} of them being deleted", self.pods),
        };
        match &self.scale {
            Scale::Of {
                replicas,
                live,
                below,
                ..
            } => {
                let source = match below.as_slice() {
                    [] if !live => String::new(),
                    [] => " (read from its scale)".to_owned(),
                    below => format!(" (the first with a scale, above {})", below.join(" and ")),
                };
                write!(f, "{who} wants {replicas}{source}, {has}")
            }
            Scale::Pods(_) => write!(f, "{who}: the pods that exist are expected, {has}"),
            Scale::Gone if self.terminating == self.pods => write!(f, "{who} is gone and wants 0, {has}"),
            Scale::Gone => write!(f, "{who} is gone, {has}"),
            Scale::Unknown(failure) => write!(f, "{who} {has}; how many it wants is not known: {failure}"),
        }
    }
}

/// What a write changes, old and new.
struct Changes<'a>(&'a StatusPatch);

impl fmt::Display for Changes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(write) = self;
        let now = &write.pdb.status;
        let then = write.applied_to(&write.pdb, None).status;
        let fields = [
            (
                "disruptionsAllowed",
                then.disruptions_allowed,
                now.disruptions_allowed,
            ),
            ("currentHealthy", then.current_healthy, now.current_healthy),
            ("desiredHealthy", then.desired_healthy, now.desired_healthy),
            ("expectedPods", then.expected_pods, now.expected_pods),
            (
                "observedGeneration",
                then.observed_generation,
                now.observed_generation,
            ),
        ];
        let differing = fields.iter().filter(|(_, then, now)| then != now);
        let mut changes: Vec<_> = differing
            .map(|(field, then, now)| format!("{field} {then} (now {now})"))
            .collect();
        let Condition {
            allowed,
            reason,
            message,
            ..
        } = &write.condition;
        let stands = now.condition.as_ref().is_some_and(|held| {
            held.allowed == *allowed && held.reason == *reason && held.message == *message
        });
        if !stands {
            let word = if *allowed { "True" } else { "False" };
            changes.push(format!("DisruptionAllowed={word} ({reason})"));
        }
        if !write.dropped.is_empty() {
            changes.push(format!("disruptedPods without {}", Names(&write.dropped)));
        }
        if changes.is_empty() {
            changes.push("observedGeneration of its condition".to_owned());
        }
        f.write_str(&changes.join(", "))
    }
}

/// The first names, and the number of the others.
struct Names<'a>(&'a [Arc<str>]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(all) = self;
        let named = all.len().min(NAMED);
        f.write_str(&all[..named].join(", "))?;
        match all.len() - named {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

fn pods(count: i64) -> String {
    match count {
        0 => "no pods".to_owned(),
        1 => "1 pod".to_owned(),
        count => format!("{count} pods"),
    }
}

/// What a budget demands, as in its spec.
struct Asked<'a>(&'a PdbView);

impl fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(pdb) = self;
        match (&pdb.min_available, &pdb.max_unavailable) {
            (None, None) => f.write_str("neither minAvailable nor maxUnavailable"),
            (Some(min), None) => write!(f, "minAvailable {min}"),
            (None, Some(max)) => write!(f, "maxUnavailable {max}"),
            (Some(min), Some(max)) => write!(f, "minAvailable {min} and maxUnavailable {max}"),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(pods) => pods.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Other => f.write_str("no amount"),
        }
    }
}
