//! `--remove`: takes the annotation off every node, for uninstalling (TTL-8).

use std::collections::HashMap;
use std::time::Duration;

use controller_core::api::{CallFailed, Outcome};
use controller_core::clock::Clock;
use controller_core::leader::Term;
use controller_core::meta::ObjectKey;
use futures::{StreamExt, stream};

use crate::apply::{Applied, Apply};
use crate::decide::{Plan, removal};
use crate::live::LiveNodes;

/// How often one node is written before another writer is given way to (CORE-17).
const TRIES_AGAINST_A_RIVAL: u32 = 3;
/// The wait after a pass that failed somewhere; doubled after each, up to [`MAX_BACKOFF`].
const BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Why the removal ended before it was done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody puts the annotation back.
    #[error(
        "{manager} puts the TTL annotation back on node {node}: switch it off first \
         (kube-controller-manager --controllers=*,-ttl-controller)"
    )]
    Rival {
        /// One of the nodes.
        node: ObjectKey,
        /// The field manager, where the API server tells.
        manager: String,
    },
    /// The lease went to somebody else.
    #[error("cannot go on removing the TTL annotation")]
    LeaseLost(#[source] CallFailed),
}

/// Removes until a fresh list shows no annotation. Returns how many nodes were written (in a dry run:
/// would be).
///
/// Requests that fail are tried again, for ever: the caller stops by dropping the future.
pub async fn remove_all(
    live: &LiveNodes,
    apply: &Apply,
    term: &Term,
    clock: &Clock,
    concurrent_syncs: usize,
) -> Result<usize, Error> {
    let mut written: HashMap<ObjectKey, u32> = HashMap::new();
    let mut backoff = BACKOFF;
    loop {
        let mut failed = None;
        let plans = match live.all().await {
            Ok(nodes) => nodes
                .iter()
                .map(removal)
                .filter(|plan| *plan != Plan::Nothing)
                .collect(),
            Err(error) => {
                failed = Some(error);
                Vec::new()
            }
        };
        if plans.is_empty() && failed.is_none() {
            return Ok(written.len());
        }
        if let Some(node) = plans.iter().find_map(|plan| fought_over(plan, &written)) {
            let owner = live
                .owner_of_annotation(node)
                .await
                .ok()
                .flatten()
                .unwrap_or_default();
            let manager = owner.manager.unwrap_or_else(|| "another writer".to_owned());
            return Err(Error::Rival {
                node: node.clone(),
                manager,
            });
        }
        let mut results = stream::iter(plans)
            .map(|plan| async move {
                let result = apply.execute(&plan, term).await;
                (plan, result)
            })
            .buffer_unordered(concurrent_syncs);
        let mut planned = 0;
        while let Some((plan, result)) = results.next().await {
            match (plan, result) {
                (Plan::Remove { node }, Ok(Applied::Written)) => *written.entry(node).or_default() += 1,
                (_, Ok(Applied::Planned)) => planned += 1,
                (_, Ok(_)) => {}
                (_, Err(lost @ CallFailed::LeaseLost { .. })) => return Err(Error::LeaseLost(lost)),
                (_, Err(error)) => failed = Some(error),
            }
        }
        drop(results);
        if planned > 0 {
            return Ok(planned);
        }
        if let Some(error) = failed {
            let wait = match error.outcome() {
                Outcome::Throttled(wait) => wait.max(backoff),
                _ => backoff,
            };
            tracing::warn!(?wait, "not all nodes done, will go on: {error}");
            clock.sleep(wait).await;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }
}

fn fought_over<'a>(plan: &'a Plan, written: &HashMap<ObjectKey, u32>) -> Option<&'a ObjectKey> {
    match plan {
        Plan::Remove { node }
            if written
                .get(node)
                .is_some_and(|tries| *tries >= TRIES_AGAINST_A_RIVAL) =>
        {
            Some(node)
        }
        _ => None,
    }
}
