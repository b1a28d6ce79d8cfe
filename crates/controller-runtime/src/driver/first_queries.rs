//! Queries without a loop. [`explain`] says what a controller would do with one object now, and why; it uses the same
//! queries as the controller. Some controllers also need answers before they can be made.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_core::app::{Failure, Prepared};
use controller_core::controller::{Controller, Now, Pass, Query as _, Reply};
use controller_core::error::Chain;
use futures::future::{BoxFuture, FutureExt, Shared};
use futures::poll;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;

use super::Env;
use crate::sender::Sender;

/// Wait before an API server that gave no answer at the start is queried again.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Turns until a request has left the client.
const LAYERS: usize = 4;
/// Most queries in flight at a time.
const QUERIES_AT_ONCE: usize = 8;

/// Sends the queries that `explain` names until it is complete. The answers are in the pass; errors come from
/// `explain`.
pub async fn explain<C: Controller, T>(
    sender: Sender,
    explain: impl Fn(&Pass<C>, Now) -> Result<Prepared<C::Query, T>, Failure> + Send,
) -> Result<T, Failure> {
    let clock = sender.caller.clock().clone();
    let origin = clock.instant();
    let now = || Now {
        wall: clock.now(),
        uptime: clock.instant() - origin,
    };
    let mut pass = Pass::default();
    // The next pages of lists, which are fetched while those before them are decoded.
    let ahead: Mutex<BTreeMap<C::Query, Shared<BoxFuture<'_, _>>>> = Mutex::default();
    loop {
        let queries = match explain(&pass, now())? {
            Prepared::Ready(result) => return Ok(result),
            Prepared::Queries(queries) => queries,
        };
        let ask = async |query: C::Query| {
            let asked = now();
            let fetched = ahead.lock().remove(&query);
            let (body, date) = match fetched {
                Some(fetched) => fetched.await,
                None => sender.fetch(&query, None).await,
            };
            let next = body.as_ref().ok().and_then(|body| query.continued(body));
            if let Some(next) = next {
                let (sender, wanted) = (&sender, next.clone());
                let fetch = async move { sender.fetch(&wanted, None).await };
                let fetch = fetch.boxed().shared();
                let mut begun = fetch.clone();
                // It is on its way before the decoding begins: each layer of the client takes a turn of its own.
                for _ in 0..LAYERS {
                    if poll!(&mut begun).is_ready() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                ahead.lock().insert(next, fetch);
            }
            let reply = Reply {
                value: sender.decode(&query, body).await,
                asked,
                answered: now(),
                date,
            };
            (query, reply)
        };
        let mut replies = stream::iter(queries).map(ask).buffered(QUERIES_AT_ONCE);
        while let Some((query, reply)) = replies.next().await {
            pass.answered(query, reply);
        }
    }
}

/// Sends the queries whose answers are needed to make a controller, until all are answered; `None` if the process
/// drains first.
pub(super) async fn ask_first<C: Controller, T>(
    env: &Env,
    ask: impl Fn(&Pass<C>) -> Result<Prepared<C::Query, T>, Failure> + Send + Sync,
) -> Option<T> {
    let answered = async {
        loop {
            let sender = Sender::new(env.http.clone(), env.caller.clone(), env.encoding);
            match explain(sender, |pass, _| ask(pass)).await {
                Ok(result) => return result,
                Err(failed) => {
                    tracing::warn!("cannot ask what the API server can do: {}", Chain(&*failed));
                    env.clock.sleep(ASK_AGAIN).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = env.shutdown.draining() => None,
        result = answered => Some(result),
    }
}
