//! The rule: from the facts to the report.

use controller_core::api::CLOCK_TOLERANCE;
use jiff::SignedDuration;

use super::distributions::{Distribution, edit};
use super::report::{Check, CheckState, Finding, Level, PreflightReport};
use super::{Facts, Lease, Manager};

/// Two clocks are compared: a write this soon after a leader's term began may have been its predecessor's.
const MARGIN: SignedDuration = SignedDuration::from_secs(2);

/// Makes the report of the facts.
pub fn decide(facts: &Facts) -> PreflightReport {
    let nodes = facts.control_plane.iter().flatten().chain(&facts.some_node);
    let distribution = Distribution::of(facts.version.as_ref().ok(), &nodes);
    let (built_in_loop, mut built_in) = built_in(facts, distribution);
    if facts.shares_work {
        built_in = next_to_ours(built_in_loop, built_in);
    }
    let mut findings = vec![version(facts), clock(facts)];
    findings.extend(permissions(facts));
    findings.push(lease(facts));
    findings.push(named(distribution));
    findings.push(built_in);
    if facts.dry_run {
        // A dry run writes nothing, so no other writer is in its way.
        let others = findings
            .iter_mut()
            .filter(|finding| finding.check.is_about_writers());
        others.for_each(|finding| finding.level = finding.level.min(Level::Warning));
    }
    PreflightReport {
        controller: facts.controller,
        dry_run: facts.dry_run,
        verdict: findings
            .iter()
            .map(|finding| finding.level)
            .max()
            .unwrap_or(Level::Ok),
        built_in_loop,
        distribution: distribution.map(|distribution| distribution.id),
        findings,
    }
}

impl Check {
    const fn is_about_writers(self) -> bool {
        matches!(self, Self::Lease | Self::BuiltInLoop)
    }
}

fn version(facts: &Facts) -> Finding {
    let (oldest, newest) = (facts.supported.start(), facts.supported.end());
    let tested = format!("this release is tested with 1.{oldest} to 1.{newest}");
    let (level, text) = match &facts.version {
        Err(unread) => (Level::Unknown, unread.clone()),
        Ok(version) => {
            let level = match version.minor {
                Some(minor) if facts.supported.contains(&minor) => Level::Ok,
                Some(minor) if minor > *newest => Level::Warning,
                Some(_) => Level::Blocks,
                None => Level::Unknown,
            };
            (level, format!("Kubernetes {}; {tested}", version.release))
        }
    };
    Finding::new(Check::Version, level, text)
}

fn clock(facts: &Facts) -> Finding {
    let Some(ahead) = facts.ahead else {
        let text = "the API server does not say what time it is";
        return Finding::new(Check::Clock, Level::Warning, text);
    };
    if ahead.abs() <= CLOCK_TOLERANCE {
        return Finding::new(Check::Clock, Level::Ok, "the same as the API server's");
    }
    let side = if ahead.is_positive() { "ahead of" } else { "behind" };
    let text = format!("{:.1} s {side} the API server's", ahead.abs().as_secs_f64());
    let todo = "set the clocks of both machines by NTP".to_owned();
    Finding {
        todo: Some(todo),
        ..Finding::new(Check::Clock, Level::Warning, text)
    }
}

/// One finding for each missing permission; one finding if none is missing.
fn permissions(facts: &Facts) -> Vec<Finding> {
    let found = |level, text: String| Finding::new(Check::Permissions, level, text);
    let mut findings: Vec<_> = facts
        .permissions
        .iter()
        .filter_map(|(permission, granted)| match granted {
            Ok(true) => None,
            Ok(false) => Some(found(Level::Blocks, format!("missing: {permission}"))),
            Err(unread) => Some(found(Level::Unknown, format!("{permission}: {unread}"))),
        })
        .collect();
    if findings.is_empty() {
        let text = format!("this account has all {} that it needs", facts.permissions.len());
        findings.push(found(Level::Ok, text));
    }
    findings
}

fn lease(facts: &Facts) -> Finding {
    let found = |level, text| Finding::new(Check::Lease, level, text);
    let leases = match &facts.leases {
        Ok(leases) => leases,
        Err(unread) => return found(Level::Unknown, unread.clone()),
    };
    let mut held = leases.iter().filter(|lease| lease.is_held(facts.now));
    if let Some(Lease {
        namespace, holder, ..
    }) = held
        .clone()
        .find(|lease| lease.namespace != facts.lease_namespace)
    {
        let ours = &facts.lease_namespace;
        let text = format!("{holder} leads by a Lease in {namespace}; one in {ours} would lead, too");
        return Finding {
            todo: Some(format!("uninstall the release in {namespace}")),
            ..found(Level::Blocks, text)
        };
    }
    let mut text = match held.next() {
        Some(Lease { holder, .. }) => format!("{holder} leads; a further replica waits for it"),
        None => "nobody leads".to_owned(),
    };
    if let Err(unread) = &facts.elsewhere {
        text = format!("{text}; Leases of other namespaces are unknown: {unread}");
        return found(Level::Warning, text);
    }
    found(Level::Ok, text)
}

fn named(distribution: Option<&Distribution>) -> Finding {
    let (level, text) = match distribution {
        Some(distribution) => (Level::Ok, distribution.name),
        None => (Level::Warning, "unknown: no node and no version tells it"),
    };
    Finding::new(Check::Distribution, level, text)
}

