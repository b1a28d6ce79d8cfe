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
    let mut memory = State::default();
    for key in [
        reserved(gone, other),
        reserved(gone, "text"),
        reserved(other, gone),
    ] {
        memory.rivals.wrote(&key, Duration::ZERO);
    }
    memory.forget_reserved(&Uid::from(gone));
    assert!(memory.rivals.stands(&reserved(other, gone), Duration::ZERO));
    assert_eq!(memory.held(), 1);
}
