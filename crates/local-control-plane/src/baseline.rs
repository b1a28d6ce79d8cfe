//! The contents of etcd at one moment, and the way back to them.
//!
//! Objects are removed and put back in etcd itself: no finalizer, admission or namespace controller is in the way, and
//! the API server's watches report each change like any other.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::try_join_all;
use kube::api::{ApiResource, DynamicObject, ListParams, VersionMatch};
use kube::discovery::{Discovery, verbs};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::etcd::{AT_ONCE, Etcd, below};
use super::{ControlPlane, Error, admission, eventually};

/// Folder of all objects.
const REGISTRY: &str = "/registry";
/// What the API server keeps for itself.
const ITS_OWN: [&str; 3] = [
    "/registry/leases/kube-system/apiserver-",
    "/registry/masterleases/",
    "/registry/ranges/",
];
/// What the API server makes last when it starts, which `/readyz` does not wait for.
const LATE: [&str; 3] = [
    "/registry/configmaps/kube-system/kube-apiserver-legacy-service-account-token-tracking",
    "/registry/servicecidrs/kubernetes",
    "/registry/services/specs/default/kubernetes",
];
/// How long nothing changes before a baseline is taken.
const STILL: Duration = Duration::from_millis(300);
/// Requests that wait for a webhook may still be answered after all.
const WEBHOOKS: &str = "webhookconfigurations";
const POLICIES: &str = "validatingadmissionpolic";
const DEFINITIONS: &str = "customresourcedefinitions";
/// More changes than these take longer than a new control plane.
const MOST: usize = 10_000;
/// Looks at etcd until nothing is left to change.
const LOOKS: usize = 4;
/// Longest time for the API server to hear of changes.
const WITHIN: Duration = Duration::from_secs(20);

/// What etcd held, and what the API server served.
#[derive(Serialize, Deserialize)]
pub(super) struct Baseline {
    objects: BTreeMap<String, Stored>,
    served: Vec<ApiResource>,
}

#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    /// Of the last write.
    revision: i64,
    /// In base64; empty where only keys were asked for.
    value: String,
}

/// A key, and the value to write there; without one it is removed.
type Change = (String, Option<String>);

impl Baseline {
    /// What there is now; waits until the API server has made all that is its own.
    pub(super) async fn take(control_plane: &ControlPlane) -> Result<Self, Error> {
        let mut etcd = Etcd::connect(&control_plane.etcd_socket()).await?;
        let mut objects = stored(&mut etcd, false).await?;
        let is_still = async || {
            tokio::time::sleep(STILL).await;
            let before = match stored(&mut etcd, false).await {
                Ok(now) => mem::replace(&mut objects, now),
                Err(error) => return Some(Err(error)),
            };
            let has_all = LATE.iter().all(|late| objects.contains_key(*late));
            (has_all && objects == before).then_some(Ok(()))
        };
        eventually(WITHIN, "the API server has made its own objects", is_still).await??;
        let served = served(&control_plane.client()).await?;
        Ok(Self { objects, served })
    }

    /// Goes back to what there was. Returns false if that cannot be told for sure.
    pub(super) async fn restore(&mut self, control_plane: &ControlPlane) -> Result<bool, Error> {
        let client = control_plane.client();
        let mut etcd = Etcd::connect(&control_plane.etcd_socket()).await?;
        for _ in 0..LOOKS {
            let found = stored(&mut etcd, true).await?;
            let changes = self.changes(&found);
            if changes.is_empty() {
                return Ok(true);
            }
            let touches = |what: &str| changes.iter().any(|(key, _)| key.contains(what));
            if changes.len() > MOST || touches(WEBHOOKS) {
                return Ok(false);
            }
            let revision = self.apply(&mut etcd, &changes).await?;
            if touches(DEFINITIONS) {
                eventually(WITHIN, "custom resources are not served any more", async || {
                    let now = served(&client).await.ok()?;
                    (now == self.served).then_some(())
                })
                .await?;
            }
            self.until_known(&client, &changes, revision).await?;
            if touches(POLICIES) {
                admission::until_caught_up(&client).await?;
            }
        }
        Ok(false)
    }

    /// The changes that lead back from `found`.
    fn changes(&self, found: &BTreeMap<String, Stored>) -> Vec<Change> {
        let added = found.keys().filter(|key| !self.objects.contains_key(*key));
        let differ = self.objects.iter().filter(|(key, stored)| {
            let now = found.get(*key).map(|found| found.revision);
            now != Some(stored.revision)
        });
        added
            .map(|key| (key.clone(), None))
            .chain(differ.map(|(key, stored)| (key.clone(), Some(stored.value.clone()))))
            .collect()
    }

