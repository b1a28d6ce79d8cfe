//! `explain`: what a controller would do with one object now, and why, by the same questions that it asks itself.

use super::request::Sender;
use super::{Controller, Now, Pass, Reply};
use crate::api::Caller;
use crate::runtime::Failure;

/// How far an explanation has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explained<Q> {
    /// It needs these answers.
    Ask(Vec<Q>),
    /// It is complete.
    Text(String),
}

/// Asks the API server what `explain` wants to know until it is complete. The answers are in the pass.
pub async fn explain<C: Controller>(
    client: kube::Client,
    caller: Caller,
    explain: impl Fn(&Pass<C>, Now) -> Result<Explained<C::Question>, Failure> + Send,
) -> Result<String, Failure> {
    let clock = caller.clock().clone();
    let origin = clock.instant();
    let now = || Now {
        wall: clock.now(),
        uptime: clock.instant() - origin,
    };
    let sender = Sender { client, caller };
    let mut pass = Pass::new(0);
    loop {
        let questions = match explain(&pass, now())? {
            Explained::Text(text) => return Ok(text),
            Explained::Ask(questions) => questions,
        };
        for question in questions {
            let asked = now();
            let (value, date) = sender.ask(&question).await;
            let reply = Reply {
                value,
                asked,
                answered: now(),
                date,
            };
            pass.answers.push((question, reply));
        }
    }
}
