//! What holds whatever happens, in which order, and however far the caches lag behind.
//!
//! One process, or two, each with the loop as it is shipped, work on the pods and claims of one small API server. Every
//! request stops before it arrives and before its answer comes, so that anything can come between; a request may be done
//! and its answer lost, or its process end with it. What must never happen is asserted at each write, in [`server`].
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

mod process;
mod server;

use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::{ObjectKey, Uid};
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use resourceclaim_controller::decide::{
    Answer, Claimant, Gates, Group, Known, MAX_BASE_LEN, Reservation, Seen, answer, base_name, claim_name,
    reservation, statuses, wants_claims,
};
use resourceclaim_controller::view::{
    ClaimSource, ClaimStatus, ClaimView, ClaimantKind, ClaimantView, Consumer, ConsumerKind, Entry,
    TemplateView,
};

use self::process::{Luck, Process};
use self::server::{CROWDED, FREE, Server, is_made, key};

const PODS: usize = 2;
/// Every finalizer without an allocation is old by then, and nobody waits for another writer.
const LONG: Duration = Duration::from_mins(70);

#[derive(Clone, Copy, Debug)]
enum Event {
    MakePod(usize, usize),
    Bind(usize),
    Finish(usize),
    DeletePod(usize),
    RemovePod(usize),
    MakeLateTemplate,
    MakeUsersClaims,
    Squat(usize, u32),
    DeleteClaim(usize),
    Allocate(usize),
    Schedule(usize),
    CollectGarbage,
    SeeTemplates(usize),
    SeePods(usize, usize),
    SeeClaims(usize, usize),
    ListClaims(usize),
    /// Every key of a process is asked about.
    WakeAll(usize),
    Pass(usize, Duration),
    Advance(usize, usize, Luck),
    Restart(usize),
    /// One process sees and does everything that there is.
    Settle(usize),
}

fn event(processes: usize) -> impl Strategy<Value = Event> {
    let pod = 0..PODS;
    let process = 0..processes;
    let time = prop::sample::select(vec![
        Duration::from_millis(10),
        Duration::from_secs(2),
        Duration::from_mins(5),
    ]);
    let claim = 0..8_usize;
    let luck = prop_oneof![12 => Just(Luck::Good), 1 => Just(Luck::Lost), 1 => Just(Luck::Crash)];
    let events = prop_oneof![3 => Just(1_usize), 1 => Just(usize::MAX)];
    prop_oneof![
        5 => (pod.clone(), 0..4_usize).prop_map(|(pod, shape)| Event::MakePod(pod, shape)),
        1 => pod.clone().prop_map(Event::Bind),
        1 => pod.clone().prop_map(Event::Finish),
        1 => pod.clone().prop_map(Event::DeletePod),
        1 => pod.clone().prop_map(Event::RemovePod),
        1 => Just(Event::MakeLateTemplate),
        1 => Just(Event::MakeUsersClaims),
        1 => (pod.clone(), 0..2_u32).prop_map(|(pod, n)| Event::Squat(pod, n)),
        3 => claim.clone().prop_map(Event::DeleteClaim),
        2 => claim.clone().prop_map(Event::Allocate),
        3 => pod.clone().prop_map(Event::Schedule),
        1 => Just(Event::CollectGarbage),
        2 => process.clone().prop_map(Event::SeeTemplates),
        5 => (process.clone(), events.clone()).prop_map(|(process, events)| Event::SeePods(process, events)),
        5 => (process.clone(), events).prop_map(|(process, events)| Event::SeeClaims(process, events)),
        1 => process.clone().prop_map(Event::ListClaims),
        2 => process.clone().prop_map(Event::WakeAll),
        4 => (process.clone(), time).prop_map(|(process, time)| Event::Pass(process, time)),
        50 => (process.clone(), 0..6_usize, luck)
            .prop_map(|(process, sync, luck)| Event::Advance(process, sync, luck)),
        1 => process.clone().prop_map(Event::Restart),
        3 => process.prop_map(Event::Settle),
    ]
}

struct World {
    server: Server,
    processes: Vec<Process>,
}

fn pod_key(pod: usize) -> ObjectKey {
    key(&format!("p{pod}"))
}

/// The watches of the process catch up, and it does everything.
fn settle(server: &mut Server, process: &mut Process) {
    process.run(server);
    process.see_templates(server);
    process.see_pods(server, usize::MAX);
    process.see_claims(server, usize::MAX);
    process.run(server);
    process.pass(LONG);
    process.run(server);
}

impl World {
    fn new(processes: usize) -> Self {
        let server = Server::new(true);
        let processes = (0..processes).map(|_| Process::started(&server)).collect();
        Self { server, processes }
    }

