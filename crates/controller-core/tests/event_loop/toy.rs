//! A small controller: it brings each lamp to its wanted brightness, one step a write.

use std::cmp::Ordering;
use std::convert::Infallible;

use controller_core::controller::{
    Context, Controller, Learnt, Look, Mutation, Observed, Outcome, Queue, Step,
};
use controller_core::events::Recorder;
use controller_core::informer::{Freshness, Store};
use controller_core::meta::ObjectKey;

use crate::lamp::{Dim, Lamp};

#[derive(Debug)]
pub(crate) struct Dimmer;

impl Controller for Dimmer {
    type Stores = Store<Lamp>;
    /// The cache is all that it needs.
    type Memory = ();
    type Key = ObjectKey;
    /// It reads nothing past the cache.
    type Question = Infallible;
    type Write = Dim;
    type Note = Infallible;
    type Event = String;

    const NAME: &'static str = "dimmer";

    fn queues(&self) -> Vec<Queue> {
        vec![Queue {
            name: Some("lamps"),
            ..Queue::FIFO
        }]
    }

    fn observe(&self, cx: &mut Context<'_, Self>, observed: Observed<'_, Self>) {
        match observed {
            // The passes of the last term have ended where they were.
            Observed::Leading(true) => {
                for lamp in cx.stores.snapshot() {
                    cx.out.wake(lamp.key.clone());
                }
            }
            Observed::Overdue(dim) => cx.out.wake(dim.lamp.clone()),
            Observed::Leading(false) | Observed::Synced | Observed::Watching(..) => {}
        }
    }

    fn next(&self, look: &Look<'_, Self>, key: &ObjectKey) -> Step<Self> {
        let Some(lamp) = look.stores.get(key) else {
            return Step::Done(vec![]);
        };
        let shines = match lamp.shines.cmp(&lamp.wanted) {
            Ordering::Less => lamp.shines + 1,
            Ordering::Greater => lamp.shines - 1,
            // Nobody knows what became of our last write; the same once more does no harm.
            Ordering::Equal if look.stores.freshness(key) == Freshness::Unknown => lamp.shines,
            Ordering::Equal => return Step::Done(vec![]),
        };
        let lamp = key.clone();
        Step::Write(vec![Dim { lamp, shines }])
    }

    fn learn(&self, cx: &mut Context<'_, Self>, key: &ObjectKey, learnt: Learnt<'_, Self>) {
        if let Learnt::Outcome(dim, Outcome::Accepted(_)) = learnt {
            cx.out.record(format!("{key} shines {}", dim.shines));
        }
    }

    fn shows(&self, lamps: &Store<Lamp>, dim: &Dim, mutation: &mut Mutation<'_, '_, Self>) {
        mutation.patch(lamps, &dim.lamp, dim.effect());
    }

    fn record(&self, event: String, _: &Recorder) {
        tracing::info!("{event}");
    }
}
