//! The pods of one budget, counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::meta::OwnerRef;

use crate::view::{Phase, PodView};

/// The counts of the pods that a budget's selector matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    pub matched: i64,
    /// Pods that are ready and not being deleted.
    pub healthy: i64,
    /// Pods without a controller.
    pub unmanaged: i64,
    /// Those of them that are neither deleted nor over.
    pub live_unmanaged: i64,
    /// Pods with a controller, by their ownerReference.
    pub controllers: BTreeMap<Arc<OwnerRef>, Owned>,
}

/// The counts of the pods of one controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owned {
    pub pods: i64,
    /// Pods with a deletionTimestamp.
    pub terminating: i64,
    /// Pods that are neither deleted nor over.
    pub live: i64,
    /// Pods that have succeeded.
    pub succeeded: i64,
}

impl Owned {
    /// The pods that count where no scale says how many there should be. A pod that has succeeded needs no other in its
    /// place; one that failed, or is being deleted, does.
    pub const fn existing(self) -> i64 {
        self.pods - self.succeeded
    }
}

impl Counts {
    /// Counts a pod once more (`by` is 1) or once less (-1). Returns true if the scale of the pod's controller may
    /// matter now and did not before, or the other way round: the controller came or went with the pod, or this is its
    /// first pod that is not being deleted (DIS-11).
    pub fn count(&mut self, pod: &PodView, by: i64) -> bool {
        self.matched += by;
        self.healthy += by * i64::from(pod.is_healthy());
        let live = by * i64::from(pod.is_live());
        let Some(controller) = &pod.controller else {
            self.unmanaged += by;
            self.live_unmanaged += live;
            return false;
        };
        let owned = self.controllers.entry(Arc::clone(controller)).or_default();
        let came = owned.pods == 0;
        let is_first_to_stay = owned.pods == owned.terminating && by > 0 && !pod.deleting;
        owned.pods += by;
        owned.terminating += by * i64::from(pod.deleting);
        owned.live += live;
        owned.succeeded += by * i64::from(pod.phase == Phase::Succeeded);
        let went = owned.pods == 0;
        if went {
            self.controllers.remove(controller);
        }
        came || went || is_first_to_stay
    }
}
