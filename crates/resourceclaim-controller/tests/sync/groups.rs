//! Claims of `PodGroups`.

use controller_testing::objects::text;
use embedded_apiserver::POD_GROUPS;
use serde_json::{Value, json};

use crate::world::{World, gated, made, own, pod_group};

const ON: &str = "DRAWorkloadResourceClaims=true";

impl World {
    fn group(&self, name: &str, entries: &[Value]) {
        self.insert(pod_group(name, entries));
    }

    fn member(&self, name: &str, group: &str, entries: &[Value]) {
        let group = json!({ "podGroupName": group });
        self.pod_with(
            name,
            &json!({ "containers": [], "resourceClaims": entries, "schedulingGroup": group }),
        );
    }

    fn get_group(&self, name: &str) -> Value {
        self.get_of(&POD_GROUPS, name)
    }

    fn claim_of_group(&self, name: &str) -> String {
        text(&self.get_group(name)["status"]["resourceClaimStatuses"][0]["resourceClaimName"])
    }

    fn end_group(&self, name: &str) {
        self.edit_of(&POD_GROUPS, name, |group| {
            group["metadata"]["finalizers"] = Value::Null;
        });
        self.delete_of(&POD_GROUPS, name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_has_one_claim_for_all_its_pods() {
    let world = World::with_groups();
    world.template("t");
    let _controller = world.start_with(gated(ON));
    world.settle().await;
    let mark = world.server.mark();
    world.group("g", &[made("gpu", "t")]);
    for pod in ["a", "b"] {
        world.member(pod, "g", &[made("gpu", "t"), made("mine", "t")]);
    }
    world.pass(10).await;
    let shared = world.claim_of_group("g");
    assert!(shared.starts_with("g-gpu-"), "{shared}");
    let owner = world.get_claim(&shared)["metadata"]["ownerReferences"][0].clone();
    assert_eq!(
        (&owner["kind"], &owner["apiVersion"], &owner["uid"]),
        (
            &json!("PodGroup"),
            &json!("scheduling.k8s.io/v1beta1"),
            &world.get_group("g")["metadata"]["uid"]
        )
    );
    for pod in ["a", "b"] {
        let claims = world.claims_of(pod);
        assert_eq!(claims["gpu"], shared);
        assert!(claims["mine"].starts_with(&format!("{pod}-mine-")), "{claims:?}");
    }
    assert_eq!(world.claims().len(), 3);
    let creates = world.calls_since(mark);
    assert_eq!(
        creates.iter().filter(|call| call.starts_with("create")).count(),
        3
    );

    // Reserved for the group, once.
    world.allocate(&shared, &[]);
    for pod in ["a", "b"] {
        world.bind(pod);
    }
    world.pass(10).await;
    let reserved = world.get_claim(&shared)["status"]["reservedFor"].clone();
    let uid = world.get_group("g")["metadata"]["uid"].clone();
    let group = json!({ "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid });
    assert_eq!(reserved, json!([group]));

    // Whatever its pods do, the group keeps it until it is gone.
    for pod in ["a", "b"] {
        world.finish(pod);
    }
    world.pass(600).await;
    assert_eq!(world.reserved(&shared), ["g"]);
    let mark = world.server.mark();
    world.end_group("g");
    world.pass(10).await;
    assert!(!world.is_allocated(&shared));
    assert!(
        world
            .calls_since(mark)
            .iter()
            .all(|call| !call.starts_with("get"))
    );
}

#[tokio::test(start_paused = true)]
async fn groups_are_read_in_the_newest_version_that_is_served() {
    let world = World::with_groups();
    world.template("t");
    world.group("g", &[made("gpu", "t")]);
    world.member("p", "g", &[made("gpu", "t")]);
    let controller = world.start_on_alpha_groups(gated(ON));
    world.pass(60).await;
    let claim = world.claim_of_group("g");
    assert_eq!(world.claim_of("p"), claim);
    let owner = |claim: &str| world.get_claim(claim)["metadata"]["ownerReferences"][0]["apiVersion"].clone();
    assert_eq!(owner(&claim), "scheduling.k8s.io/v1alpha2");
    controller.stop().await;

    world.delete_claim(&claim);
    let controller = world.start_with(gated(ON));
    world.pass(60).await;
    assert_eq!(owner(&world.claim_of_group("g")), "scheduling.k8s.io/v1beta1");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_group() {
    let world = World::with_groups();
    world.template("t");
    let _controller = world.start_with(gated(ON));
    world.member("p", "g", &[made("gpu", "t")]);
    world.pass(600).await;
    assert_eq!(world.claims(), Vec::<String>::new());
    assert_eq!(
        world.events(),
        ["p Warning FailedResourceClaimCreation PodResourceClaim gpu: PodGroup \"g\" not found"]
    );
    world.group("g", &[]);
    world.settle().await;
    assert!(world.claim_of("p").starts_with("p-gpu-"));
}

#[tokio::test(start_paused = true)]
async fn the_users_own_claim_is_reserved_for_the_group_that_names_it() {
    let world = World::with_groups();
    world.claim("shared");
    world.group("g", &[own("gpu", "shared")]);
    world.member("p", "g", &[own("gpu", "shared")]);
    world.allocate("shared", &[]);
    world.bind("p");
    let _controller = world.start_with(gated(ON));
    world.settle().await;
    assert_eq!(world.reserved("shared"), ["g"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_group_that_is_deleted_by_hand_comes_back() {
    let world = World::with_groups();
    world.template("t");
    world.group("g", &[made("gpu", "t"), made("other", "t")]);
    world.member("p", "g", &[made("gpu", "t")]);
    let _controller = world.start_with(gated(ON));
    world.settle().await;
    let first = world.claim_of_group("g");
    world.delete_claim(&first);
    world.settle().await;
    let second = world.claim_of_group("g");
    assert_ne!(first, second);
    assert_eq!(world.claim_of("p"), second);
    assert_eq!(world.claims().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_the_cache_does_not_show_keeps_its_reservation_if_it_is_there() {
    let world = World::with_groups();
    world.claim("shared");
    world.lag("podgroups", 3600);
    let _controller = world.start_with(gated(ON));
    world.settle().await;
    world.group("g", &[own("gpu", "shared")]);
    let uid = world.get_group("g")["metadata"]["uid"].clone();
    let group = json!({ "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid });
    let gone = json!({ "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "h", "uid": "x" });
    world.allocate("shared", &[]);
    world.edit_claim("shared", |claim| {
        claim["status"]["reservedFor"] = json!([group, gone]);
    });
    world.pass(10).await;
    assert_eq!(world.reserved("shared"), ["g"]);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_the_api_server_says_is_gone_gets_no_reservation_when_the_cache_shows_it() {
    let world = World::with_groups();
    world.claim("shared");
    world.pod_of("stays", &[own("gpu", "shared")]);
    world.bind("stays");
    world.lag("podgroups", 20);
    let _controller = world.start_with(gated(ON));
    world.settle().await;
    world.group("g", &[own("gpu", "shared")]);
    let uid = world.get_group("g")["metadata"]["uid"].clone();
    let group = json!({ "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid });
    world.member("p", "g", &[own("gpu", "shared")]);
    world.bind("p");
    world.pass(10).await;
    world.allocate("shared", &["stays"]);
    world.edit_claim("shared", |claim| {
        claim["status"]["reservedFor"].as_array_mut().unwrap().push(group);
    });
    world.end_group("g");
    world.pass(5).await;
    assert_eq!(world.reserved("shared"), ["stays"]);
    // Now the cache shows the group, and for ten seconds not that it is gone.
    let mark = world.server.mark();
    world.pass(60).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_for_a_group_that_is_lost_comes_back() {
    let world = World::with_groups();
    world.claim("shared");
    world.group("g", &[own("gpu", "shared")]);
    for pod in ["a", "b"] {
        world.member(pod, "g", &[own("gpu", "shared")]);
    }
    world.allocate("shared", &[]);
    world.bind("a");
    let _controller = world.start_with(gated(ON));
    world.settle().await;
    for _ in 0..2 {
        assert_eq!(world.reserved("shared"), ["g"]);
        world.edit_claim("shared", |claim| claim["status"]["reservedFor"] = Value::Null);
        world.pass(10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn where_groups_are_served_and_the_gate_is_off_nothing_is_made_for_a_pod_of_one() {
    let world = World::with_groups();
    world.template("t");
    world.group("g", &[made("gpu", "t")]);
    world.member("p", "g", &[made("gpu", "t"), made("nic", "t")]);
    world.pod("alone");
    let _controller = world.start();
    world.pass(7200).await;
    assert!(world.claim_of("alone").starts_with("alone-gpu-"));
    assert_eq!(world.claims().len(), 1);
    let told = "p Warning FailedResourceClaimCreation PodResourceClaim gpu: nothing is made for a pod of PodGroup \"g\": \
                the API server serves PodGroups, and DRAWorkloadResourceClaims is off";
    assert_eq!(world.events(), [told]);
}

#[tokio::test(start_paused = true)]
async fn with_the_gate_off_the_reservation_of_a_group_stays() {
    let world = World::with_groups();
    world.template("t");
    world.pod("p");
    let _controller = world.start_and_settle().await;
    let claim = world.claim_of("p");
    world.allocate(&claim, &["p"]);
    world.edit_claim(&claim, |claim| {
        let group =
            json!({ "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "x", "uid": "x" });
        claim["status"]["reservedFor"].as_array_mut().unwrap().push(group);
    });
    world.finish("p");
    world.pass(600).await;
    assert_eq!(world.reserved(&claim), ["x"]);
}

#[tokio::test(start_paused = true)]
async fn where_groups_are_not_served_the_rest_works() {
    let world = World::with_template();
    world.pod("p");
    let _controller = world.start_with(gated(ON));
    world.settle().await;
    assert!(world.claim_of("p").starts_with("p-gpu-"));
}
