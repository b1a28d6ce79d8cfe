//! How many rounds a drain takes.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use rstest::rstest;

use crate::drain::simulate::{Leaving, Pace, Rounds, simulate};

/// A node with so many pods without a budget, and of each budget.
fn node(free: u64, held: &[u64]) -> Leaving {
    Leaving {
        free,
        held: held.iter().copied().enumerate().collect(),
    }
}

fn steady(pods: u64) -> Pace {
    Pace {
        first: pods,
        then: pods,
    }
}

#[rstest]
#[case::nothing_to_drain(&[], &[], 1, Rounds::default())]
#[case::nodes_without_pods(&[node(0, &[]), node(0, &[0])], &[steady(1)], 1, Rounds::default())]
#[case::no_budget(&[node(9, &[])], &[], 1, Rounds { rounds: 1, nodes: vec![0], budgets: vec![] })]
#[case::one_pod_a_round(&[node(4, &[3])], &[steady(1)], 1, Rounds { rounds: 3, nodes: vec![0], budgets: vec![0] })]
#[case::two_pods_a_round(&[node(0, &[3])], &[steady(2)], 1, Rounds { rounds: 2, nodes: vec![0], budgets: vec![0] })]
#[case::none_now(
    &[node(0, &[2])], &[Pace { first: 0, then: 2 }], 1, Rounds { rounds: 2, nodes: vec![0], budgets: vec![0] },
)]
#[case::one_node_after_the_other(
    &[node(1, &[]), node(0, &[]), node(1, &[])], &[], 1, Rounds { rounds: 2, nodes: vec![2], budgets: vec![] },
)]
#[case::two_nodes_at_a_time(
    &[node(1, &[]), node(0, &[]), node(1, &[])], &[], 2, Rounds { rounds: 1, nodes: vec![0, 2], budgets: vec![] },
)]
#[case::two_nodes_share_a_budget(
    &[node(0, &[1]), node(0, &[1])], &[steady(1)], 2, Rounds { rounds: 2, nodes: vec![1], budgets: vec![0] },
)]
#[case::the_slower_of_two_budgets_is_last(
    &[node(0, &[2, 5])], &[steady(2), steady(2)], 1, Rounds { rounds: 3, nodes: vec![0], budgets: vec![1] },
)]
#[case::a_budget_that_lets_none_go_by_its_numbers_lets_one_go(
    &[node(0, &[2])], &[steady(0)], 1, Rounds { rounds: 3, nodes: vec![0], budgets: vec![0] },
)]
fn the_rounds_of_a_drain_are_counted(
    #[case] nodes: &[Leaving],
    #[case] paces: &[Pace],
    #[case] parallel: usize,
    #[case] rounds: Rounds,
) {
    assert_eq!(simulate(nodes, paces, parallel), rounds);
}

/// Round by round, pod by pod.
fn by_hand(nodes: &[Leaving], paces: &[Pace], parallel: usize) -> u64 {
    let pods = |node: &Leaving| {
        let held = { node.held.iter() }
            .flat_map(|(budget, pods)| vec![Some(*budget); usize::try_from(*pods).unwrap()]);
        held.chain(vec![None; usize::try_from(node.free).unwrap()])
            .collect::<Vec<_>>()
    };
    let mut left: Vec<_> = nodes.iter().map(pods).filter(|pods| !pods.is_empty()).collect();
    let mut rounds = 0;
    while !left.is_empty() {
        rounds += 1;
        let pace = |pace: &Pace| if rounds == 1 { pace.first } else { pace.then.max(1) };
        let mut may: BTreeMap<usize, u64> = paces.iter().map(pace).enumerate().collect();
        for pods in left.iter_mut().take(parallel) {
            pods.retain(|budget| {
                let Some(may) = budget.and_then(|budget| may.get_mut(&budget)) else {
                    return false;
                };
                let goes = *may > 0;
                *may -= u64::from(goes);
                !goes
            });
        }
        left.retain(|pods| !pods.is_empty());
    }
    rounds
}

fn drains() -> impl Strategy<Value = (Vec<Leaving>, Vec<Pace>)> {
    let nodes = vec((0..3_u64, vec(0..4_u64, 3)), 0..6);
    let paces = vec((0..3_u64, 0..3_u64), 3);
    (nodes, paces).prop_map(|(nodes, paces)| {
        let nodes = nodes.into_iter().map(|(free, held)| node(free, &held)).collect();
        let paces = paces
            .into_iter()
            .map(|(first, then)| Pace { first, then })
            .collect();
        (nodes, paces)
    })
}

proptest! {
    #[test]
    fn the_rounds_are_those_of_a_drain_pod_by_pod((nodes, paces) in drains(), parallel in 1..4_usize) {
        prop_assert_eq!(simulate(&nodes, &paces, parallel).rounds, by_hand(&nodes, &paces, parallel));
    }

    #[test]
    fn more_nodes_at_a_time_never_take_longer((nodes, paces) in drains(), parallel in 1..4_usize) {
        prop_assert!(simulate(&nodes, &paces, parallel + 1).rounds <= simulate(&nodes, &paces, parallel).rounds);
    }
}

/// Each pod is looked at about once, however the nodes share budgets.
#[test]
fn a_large_drain_of_one_budget_is_found_out_at_once() {
    let nodes = vec![node(0, &[10]); 5_000];
    let rounds = simulate(&nodes, &[steady(1)], 5_000);
    assert_eq!((rounds.rounds, rounds.nodes), (50_000, vec![4_999]));
}
