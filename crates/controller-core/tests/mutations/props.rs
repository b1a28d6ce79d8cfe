//! Any order of requests, answers, reads, watch events and lists: the store is never older than what it was told,
//! deleted objects do not come back, and in the end the store equals the server's state and remembers nothing.

use proptest::prelude::*;

use crate::NAMES;
use crate::server::Verb;
use crate::world::{Form, Step, World};

fn ours() -> impl Strategy<Value = Verb> {
    prop_oneof![
        3 => any::<bool>().prop_map(Verb::Create),
        3 => Just(Verb::WriteOurs),
        2 => Just(Verb::WriteMark),
        3 => Just(Verb::Delete),
        2 => Just(Verb::Release),
        1 => Just(Verb::Touch),
    ]
}

fn theirs() -> impl Strategy<Value = Verb> {
    prop_oneof![
        3 => any::<bool>().prop_map(Verb::Create),
        3 => Just(Verb::WriteTheirs),
        2 => Just(Verb::WriteOurs),
        3 => Just(Verb::Touch),
        2 => Just(Verb::Delete),
        1 => Just(Verb::Release),
        1 => Just(Verb::Hide),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let name = || prop::sample::select(&NAMES[..]);
    let which = || 0..4_usize;
    let form = prop_oneof![3 => Just(Form::Whole), 3 => Just(Form::Part), 1 => Just(Form::WithoutVersion)];
    prop_oneof![
        8 => (name(), ours()).prop_map(|(name, verb)| Step::Send(name, verb)),
        8 => which().prop_map(Step::Take),
        8 => (which(), form).prop_map(|(n, form)| Step::Answer(n, form)),
        1 => which().prop_map(Step::Lose),
        1 => name().prop_map(Step::Overdue),
        8 => name().prop_map(Step::Read),
        8 => which().prop_map(Step::TakeRead),
        6 => which().prop_map(Step::AnswerRead),
        8 => (name(), theirs()).prop_map(|(name, verb)| Step::Other(name, verb)),
        12 => Just(Step::Watch),
        1 => Just(Step::ListBegins),
        3 => Just(Step::ListIsTaken),
        2 => Just(Step::ListItem),
        2 => Just(Step::ListEnds),
    ]
}

/// A case takes a fraction of a millisecond.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: config.cases * 32,
        failure_persistence: None,
        ..config
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_store_is_never_older_than_what_it_was_told(steps in prop::collection::vec(step(), 0..100)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.finish();
    }
}
