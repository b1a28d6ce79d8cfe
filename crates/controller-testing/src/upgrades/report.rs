//! The figures of all upgrades.

use std::collections::BTreeMap;
use std::fmt;

use jiff::SignedDuration;

use super::evidence::Write;
use super::handovers::{Handover, Stop, Term, longest_pause};

/// Bar for the median of the upgrades' longest times without a write.
const USUAL: SignedDuration = SignedDuration::from_secs(1);
/// Bar for the longest time without a write in any upgrade.
const LONGEST: SignedDuration = SignedDuration::from_secs(3);

/// The durations and counts of the upgrades.
pub(super) struct Report {
    handovers: usize,
    /// Number of writes that were carried out.
    writes: usize,
    /// Longest time of each upgrade.
    without_write: Spread,
    /// Longest time of each upgrade.
    without_holder: Spread,
    /// Longest pause of the leader's writes around the time in which a standby stopped.
    with_a_standby: Spread,
    /// From SIGTERM to exit.
    stopping: Spread,
}

/// Durations in increasing order.
struct Spread(Vec<SignedDuration>);

impl Report {
    /// Fails if the Lease changed hands while a standby stopped.
    pub(super) fn new(handovers: &[Handover], stops: &[Stop], terms: &[Term], writes: &[Write]) -> Self {
        let upgrades: BTreeMap<&str, usize> = stops.iter().map(|stop| (&*stop.name, stop.upgrade)).collect();
        let longest = |figure: fn(&Handover) -> SignedDuration| {
            let mut longest: BTreeMap<usize, SignedDuration> = BTreeMap::new();
            for handover in handovers {
                let of_upgrade = longest.entry(upgrades[&*handover.from]).or_default();
                *of_upgrade = figure(handover).max(*of_upgrade);
            }
            Spread::of(longest.into_values())
        };
        let (leaders, standbys): (Vec<&Stop>, Vec<&Stop>) = stops.iter().partition(|stop| stop.led);
        assert_eq!(handovers.len(), leaders.len(), "{handovers:#?}");
        let with_a_standby = standbys.iter().map(|stop| {
            let led_throughout = terms
                .iter()
                .any(|term| term.from <= stop.asked && stop.ended <= term.until);
            assert!(
                led_throughout,
                "the lease changed hands next to {}: {terms:#?}",
                stop.name
            );
            longest_pause(writes, stop.asked, stop.ended)
        });
        Self {
            handovers: handovers.len(),
            writes: writes.iter().filter(|write| write.accepted).count(),
            without_write: longest(|handover| handover.without_write),
            without_holder: longest(|handover| handover.without_holder),
            with_a_standby: Spread::of(with_a_standby),
            stopping: Spread::of(stops.iter().map(|stop| stop.ended.duration_since(stop.asked))),
        }
    }

    /// Fails if nobody wrote for too long.
    pub(super) fn assert_short(&self) {
        let (usual, longest) = (self.without_write.median(), self.without_write.longest());
        assert!(usual < USUAL, "the median is {usual:?}");
        assert!(longest <= LONGEST, "the longest is {longest:?}");
    }
}

impl Spread {
    fn of(durations: impl Iterator<Item = SignedDuration>) -> Self {
        let mut sorted: Vec<SignedDuration> = durations.collect();
        sorted.sort_unstable();
        Self(sorted)
    }

    /// With an even number, the longer of the two in the middle.
    fn median(&self) -> SignedDuration {
        self.0.get(self.0.len() / 2).copied().unwrap_or_default()
    }

    fn longest(&self) -> SignedDuration {
        self.0.last().copied().unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let upgrades = self.without_write.0.len();
        let Self {
            handovers, writes, ..
        } = self;
        writeln!(f, "{upgrades} upgrades, {handovers} hand-overs, {writes} writes:")?;
        writeln!(
            f,
            "  nobody wrote, at most, in an upgrade: {}",
            self.without_write
        )?;
        writeln!(f, "  nobody held the lease: {}", self.without_holder)?;
        let standbys = self.with_a_standby.0.len();
        writeln!(
            f,
            "  the leader's pause while one of {standbys} standbys stopped: {}",
            self.with_a_standby
        )?;
        write!(f, "  from SIGTERM to the end: {}", self.stopping)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |duration: SignedDuration| duration.as_secs_f64();
        let shortest = self.0.first().copied().unwrap_or_default();
        write!(
            f,
            "{:.3} to {:.3} s, median {:.3} s",
            seconds(shortest),
            seconds(self.longest()),
            seconds(self.median())
        )
    }
}
