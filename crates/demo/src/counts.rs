//! Objects counted by something that they carry.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::discovery::ApiResource;

/// Which objects are counted, and by what.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// For the viewer: "nodes by TTL".
    pub(crate) title: &'static str,
    pub(crate) resource: ApiResource,
    pub(crate) whose: Whose,
    /// What an object counts as at a time.
    pub(crate) by: fn(&DynamicObject, Timestamp) -> Tally,
}

/// Whose objects are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// All that the cluster has, for the controller counts them too.
    Everybodys,
    /// What the demo made.
    Ours,
    /// What the demo made with this label, `key=value`: other scenes have left some of the same kind.
    OursWith(&'static str),
}

/// What an object counts as, in a few characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    /// In expectations. Nothing once it is being deleted: its end may need what a cluster lacks, such as a kubelet.
    pub(crate) expected: Option<String>,
    /// For the viewer; it may change with the time.
    pub(crate) shown: String,
}

/// How many objects carry what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(BTreeMap<String, usize>);

impl Tally {
    /// Shown as it is expected.
    pub(crate) fn plain(what: String) -> Self {
        Self {
            expected: Some(what.clone()),
            shown: what,
        }
    }

    /// Shown, and not expected any more.
    pub(crate) fn leaving(shown: String) -> Self {
        Self {
            expected: None,
            shown,
        }
    }
}

impl Counts {
    pub(crate) fn add(&mut self, what: String) {
        *self.0.entry(what).or_default() += 1;
    }

    /// The number of objects.
    pub(crate) fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// What is carried and by how many; by number where it starts with one, words first.
    pub(crate) fn rows(&self) -> Vec<(&str, usize)> {
        let mut rows: Vec<_> = self
            .0
            .iter()
            .map(|(what, count)| (what.as_str(), *count))
            .collect();
        rows.sort_by_key(|(what, _)| {
            let digits = what.find(|c: char| !c.is_ascii_digit()).unwrap_or(what.len());
            what[..digits].parse::<u64>().ok()
        });
        rows
    }
}

impl<'a> FromIterator<(usize, &'a str)> for Counts {
    fn from_iter<I: IntoIterator<Item = (usize, &'a str)>>(counts: I) -> Self {
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        Self(counts.map(|(count, what)| (what.to_owned(), count)).collect())
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (number, (what, count)) in self.rows().into_iter().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            write!(f, "{separator}{count} × {what}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown_in_the_order_of_their_numbers() {
        let counts: Counts = [(3, "300 s"), (0, "60 s"), (46, "0 s"), (74, "15 s"), (1, "none")]
            .into_iter()
            .collect();
        assert_eq!(counts.to_string(), "1 × none, 46 × 0 s, 74 × 15 s, 3 × 300 s");
        assert_eq!(counts.total(), 124);
        assert_eq!(Counts::default().to_string(), "nothing");
    }
}