    fn happens(&mut self, event: Event) {
        let Self { server, processes } = self;
        match event {
            Event::MakePod(pod, shape) => server.make_pod(&pod_key(pod), shape),
            Event::Bind(pod) => server.bind(&pod_key(pod)),
            Event::Finish(pod) => server.change_pod(&pod_key(pod), |pod| pod.over = true),
            Event::DeletePod(pod) => server.change_pod(&pod_key(pod), |pod| pod.deleting = true),
            Event::RemovePod(pod) => server.remove_pod(&pod_key(pod)),
            Event::MakeLateTemplate => server.make_template("late"),
            Event::MakeUsersClaims => server.make_users_claims(),
            Event::Squat(pod, n) => server.squat(&pod_key(pod), n),
            Event::DeleteClaim(claim) => self.delete_claim(claim),
            Event::Allocate(claim) => {
                if let Some(claim) = self.claim(claim) {
                    self.server.allocate(&claim.key);
                }
            }
            Event::Schedule(pod) => server.schedule(&pod_key(pod)),
            Event::CollectGarbage => server.collect_garbage(),
            Event::SeeTemplates(process) => processes[process].see_templates(server),
            Event::SeePods(process, events) => processes[process].see_pods(server, events),
            Event::SeeClaims(process, events) => processes[process].see_claims(server, events),
            Event::ListClaims(process) => processes[process].list_claims(server),
            Event::WakeAll(process) => processes[process].wake_all(),
            Event::Pass(process, time) => processes[process].pass(time),
            Event::Advance(process, which, luck) => {
                if !processes[process].advance(server, which, luck) {
                    processes[process] = Process::started(server);
                }
            }
            Event::Restart(process) => processes[process] = Process::started(server),
            Event::Settle(process) => settle(server, &mut processes[process]),
        }
    }

    fn claim(&self, claim: usize) -> Option<Arc<ClaimView>> {
        let mut claims = self.server.claims.values().cycle().take(16);
        claims.nth(claim).cloned()
    }

    /// A user deletes a claim. Beside another process, not before everybody knows of it: who has not seen yet that a name
    /// was recorded can not know that it must not come again.
    fn delete_claim(&mut self, claim: usize) {
        let Some(claim) = self.claim(claim) else { return };
        let is_known = match claim.owning_pod() {
            None => [CROWDED, FREE].contains(&&*claim.key.name),
            Some(owner) => {
                let pod = key(&owner.name);
                let sees = |process: &Process| process.sees_recorded(&pod, &claim);
                self.processes.len() == 1 || self.processes.iter().all(sees)
            }
        };
        if is_known {
            self.server.delete_claim_by_hand(&claim.key);
        }
    }

    /// All watches catch up and everything is synced until nothing is left to do.
    fn comes_to_rest(&mut self) {
        let Self { server, processes } = self;
        server.make_template("late");
        for process in &mut *processes {
            process.run(server);
        }
        for _ in 0..20 {
            let before = server.version;
            server.collect_garbage();
            for process in &mut *processes {
                settle(server, process);
            }
            if server.version == before {
                return;
            }
        }
        panic!("something is written for ever");
    }

    /// Each entry of a pod that may run has its one claim, and the pod's status names it.
    fn all_have_their_claims(&self) {
        for pod in self.server.pods.values().filter(|pod| wants_claims(pod)) {
            for entry in pod.entries.iter().filter(|entry| is_made(entry)) {
                let claims = self.server.made_for(&pod.uid, &entry.name);
                assert_eq!(claims.len(), 1, "{} of {}: {claims:?}", entry.name, pod.key);
                let recorded = pod.statuses.iter().find(|status| status.entry == entry.name);
                let recorded = recorded.and_then(|status| status.claim.as_ref());
                assert_eq!(recorded, Some(&claims[0].key.name), "{pod:?}");
            }
        }
    }

    /// Nothing is held for a pod that is done or gone.
    fn all_is_freed(&self) {
        let server = &self.server;
        for claim in server.claims.values() {
            for consumer in &claim.reserved {
                let holds = consumer.kind == ConsumerKind::Other
                    || server.is_live(&key(&consumer.name), &consumer.uid);
                assert!(holds, "held for {consumer:?}: {claim:?}");
            }
            assert!(!server.is_unused_and_allocated(claim), "never freed: {claim:?}");
            assert!(!claim.finalizer || claim.allocated, "never let go: {claim:?}");
            if let Some(owner) = claim.owning_pod() {
                assert!(server.is_live(&key(&owner.name), &owner.uid), "{claim:?}");
            }
        }
    }
}

/// What may name a pod: a DNS subdomain of 253 bytes at most.
fn pod_name() -> impl Strategy<Value = String> {
    let label = prop_oneof![3 => "[a-z0-9]", 3 => "[a-z0-9][a-z0-9-]{0,12}[a-z0-9]", 1 => "[a-z0-9][a-z0-9-]{0,90}[a-z0-9]"];
    let name = vec(label, 1..40).prop_map(|labels| {
        let name = labels.join(".");
        name[..name.len().min(253)]
            .trim_end_matches(['.', '-'])
            .to_owned()
    });
    prop_oneof![3 => name, 1 => "[a-z0-9]{1,253}"]
}

