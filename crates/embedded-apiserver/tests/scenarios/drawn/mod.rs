//! Sequences of requests, drawn from a seed, have the same answers and the same watch events on both servers.
//!
//! `SEQUENCES=2000` and `FIRST_SEED=…` widen the live test; it prints the shortest sequence that differs.

mod compare;
mod draw;
mod kinds;
mod run;

use futures::StreamExt;
use futures::stream;
use local_control_plane::{ControlPlane, Leased, Options};

use self::compare::Line;
use self::draw::Step;
use crate::http::AGENT;

/// Most sequences that are shortened and shown.
const SHOWN: usize = 10;
/// Sequences at a time on the real server.
const AT_A_TIME: usize = 8;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |value| value.parse().unwrap())
}

/// What the embedded server answers to a sequence, and tells its watches.
fn on_embedded(namespace: &str, steps: &[Step]) -> Vec<Line> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let client = crate::server().client_as(AGENT);
        run::run(&client, namespace, steps).await
    })
}

/// A sequence in two namespaces, one on each server, and the first line that differs.
struct Compared {
    steps: Vec<Step>,
    /// Where the servers first differ.
    differs: Option<String>,
}

async fn compared(control_plane: &ControlPlane, namespace: String, steps: Vec<Step>) -> Compared {
    let (there, sent) = (namespace.clone(), steps.clone());
    let ours = tokio::task::spawn_blocking(move || on_embedded(&there, &sent));
    let client = control_plane.client_as(AGENT).await.unwrap();
    let real = run::run(&client, &namespace, &steps).await;
    let differs = compare::first_difference(ours.await.unwrap(), real);
    Compared { steps, differs }
}

/// The sequence without the steps that the difference does not need.
async fn shortest(control_plane: &ControlPlane, seed: u64, found: Compared) -> Compared {
    let mut best = found;
    let mut index = best.steps.len();
    while index > 0 {
        index -= 1;
        let mut fewer = best.steps.clone();
        fewer[index] = Step::None;
        let namespace = format!("shorter-{seed}-{index}");
        let tried = compared(control_plane, namespace, fewer).await;
        if tried.differs.is_some() {
            best = tried;
        }
    }
    best
}

/// Two servers that answer differently show it: on purpose, one of them lacks the last step.
#[test]
fn a_step_that_only_one_server_sees_is_a_difference() {
    let mut found = 0;
    for seed in 0..20 {
        let steps = draw::sequence(seed);
        let whole = on_embedded("n", &steps);
        let mut without = steps;
        let last = without
            .iter()
            .rposition(|step| matches!(step, Step::Ask(ask) if ask.method == "POST"));
        if let Some(last) = last {
            without[last] = Step::None;
            found += usize::from(compare::first_difference(whole, on_embedded("n", &without)).is_some());
        }
    }
    assert!(found >= 15, "{found}");
}

#[test]
fn a_seed_gives_one_sequence_and_one_transcript() {
    let transcript = |seed| on_embedded("n", &draw::sequence(seed));
    for seed in 0..10 {
        assert_eq!(transcript(seed), transcript(seed));
    }
    assert_ne!(transcript(1), transcript(2));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
#[allow(clippy::print_stdout, reason = "the figures")]
async fn live_drawn_sequences_have_the_same_answers() {
    let (first, count) = (number("FIRST_SEED", 1), number("SEQUENCES", 100));
    let control_plane = Leased::bare(Options::default()).await.unwrap();
    let all = stream::iter(first..first + count).map(|seed| {
        let compared = compared(&control_plane, format!("drawn-{seed}"), draw::sequence(seed));
        async move { (seed, compared.await) }
    });
    let all: Vec<(u64, Compared)> = all.buffer_unordered(AT_A_TIME).collect().await;
    let requests = all.iter().flat_map(|(_, compared)| &compared.steps);
    let requests = requests.filter(|step| matches!(step, Step::Ask(_))).count();
    let (differ, same): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|(_, compared)| compared.differs.is_some());
    println!(
        "{requests} requests in {count} sequences; the same answers to {}",
        same.len()
    );
    let seeds: Vec<u64> = differ.iter().map(|(seed, _)| *seed).collect();
    for (seed, found) in differ.into_iter().take(SHOWN) {
        let Compared { steps, differs } = shortest(&control_plane, seed, found).await;
        println!("seed {seed}, shortened:");
        let steps = steps.iter().enumerate();
        for (number, step) in steps.filter(|(_, step)| **step != Step::None) {
            println!("{number}: {step}");
        }
        println!("{}", differs.unwrap_or_default());
    }
    assert_eq!(seeds, Vec::<u64>::new(), "these seeds differ");
}
