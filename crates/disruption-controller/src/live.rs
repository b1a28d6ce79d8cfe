//! Reads of the API server itself: `/scale`, and the discovery that says where it is.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-5 | `LiveScales::read` | `tests/sync/scales.rs::one_read_of_a_scale_serves_all_budgets_for_two_seconds`, `tests/sync/scales.rs::a_kind_whose_definition_comes_later_is_found` |

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::limits::AnswerWithin;
use controller_core::api::{Call, CallFailed, Caller, Denial, Outcome, Verb};
use controller_core::clock::Clock;
use controller_core::meta::{OwnerRef, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::core::Request;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use crate::decide::Reading;
use crate::metrics::ScaleRequests;

/// How long a read serves, and how long what was not found is believed not to be there.
pub const SERVES_FOR: Duration = Duration::from_secs(2);
/// How long the API server has to answer: until then a status stays as it is, then it allows nothing.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Below this many readings, looking for old ones is not worth the time.
const SMALLEST_SWEEP: usize = 64;
/// Source: client-go `scale/util.go`: what a Scale can be, all with `.spec.replicas`.
const SCALES: [(&str, &str); 4] = [
    ("autoscaling", "v1"),
    ("extensions", "v1beta1"),
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
];

/// The scales as the API server has them now, each read once for all who ask at the same time.
pub struct LiveScales {
    client: kube::Client,
    caller: Caller,
    clock: Clock,
    requests: ScaleRequests,
    scales: Shared<Target, LiveReading>,
    /// By `apiVersion`.
    kinds: Shared<Arc<str>, Result<Arc<Vec<Kind>>, CallFailed>>,
}

/// What a read said, and how long the API server asks to wait for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveReading {
    /// What it said.
    pub reading: Reading,
    /// How long to wait.
    pub wait: Option<Duration>,
}

/// The object whose scale is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    namespace: Arc<str>,
    api_version: Arc<str>,
    kind: Arc<str>,
    name: Arc<str>,
    /// The answer about an object says nothing of the next one of its name.
    uid: Uid,
}

/// A kind that the API server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    name: String,
    plural: String,
    namespaced: bool,
    scales: bool,
}

/// Answers, each asked for once by all who want it at the same time.
struct Shared<K, V> {
    clock: Clock,
    slots: Mutex<Slots<K, V>>,
}

struct Slots<K, V> {
    held: HashMap<K, Slot<V>>,
    sweep_at: usize,
}

type Slot<V> = Arc<tokio::sync::Mutex<Option<Answer<V>>>>;

#[derive(Clone, Copy, Debug)]
struct Answer<V> {
    asked: Instant,
    answered: Instant,
    value: V,
}

