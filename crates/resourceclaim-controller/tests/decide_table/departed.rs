//! What is remembered, and for how long (RC-14).

use controller_core::meta::Uid;
use resourceclaim_controller::decide::{ClaimantId, Departed};
use resourceclaim_controller::view::ClaimantKind;

use crate::support::key;

#[test]
fn deleted_pods_are_remembered_while_a_claim_refers_to_them() {
    let pod = |number: usize| ClaimantId {
        kind: ClaimantKind::Pod,
        key: key("pod"),
        uid: Uid::from(format!("uid-{number}").as_str()),
    };
    let mut departed = Departed::default();
    assert!(departed.is_empty());
    for number in 1..10_000 {
        // A claim refers to every hundredth.
        let asked = |of: &Uid| of.to_string().ends_with("00");
        departed.deleted(pod(number), asked);
        departed.deleted(pod(number), asked);
        let oldest = number.saturating_sub(499).max(1);
        assert!(departed.contains(&pod(oldest)), "{oldest} of {number}");
    }
    for number in (100..10_000).step_by(100) {
        assert!(departed.contains(&pod(number)), "{number}");
    }
    assert!(!departed.contains(&pod(1)));
    assert!(departed.len() <= 2 * (500 + 100), "{}", departed.len());
    assert!(!departed.contains(&pod(10_000)));

    // 500 are the floor, not the cap.
    let mut departed = Departed::default();
    for number in 0..3_000 {
        departed.deleted(pod(number), |_| true);
    }
    assert_eq!(departed.len(), 3_000);
}
