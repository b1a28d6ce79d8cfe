//! Which budgets match each pod of a namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The budgets that match a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Matched {
    One(Arc<str>),
    /// Their number.
    Several(usize),
}

/// By the name of the pod; pods that no budget matches are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Matches(BTreeMap<Arc<str>, Matched>);

impl Matches {
    pub(super) fn get(&self, pod: &str) -> Option<&Matched> {
        self.0.get(pod)
    }

    /// These are all that match the pod.
    pub(super) fn set(&mut self, pod: &Arc<str>, budgets: &[Arc<str>]) {
        let matched = match budgets {
            [] => return drop(self.0.remove(pod)),
            [only] => Matched::One(Arc::clone(only)),
            all => Matched::Several(all.len()),
        };
        self.0.insert(Arc::clone(pod), matched);
    }

    /// One more matches the pod. Returns how many do.
    pub(super) fn add(&mut self, pod: &Arc<str>, budget: &Arc<str>) -> usize {
        match self.0.get_mut(pod) {
            None => {
                self.0.insert(Arc::clone(pod), Matched::One(Arc::clone(budget)));
                1
            }
            Some(matched) => {
                let count = matched.count() + 1;
                *matched = Matched::Several(count);
                count
            }
        }
    }

    /// One fewer matches the pod. Returns how many do; if it is one, [`set`](Self::set) must tell which.
    pub(super) fn remove(&mut self, pod: &str) -> usize {
        match self.0.get_mut(pod) {
            Some(Matched::Several(count)) => {
                *count -= 1;
                *count
            }
            Some(Matched::One(_)) => {
                self.0.remove(pod);
                0
            }
            None => 0,
        }
    }
}

impl Matched {
    const fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Several(count) => *count,
        }
    }
}
