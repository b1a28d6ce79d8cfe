//! What can happen to a handful of Jobs and pods, to their namespace and to the file with the policies:
//! `cargo xtask fault --suite ttl-after-finished-controller/policies --seed N` repeats one.

mod seeded_bugs;

use std::fs;
use std::time::Duration;

use controller_testing::fault_history::{At, Draw};
use controller_testing::history::step;
use controller_testing::past::millis;
use serde_json::Value;

use super::scene::{Debris, Named, Step, change, create, finish, kept, labels, release, set_ttl};
use crate::ledger::{BELIEVED, GRACE, Policy, Told, values};

controller_testing::histories!(Debris<true>);

const TTLS: [Option<i64>; 4] = [None, Some(500), Some(5_500), Some(20_500)];
const APPS: [Option<&str>; 3] = [None, Some("ci"), Some("web")];
const BROKEN: &str = "policies: [";
/// Without faults, an object goes within this time, in milliseconds: a grace period after its file was read, which may
/// be late, as may the end of that file.
pub(super) const PROMPTLY: i64 = GRACE + 2 * BELIEVED;

pub(super) fn steps<const POLICIES: bool>(draw: &mut Draw, length: Duration) -> Vec<At<Step<POLICIES>>> {
    let objects: Vec<_> = [(false, draw.number(2..6)), (true, draw.number(1..4))]
        .into_iter()
        .flat_map(|(is_pod, count)| (0..count).map(move |number| Named { is_pod, number }))
        .collect();
    let mut steps = vec![
        At::seconds(0, writes_policies(draw, true)),
        At::seconds(0, labels_namespace(draw)),
    ];
    steps.extend(
        objects
            .iter()
            .map(|object| At::seconds(0, created(draw, *object))),
    );
    let mut times: Vec<_> = (0..draw.number(6..24))
        .map(|_| draw.time(Duration::from_secs(1)..length))
        .collect();
    times.sort();
    for time in times {
        let object = draw.pick(&objects);
        let what = match draw.number(0..20) {
            0..5 => finish(
                object,
                i64::try_from(draw.number(0..100)).unwrap(),
                draw.chance(40),
            ),
            5..8 => label(draw, object),
            8..10 => keep(draw, object),
            10..12 => labels_namespace(draw),
            12..14 => keeps_namespace(draw),
            14..16 => created(draw, object),
            16 => {
                let ttl = draw.pick(&[None, Some(3), Some(1_000_000)]);
                // A pod has none.
                if object.is_pod {
                    release(object)
                } else {
                    set_ttl(object, ttl)
                }
            }
            17 => release(object),
            18 => writes_policies(draw, true),
            _ => breaks_policies(),
        };
        let time = Duration::from_secs(time.as_secs()) + Duration::from_millis(250);
        steps.push(At { time, what });
    }
    // A person lets go on what waits.
    steps.push(At::millis(119_250, writes_policies(draw, false)));
    steps.sort_by_key(|step| step.time);
    steps
}

/// Some have ended, have a controller or a finalizer.
fn created<const POLICIES: bool>(draw: &mut Draw, named: Named) -> Step<POLICIES> {
    let ago = draw
        .chance(60)
        .then(|| i64::try_from(draw.number(0..200)).unwrap());
    let (app, failed, owned) = (draw.pick(&APPS), draw.chance(40), draw.chance(20));
    let (held, keep) = (draw.chance(10), draw.chance(10));
    let told = Told {
        app,
        keep,
        owned,
        held,
        ..Told::default()
    };
    create(named, ago, failed, told)
}

fn label<const POLICIES: bool>(draw: &mut Draw, object: Named) -> Step<POLICIES> {
    let app = draw.pick(&APPS);
    let edits = move |object: &mut Value| object["metadata"]["labels"] = labels(app);
    change(&format!("gets the label {app:?}"), object, edits, move |told| {
        told.app = app;
    })
}

fn keep<const POLICIES: bool>(draw: &mut Draw, object: Named) -> Step<POLICIES> {
    let keep = draw.chance(50);
    let edits = move |object: &mut Value| object["metadata"]["annotations"] = kept(keep);
    let says = format!("is annotated to be kept: {keep}");
    change(&says, object, edits, move |told| told.keep = keep)
}

fn labels_namespace<const POLICIES: bool>(draw: &mut Draw) -> Step<POLICIES> {
    let team = draw.chance(50);
    let says = format!("the namespace has the label of the team: {team}");
    step(says, move |scene: &mut Debris<POLICIES>, server| {
        scene.change_namespace(server, |namespace| namespace.team = team);
    })
}

fn keeps_namespace<const POLICIES: bool>(draw: &mut Draw) -> Step<POLICIES> {
    let keep = draw.chance(30);
    let says = format!("the namespace is annotated to be kept: {keep}");
    step(says, move |scene: &mut Debris<POLICIES>, server| {
        scene.change_namespace(server, |namespace| namespace.keep = keep);
    })
}

fn writes_policies<const POLICIES: bool>(draw: &mut Draw, is_limited: bool) -> Step<POLICIES> {
    // The first names pods, so every process watches them.
    let policies: Vec<_> = (0..draw.number(1..4))
        .map(|place| policy(draw, place == 0, is_limited))
        .collect();
    let says = format!("the file has the policies {policies:?}");
    step(says, move |scene: &mut Debris<POLICIES>, server| {
        let now = millis(server.elapsed());
        scene.ledger.files.push((now, policies.clone()));
        scene.mend();
    })
}

fn policy(draw: &mut Draw, is_first: bool, is_limited: bool) -> Policy {
    let kinds = if is_first { 0 } else { draw.number(0..3) };
    let mut policy = Policy {
        jobs: kinds != 1,
        pods: kinds != 2,
        app: draw.pick(&APPS),
        team: draw.chance(30),
        succeeded: draw.pick(&TTLS),
        failed: draw.pick(&TTLS),
        owned: draw.chance(50),
        most: draw.pick(&[None, Some(1), Some(2)]).filter(|_| is_limited),
        keeps_last_failed: false,
    };
    policy.keeps_last_failed = policy.failed.is_some() && draw.chance(15);
    policy
}

/// The last of these files.
pub(super) fn text(files: &[(i64, Vec<Policy>)]) -> String {
    files.last().map_or_else(String::new, |(_, policies)| {
        let policies = values(policies, files.len() - 1);
        format!("policyGracePeriod: {GRACE}ms\npolicies: {policies}\n")
    })
}

fn breaks_policies<const POLICIES: bool>() -> Step<POLICIES> {
    let says = "the file is broken, unless it is new";
    step(says, |scene: &mut Debris<POLICIES>, server| {
        // Unless each process has read the last file, nobody could say whether one will.
        let last = scene.ledger.files.last().map(|(begun, _)| begun + BELIEVED);
        if last < Some(millis(server.elapsed())) {
            fs::write(scene.file(), BROKEN).unwrap();
        }
    })
}
