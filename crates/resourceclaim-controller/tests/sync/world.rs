//! Pods, templates and claims on the embedded API server, and our loop beside them; the tests are scheduler and
//! kubelet. Time is tokio's, paused.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_core::clock::Clock;
use harness::{Running, Start};
use resourceclaim_controller::ResourceClaimController;
use resourceclaim_controller::config::Config;
use serde_json::{Value, json};
use testkit::embedded::{
    EVENTS, Fault, Mark, POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Request, Requests,
    Server, Verb,
};

const START: &str = "2026-01-01T00:00:00Z";
const AGENT: &str = "resourceclaim-controller/test";
pub(crate) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clock: Clock,
}

impl World {
    pub(crate) fn new() -> Self {
        let start = START.parse().unwrap();
        Self {
            server: Server::starting_at(start),
            clock: Clock::starting_at(start),
        }
    }

    /// With `PodGroups`.
    pub(crate) fn with_groups() -> Self {
        let world = Self::new();
        world.server.serve(&POD_GROUPS);
        world
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(process())
    }

    pub(crate) fn start_with(&self, start: Start<Config>) -> Running {
        start.start(self.server.client_as(AGENT), &self.clock)
    }

    /// Our process, to which the answers to creates come so much later than they are carried out.
    pub(crate) fn start_with_late_answers(&self, late: Duration) -> Running {
        let (server, clock) = (self.server.client_as(AGENT), self.clock.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (server, clock) = (server.clone(), clock.clone());
            async move {
                let creates = request.method() == http::Method::POST;
                let answer = server.send(request).await;
                if creates {
                    clock.sleep(late).await;
                }
                answer
            }
        });
        process().start(kube::Client::new(service, "default"), &self.clock)
    }

    /// Our process, to which the API server is of another version.
    pub(crate) fn start_on(&self, version: &Value, start: Start<Config>) -> Running {
        let server = self.server.client_as(AGENT);
        let version = version.to_string().into_bytes();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (server, version) = (server.clone(), version.clone());
            async move {
                if request.uri().path() == "/version" {
                    return Ok(http::Response::new(kube::client::Body::from(version)));
                }
                let answer = server.send(request).await?;
                Ok::<_, kube::Error>(answer)
            }
        });
        start.start(kube::Client::new(service, "default"), &self.clock)
    }

    pub(crate) fn insert(&self, object: Value) -> Value {
        self.server.insert(object).unwrap()
    }

    pub(crate) fn template(&self, name: &str) {
        self.template_of(name, &json!({ "devices": { "requests": [request()] } }));
    }

    pub(crate) fn template_of(&self, name: &str, spec: &Value) {
        self.insert(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": name },
            "spec": { "spec": spec },
        }));
    }

    /// The user's own claim.
    pub(crate) fn claim(&self, name: &str) {
        self.insert(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": name },
            "spec": { "devices": { "requests": [request()] } },
        }));
    }

    /// A pod on no node, with an entry `gpu` from the template `t`; its uid.
    pub(crate) fn pod(&self, name: &str) -> String {
        self.pod_of(name, &[made("gpu", "t")])
    }

    pub(crate) fn pod_of(&self, name: &str, entries: &[Value]) -> String {
        self.pod_with(name, &json!({ "resourceClaims": entries, "containers": [] }))
    }

    pub(crate) fn pod_with(&self, name: &str, spec: &Value) -> String {
        let pod = self.insert(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec,
            "status": { "phase": "Pending" },
        }));
        pod["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    pub(crate) fn edit_pod(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.server.edit(&PODS, "default", name, edit).unwrap();
    }

    pub(crate) fn edit_claim(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.server.edit(&RESOURCE_CLAIMS, "default", name, edit).unwrap();
    }

    /// As the scheduler: allocates the claim for these pods, and protects it.
    pub(crate) fn allocate(&self, claim: &str, pods: &[&str]) {
        let reserved: Vec<_> = pods.iter().map(|pod| self.consumer(pod)).collect();
        self.edit_claim(claim, |claim| {
            claim["metadata"]["finalizers"] = json!([FINALIZER]);
            claim["status"]["allocation"] = json!({ "devices": { "results": [
                { "request": "r", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0" },
            ] } });
            claim["status"]["reservedFor"] = json!(reserved);
        });
    }

    pub(crate) fn consumer(&self, pod: &str) -> Value {
        let uid = self.server.get(&PODS, "default", pod).unwrap()["metadata"]["uid"].clone();
        json!({ "resource": "pods", "name": pod, "uid": uid })
    }

    /// As the scheduler: binds the pod.
    pub(crate) fn bind(&self, pod: &str) {
        self.edit_pod(pod, |pod| pod["spec"]["nodeName"] = json!("n"));
    }

    /// As the scheduler: allocates the pod's claims for it, then binds it.
    pub(crate) fn schedule(&self, pod: &str) {
        for claim in self.claims_of(pod).values() {
            self.allocate(claim, &[pod]);
        }
        self.bind(pod);
    }

    /// As the kubelet: the pod has ended.
    pub(crate) fn finish(&self, pod: &str) {
        self.edit_pod(pod, |pod| pod["status"]["phase"] = json!("Succeeded"));
    }

    /// The pod is gone at once.
    pub(crate) fn force_delete(&self, pod: &str) {
        self.server.delete(&PODS, "default", pod).unwrap();
    }

    /// Gives the pod a deletionTimestamp; nobody lets it end.
    pub(crate) fn terminate(&self, pod: &str) {
        self.edit_pod(pod, |pod| {
            pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
        });
        self.server.delete(&PODS, "default", pod).unwrap();
    }

    pub(crate) fn delete_claim(&self, name: &str) {
        self.server.delete(&RESOURCE_CLAIMS, "default", name).unwrap();
    }

    pub(crate) fn get_claim(&self, name: &str) -> Option<Value> {
        self.server.get(&RESOURCE_CLAIMS, "default", name)
    }

    /// The names of all claims.
    pub(crate) fn claims(&self) -> Vec<String> {
        let claims = self.server.list(&RESOURCE_CLAIMS);
        claims
            .iter()
            .map(|claim| text(&claim["metadata"]["name"]))
            .collect()
    }

    /// Which claims the pod's status names, by entry.
    pub(crate) fn claims_of(&self, pod: &str) -> BTreeMap<String, String> {
        let pod = self.server.get(&PODS, "default", pod).unwrap();
        let statuses = pod["status"]["resourceClaimStatuses"].as_array().cloned();
        let statuses = statuses.unwrap_or_default();
        statuses
            .iter()
            .map(|status| (text(&status["name"]), text(&status["resourceClaimName"])))
            .collect()
    }

    /// The claim of the pod's entry `gpu`.
    pub(crate) fn claim_of(&self, pod: &str) -> String {
        self.claims_of(pod)["gpu"].clone()
    }

    /// For whom the claim is reserved, by name.
    pub(crate) fn reserved(&self, claim: &str) -> Vec<String> {
        let claim = self.get_claim(claim).unwrap();
        let reserved = claim["status"]["reservedFor"].as_array().cloned();
        reserved
            .unwrap_or_default()
            .iter()
            .map(|consumer| text(&consumer["name"]))
            .collect()
    }

    pub(crate) fn is_allocated(&self, claim: &str) -> bool {
        self.get_claim(claim).unwrap()["status"]["allocation"].is_object()
    }

    pub(crate) fn is_protected(&self, claim: &str) -> bool {
        self.get_claim(claim).unwrap()["metadata"]["finalizers"].is_array()
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.pass_millis(seconds * 1000).await;
    }

    pub(crate) async fn pass_millis(&self, millis: u64) {
        self.clock.sleep(Duration::from_millis(millis)).await;
    }

    /// Lets everything happen that is due at once.
    pub(crate) async fn settle(&self) {
        self.pass_millis(100).await;
    }

    /// The watches of `resource` lag this far behind.
    pub(crate) fn lag(&self, resource: &'static str, seconds: u64) {
        let fault = Fault::WatchLags(Duration::from_secs(seconds));
        let matches = move |request: &Request| request.resource == resource;
        self.server.fail_next(usize::MAX, matches, fault);
    }

    fn ours(&self, since: Mark) -> Requests {
        let requests = self.server.requests_since(since);
        requests.only(|request| request.user_agent.starts_with("resourceclaim-controller/"))
    }

    /// Our requests since `mark` that are no lists, watches, events or leases, as `verb path body`.
    pub(crate) fn requests_since(&self, mark: Mark) -> Vec<String> {
        self.ours(mark)
            .only(|request| {
                !matches!(request.verb, Verb::List | Verb::Watch)
                    && !matches!(&*request.resource, "events" | "leases" | "")
            })
            .lines()
    }

    /// Verb, resource and code of each of our requests since `mark`, in order, as above.
    pub(crate) fn calls_since(&self, mark: Mark) -> Vec<String> {
        let ours = self.ours(mark).only(|request| {
            !matches!(request.verb, Verb::List | Verb::Watch)
                && !matches!(&*request.resource, "events" | "leases" | "")
        });
        let line = |request: &Request| {
            let code = request
                .code
                .map_or_else(|| "-".to_owned(), |code| code.to_string());
            let what = match &*request.subresource {
                "" => request.resource.clone(),
                sub => format!("{}/{sub}", request.resource),
            };
            format!("{} {what} {code}", request.verb)
        };
        ours.iter().map(line).collect()
    }

    /// Every write of ours, events included.
    pub(crate) fn all_writes(&self) -> Vec<String> {
        let ours = self.server.requests();
        ours.only(|request| request.user_agent == AGENT).writes().lines()
    }

    /// Object, type, reason and note of every event, in order of time.
    pub(crate) fn events(&self) -> Vec<String> {
        let events = self.server.list(&EVENTS);
        let mut events: Vec<_> = events
            .iter()
            .map(|event| {
                let object = text(&event["regarding"]["name"]);
                let [type_, reason, note] = ["type", "reason", "note"].map(|field| text(&event[field]));
                (
                    text(&event["eventTime"]),
                    format!("{object} {type_} {reason} {note}"),
                )
            })
            .collect();
        events.sort();
        events.into_iter().map(|(_, line)| line).collect()
    }

    pub(crate) fn delete_template(&self, name: &str) {
        self.server
            .delete(&RESOURCE_CLAIM_TEMPLATES, "default", name)
            .unwrap();
    }
}

/// Our process, without client-side limits: they are not what these tests are about.
pub(crate) fn process() -> Start<Config> {
    Start::of::<ResourceClaimController>().limits(0.0, 0)
}

/// Our process with these gates.
pub(crate) fn gated(gates: &str) -> Start<Config> {
    process().config(Config {
        feature_gates: Some(gates.to_owned()),
        ..Config::default()
    })
}

/// An entry whose claim is made from a template.
pub(crate) fn made(name: &str, template: &str) -> Value {
    json!({ "name": name, "resourceClaimTemplateName": template })
}

/// An entry with the user's own claim.
pub(crate) fn own(name: &str, claim: &str) -> Value {
    json!({ "name": name, "resourceClaimName": claim })
}

pub(crate) fn request() -> Value {
    json!({ "name": "r", "exactly": { "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1 } })
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
