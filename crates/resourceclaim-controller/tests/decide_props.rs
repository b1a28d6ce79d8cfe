//! What holds of names, reservations and records for all inputs. What holds whatever happens: `tests/properties.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;

use controller_core::meta::Uid;
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use resourceclaim_controller::decide::{
    Claimant, EntryVerdict, Gates, Group, LiveClaim, MAX_BASE_LEN, Reservation, answer, base_name,
    claim_name, reservation, statuses,
};
use resourceclaim_controller::view::{ClaimSource, ClaimStatus, ClaimView, ClaimantView, ConsumerKind};

use crate::support::{World, a_pod, claim, key, owner_ref, pod_with, templated, users};

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
    let entry = |(number, (made, _)): (usize, &(bool, _))| match made {
        true => templated(&number.to_string(), "t"),
        false => users(&number.to_string(), "c"),
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
        statuses: entries.iter().enumerate().filter_map(status).collect(),
        ..pod_with(entries.iter().enumerate().map(entry))
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
            let known = World::of(taken.iter().map(|key| claim(&key.name)));
            let claimant = Claimant { view: &pod, group: Group::None };
            let seen = if before.is_empty() { LiveClaim::Unasked } else { LiveClaim::Found(None) };
            let answered = answer(&claimant, &pod.entries[0], &known, Gates::default(), seen);
            let EntryVerdict::Create(create) = answered else { panic!("{answered:?}") };
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
        let consumer = |number: usize| a_pod(&if held && number == 0 { "pod".to_owned() } else { number.to_string() });
        let mut claim = ClaimView {
            allocated,
            reserved: (0..others).map(consumer).collect(),
            deleting: deleting.then_some(Timestamp::UNIX_EPOCH),
            ..claim("claim")
        };
        if ours {
            claim.owner = Some(Arc::new(owner_ref("v1", "Pod", "pod", "pod")));
        }
        let claimant = Claimant { view: &pod, group: Group::None };
        let judged = reservation(&claimant, &pod.entries[0], &claim);
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
            let claim = claim.filter(|_| matches!(entry.source, ClaimSource::Template(_)))?;
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
}
