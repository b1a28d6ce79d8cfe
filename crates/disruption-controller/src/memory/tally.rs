//! The pods of one budget, counted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use controller_core::meta::{OwnerRef, Uid};

use crate::decide::{Counts, Owned};
use crate::view::PodView;

/// The counts of a budget, which a pod is added to and taken from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Tally {
    matched: i64,
    healthy: i64,
    unmanaged: i64,
    controllers: BTreeMap<Arc<OwnerRef>, Group>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Group {
    pods: i64,
    terminating: i64,
}

impl Tally {
    /// Counts a pod; whether it is the first of its controller.
    pub(super) fn add(&mut self, pod: &PodView) -> bool {
        self.matched += 1;
        self.healthy += healthy(pod);
        let Some(controller) = &pod.controller else {
            self.unmanaged += 1;
            return false;
        };
        let group = self.controllers.entry(Arc::clone(controller)).or_default();
        group.pods += 1;
        group.terminating += i64::from(pod.deleting);
        group.pods == 1
    }

    /// Counts a pod no more; whether it was the last of its controller.
    pub(super) fn remove(&mut self, pod: &PodView) -> bool {
        self.matched -= 1;
        self.healthy -= healthy(pod);
        let Some(controller) = &pod.controller else {
            self.unmanaged -= 1;
            return false;
        };
        let Entry::Occupied(mut entry) = self.controllers.entry(Arc::clone(controller)) else {
            return false;
        };
        let group = entry.get_mut();
        group.pods -= 1;
        group.terminating -= i64::from(pod.deleting);
        let last = group.pods == 0;
        if last {
            entry.remove();
        }
        last
    }

    pub(super) const fn healthy(&self) -> i64 {
        self.healthy
    }

    pub(super) fn has_pods_of(&self, controller: &Uid) -> bool {
        self.controllers.keys().any(|owner| owner.uid == *controller)
    }

    pub(super) fn controllers(&self) -> impl Iterator<Item = &Arc<OwnerRef>> {
        self.controllers.keys()
    }

    /// As the rules read it.
    pub(super) fn counts(&self) -> Counts {
        let controllers = self.controllers.iter().map(|(controller, group)| Owned {
            controller: Arc::clone(controller),
            pods: group.pods,
            terminating: group.terminating,
        });
        Counts {
            matched: self.matched,
            healthy: self.healthy,
            unmanaged: self.unmanaged,
            controllers: controllers.collect(),
        }
    }
}

fn healthy(pod: &PodView) -> i64 {
    i64::from(pod.ready && !pod.deleting)
}
