//! A process of ours: the loop with its controller as they are shipped, over watches that trail the API server, and its
//! requests, which stop before and after they arrive.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::Outcome;
use controller_core::clock::saturating_add;
use controller_core::controller::{Ask, Completed, Effect, Limit, Loop, Now, Observed, Watches};
use controller_core::informer::{self, Removed, SourceEvent, View, Writer};
use controller_core::meta::ObjectKey;
use harness::sim::{self, NOW};
use prometheus::Registry;
use resourceclaim_controller::config::Config;
use resourceclaim_controller::decide::Gates;
use resourceclaim_controller::requests::{Answer, Write};
use resourceclaim_controller::view::{ClaimView, ClaimantView, TemplateView};
use resourceclaim_controller::{ResourceClaimController, Stores};

use crate::server::{Event, Server, observed_claim};

type Controller = ResourceClaimController;

/// Between two permits, and between two turns of the loop.
const TICK: Duration = Duration::from_millis(1);
/// Whoever is retried later than this has to wait for the others.
const SOON: Duration = Duration::from_secs(1);

pub(crate) struct Process {
    event_loop: Loop<Controller>,
    pods: Writer<ClaimantView>,
    claims: Writer<ClaimView>,
    templates: Writer<TemplateView>,
    pods_seen: usize,
    claims_seen: usize,
    in_flight: Vec<Flying>,
    now: Now,
    /// When there is a permit again.
    permit: Cell<Duration>,
}

struct Flying {
    id: u64,
    ask: Ask<Controller>,
    answer: Option<Completed<Answer>>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luck {
    Good,
    /// It is done, and its answer is lost.
    Lost,
    /// The same, and the process ends.
    Crash,
}

/// One permit a tick: which keys have begun when something happens is a matter of chance.
struct Trickle<'a> {
    now: Duration,
    permit: &'a Cell<Duration>,
}

impl Limit for Trickle<'_> {
    fn take(&self) -> Duration {
        let at = self.permit.get().max(self.now);
        self.permit.set(at + TICK);
        at.saturating_sub(self.now)
    }

    fn give_back(&self) {
        self.permit.set(self.permit.get().saturating_sub(TICK));
    }
}

pub(crate) fn controller() -> Controller {
    Controller::new(&Config::default(), Gates::default(), &Registry::new()).unwrap()
}

impl Process {
    /// One that has just listed everything, and leads.
    pub(crate) fn started(server: &Server) -> Self {
        let (pods, claims, templates) = (Writer::new(), Writer::new(), Writer::new());
        let stores = Stores {
            pods: pods.store(),
            claims: claims.store(),
            templates: templates.store(),
            groups: None,
        };
        let mut process = Self {
            event_loop: Loop::new(Arc::new(controller()), stores, [None], false),
            pods,
            claims,
            templates,
            pods_seen: 0,
            claims_seen: 0,
            in_flight: Vec::new(),
            now: NOW,
            permit: Cell::default(),
        };
        process.list_pods(server);
        process.list_claims(server);
        process.see_templates(server);
        process.event_loop.observe(Observed::Synced, process.now);
        process.wake_all();
        process
    }

    /// Every key is asked about, as at the beginning of a term.
    pub(crate) fn wake_all(&mut self) {
        self.event_loop.observe(Observed::Leading(true), self.now);
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now.uptime += time;
        self.now.wall = saturating_add(self.now.wall, time);
    }

    // ---- what the watches show

    pub(crate) fn see_templates(&mut self, server: &Server) {
        let templates = server.templates.values();
        let templates = templates.map(|template| informer::Observed {
            view: (**template).clone(),
            uid: (&*template.key.name).into(),
            version: Some("1".into()),
        });
        let events = list(templates.collect());
        tell(&mut self.templates, &mut self.event_loop, events, self.now);
    }

    fn list_pods(&mut self, server: &Server) {
        let pods = server.pods.keys().filter_map(|pod| server.observed_pod(pod));
        let events = list(pods.collect());
        self.pods_seen = server.pod_events.len();
        tell(&mut self.pods, &mut self.event_loop, events, self.now);
    }

    /// The watch of the claims breaks, and a list shows what is there now, not what was in between.
    pub(crate) fn list_claims(&mut self, server: &Server) {
        let claims = server.claims.values();
        let events = list(claims.map(|claim| observed_claim(claim)).collect());
        self.claims_seen = server.claim_events.len();
        tell(&mut self.claims, &mut self.event_loop, events, self.now);
    }

    pub(crate) fn see_pods(&mut self, server: &Server, events: usize) {
        let end = server.pod_events.len().min(self.pods_seen.saturating_add(events));
        let shown = server.pod_events[self.pods_seen..end].iter().map(shown);
        self.pods_seen = end;
        tell(&mut self.pods, &mut self.event_loop, shown.collect(), self.now);
    }