/// What may name an entry: a DNS label of 63 bytes at most.
fn entry_name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a".to_owned()),
        "[a-z0-9][a-z0-9-]{0,61}[a-z0-9]",
        "[a-z0-9]{1,63}"
    ]
}

fn is_label(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inside) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Names that belong to somebody else.
struct Taken<'a>(&'a [ObjectKey]);

impl Known for Taken<'_> {
    fn claim(&self, key: &ObjectKey) -> Option<Arc<ClaimView>> {
        self.0
            .contains(key)
            .then(|| Arc::new(server::claim_of_somebody(key)))
    }

    fn controlled_by(&self, _: &Uid) -> Vec<Arc<ClaimView>> {
        Vec::new()
    }

    fn template(&self, key: &ObjectKey) -> Option<Arc<TemplateView>> {
        Some(Arc::new(server::template(key)))
    }
}

fn held() -> impl Strategy<Value = Held> {
    prop_oneof![1 => Just(Held::Nothing), 1 => Just(Held::NotNeeded), 2 => (0..4_u8).prop_map(Held::Claim)]
}

/// What is recorded of an entry.
#[derive(Clone, Copy, Debug)]
enum Held {
    Nothing,
    NotNeeded,
    Claim(u8),
}

/// A pod with these entries, whether their claims are made, and what is recorded of them.
fn recording(entries: &[(bool, Held)]) -> ClaimantView {
    let entry = |(number, (made, _)): (usize, &(bool, _))| Entry {
        name: number.to_string().into(),
        source: if *made {
            ClaimSource::Template("t".into())
        } else {
            ClaimSource::Claim("c".into())
        },
    };
    let status = |(number, (made, held)): (usize, &(bool, Held))| {
        let claim = match held {
            Held::Claim(claim) if *made => Some(claim.to_string().into()),
            Held::NotNeeded if *made => None,
            _ => return None,
        };
        let entry = number.to_string().into();
        Some(ClaimStatus { entry, claim })
    };
    ClaimantView {
        kind: ClaimantKind::Pod,
        key: key("pod"),
        uid: "pod".into(),
        node: None,
        entries: Arc::new(entries.iter().enumerate().map(entry).collect()),
        statuses: entries.iter().enumerate().filter_map(status).collect(),
        extended: None,
        group: None,
        over: false,
        deleting: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_claim_has_a_valid_name(
        pod in pod_name(), uid in "[0-9a-f-]{36}", entry in entry_name(), n in 0..100_u32
    ) {
        prop_assert!(is_subdomain(&pod) && is_label(&entry), "{} {}", pod, entry);
        let base = base_name(&pod, &entry);
        prop_assert!(base.len() <= MAX_BASE_LEN && base.len() <= pod.len() + entry.len() + 2, "{}", base);
        prop_assert!(base.ends_with('-'));
        // As the API server judges a `generateName`: as if something stood behind it.
        let stem = format!("{base}x");
        prop_assert!(is_subdomain(&stem), "{}", base);
        prop_assert!(stem.split('-').all(|part| !part.ends_with('.')), "{}", base);
        // Something is left of both.
        prop_assert!(base.starts_with(&pod[..1]), "{}", base);
        prop_assert!(pod.len() + entry.len() > 55 || base == format!("{pod}-{entry}-"), "{}", base);
        let uid = Uid::from(uid.as_str());
        let name = claim_name(&pod, &uid, &entry, n);
        prop_assert!(name.len() <= 63 && is_subdomain(&name) && name.starts_with(&base), "{}", name);
        prop_assert_eq!(name.len(), base.len() + 5);
        prop_assert_eq!(name, claim_name(&pod, &uid, &entry, n));
    }

    /// However often it is deleted, and whatever else has one of its names.
    #[test]
    fn a_claim_that_is_made_again_has_another_name(
        pod in pod_name(), uid in "[0-9a-f-]{36}", entry in entry_name(), taken in vec(0..12_u32, 0..4)
    ) {
        let uid = Uid::from(uid.as_str());
        let taken: Vec<_> = { taken.iter() }.map(|n| key(&claim_name(&pod, &uid, &entry, *n))).collect();
        let mut pod = ClaimantView { key: key(&pod), uid, ..recording(&[(true, Held::Nothing)]) };
        Arc::make_mut(&mut pod.entries)[0].name = entry.as_str().into();
        let mut before = Vec::new();
        for _ in 0..8 {
            let known = Taken(&taken);
            let claimant = Claimant { view: &pod, group: Group::None };
            let seen = if before.is_empty() { Seen::Unasked } else { Seen::Found(None) };
            let answered = answer(&claimant, &pod.entries[0], &known, Gates::default(), seen);
            let Answer::Create(create) = answered else { panic!("{answered:?}") };
            let name = create.claim();
            prop_assert!(!before.contains(&name) && !taken.contains(&name), "{} after {:?}", name, before);
            let names = [(Arc::clone(&pod.entries[0].name), Arc::clone(&name.name))];
            pod.statuses = statuses(&claimant, &names).unwrap().into();
            before.push(name);
        }
    }

    #[test]
    fn only_what_may_be_reserved_is(
        (over, pod_deleting, bound) in prop::array::uniform3(prop::bool::weighted(0.3)).prop_map(<(bool, bool, bool)>::from),
        (allocated, deleting, ours, held) in (prop::bool::weighted(0.8), prop::bool::weighted(0.3), any::<bool>(), any::<bool>()),
        others in prop_oneof![0..3_usize, 250..260_usize]
    ) {
        let node = (!bound).then(|| "node".into());
        let pod = ClaimantView { over, deleting: pod_deleting, node, ..recording(&[(true, Held::Nothing)]) };
        let consumer = |number: usize| Consumer {
            kind: ConsumerKind::Pod,
            name: number.to_string().into(),
            uid: if held && number == 0 { pod.uid.clone() } else { number.to_string().as_str().into() },
        };
        let mut claim = ClaimView {
            allocated,
            reserved: (0..others).map(consumer).collect(),
            deleting: deleting.then_some(Timestamp::UNIX_EPOCH),
            ..server::claim_of_somebody(&key("claim"))
        };
        if ours {
            claim.owner = Some(Arc::new(server::owned_by(&pod.key, &pod.uid)));
        }
        let claimant = Claimant { view: &pod, group: Group::None };
        let judged = reservation(&claimant, &pod.entries[0], &claim, Gates::default());
        let wanted = ours && allocated && !deleting && pod.node.is_some() && !over && !pod_deleting
            && !(held && others > 0);
        prop_assert_eq!(judged != Reservation::Nothing, wanted);
        prop_assert_eq!(judged == Reservation::Full, wanted && others >= 256);
        if let Reservation::Write(reserve) = judged {
            prop_assert_eq!((&reserve.claim, &reserve.uid, &reserve.version), (&claim.key, &claim.uid, &claim.version));
            prop_assert_eq!((&reserve.consumer.uid, reserve.consumer.kind), (&pod.uid, ConsumerKind::Pod));
        }
    }

    #[test]
    fn what_is_recorded_stays_until_it_is_replaced(
        entries in vec((prop::bool::weighted(0.8), held()), 0..6),
        made in vec(prop::option::of(0..4_u8), 6)
    ) {
        let pod = recording(&entries);
        let claimant = Claimant { view: &pod, group: Group::None };
        let made = { pod.entries.iter().zip(&made) }.filter_map(|(entry, claim)| {
            let claim = claim.filter(|_| is_made(entry))?;
            Some((Arc::clone(&entry.name), claim.to_string().into()))
        });
        let made: Vec<(Arc<str>, Arc<str>)> = made.collect();
        let of = |all: &[ClaimStatus], entry: &str| {
            let found: Vec<_> = all.iter().filter(|status| &*status.entry == entry).cloned().collect();
            prop_assert!(found.len() <= 1, "{:?}", found);
            Ok(found.into_iter().next())
        };
        let written = statuses(&claimant, &made);
        let after = written.clone().unwrap_or_else(|| pod.statuses.to_vec());
        for entry in pod.entries.iter() {
            let new = made.iter().find(|(of, _)| *of == entry.name).map(|(_, claim)| ClaimStatus {
                entry: Arc::clone(&entry.name),
                claim: Some(Arc::clone(claim)),
            });
            let expected = match new {
                Some(new) => Some(new),
                None => of(&pod.statuses, &entry.name)?,
            };
            prop_assert_eq!(of(&after, &entry.name)?, expected);
        }
        prop_assert_eq!(written.is_some(), after != *pod.statuses);
        let again = ClaimantView { statuses: after.into(), ..pod.clone() };
        prop_assert_eq!(statuses(&Claimant { view: &again, group: Group::None }, &made), None);
    }

    /// A pod has one claim for each entry, a live pod keeps its reservations and its claims, and what is written is allowed:
    /// see [`server`].
    #[test]
    fn whatever_happens_all_pods_have_their_claims_in_the_end_and_no_other_has_one(
        (processes, events) in (1..3_usize).prop_flat_map(|processes| (Just(processes), vec(event(processes), 1..200)))
    ) {
        let mut world = World::new(processes);
        for event in events {
            world.happens(event);
        }
        world.comes_to_rest();
        world.all_have_their_claims();
        world.all_is_freed();
    }
}
