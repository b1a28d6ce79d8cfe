//! Which pods and groups are known to be deleted (RC-14).

use std::collections::{BTreeSet, VecDeque};

use controller_core::meta::Uid;

use super::MAX_UID_CACHE_ENTRIES;

/// The uids of what was deleted: those that a claim refers to, and the last [`MAX_UID_CACHE_ENTRIES`] of the others, of
/// which a claim that is not seen yet may be reserved for one.
///
/// Forgetting costs a live read, or a reservation that is taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Departed {
    held: BTreeSet<Uid>,
    /// In the order of their deletions.
    order: VecDeque<Uid>,
    sweep_at: usize,
}

impl Departed {
    /// The object of this uid was deleted. Whether a claim refers to an uid is asked now and then only: what nobody
    /// refers to is dropped when the memory has doubled.
    pub fn deleted(&mut self, uid: &Uid, is_referred_to: impl Fn(&Uid) -> bool) {
        if !self.held.insert(uid.clone()) {
            return;
        }
        self.order.push_back(uid.clone());
        if self.held.len() <= self.sweep_at.max(2 * MAX_UID_CACHE_ENTRIES) {
            return;
        }
        let old = self.order.len().saturating_sub(MAX_UID_CACHE_ENTRIES);
        let mut place = 0;
        let held = &mut self.held;
        self.order.retain(|uid| {
            let stays = place >= old || is_referred_to(uid);
            place += 1;
            if !stays {
                held.remove(uid);
            }
            stays
        });
        self.sweep_at = self.held.len().saturating_mul(2);
    }

    /// Whether the object of this uid is known to be deleted.
    pub fn contains(&self, uid: &Uid) -> bool {
        self.held.contains(uid)
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}
