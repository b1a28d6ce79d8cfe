//! What an object costs in memory is in proportion to its size, also where a tenant makes it up.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use controller_core::cache::{Versioned, Wire};
use disruption_controller::state::State;
use disruption_controller::view::{PdbWire, PodWire};
use local_control_plane::ProcessUsage;

/// As much as etcd takes.
const LARGEST: usize = 1_500_000;
/// Objects of each kind.
const OBJECTS: usize = 8;
/// How much memory an object may take, in its sizes.
const MOST: f64 = 3.0;

fn rss() -> u64 {
    ProcessUsage::of(std::process::id()).unwrap().rss
}

/// An object in JSON with as many entries at `#` as fit, each with another number at `@`. No other memory is used: what
/// is given back would hide what is taken.
fn object(number: usize, rest: &str, entry: &str) -> String {
    let mut text = String::with_capacity(LARGEST + 100);
    let (before, after) = rest.split_once('#').unwrap();
    write!(
        text,
        r#"{{"metadata":{{"namespace":"ns","name":"n{number}","uid":"u{number}"{before}"#
    )
    .unwrap();
    let (start, end) = entry.split_once('@').unwrap();
    for at in number * LARGEST.. {
        if text.len() + entry.len() + after.len() + 10 > LARGEST {
            break;
        }
        // Some entries name it twice.
        write!(text, "{start}{at}{},", end.replace('@', "1")).unwrap();
    }
    text.pop();
    text + after
}

/// How much memory such objects take, in their sizes. Nothing of what `keep` keeps is given back before the test ends.
fn cost<W: Wire>(rest: &str, entry: &str, mut keep: impl FnMut(Arc<W::View>)) -> f64 {
    let mut bring = |number: usize| {
        let text = object(number, rest, entry);
        let found = Versioned::read::<W>(text.as_bytes()).unwrap().unwrap();
        keep(Arc::new(found.view));
    };
    // What is only needed to make an object is there from the first one on.
    bring(0);
    let before = rss();
    (1..=OBJECTS).for_each(bring);
    let grown = u32::try_from(rss().saturating_sub(before)).unwrap();
    f64::from(grown) / f64::from(u32::try_from(OBJECTS * LARGEST).unwrap())
}

fn cost_of_pods(rest: &str, entry: &str) -> f64 {
    let state = Box::leak(Box::<State>::default());
    cost::<PodWire>(rest, entry, |pod| {
        state.pod_changed(&pod.key.clone(), Some(&pod), Duration::ZERO);
    })
}

fn cost_of_pdbs(rest: &str, entry: &str) -> f64 {
    let state = Box::leak(Box::<State>::default());
    cost::<PdbWire>(rest, entry, |pdb| {
        state.pdb_changed(&pdb.key.clone(), Some(&pdb), true);
    })
}

/// All in one test: the memory is that of the process.
#[test]
fn an_object_takes_three_times_its_size_at_most() {
    const VALUES: &str =
        r#"},"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"In","values":[#]}]}}}"#;
    const REQUIREMENTS: &str = r#"},"spec":{"selector":{"matchExpressions":[#]}}}"#;
    const MATCH_LABELS: &str = r#"},"spec":{"selector":{"matchLabels":{#}}}}"#;
    const CONDITIONS: &str = r#"},"status":{"conditions":[#]}}"#;
    const CONDITION: &str = r#"{"type":"@","status":"True","reason":"@"}"#;
    let costs = [
        ("values of a selector", cost_of_pdbs(VALUES, r#""@""#)),
        (
            "requirements",
            cost_of_pdbs(REQUIREMENTS, r#"{"key":"@","operator":"Exists"}"#),
        ),
        (
            "requirements of one value",
            cost_of_pdbs(REQUIREMENTS, r#"{"key":"@","operator":"In","values":["@"]}"#),
        ),
        ("labels of a selector", cost_of_pdbs(MATCH_LABELS, r#""@":"""#)),
        ("conditions of a budget", cost_of_pdbs(CONDITIONS, CONDITION)),
        (
            "labels of a pod",
            cost_of_pods(r#","labels":{#}}}"#, r#""p@":"""#),
        ),
        (
            "owners of a pod",
            cost_of_pods(
                r#","ownerReferences":[#]}}"#,
                r#"{"apiVersion":"v1","kind":"K","name":"@","uid":"@"}"#,
            ),
        ),
        ("conditions of a pod", cost_of_pods(CONDITIONS, CONDITION)),
    ];
    println!("{costs:.1?}");
    let dear = costs.iter().filter(|(_, cost)| *cost > MOST);
    assert_eq!(dear.count(), 0, "{costs:.1?}");
}