    /// Makes the changes; returns the revision of the last one.
    async fn apply(&mut self, etcd: &mut Etcd, changes: &[Change]) -> Result<i64, Error> {
        let mut revision = 0;
        for some in changes.chunks(AT_ONCE) {
            let all: Vec<Value> = some
                .iter()
                .map(|(key, value)| {
                    let key = STANDARD.encode(key);
                    match value {
                        Some(value) => json!({"requestPut": {"key": key, "value": value}}),
                        None => json!({"requestDeleteRange": {"key": key}}),
                    }
                })
                .collect();
            let answer = etcd.ask("txn", &json!({ "success": all })).await?;
            revision = number(&answer["header"]["revision"]);
            for (key, _) in some {
                if let Some(stored) = self.objects.get_mut(key) {
                    stored.revision = revision;
                }
            }
        }
        Ok(revision)
    }

    /// Waits until the API server's caches of what was changed have this revision.
    async fn until_known(&self, client: &Client, changes: &[Change], revision: i64) -> Result<(), Error> {
        let folders: BTreeSet<&str> = changes.iter().flat_map(|(key, _)| key.split('/')).collect();
        let is_touched = |resource: &&ApiResource| match &*resource.plural {
            "nodes" => folders.contains("minions"),
            plural => folders.contains(plural),
        };
        let at = ListParams::default().at(&revision.to_string());
        let at = at.matching(VersionMatch::NotOlderThan);
        let waiting = self.served.iter().filter(is_touched).map(async |resource| {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
            let what = format!("the API server knows revision {revision} of {}", resource.plural);
            eventually(WITHIN, &what, async || api.list_metadata(&at).await.ok()).await
        });
        try_join_all(waiting).await.map(drop)
    }
}

fn number(value: &Value) -> i64 {
    let text = value.as_str().unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// What etcd holds; with `keys_only` without the values.
async fn stored(etcd: &mut Etcd, keys_only: bool) -> Result<BTreeMap<String, Stored>, Error> {
    let mut range = below(REGISTRY);
    range["keys_only"] = json!(keys_only);
    let answer = etcd.ask("range", &range).await?;
    let kvs = answer["kvs"].as_array().into_iter().flatten();
    let stored = kvs.filter_map(|kv| {
        let key = String::from_utf8(STANDARD.decode(kv["key"].as_str()?).ok()?).ok()?;
        let stored = Stored {
            revision: number(&kv["mod_revision"]),
            value: kv["value"].as_str().unwrap_or_default().to_owned(),
        };
        Some((key, stored))
    });
    Ok(stored
        .filter(|(key, _)| !ITS_OWN.iter().any(|own| key.starts_with(own)))
        .collect())
}

/// The resources that can be listed, in their groups' preferred versions.
async fn served(client: &Client) -> Result<Vec<ApiResource>, Error> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await;
    let discovery =
        discovery.map_err(|source| Error::request("discover what the API server serves", source))?;
    let groups = discovery.groups_alphabetical().into_iter();
    let all = groups.flat_map(kube::discovery::ApiGroup::recommended_resources);
    Ok(all
        .filter(|(_, can)| can.supports_operation(verbs::LIST))
        .map(|(resource, _)| resource)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(of: &[(&str, i64)]) -> BTreeMap<String, Stored> {
        let stored = |(key, revision): &(&str, i64)| {
            let value = format!("value at {revision}");
            let stored = Stored {
                revision: *revision,
                value,
            };
            ((*key).to_owned(), stored)
        };
        of.iter().map(stored).collect()
    }

    #[test]
    fn what_was_added_goes_and_what_was_changed_or_removed_comes_back() {
        let baseline = Baseline {
            objects: objects(&[("changed", 1), ("kept", 2), ("removed", 3)]),
            served: Vec::new(),
        };
        let found = objects(&[("added", 5), ("changed", 4), ("kept", 2)]);
        let back = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
        assert_eq!(
            baseline.changes(&found),
            [
                ("added".to_owned(), None),
                back("changed", "value at 1"),
                back("removed", "value at 3"),
            ]
        );
        assert_eq!(
            baseline.changes(&objects(&[("changed", 1), ("kept", 2), ("removed", 3)])),
            []
        );
    }
}
