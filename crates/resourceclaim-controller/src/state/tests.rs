use rstest::rstest;

use super::*;

#[rstest]
#[case::uuids(
    "00000000-0000-4000-8000-000000000001",
    "00000000-0000-4000-8000-000000000002"
)]
#[case::texts("a", "b")]
fn what_was_written_about_a_claim_goes_with_it_alone(#[case] gone: &str, #[case] other: &str) {
    let reserved = |claim: &str, consumer: &str| WriteKey::Reserved {
        claim: Uid::from(claim),
        consumer: Uid::from(consumer),
    };
    let mut state = State::default();
    for key in [
        reserved(gone, other),
        reserved(gone, "text"),
        reserved(other, gone),
    ] {
        state.rivals.wrote(&key, Duration::ZERO);
    }
    state.forget_reserved(&Uid::from(gone));
    assert!(state.rivals.stands(&reserved(other, gone), Duration::ZERO));
    assert_eq!(state.held(), 1);
}
