//! Feature gates, and what the API server makes of them.

use controller_testing::seeded_bugs::{answered, found_as};
use embedded_apiserver::{Fault, POD_GROUPS};
use http::StatusCode;
use http::request::Parts;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{World, gated, made, pod_group, process, request};

impl World {
    /// Creates the template `admin`, from which claims may be made.
    fn admin_template(&self) {
        self.server
            .edit(&embedded_apiserver::NAMESPACES, "", "default", |namespace| {
                namespace["metadata"]["labels"] = json!({ "resource.kubernetes.io/admin-access": "true" });
            })
            .unwrap();
        let mut admin = request();
        admin["exactly"]["adminAccess"] = json!(true);
        self.template_of("admin", &json!({ "devices": { "requests": [admin] } }));
    }
}

fn world() -> World {
    let world = World::new();
    world.admin_template();
    let alternative =
        json!({ "name": "s", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1 });
    let list = json!({ "name": "r", "firstAvailable": [alternative] });
    world.template_of("list", &json!({ "devices": { "requests": [list] } }));
    world.pod_of("p", &[made("admin", "admin"), made("list", "list")]);
    world
}

#[tokio::test(start_paused = true)]
async fn admin_access_and_prioritized_lists_are_on() {
    let world = world();
    let controller = world.start_and_settle().await;
    assert_eq!(world.claims_of("p").len(), 2);
    let creates = |access: &str| {
        let former = format!("{{admin_access=\"{access}\",status=\"success\"}}");
        let former = controller.metric(&format!("resourceclaim_controller_creates_total{former}"));
        let labels = format!(
            "{{admin_access=\"{access}\",owner_api_group=\"\",owner_api_kind=\"Pod\",status=\"success\"}}"
        );
        let now = controller.metric(&format!(
            "dynamic_resource_allocation_resourceclaim_creates_total{labels}"
        ));
        assert_eq!(now, former);
        now
    };
    assert_eq!((creates("true"), creates("false")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_template_with_a_prioritized_list_is_refused_where_that_is_off() {
    let world = world();
    let _controller = world.start_with(gated("DRAPrioritizedList=false"));
    world.pass(600).await;
    assert_eq!(world.claims_of("p").keys().collect::<Vec<_>>(), ["admin"]);
    assert_eq!(
        world.events(),
        [
            "p Warning FailedResourceClaimCreation PodResourceClaim list: ResourceClaimTemplate \"list\" includes a \
             prioritized list of subrequests, but the feature is disabled"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn admin_access_cannot_be_switched_off_from_1_36_on() {
    let world = world();
    let _controller = world.start_with(gated("DRAAdminAccess=false"));
    world.settle().await;
    assert_eq!(world.claims_of("p").len(), 2);
}

#[rstest]
#[case::oldest(json!({ "major": "1", "minor": "34" }))]
#[case::last_that_may(json!({ "major": "1", "minor": "35" }))]
#[case::of_a_vendor(json!({ "major": "1", "minor": "35+" }))]
#[case::with_a_suffix(json!({ "major": "1", "minor": "34-gke" }))]
#[case::one_that_does_not_say(json!({}))]
#[tokio::test(start_paused = true)]
async fn before_1_36_admin_access_can_be_switched_off(#[case] version: Value) {
    let world = world();
    let _controller = world.start_on(&version, gated("DRAAdminAccess=false"));
    world.pass(600).await;
    assert_eq!(world.claims_of("p").keys().collect::<Vec<_>>(), ["list"]);
    assert_eq!(
        world.events(),
        [
            "p Warning FailedResourceClaimCreation PodResourceClaim admin: ResourceClaimTemplate \"admin\" asks for \
             admin access, but the feature is disabled"
        ]
    );
}

#[rstest]
#[case::first_that_locks_it(json!({ "major": "1", "minor": "36" }))]
#[case::of_a_vendor(json!({ "major": "1", "minor": "36+" }))]
#[case::later(json!({ "major": "1", "minor": "100" }))]
#[tokio::test(start_paused = true)]
async fn from_1_36_on_it_is_on_whatever_the_flag_says(#[case] version: Value) {
    let world = world();
    let _controller = world.start_on(&version, gated("DRAAdminAccess=false"));
    world.settle().await;
    assert_eq!(world.claims_of("p").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_api_server_is_asked_until_it_says_what_it_can_do() {
    let world = world();
    world.server.down();
    let controller = world.start_with(gated("DRAAdminAccess=false").elected_as("a"));
    world.pass(60).await;
    let readyz = controller.readyz();
    assert!(readyz.contains("[-]controller"), "{readyz}");
    world.server.up();
    world.pass(60).await;
    assert_eq!(world.claims_of("p").len(), 2);
    let readyz = controller.readyz();
    assert!(!readyz.contains("[-]"), "{readyz}");
    controller.stop().await;
    world.server.down();
    // Nor does that keep the process from ending.
    let controller = world.start_with(gated("DRAAdminAccess=false"));
    world.pass(60).await;
    controller.stop().await;
}

/// Every API server answers both: a 404 comes from a proxy.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_404_does_not_say_what_the_api_server_can_do(
    #[values("/apis/scheduling.k8s.io", "/version")] path: &'static str,
    #[values(Fault::NoSuchPage, Fault::status(404, "NotFound"))] fault: Fault,
) {
    let world = World::with_groups();
    world.admin_template();
    let fail = || {
        world
            .server
            .fail_next(3, move |request| request.name == path, fault.clone());
    };
    fail();
    let controller = world.start_with(gated("DRAAdminAccess=false,DRAWorkloadResourceClaims=true"));
    for (group, claims) in [("at-start", 1), ("in-a-term", 2)] {
        world.insert(pod_group(group, &[made("gpu", "admin")]));
        world.pass(60).await;
        assert_eq!(world.claims().len(), claims, "{group}");
        fail();
        world.pass(3600).await;
    }
    assert_eq!(
        world
            .server
            .requests_where(|request| request.name == path && request.code == Some(404))
            .len(),
        9
    );
    controller.stop().await;
}

/// Its watches are those that were right when it began.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_serves_groups_since_is_noticed_with_the_next_term() {
    let world = World::with_template();
    let start = |identity| gated("DRAWorkloadResourceClaims=true").elected_as(identity);
    let first = world.start_with(start("first"));
    world.pass(10).await;
    let mut second = world.start_with(start("second"));
    world.pass(10).await;
    world.server.serve(&POD_GROUPS);
    first.stop().await;
    world.pod_with(
        "p",
        &json!({ "resourceClaims": [made("gpu", "t")], "containers": [], "schedulingGroup": { "podGroupName": "g" } }),
    );
    let told = second.ended().await.unwrap_err();
    assert!(told.contains("the API server has become another"), "{told}");
    drop(second);
    assert_eq!(world.claims(), Vec::<String>::new());
    let _third = world.start_with(start("third"));
    world.pass(60).await;
    assert_eq!(
        world.events(),
        ["p Warning FailedResourceClaimCreation PodResourceClaim gpu: PodGroup \"g\" not found"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_upgraded_in_a_term_is_noticed_within_an_hour() {
    let world = World::with_template();
    let mut controller = world.start_and_settle().await;
    world.server.serve(&POD_GROUPS);
    world.pass(3500).await;
    world.pod("p");
    world.settle().await;
    assert_eq!(world.claims().len(), 1);
    world.pass(200).await;
    controller.ended().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn who_may_not_ask_what_is_served_and_wants_no_groups_has_none() {
    let world = World::with_template();
    let forbidden = || {
        let mut refusal = found_as(&json!({ "kind": "Status", "reason": "Forbidden", "code": 403 }));
        *refusal.status_mut() = StatusCode::FORBIDDEN;
        refusal
    };
    let is_asked = |head: &Parts| head.uri.path() == "/apis/scheduling.k8s.io";
    let client = answered(world.client(), move |head| is_asked(head).then(forbidden));
    let _controller = process().start(client, &world.clock);
    world.pod("p");
    world.pass(60).await;
    assert_eq!(world.claims().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_read_the_version_as_a_term_begins_asks_again() {
    let world = World::with_template();
    let start = |identity| gated("DRAAdminAccess=false").elected_as(identity);
    let first = world.start_with(start("first"));
    world.pass(10).await;
    let _second = world.start_with(start("second"));
    world.pass(10).await;
    let forbidden = Fault::status(403, "Forbidden");
    world
        .server
        .fail_next(1, |request| request.name == "/version", forbidden);
    first.stop().await;
    world.pod("p");
    world.pass(60).await;
    assert_eq!(world.claims().len(), 1);
}