    pub(crate) fn see_claims(&mut self, server: &Server, events: usize) {
        let end = { server.claim_events.len() }.min(self.claims_seen.saturating_add(events));
        let shown = server.claim_events[self.claims_seen..end].iter().map(shown);
        self.claims_seen = end;
        tell(&mut self.claims, &mut self.event_loop, shown.collect(), self.now);
    }

    /// Whether everything that this process may still act on shows that the claim is recorded.
    pub(crate) fn sees_recorded(&self, pod: &ObjectKey, claim: &ClaimView) -> bool {
        let makes_it = |flying: &Flying| match &flying.ask {
            Ask::Write(Write::Create(create)) => flying.answer.is_none() && create.claim() == claim.key,
            _ => false,
        };
        let pod = self.event_loop.stores().pods.get(pod);
        let is_recorded = pod.is_some_and(|pod| {
            claim.is_controlled_by(&pod.uid) && { pod.statuses.iter() }
                .any(|status| status.claim.as_ref() == Some(&claim.key.name))
        });
        is_recorded && !self.in_flight.iter().any(makes_it)
    }

    // ---- requests

    fn poll(&mut self) -> Option<Duration> {
        self.pass(TICK);
        let limit = Trickle {
            now: self.now.uptime,
            permit: &self.permit,
        };
        let polled = self.event_loop.poll(self.now, &limit);
        for Effect { id, ask, .. } in polled.effects {
            let answer = None;
            self.in_flight.push(Flying { id, ask, answer });
        }
        polled.again
    }

    /// Gives the loop a turn, lets a request arrive, or tells its answer. Whether the process lives on.
    pub(crate) fn advance(&mut self, server: &mut Server, which: usize, luck: Luck) -> bool {
        let which = which % (self.in_flight.len() + 1);
        let Some(flying) = self.in_flight.get_mut(which) else {
            self.poll();
            return true;
        };
        match flying.answer {
            None if luck == Luck::Good => flying.answer = Some(server.answer(&flying.ask)),
            None => {
                let Flying { id, ask, .. } = self.in_flight.swap_remove(which);
                server.answer(&ask);
                self.event_loop.completed(id, lost(&ask), self.now);
                return luck != Luck::Crash;
            }
            Some(_) => self.complete(which),
        }
        true
    }

    fn complete(&mut self, which: usize) {
        let Flying { id, answer, .. } = self.in_flight.swap_remove(which);
        if let Some(answer) = answer {
            self.event_loop.completed(id, answer, self.now);
        }
    }

    /// Does what is to be done soon, without trouble.
    pub(crate) fn run(&mut self, server: &mut Server) {
        for _ in 0..10_000 {
            let again = self.poll();
            if let Some(flying) = self.in_flight.first_mut() {
                if flying.answer.is_none() {
                    flying.answer = Some(server.answer(&flying.ask));
                }
                self.complete(0);
            } else if let Some(wait) = again.filter(|wait| *wait <= SOON) {
                self.pass(wait);
            } else {
                return;
            }
        }
        panic!("work that does not end");
    }
}

fn list<V>(items: Vec<informer::Observed<V>>) -> Vec<SourceEvent<V>> {
    let items = items.into_iter().map(SourceEvent::InitItem);
    let done = SourceEvent::InitDone { version: None };
    [SourceEvent::Init]
        .into_iter()
        .chain(items)
        .chain([done])
        .collect()
}

fn shown<V: View + Clone>(event: &Event<V>) -> SourceEvent<V> {
    let version = Some(event.version.to_string().into());
    match &event.now {
        Some(now) => SourceEvent::Applied(informer::Observed {
            view: V::clone(now),
            uid: event.uid.clone(),
            version,
        }),
        None => SourceEvent::Deleted(Removed {
            key: event.key.clone(),
            uid: event.uid.clone(),
            view: None,
            version,
        }),
    }
}

fn tell<V: View>(
    writer: &mut Writer<V>,
    event_loop: &mut Loop<Controller>,
    events: Vec<SourceEvent<V>>,
    now: Now,
) where
    Controller: Watches<V>,
{
    for event in events {
        for delta in writer.apply(event) {
            for change in delta.changes() {
                event_loop.changed(change, now);
            }
        }
    }
}

fn lost(ask: &Ask<Controller>) -> Completed<Answer> {
    let failed = sim::failed(Outcome::Retry { fate_unknown: true }, None);
    match ask {
        Ask::Question(_) => Completed::Read(Err(failed), None),
        Ask::Write(_) => Completed::Wrote(Err(failed)),
    }
}
