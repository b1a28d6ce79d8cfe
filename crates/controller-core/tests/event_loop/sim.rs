//! The dimmer's loop against a model of the API server: late watches, lost answers, terms that end, crashes.

use controller_core::cache::Versioned;
use controller_core::controller::{Accepted, Completed, Loop, Now, RequestOf};
use controller_core::meta::{ObjectKey, Uid};
use controller_testing::sim::{self, Model, Op, SimResource, Watch};
use proptest::prelude::*;

use crate::dimmer::{Dimmer, Lamp, Query};

const LAMPS: usize = 3;

struct Room {
    lamps: SimResource<Dimmer, Lamp>,
    uids: u64,
}

#[derive(Clone, Debug)]
enum Act {
    /// Sets the wanted brightness of a lamp, which is created if it does not exist.
    Want(usize, u8),
    /// Another writer dims a lamp.
    Meddle(usize, u8),
    /// A lamp is deleted.
    Delete(usize),
    /// A lamp is replaced by another one of the same name.
    Replace(usize, u8),
}

fn key(lamp: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("lamp-{lamp}"))
}

fn any_action() -> impl Strategy<Value = Act> {
    let lamp = || 0..LAMPS;
    prop_oneof![
        4 => (lamp(), 0..4_u8).prop_map(|(lamp, wanted)| Act::Want(lamp, wanted)),
        2 => (lamp(), 0..4_u8).prop_map(|(lamp, shines)| Act::Meddle(lamp, shines)),
        1 => lamp().prop_map(Act::Delete),
        1 => (lamp(), 0..4_u8).prop_map(|(lamp, wanted)| Act::Replace(lamp, wanted)),
    ]
}

impl Room {
    fn new() -> Self {
        let mut room = Self {
            lamps: SimResource::new(|lamps| lamps),
            uids: 0,
        };
        (0..LAMPS).for_each(|lamp| room.add(lamp, 2));
        room
    }

    fn add(&mut self, lamp: usize, wanted: u8) {
        self.uids += 1;
        let key = key(lamp);
        let shines = 0;
        let uid = Uid::from(&*format!("uid-{}", self.uids));
        self.lamps.put(Lamp { key, wanted, shines }, uid);
    }

    fn edit(&mut self, key: &ObjectKey, edit: impl FnOnce(&mut Lamp)) -> Option<Accepted> {
        let held = self.lamps.objects().get(key)?.clone();
        let mut view = held.view.clone();
        edit(&mut view);
        // A write that changes nothing makes no version.
        let version = if view == held.view {
            held.version
        } else {
            self.lamps.put(view, held.uid.clone())
        };
        Some(Accepted {
            uid: Some(held.uid),
            version: Some(version),
            deleting: false,
        })
    }
}

impl Model for Room {
    type Controller = Dimmer;
    type Act = Act;

    fn controller(&self) -> Dimmer {
        Dimmer
    }

    fn act(&mut self, action: &Act, _: Now) {
        match *action {
            Act::Want(lamp, wanted) => {
                if self.edit(&key(lamp), |lamp| lamp.wanted = wanted).is_none() {
                    self.add(lamp, wanted);
                }
            }
            Act::Meddle(lamp, shines) => {
                self.edit(&key(lamp), |lamp| lamp.shines = shines);
            }
            Act::Delete(lamp) => self.lamps.delete(&key(lamp)),
            Act::Replace(lamp, wanted) => self.add(lamp, wanted),
        }
    }

    fn arrive(&mut self, ask: &RequestOf<Dimmer>, _: Now) -> Completed<Option<Versioned<Lamp>>> {
        match ask {
            RequestOf::Query(Query(lamp)) => {
                let found = self.lamps.objects().get(lamp);
                Completed::Read(
                    found.map(|lamp| Some(sim::observed(lamp))).ok_or_else(sim::gone),
                    None,
                )
            }
            RequestOf::Write(dim) => {
                let accepted = self.edit(&dim.lamp, |lamp| lamp.shines = dim.shines);
                Completed::Wrote(accepted.ok_or_else(sim::gone))
            }
        }
    }

    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<Dimmer>)> {
        vec![("configmaps", &mut self.lamps)]
    }

    fn keys(&self) -> Vec<ObjectKey> {
        (0..LAMPS).map(key).collect()
    }

    fn remembered(&self, (): &()) -> usize {
        0
    }

    fn check(&self, _: &Loop<Dimmer>, _: Now) -> Result<(), String> {
        for lamp in self.lamps.objects().values() {
            if lamp.view.shines != lamp.view.wanted {
                return Err(format!("{:?}", lamp.view));
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_every_lamp_as_it_is_wanted(ops in sim::ops(any_action())) {
        sim::run(Room::new(), &ops);
    }
}

#[test]
fn a_write_of_the_last_term_may_arrive_in_this_one() {
    let ops = [
        Op::Lead(false),
        Op::Lead(true),
        Op::Act(Act::Want(0, 0)),
        Op::Deliver(0),
        Op::Arrive(0),
        Op::Deliver(0),
    ];
    sim::run(Room::new(), &ops);
}
