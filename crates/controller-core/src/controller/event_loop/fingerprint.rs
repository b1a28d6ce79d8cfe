//! The state of a loop as a hash, for searches through states.

use std::hash::Hash;

use super::super::Controller;
use super::Loop;
use crate::fingerprint::Fingerprint;

impl<C: Controller> Loop<C> {
    /// Adds everything that decides what the loop does next, except the stores; for tests.
    ///
    /// How many keys have been handed out, of which some go before their turn, does not count.
    pub fn fingerprint(&self, out: &mut Fingerprint) {
        self.state.hash(out);
        for queue in &self.queues {
            queue.fingerprint(out);
        }
        out.add(&self.retry_share);
        out.add(&self.passes);
        out.add(&self.runnable);
        out.add(&self.line);
        out.add(&self.deadlines);
        self.requests.fingerprint(out);
        out.add(&self.answers);
        (self.stage as u8, self.leading).hash(out);
    }
}
