//! Writes that a stolen token of a controller can still make under the chart's admission policies, on a real API
//! server. The policies allow all writes of the controllers themselves: all live tests run under them.

use std::collections::BTreeMap;

use controller_testing::chart::{Chart, NAMESPACE};
use controller_testing::soon;
use http::Request;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use local_control_plane::{ControlPlane, Options, client};
use serde_json::{Value, json};

use crate::support::{CHARTS, chart, helm, kubectl, said};

/// Owner of the token, what the request does, the request and its body. Merge patches; `UID` stands for the object's
/// uid.
const TRIES: &str = r#"
ttl-controller | cordons a node | PATCH /api/v1/nodes/n | {"spec":{"unschedulable":true}}
ttl-controller | drains a node by a taint | PATCH /api/v1/nodes/n | {"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}
ttl-controller | makes a node one of the control plane | PATCH /api/v1/nodes/n | {"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}
ttl-controller | keeps kubelets from new Secrets for years | PATCH /api/v1/nodes/n | {"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"999999999"}}}
ttl-controller | takes another annotation off a node | PATCH /api/v1/nodes/n | {"metadata":{"annotations":{"example.com/kept":null}}}
disruption-controller | sends the traffic of a Service to an address of its own | PATCH /api/v1/namespaces/default/pods/works/status | {"status":{"podIP":"192.0.2.1","podIPs":[{"ip":"192.0.2.1"}]}}
disruption-controller | has a pod replaced | PATCH /api/v1/namespaces/default/pods/works/status | {"status":{"phase":"Failed"}}
disruption-controller | takes a pod out of its Services | PATCH /api/v1/namespaces/default/pods/works/status | {"status":{"conditions":[{"type":"Ready","status":"False"}]}}
disruption-controller | marks a pod that goes nowhere | PATCH /api/v1/namespaces/default/pods/works/status | {"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"DisruptionTarget","status":"True"}]}}
disruption-controller | labels a pod through its status | PATCH /api/v1/namespaces/default/pods/works/status | {"metadata":{"labels":{"app":"other"}}}
disruption-controller | keeps a budget from being deleted | PATCH /apis/policy/v1/namespaces/default/poddisruptionbudgets/works/status | {"metadata":{"finalizers":["example.com/stays"]}}
disruption-controller | lets more pods go than are spare | PATCH /apis/policy/v1/namespaces/default/poddisruptionbudgets/works/status | {"status":{"disruptionsAllowed":9}}
disruption-controller | approves an eviction | PATCH /apis/policy/v1/namespaces/default/poddisruptionbudgets/works/status | {"status":{"disruptedPods":{"works":"2026-01-01T00:00:00Z"}}}
taint-eviction-controller | deletes a pod that tolerates everything, such as kube-proxy | DELETE /api/v1/namespaces/default/pods/everywhere | {"preconditions":{"uid":"UID"}}
taint-eviction-controller | deletes a pod that is on no node | DELETE /api/v1/namespaces/default/pods/nowhere | {"preconditions":{"uid":"UID"}}
taint-eviction-controller | deletes whichever pod has a name | DELETE /api/v1/namespaces/default/pods/works | {}
taint-eviction-controller | deletes a pod that still runs | DELETE /api/v1/namespaces/default/pods/works | {"preconditions":{"uid":"UID"},"gracePeriodSeconds":0}
taint-eviction-controller | has a pod replaced | PATCH /api/v1/namespaces/default/pods/works/status | {"status":{"phase":"Failed"}}
ttl-after-finished-controller | deletes a Job that runs | DELETE /apis/batch/v1/namespaces/default/jobs/runs | {"preconditions":{"uid":"UID","resourceVersion":"VERSION"},"propagationPolicy":"Foreground"}
ttl-after-finished-controller | deletes a Job that is to stay | DELETE /apis/batch/v1/namespaces/default/jobs/stays | {"preconditions":{"uid":"UID","resourceVersion":"VERSION"},"propagationPolicy":"Foreground"}
ttl-after-finished-controller | leaves the pods of a Job behind | DELETE /apis/batch/v1/namespaces/default/jobs/goes | {"preconditions":{"uid":"UID","resourceVersion":"VERSION"},"propagationPolicy":"Orphan"}
resourceclaim-controller | makes a claim for nobody | POST /apis/resource.k8s.io/v1/namespaces/default/resourceclaims | {"metadata":{"name":"new"},"spec":{"devices":{}}}
resourceclaim-controller | makes a claim through an older version of the API | POST /apis/resource.k8s.io/v1beta2/namespaces/default/resourceclaims | {"metadata":{"name":"new"},"spec":{"devices":{}}}
resourceclaim-controller | has a user's object collected as garbage | PATCH /apis/resource.k8s.io/v1/namespaces/default/resourceclaims/idle | {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"gone","uid":"gone"}]}}
resourceclaim-controller | takes somebody else's finalizer off a claim | PATCH /apis/resource.k8s.io/v1/namespaces/default/resourceclaims/idle | {"metadata":{"finalizers":null}}
resourceclaim-controller | deletes a claim that a user made | DELETE /apis/resource.k8s.io/v1/namespaces/default/resourceclaims/idle | {"preconditions":{"uid":"UID"}}
resourceclaim-controller | deletes a claim that is reserved | DELETE /apis/resource.k8s.io/v1/namespaces/default/resourceclaims/used | {"preconditions":{"uid":"UID"}}
resourceclaim-controller | gives a device to a claim | PATCH /apis/resource.k8s.io/v1/namespaces/default/resourceclaims/idle/status | {"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"gpu.example.com","pool":"n","device":"gpu-1"}]}}}}
resourceclaim-controller | has a pod replaced | PATCH /api/v1/namespaces/default/pods/works/status | {"status":{"phase":"Failed"}}
"#;

/// [`TRIES`] with a token of ttl-after-finished-controller whose policies name pods, and leave Jobs with a ttl to the
/// built-in loop.
const TRIES_OF_POLICIES: &str = r#"
deletes a pod that runs | DELETE /api/v1/namespaces/default/pods/works | {"preconditions":{"uid":"UID","resourceVersion":"VERSION"}}
deletes a pod that is to stay | DELETE /api/v1/namespaces/default/pods/kept | {"preconditions":{"uid":"UID","resourceVersion":"VERSION"}}
deletes whichever finished pod has a name | DELETE /api/v1/namespaces/default/pods/ended | {}
deletes a finished pod that may have changed | DELETE /api/v1/namespaces/default/pods/ended | {"preconditions":{"uid":"UID"}}
deletes a Job that runs | DELETE /apis/batch/v1/namespaces/default/jobs/works | {"preconditions":{"uid":"UID","resourceVersion":"VERSION"},"propagationPolicy":"Foreground"}
deletes a Job that is to stay | DELETE /apis/batch/v1/namespaces/default/jobs/kept | {"preconditions":{"uid":"UID","resourceVersion":"VERSION"},"propagationPolicy":"Foreground"}
deletes whichever Job has a name | DELETE /apis/batch/v1/namespaces/default/jobs/stays | {"propagationPolicy":"Foreground"}
deletes a Job that may have changed | DELETE /apis/batch/v1/namespaces/default/jobs/stays | {"preconditions":{"uid":"UID"},"propagationPolicy":"Foreground"}
leaves the pods of a Job behind | DELETE /apis/batch/v1/namespaces/default/jobs/stays | {"preconditions":{"uid":"UID","resourceVersion":"VERSION"},"propagationPolicy":"Orphan"}
deletes a Job whose ttl is for the built-in loop | DELETE /apis/batch/v1/namespaces/default/jobs/goes | {"preconditions":{"uid":"UID","resourceVersion":"VERSION"},"propagationPolicy":"Foreground"}
"#;

/// What the same token must be able to do.
const WORK_OF_POLICIES: &str = r#"
deletes a finished pod | DELETE /api/v1/namespaces/default/pods/ended | {"preconditions":{"uid":"UID","resourceVersion":"VERSION"}}
deletes a finished Job without a ttl | DELETE /apis/batch/v1/namespaces/default/jobs/stays | {"preconditions":{"uid":"UID","resourceVersion":"VERSION"},"propagationPolicy":"Foreground"}
"#;

const POLICIES: &str = r#"--set-json=config={"onlyPolicies":true,"policies":[{"name":"p","kinds":["Job","Pod"],"ttlAfterSucceeded":"1h"}]}"#;

const LIMITED: &str = "--set=admissionPolicy.enabled=true";

/// Requests that every token is tried with.
const TRIES_OF_ALL: &str = r#"
makes a Lease that others could lead by | POST /apis/coordination.k8s.io/v1/namespaces/kube-system/leases | {"metadata":{"name":"other"}}
tells an event in the name of the kubelet | POST /apis/events.k8s.io/v1/namespaces/default/events | {"metadata":{"name":"e"},"eventTime":"2026-01-01T00:00:00.000000Z","type":"Normal","reason":"Started","action":"Start","reportingController":"kubelet","reportingInstance":"n","regarding":{"kind":"Pod","namespace":"default","name":"works"}}
"#;

struct Try {
    controller: &'static str,
    what: &'static str,
    verb: &'static str,
    path: &'static str,
    body: &'static str,
}

fn tries() -> Vec<Try> {
    let own = TRIES.trim().lines().map(|row| {
        let (controller, row) = row.split_once(" | ").unwrap();
        Try::of(controller, row)
    });
    let all = TRIES_OF_ALL.trim().lines();
    own.chain(all.flat_map(|row| CHARTS.map(|controller| Try::of(controller, row))))
        .collect()
}

fn tries_of_policies(rows: &'static str) -> Vec<Try> {
    let rows = rows.trim().lines();
    rows.map(|row| Try::of("ttl-after-finished-controller", row))
        .collect()
}

impl Try {
    fn of(controller: &'static str, row: &'static str) -> Self {
        let [what, request, body] = *row.splitn(3, " | ").collect::<Vec<_>>() else {
            panic!("no row: {row}");
        };
        let (verb, path) = request.split_once(' ').unwrap();
        Self {
            controller,
            what,
            verb,
            path,
            body,
        }
    }

    /// Sends the request as a dry run and returns the API server's refusal.
    async fn send(&self, admin: &Client, thief: &Client) -> Result<(), String> {
        let mut body = self.body.to_owned();
        if self.verb == "DELETE" {
            let get = Request::get(self.path).body(Vec::new()).unwrap();
            let object: Value = admin.request(get).await.unwrap();
            for (word, field) in [("UID", "uid"), ("VERSION", "resourceVersion")] {
                body = body.replace(word, object["metadata"][field].as_str().unwrap());
            }
            // For a delete with a body, the API server ignores options in the query.
            let mut options: Value = serde_json::from_str(&body).unwrap();
            options["dryRun"] = json!(["All"]);
            body = options.to_string();
        }
        let kind = match self.verb {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(self.verb)
            .uri(format!("{}?dryRun=All", self.path))
            .header("Content-Type", kind)
            .body(body.into_bytes())
            .unwrap();
        let answer = thief.request_text(request).await;
        answer.map(|_| ()).map_err(|error| error.to_string())
    }
}

/// Objects that the requests try to harm.
fn objects() -> Value {
    let containers = json!([{"name": "c", "image": "i"}]);
    let pod = |name: &str, spec: Value| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": containers},
        });
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        pod
    };
    let job = |name: &str, ttl: Value| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "ttlSecondsAfterFinished": ttl,
                "template": {"spec": {"containers": containers, "restartPolicy": "Never"}},
            },
        })
    };
    let kept = |mut object: Value| {
        object["metadata"]["annotations"] = json!({"ttl-after-finished-controller/keep": "true"});
        object
    };
    let claim = |name: &str, metadata: Value| {
        let mut claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata,
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        });
        claim["metadata"]["name"] = json!(name);
        claim["metadata"]["namespace"] = json!("default");
        claim
    };
    let entries: Vec<_> = (0..ENTRIES)
        .map(|n| json!({"name": format!("e-{n}"), "resourceClaimTemplateName": "t"}))
        .collect();
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "works", "uid": "u", "controller": true}]);
    let items = [
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": {"example.com/kept": ""}}}),
        pod("works", json!({"nodeName": "n"})),
        pod(
            "everywhere",
            json!({"nodeName": "n", "tolerations": [{"operator": "Exists"}]}),
        ),
        pod("nowhere", json!({})),
        pod("crowded", json!({"resourceClaims": entries})),
        pod("ended", json!({})),
        kept(pod("kept", json!({}))),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "works", "namespace": "default"}, "spec": {"selector": {}},
        }),
        job("runs", json!(0)),
        job("stays", Value::Null),
        job("goes", json!(0)),
        job("works", Value::Null),
        kept(job("kept", Value::Null)),
        claim("idle", json!({"finalizers": ["example.com/stays"]})),
        claim(
            "used",
            json!({"finalizers": ["resource.kubernetes.io/delete-protection"], "ownerReferences": owner}),
        ),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Statuses of these objects, by resource and name.