fn built_in(facts: &Facts, distribution: Option<&Distribution>) -> (CheckState, Finding) {
    let managers = facts.managers.as_deref().unwrap_or_default();
    let works = signs_of_work(facts, managers, distribution);
    let doubts = doubts(facts, managers);
    let (state, level, text) = match (works.first(), doubts.first()) {
        (Some(sign), _) => (CheckState::On, Level::Blocks, format!("on: {sign}")),
        (None, Some(doubt)) => {
            let text = format!("cannot tell whether it is off: {doubt}");
            (CheckState::Unknown, Level::Unknown, text)
        }
        (None, None) => {
            let count = managers.len();
            let text = format!("off: each of {count} kube-controller-managers has it switched off");
            (CheckState::Off, Level::Ok, text)
        }
    };
    let mut evidence: Vec<String> = managers.iter().map(|manager| manager.line(facts)).collect();
    if let Ok(Some(lease)) = &facts.manager_lease {
        let (holder, held) = (&lease.holder, lease.is_held(facts.now));
        evidence.push(format!(
            "kube-controller-manager's Lease: {}{holder}",
            if held { "" } else { "expired, of " }
        ));
    }
    evidence.extend(works.into_iter().skip(1));
    evidence.extend(doubts.into_iter().skip(usize::from(state == CheckState::Unknown)));
    let finding = Finding {
        evidence,
        todo: (state != CheckState::Off).then(|| edit(distribution, facts.controller)),
        ..Finding::new(Check::BuiltInLoop, level, text)
    };
    (state, finding)
}

/// The finding on a built-in loop that does its part of the work next to the controller.
fn next_to_ours(state: CheckState, finding: Finding) -> Finding {
    let (level, rest) = match state {
        CheckState::Off => (Level::Warning, "nobody does what is left to it"),
        CheckState::On | CheckState::Unknown => (Level::Ok, "it may stay on"),
    };
    Finding {
        level,
        text: format!("{}; {rest}", finding.text),
        todo: None,
        ..finding
    }
}

/// Signs that the loop works; one is enough.
fn signs_of_work(facts: &Facts, managers: &[Manager], distribution: Option<&Distribution>) -> Vec<String> {
    let mut signs = Vec::new();
    let on = managers
        .iter()
        .filter(|manager| manager.is_on(facts) == Some(true));
    signs.extend(on.map(|manager| format!("{} runs it", manager.name)));
    // A process keeps its flags, so a leader that wrote once still writes.
    if let Ok(Some(lease)) = &facts.manager_lease
        && let Some(began) = lease.acquired.filter(|_| lease.is_held(facts.now))
    {
        let traces = facts.traces.iter().flatten();
        let since = traces.filter(|trace| trace.at.duration_since(began) >= MARGIN);
        signs.extend(since.map(|trace| format!("{}, since {} leads", trace.what, lease.holder)));
    }
    if let Some(Distribution {
        name,
        is_managed: true,
        ..
    }) = distribution
    {
        signs.push(format!(
            "{name} runs kube-controller-manager, and has no supported way to switch it off"
        ));
    }
    signs
}

/// Reasons why the loop may be on although nothing shows it.
fn doubts(facts: &Facts, managers: &[Manager]) -> Vec<String> {
    let mut doubts = Vec::new();
    doubts.extend(facts.managers.as_ref().err().cloned());
    if facts.managers.is_ok() && managers.is_empty() {
        doubts.push("kube-controller-manager has no pod in kube-system that shows its flags".to_owned());
    }
    let unseen = managers.iter().filter(|manager| manager.is_on(facts).is_none());
    doubts.extend(unseen.map(|manager| format!("{} does not show its flags", manager.name)));
    match &facts.control_plane {
        Err(unread) => doubts.push(unread.clone()),
        Ok(nodes) if nodes.is_empty() => {
            doubts.push("no node has the label node-role.kubernetes.io/control-plane".to_owned());
        }
        Ok(nodes) => {
            let alone = nodes
                .iter()
                .filter(|node| !managers.iter().any(|manager| manager.node == node.name));
            doubts.extend(alone.map(|node| format!("no kube-controller-manager is seen on {}", node.name)));
        }
    }
    if let Ok(Some(lease)) = &facts.manager_lease
        && lease.is_held(facts.now)
        && !managers.is_empty()
        && !managers
            .iter()
            .any(|manager| is_one_host(&manager.node, lease.host()))
    {
        doubts.push(format!(
            "{} leads, which is none of those that are seen",
            lease.holder
        ));
    }
    doubts
}

/// A host may name itself with or without its domain.
fn is_one_host(node: &str, host: &str) -> bool {
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    first(node) == first(host)
}

impl Manager {
    /// What the process itself reports counts more than its flags.
    fn is_on(&self, facts: &Facts) -> Option<bool> {
        let flags = self.controllers.enables(facts.controller, facts.built_in.alias);
        self.runs.or(flags)
    }

    fn line(&self, facts: &Facts) -> String {
        use super::Controllers::{Set, Unseen, Unset};
        let flags = match &self.controllers {
            Unseen => "flags unknown".to_owned(),
            Unset => "no --controllers, which means *".to_owned(),
            Set(list) => format!("--controllers={list}"),
        };
        let health = match self.runs {
            Some(true) => format!(", /healthz names {}", facts.controller),
            Some(false) => format!(", /healthz does not name {}", facts.controller),
            None => String::new(),
        };
        format!("{}: {flags}{health}", self.name)
    }
}
