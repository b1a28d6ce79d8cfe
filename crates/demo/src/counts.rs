//! Counts objects by a property.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::discovery::ApiResource;

/// The objects to count, and by what.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// Title for the viewer: "nodes by TTL".
    pub(crate) title: &'static str,
    pub(crate) resource: ApiResource,
    pub(crate) whose: Whose,
    /// Tally of an object at a time.
    pub(crate) by: fn(&DynamicObject, Timestamp) -> Tally,
}

/// The objects to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// All objects in the cluster, as the controller counts them, too.
    Everybodys,
    /// Objects of the demo.
    Ours,
    /// Objects of the demo with this label, `key=value`: other scenes have left some of the same kind.
    OursWith(&'static str),
}

/// Properties of an object, in a few characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    /// For expectations. `None` in deletion, which may need what a cluster lacks, such as a kubelet, to end.
    pub(crate) expected: Option<String>,
    /// For the viewer; it may change with time.
    pub(crate) shown: String,
}

/// Number of objects by property.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(BTreeMap<String, usize>);

impl Tally {
    /// Shown and expected as the same text.
    pub(crate) fn plain(what: String) -> Self {
        Self {
            expected: Some(what.clone()),
            shown: what,
        }
    }

    /// Shown, but no longer expected.
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

    pub(crate) fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Properties with their counts; words first, then by leading number.
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