#[derive(Clone, Debug, Deserialize)]
struct ScaleWire {
    #[serde(default)]
    metadata: ScaleMetadata,
    #[serde(default)]
    spec: ScaleSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ScaleMetadata {
    #[serde(default)]
    uid: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ScaleSpec {
    /// Left out when it is 0.
    #[serde(default)]
    replicas: Option<i64>,
}

impl LiveScales {
    /// Reads through `client`.
    pub fn new(client: kube::Client, caller: Caller, clock: Clock, requests: ScaleRequests) -> Self {
        Self {
            client,
            caller,
            requests,
            scales: Shared::new(clock.clone()),
            kinds: Shared::new(clock.clone()),
            clock,
        }
    }

    /// The scale of `owner` in `namespace`, as it was at most [`SERVES_FOR`] ago.
    pub async fn read(&self, namespace: &Arc<str>, owner: &OwnerRef) -> LiveReading {
        let target = Target {
            namespace: Arc::clone(namespace),
            api_version: Arc::clone(&owner.api_version),
            kind: Arc::clone(&owner.kind),
            name: Arc::clone(&owner.name),
            uid: owner.uid.clone(),
        };
        let serves = |held: &Answer<_>| self.is_young(held);
        self.scales.get(&target, serves, || self.ask(&target)).await
    }

    async fn ask(&self, target: &Target) -> LiveReading {
        // A reference is what the maker of a pod wrote: it must not lead anywhere else.
        if !is_api_version(&target.api_version) {
            return Reading::UnknownKind.into();
        }
        if !is_path_segment(&target.name) {
            return Reading::NotFound.into();
        }
        let kind = match self.kind(target, None).await {
            Ok(kind) => kind,
            Err(failed) => return LiveReading::failed(&failed),
        };
        match self.ask_for_scale(target, kind).await {
            Ok(reading) => reading.into(),
            Err(failed) => LiveReading::failed(&failed),
        }
    }

    async fn ask_for_scale(&self, target: &Target, kind: Option<Kind>) -> Result<Reading, CallFailed> {
        let Some(kind) = kind else {
            return Ok(Reading::UnknownKind);
        };
        if !kind.scales {
            return Ok(Reading::NotImplemented(resource(
                &target.api_version,
                &kind.plural,
            )));
        }
        let asked_at = self.clock.instant();
        if let Some(reading) = self.get(target, &kind).await? {
            return Ok(reading);
        }
        // No such object, or no such subresource any more: discovery knows.
        match self.kind(target, Some(asked_at)).await? {
            None => Ok(Reading::UnknownKind),
            Some(now) if !now.scales => Ok(Reading::NotImplemented(resource(
                &target.api_version,
                &now.plural,
            ))),
            Some(now) if now == kind => Ok(Reading::NotFound),
            Some(now) => Ok(self.get(target, &now).await?.unwrap_or(Reading::NotFound)),
        }
    }

    /// Nothing on a 404.
    async fn get(&self, target: &Target, kind: &Kind) -> Result<Option<Reading>, CallFailed> {
        let root = group_path(&target.api_version);
        let path = if kind.namespaced {
            format!("{root}/namespaces/{}/{}", target.namespace, kind.plural)
        } else {
            format!("{root}/{}", kind.plural)
        };
        let call = Call {
            verb: Verb::Get,
            resource: "*/scale",
            target: format!(
                "of {} {}/{}",
                resource(&target.api_version, &kind.plural),
                target.namespace,
                target.name
            ),
        };
        let read = async {
            let request = Request::new(path).get_subresource("scale", &target.name);
            let mut request = request.map_err(kube::Error::BuildRequest)?;
            request.extensions_mut().insert(AnswerWithin(ANSWER_WITHIN));
            let answer = self.client.request::<ScaleWire>(request).await;
            self.requests.count(&answer);
            match answer {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                answer => answer.map(Some),
            }
        };
        let scale = self.caller.read(call, read).await?;
        Ok(scale.map(|scale| Reading::Scale {
            uid: Uid::from(scale.metadata.uid.as_str()),
            replicas: scale.spec.replicas.unwrap_or_default(),
        }))
    }

    /// The kind of `target`, from what discovery said after `since`, or at any time where that knows it and it has a
    /// scale; nothing when the API server does not serve it.
    async fn kind(&self, target: &Target, since: Option<Instant>) -> Result<Option<Kind>, CallFailed> {
        let find = |kinds: &[Kind]| kinds.iter().find(|kind| *kind.name == *target.kind).cloned();
        let api_version = &target.api_version;
        let serves = |held: &Answer<Result<Arc<Vec<Kind>>, CallFailed>>| match (since, &held.value) {
            (Some(since), _) => held.asked >= since,
            (None, Ok(kinds)) if find(kinds).is_some_and(|kind| kind.scales) => true,
            (None, _) => self.is_young(held),
        };
        let kinds = self.kinds.get(api_version, serves, || self.discover(api_version));
        Ok(find(&kinds.await?))
    }

    fn is_young<V>(&self, held: &Answer<V>) -> bool {
        self.clock.instant() - held.answered < SERVES_FOR
    }

    async fn discover(&self, api_version: &Arc<str>) -> Result<Arc<Vec<Kind>>, CallFailed> {
        let call = Call {
            verb: Verb::Get,
            resource: "discovery",
            target: format!("of {api_version}"),
        };
        let read = async {
            let listed = if api_version.contains('/') {
                self.client.list_api_group_resources(api_version).await
            } else {
                self.client.list_core_api_resources(api_version).await
            };
            match listed {
                Ok(listed) => Ok(kinds(&listed.resources)),
                // No such group or version.
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        };
        self.caller.read(call, read).await.map(Arc::new)
    }
}

impl From<Reading> for LiveReading {
    fn from(reading: Reading) -> Self {
        Self { reading, wait: None }
    }
}

impl LiveReading {
    fn failed(failed: &CallFailed) -> Self {
        let (transient, wait) = match failed.outcome() {
            // Rights and policies change by somebody's hand.
            Outcome::Forbidden(Denial::MissingRight | Denial::ThisObject | Denial::NamespaceTerminating) => {
                (false, None)
            }
            Outcome::Throttled(wait) => (true, Some(wait)),
            _ => (true, None),
        };
        Self {
            reading: Reading::Failed(failed.to_string(), transient),
            wait,
        }
    }
}

/// The kinds of one version of a group, with whether they have a scale.
fn kinds(resources: &[APIResource]) -> Vec<Kind> {
    let scales = |plural: &str| {
        resources.iter().any(|resource| {
            let served = (
                resource.group.as_deref().unwrap_or_default(),
                resource.version.as_deref().unwrap_or_default(),
            );
            resource.name.strip_suffix("/scale") == Some(plural)
                && resource.kind == "Scale"
                && SCALES.contains(&served)
        })
    };
    let objects = resources.iter().filter(|resource| !resource.name.contains('/'));
    objects
        .map(|resource| Kind {
            name: resource.kind.clone(),
            plural: resource.name.clone(),
            namespaced: resource.namespaced,
            scales: scales(&resource.name),
        })
        .collect()
}

/// Whether there can be an object of this name: those with a scale are named like DNS subdomains.
fn is_path_segment(name: &str) -> bool {
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    !matches!(name, "" | "." | "..") && name.bytes().all(harmless)
}

/// Whether it can be a version, or a group and a version.
fn is_api_version(api_version: &str) -> bool {
    match api_version.split_once('/') {
        None => is_path_segment(api_version),
        Some((group, version)) => is_path_segment(group) && is_path_segment(version),
    }
}

fn group_path(api_version: &str) -> String {
    if api_version.contains('/') {
        format!("/apis/{api_version}")
    } else {
        format!("/api/{api_version}")
    }
}

/// `resource.group`, as RBAC and upstream's messages have it.
fn resource(api_version: &str, plural: &str) -> String {
    match api_version.split_once('/') {
        Some((group, _)) if !group.is_empty() => format!("{plural}.{group}"),
        _ => plural.to_owned(),
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Shared<K, V> {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            slots: Mutex::new(Slots {
                held: HashMap::new(),
                sweep_at: SMALLEST_SWEEP,
            }),
        }
    }

    /// The answer held for `key`, if `serves` says that it still serves; else a new one.
    async fn get<F: Future<Output = V>>(
        &self,
        key: &K,
        serves: impl Fn(&Answer<V>) -> bool,
        ask: impl FnOnce() -> F,
    ) -> V {
        let slot = self.slot(key);
        let mut held = slot.lock().await;
        if let Some(answer) = &*held
            && serves(answer)
        {
            return answer.value.clone();
        }
        let asked = self.clock.instant();
        let value = ask().await;
        *held = Some(Answer {
            asked,
            answered: self.clock.instant(),
            value: value.clone(),
        });
        value
    }

    fn slot(&self, key: &K) -> Slot<V> {
        let mut slots = self.slots.lock();
        if slots.held.len() >= slots.sweep_at {
            let now = self.clock.instant();
            slots.held.retain(|_, slot| {
                // One that is locked is being asked for.
                match slot.try_lock() {
                    Ok(held) => held
                        .as_ref()
                        .is_some_and(|answer| now - answer.answered < SERVES_FOR),
                    Err(_) => true,
                }
            });
            slots.sweep_at = slots.held.len().saturating_mul(2).max(SMALLEST_SWEEP);
        }
        Arc::clone(slots.held.entry(key.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn entry(name: &str, kind: &str, group: &str) -> Value {
        json!({ "name": name, "kind": kind, "group": group, "version": "v1", "namespaced": true,
            "singularName": "", "verbs": ["get"] })
    }

    #[rstest]
    #[case::one_that_is(json!([
        entry("widgets", "Widget", ""), entry("widgets/status", "Widget", ""),
        entry("widgets/scale", "Scale", "autoscaling"),
    ]), true)]
    #[case::one_in_a_form_that_is_not_known(json!([
        entry("widgets", "Widget", ""), entry("widgets/scale", "Widget", ""),
    ]), false)]
    #[case::one_of_a_group_that_is_not_known(json!([
        entry("widgets", "Widget", ""), entry("widgets/scale", "Scale", "example.com"),
    ]), false)]
    #[case::that_of_another_kind(json!([
        entry("widgets", "Widget", ""), entry("gadgets/scale", "Scale", "autoscaling"),
    ]), false)]
    #[case::none(json!([entry("widgets", "Widget", "")]), false)]
    fn a_kind_scales_when_discovery_lists_a_scale_that_is_one(#[case] listed: Value, #[case] scales: bool) {
        let listed: Vec<APIResource> = serde_json::from_value(listed).unwrap();
        let found = kinds(&listed);
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].name, &*found[0].plural), ("Widget", "widgets"));
        assert_eq!(found[0].scales, scales);
    }

    #[rstest]
    #[case::a_group("example.com/v1", "widgets.example.com", "/apis/example.com/v1")]
    #[case::the_core("v1", "widgets", "/api/v1")]
    fn a_resource_is_named_with_its_group(
        #[case] api_version: &str,
        #[case] named: &str,
        #[case] path: &str,
    ) {
        assert_eq!(resource(api_version, "widgets"), named);
        assert_eq!(group_path(api_version), path);
    }

    #[rstest]
    #[case::a_name("web-0.a", true)]
    #[case::another_object("other/scale", false)]
    #[case::a_query("web?x", false)]
    #[case::an_escape("%2e%2e", false)]
    #[case::above("..", false)]
    #[case::nothing("", false)]
    fn a_reference_leads_to_no_other_place(#[case] name: &str, #[case] harmless: bool) {
        assert_eq!(is_path_segment(name), harmless);
        assert_eq!(is_api_version(&format!("example.com/{name}")), harmless);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_too_old_are_forgotten() {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let shared = Shared::new(clock.clone());
        for key in 0..10_000 {
            clock.sleep(Duration::from_millis(100)).await;
            shared.get(&key, |_| false, || async { key }).await;
        }
        assert!(shared.slots.lock().held.len() <= 2 * SMALLEST_SWEEP);
    }
}