fn statuses() -> [(&'static str, &'static str, Value); 8] {
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let finished = json!({
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}],
    });
    let device = json!({"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"});
    let used = json!({
        "allocation": {"devices": {"results": [device]}},
        "reservedFor": [{"resource": "pods", "name": "works", "uid": "u"}],
    });
    [
        ("pod", "works", ready),
        (
            "poddisruptionbudget",
            "works",
            json!({"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}),
        ),
        ("job", "stays", finished.clone()),
        ("job", "goes", finished.clone()),
        ("job", "kept", finished),
        ("pod", "ended", json!({"phase": "Succeeded"})),
        ("pod", "kept", json!({"phase": "Failed"})),
        ("resourceclaim", "used", used),
    ]
}

const ENTRIES: usize = 4000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn a_stolen_token_does_no_more_than_its_controller() {
    let options = Options {
        api_server_args: vec!["--runtime-config=resource.k8s.io/v1beta2=true".to_owned()],
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let admin = control_plane.kubeconfig();
    said(kubectl(admin, &["create", "-f", "-"], &objects().to_string()));
    for (resource, name, status) in statuses() {
        let status = json!({"status": status}).to_string();
        let patch = [
            "patch",
            resource,
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ];
        said(kubectl(admin, &patch, ""));
    }
    let kubeconfig = format!("--kubeconfig={}", admin.display());
    let mut thieves = BTreeMap::new();
    for name in CHARTS {
        said(helm(&[
            "install",
            name,
            &chart(name),
            "-n",
            NAMESPACE,
            &kubeconfig,
        ]));
        let token = Chart::of(name).installed(&control_plane).await;
        thieves.insert(name, client(&token).await.unwrap());
    }
    let tries = tries();
    assert!(tries.len() > 12);
    let owner = control_plane.client();
    are_made(&tries, &owner, &thieves).await;
    let upgrade = |name: &str, flags: &[&str]| {
        let chart = chart(name);
        let release = ["upgrade", name, &chart, "-n", NAMESPACE, &kubeconfig];
        said(helm(&[&release, flags].concat()));
    };
    for name in CHARTS {
        upgrade(name, &[LIMITED]);
    }
    until_checked(&control_plane).await;
    are_refused(&tries, &owner, &thieves).await;
    record_all_claims(&thieves["resourceclaim-controller"]).await;

    let [tries, work] = [TRIES_OF_POLICIES, WORK_OF_POLICIES].map(tries_of_policies);
    upgrade("ttl-after-finished-controller", &[POLICIES]);
    are_made(&tries, &owner, &thieves).await;
    upgrade("ttl-after-finished-controller", &[POLICIES, LIMITED]);
    until_checked(&control_plane).await;
    are_refused(&tries, &owner, &thieves).await;
    are_made(&work, &owner, &thieves).await;
}

/// Without policies of admission, the roles allow each of these; they are in force a moment later.
async fn are_made(tries: &[Try], owner: &Client, thieves: &BTreeMap<&str, Client>) {
    for attempt in tries {
        let Try { controller, what, .. } = attempt;
        let made = async || attempt.send(owner, &thieves[controller]).await.ok();
        soon(&format!("{controller} {what}"), made).await;
    }
}

async fn are_refused(tries: &[Try], owner: &Client, thieves: &BTreeMap<&str, Client>) {
    for attempt in tries {
        let Try { controller, what, .. } = attempt;
        let thief = &thieves[controller];
        // The API server receives the policies by watch, with a delay.
        let refused = async || attempt.send(owner, thief).await.err();
        let refused = soon(
            &format!("with the policy {controller} is refused: {what}"),
            refused,
        )
        .await;
        let by = format!("ValidatingAdmissionPolicy '{controller}-");
        assert!(refused.contains(&by), "{controller} {what}: {refused}");
        // The policies limit no other account.
        assert_eq!(attempt.send(owner, owner).await, Ok(()), "{what}");
    }
}

/// Waits until kube-controller-manager has type-checked the expressions, and fails if one reads an unknown field.
async fn until_checked(control_plane: &ControlPlane) {
    let manager =
        control_plane.start_controller_manager(&["validatingadmissionpolicy-status-controller"], &[]);
    let _manager = manager.unwrap();
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(control_plane.client());
    let checked = async || {
        let policies = policies.list(&ListParams::default()).await.unwrap();
        assert!(policies.items.len() > 12);
        let statuses = policies.into_iter().map(|policy| policy.status?.type_checking);
        statuses.collect::<Option<Vec<_>>>()
    };
    for checked in soon("all policies are checked", checked).await {
        assert_eq!(checked.expression_warnings, None);
    }
}

/// CEL has a cost limit; the policies must stay below it even for a pod with the most entries.
async fn record_all_claims(client: &Client) {
    let statuses: Vec<_> = (0..ENTRIES)
        .map(|n| json!({"name": format!("e-{n}"), "resourceClaimName": format!("c-{n}")}))
        .collect();
    let record = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "crowded"},
        "status": {"resourceClaimStatuses": statuses},
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let params = PatchParams::apply("test").force();
    let recorded = pods.patch_status("crowded", &params, &Patch::Apply(record)).await;
    let recorded = recorded.unwrap().status.unwrap().resource_claim_statuses;
    assert_eq!(recorded.unwrap().len(), ENTRIES);
}
