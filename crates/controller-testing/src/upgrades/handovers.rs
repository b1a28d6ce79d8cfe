//! Who led when, and the duration of each hand-over.

use jiff::{SignedDuration, Timestamp};

use super::evidence::{Version, Write};

/// A period in which one replica held the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) holder: String,
    pub(super) from: Timestamp,
    /// The end of time if the term goes on.
    pub(super) until: Timestamp,
}

/// A change of leaders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Handover {
    pub(super) from: String,
    /// Time in which nobody held the Lease.
    pub(super) without_holder: SignedDuration,
    /// Time from the last write of the old leader that was carried out to the first one of the new leader.
    pub(super) without_write: SignedDuration,
}

/// A replica that was stopped.
pub(super) struct Stop {
    /// Number of the upgrade, from 0.
    pub(super) upgrade: usize,
    pub(super) name: String,
    /// True if it held the Lease.
    pub(super) led: bool,
    /// Time of its SIGTERM.
    pub(super) asked: Timestamp,
    /// Time of its exit.
    pub(super) ended: Timestamp,
}

/// The terms in order.
///
/// Fails if the Lease changed hands without having been released.
pub(super) fn terms(versions: &[Version]) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    let mut holder = None;
    for version in versions {
        match (&holder, &version.holder) {
            (before, now) if before == now => continue,
            (Some(_), None) => terms.last_mut().unwrap().until = version.acquired,
            (None, Some(new)) => terms.push(Term {
                holder: new.clone(),
                from: version.acquired,
                until: Timestamp::MAX,
            }),
            (before, now) => panic!("the lease of {before:?} went to {now:?} without being given up"),
        }
        holder.clone_from(&version.holder);
    }
    terms
}

/// The duration of each change of leaders.
///
/// Fails if a replica wrote outside its term, or if terms overlap: so no two replicas write at once.
pub(super) fn handovers(terms: &[Term], writes: &[Write]) -> Vec<Handover> {
    let outside = writes.iter().find(|write| {
        let covers = |term: &Term| {
            term.holder == write.by && term.from <= write.received && write.answered <= term.until
        };
        !terms.iter().any(covers)
    });
    assert!(
        outside.is_none(),
        "a write of a replica that did not lead: {outside:?}, {terms:#?}"
    );
    terms
        .iter()
        .zip(terms.iter().skip(1))
        .map(|(old, new)| {
            assert!(old.until <= new.from, "two led at once: {old:?}, {new:?}");
            Handover {
                from: old.holder.clone(),
                without_holder: new.from.duration_since(old.until),
                without_write: longest_pause(writes, old.until, new.from),
            }
        })
        .collect()
}

/// The longest time without a write that was carried out, among those that touch `from` to `until`.
///
/// Fails if there is no write before or none after.
pub(super) fn longest_pause(writes: &[Write], from: Timestamp, until: Timestamp) -> SignedDuration {
    let accepted = writes.iter().filter(|write| write.accepted);
    let mut answers: Vec<Timestamp> = accepted.map(|write| write.answered).collect();
    answers.sort_unstable();
    let pauses = answers
        .windows(2)
        .filter(|pair| pair[0] <= until && pair[1] >= from);
    let longest = pauses.map(|pair| pair[1].duration_since(pair[0])).max();
    longest.unwrap_or_else(|| panic!("nobody wrote before {from} and after {until}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn version(holder: Option<&str>, acquired: i64) -> Version {
        Version {
            holder: holder.map(str::to_owned),
            acquired: at(acquired),
        }
    }

    fn write(by: &str, received: i64, answered: i64) -> Write {
        Write {
            by: by.to_owned(),
            received: at(received),
            answered: at(answered),
            accepted: true,
        }
    }

    /// `a` leads from 10 to 20, `b` from 21 on.
    fn a_then_b() -> Vec<Term> {
        terms(&[
            version(Some("a"), 10),
            version(Some("a"), 10),
            version(None, 20),
            version(Some("b"), 21),
        ])
    }

    #[test]
    fn a_term_ends_when_the_lease_is_given_up() {
        let terms = a_then_b();
        assert_eq!(terms.len(), 2);
        assert_eq!(
            (&*terms[0].holder, terms[0].from, terms[0].until),
            ("a", at(10), at(20))
        );
        assert_eq!(
            (&*terms[1].holder, terms[1].from, terms[1].until),
            ("b", at(21), Timestamp::MAX)
        );
    }

    #[test]
    fn a_gap_is_from_the_last_write_to_the_first_one() {
        let mut refused = write("b", 21, 22);
        refused.accepted = false;
        let writes = [
            write("a", 11, 12),
            write("a", 17, 19),
            refused,
            write("b", 23, 25),
            write("b", 30, 31),
        ];
        assert_eq!(
            handovers(&a_then_b(), &writes),
            [Handover {
                from: "a".to_owned(),
                without_holder: SignedDuration::from_secs(1),
                without_write: SignedDuration::from_secs(6),
            }]
        );
    }

    #[test]
    fn the_pause_while_somebody_stops_may_begin_before_and_end_after() {
        let writes = [
            write("a", 1, 1),
            write("a", 10, 10),
            write("a", 16, 16),
            write("a", 30, 30),
        ];
        assert_eq!(
            longest_pause(&writes, at(12), at(14)),
            SignedDuration::from_secs(6)
        );
        assert_eq!(
            longest_pause(&writes, at(12), at(17)),
            SignedDuration::from_secs(14)
        );
    }

    #[test]
    #[should_panic(expected = "without being given up")]
    fn a_lease_that_was_taken_away_is_not_handed_over() {
        terms(&[version(Some("a"), 10), version(Some("b"), 30)]);
    }

    #[test]
    #[should_panic(expected = "a write of a replica that did not lead")]
    fn a_write_that_is_answered_after_the_term_is_found() {
        handovers(&a_then_b(), &[write("a", 19, 21), write("b", 23, 24)]);
    }

    #[test]
    #[should_panic(expected = "a write of a replica that did not lead")]
    fn a_write_of_a_standby_is_found() {
        handovers(
            &a_then_b(),
            &[write("a", 11, 12), write("b", 15, 16), write("b", 23, 24)],
        );
    }

    #[test]
    fn a_leader_that_does_nothing_makes_the_gap_longer() {
        let mut terms = a_then_b();
        terms[1].until = at(22);
        terms.push(Term {
            holder: "c".to_owned(),
            from: at(23),
            until: Timestamp::MAX,
        });
        let handovers = handovers(&terms, &[write("a", 17, 19), write("c", 24, 25)]);
        let gaps: Vec<_> = handovers
            .iter()
            .map(|handover| handover.without_write.as_secs())
            .collect();
        assert_eq!(gaps, [6, 6]);
    }

    #[test]
    #[should_panic(expected = "nobody wrote before")]
    fn a_last_leader_that_does_nothing_is_found() {
        handovers(&a_then_b(), &[write("a", 11, 12)]);
    }
}
