//! Policies as a history draws them: as a file, and what each wants by a reading of its own.

use std::fmt::Write as _;

use controller_testing::fault_history::Draw;

use super::ledger::{Namespace, Told};

/// The grace period of every file, in milliseconds: longer than a process takes to read a changed file, so that each
/// delete is due by one file alone. Ttls and grace periods never end when a file is read, on a whole second.
pub(super) const GRACE: i64 = 14_750;
const TTLS: [Option<i64>; 4] = [None, Some(500), Some(5_500), Some(20_500)];
pub(super) const APPS: [Option<&str>; 3] = [None, Some("ci"), Some("web")];

#[allow(clippy::struct_excessive_bools, reason = "each is drawn by itself")]
#[derive(Clone, Copy, Debug)]
pub(super) struct DrawnPolicy {
    jobs: bool,
    pods: bool,
    /// Selects objects with this label.
    app: Option<&'static str>,
    /// Selects namespaces with the label of the team.
    team: bool,
    succeeded: Option<i64>,
    failed: Option<i64>,
    owned: bool,
    pub(super) most: Option<u32>,
}

impl DrawnPolicy {
    /// Deletes nothing.
    pub(super) const IDLE: Self = Self {
        jobs: true,
        pods: true,
        app: None,
        team: false,
        succeeded: None,
        failed: None,
        owned: false,
        most: None,
    };

    fn draw(draw: &mut Draw, is_first: bool, is_limited: bool) -> Self {
        let kinds = if is_first { 0 } else { draw.number(0..3) };
        Self {
            jobs: kinds != 1,
            pods: kinds != 2,
            app: draw.pick(&APPS),
            team: draw.chance(30),
            succeeded: draw.pick(&TTLS),
            failed: draw.pick(&TTLS),
            owned: draw.chance(50),
            most: draw.pick(&[None, Some(1), Some(2)]).filter(|_| is_limited),
        }
    }

    /// The policies of a file. The first names pods, so every process watches them.
    pub(super) fn file(draw: &mut Draw, is_limited: bool) -> Vec<Self> {
        (0..draw.number(1..4))
            .map(|place| Self::draw(draw, place == 0, is_limited))
            .collect()
    }

    fn selects(&self, told: &Told, namespace: Namespace) -> bool {
        let has_kind = if told.is_pod { self.pods } else { self.jobs };
        has_kind && (self.app.is_none() || self.app == told.app) && (!self.team || namespace.team)
    }

    /// After how many milliseconds an object that has ended goes, if at all.
    pub(super) const fn ttl(&self, failed: bool) -> Option<i64> {
        if failed { self.failed } else { self.succeeded }
    }
}

/// Which of the policies applies to an object, or why none does.
pub(super) fn applying(
    policies: &[DrawnPolicy],
    told: &Told,
    namespace: Namespace,
) -> Result<usize, &'static str> {
    if told.keep || namespace.keep {
        return Err("it is annotated to be kept");
    }
    let mut all = policies.iter();
    let first = all.position(|policy| policy.selects(told, namespace));
    let first = first.ok_or("no policy selects it")?;
    if told.owned && !policies[first].owned {
        return Err("it has a controller");
    }
    Ok(first)
}

/// The file with these policies. Its number is in the names: no two files are equal.
pub(super) fn text(policies: &[DrawnPolicy], number: usize) -> String {
    let mut text = format!("policyGracePeriod: {GRACE}ms\npolicies:\n");
    let duration = |ttl: Option<i64>| ttl.map_or_else(|| "never".to_owned(), |ttl| format!("{ttl}ms"));
    for (place, policy) in policies.iter().enumerate() {
        let kinds = match (policy.jobs, policy.pods) {
            (true, true) => "Job, Pod",
            (false, _) => "Pod",
            (true, false) => "Job",
        };
        _ = write!(
            text,
            "- {{name: p{number}-{place}, kinds: [{kinds}], includeOwned: {}, ttlAfterSucceeded: {}, ttlAfterFailed: {}",
            policy.owned,
            duration(policy.succeeded),
            duration(policy.failed),
        );
        if let Some(app) = policy.app {
            _ = write!(text, ", selector: {{matchLabels: {{app: {app}}}}}");
        }
        if policy.team {
            text += ", namespaceSelector: {matchLabels: {team: a}}";
        }
        if let Some(most) = policy.most {
            _ = write!(text, ", maxPerHour: {most}");
        }
        text += "}\n";
    }
    text
}
