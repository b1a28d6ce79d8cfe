//! Whether a fault met anything.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use embedded_apiserver::{RecordedRequest, RequestVerb};

use super::UNDECIDED;
use super::drawn_fault::DrawnFault;
use super::kind::FaultKind;
use super::run::Run;
use super::timeline::History;

/// How often each kind of fault was drawn, and how often it struck; how many ends there were, and of how many the rules
/// say nothing.
#[derive(Clone, Debug, Default)]
pub struct Strikes {
    kinds: BTreeMap<FaultKind, Struck>,
    ends: usize,
    open: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Struck {
    drawn: usize,
    struck: usize,
}

impl Strikes {
    /// Counts the faults of a history.
    pub fn add<A>(&mut self, history: &History<A>, run: &Run) {
        for (number, fault) in history.faults.iter().enumerate() {
            let kind = self.kinds.entry(fault.what.kind()).or_default();
            kind.drawn += 1;
            kind.struck += usize::from(run.struck.contains(&number));
        }
        let ends: Vec<_> = run.outcome.iter().flat_map(BTreeMap::values).collect();
        self.ends += ends.len();
        self.open += ends.iter().filter(|end| **end == UNDECIDED).count();
    }

    /// How many of a hundred ends are not judged.
    pub fn open_percent(&self) -> usize {
        (100 * self.open).checked_div(self.ends).unwrap_or(0)
    }

    /// Those of the kinds that never struck.
    pub fn missing(&self, of: impl Iterator<Item = FaultKind>) -> Vec<FaultKind> {
        let struck = |kind: &FaultKind| self.kinds.get(kind).is_some_and(|kind| kind.struck > 0);
        of.filter(|kind| !struck(kind)).collect()
    }
}

/// A line for each kind: drawn, struck.
impl fmt::Display for Strikes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14} drawn struck", "fault")?;
        for (kind, Struck { drawn, struck }) in &self.kinds {
            writeln!(f, "{:<14} {drawn:>5} {struck:>6}", format!("{kind:?}"))?;
        }
        let Self { ends, open, .. } = self;
        writeln!(
            f,
            "{ends} ends, {open} of them not judged ({} %)",
            self.open_percent()
        )
    }
}

/// A fault that only the record of requests can show to have struck.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspect {
    /// Its number in the history.
    pub(super) fault: usize,
    /// When it began.
    pub(super) at: Duration,
    /// The server's version at that time.
    pub(super) version: u64,
}

impl Suspect {
    /// True if one of the replicas' requests met the fault, which ended with all others at `end`.
    pub(super) fn struck(self, fault: &DrawnFault, requests: &[RecordedRequest], end: Duration) -> bool {
        let during = |length: Duration| {
            let end = end.min(self.at.saturating_add(length));
            requests
                .iter()
                .filter(move |request| (self.at..end).contains(&request.arrived))
        };
        match fault {
            DrawnFault::Outage(lasts) | DrawnFault::Restart(lasts) => during(*lasts).next().is_some(),
            DrawnFault::WrongClock { .. } => during(Duration::MAX).any(|request| request.code.is_some()),
            DrawnFault::Compaction => during(Duration::MAX).any(|request| self.continues_before(request)),
            _ => false,
        }
    }

    /// True if the request continues from a version before the fault.
    fn continues_before(self, request: &RecordedRequest) -> bool {
        let mut pairs = request.query.split('&');
        let version = pairs.find_map(|pair| pair.strip_prefix("resourceVersion=")?.parse::<u64>().ok());
        request.verb == RequestVerb::Watch
            && version.is_some_and(|version| (1..self.version).contains(&version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_never_struck_is_missing() {
        const KINDS: [FaultKind; 3] = [FaultKind::Stop, FaultKind::Crash, FaultKind::Gets];
        assert_eq!(Strikes::default().missing(KINDS.into_iter()), KINDS);
        let one = Struck { drawn: 2, struck: 1 };
        let none = Struck { drawn: 2, struck: 0 };
        let kinds = BTreeMap::from([(FaultKind::Crash, one), (FaultKind::Stop, none)]);
        let strikes = Strikes {
            kinds,
            ..Strikes::default()
        };
        assert_eq!(
            strikes.missing(KINDS.into_iter()),
            [FaultKind::Stop, FaultKind::Gets]
        );
    }
}
