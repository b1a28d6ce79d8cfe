use std::time::Duration;

use controller_core::config::ControllerConfig;
use controller_testing::Running;
use disruption_controller::config::Config;
use embedded_apiserver::{Mark, RecordedRequests};

use super::*;

const CHAIN: &str = "True SufficientPods expected: the scale of Widget web, above Gadget";
const EXISTING: &str = "True SufficientPods expected: the pods of Gadget.example.com that exist";

fn chain(config: &mut Config) {
    config.owner_chain = true;
}

fn existing(config: &mut Config) {
    config.scale_less_owners = Some("Gadget.example.com".to_owned());
}

fn start(world: &World, way: fn(&mut Config)) -> Running {
    world.start_with(process().configured(way))
}

/// Our reads of gadgets, not of their scales, since `mark`.
fn reads_of_gadgets(world: &World, mark: Mark) -> RecordedRequests {
    world.sent_since(mark).to("gadgets")
}

#[tokio::test(start_paused = true)]
async fn without_the_flags_nothing_above_is_read() {
    let (world, _) = World::with_gadgets(5, 4);
    world.pdb("web", "maxUnavailable", &json!(2));
    let mark = world.server.mark();
    let _controller = world.start_and_settle().await;
    assert_eq!(
        world.failure("web"),
        "gadgets.example.com does not implement the scale subresource"
    );
    assert!(reads_of_gadgets(&world, mark).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_scale_above_counts_and_is_named() {
    let (world, widget) = World::with_gadgets(5, 4);
    world.pdb("web", "maxUnavailable", &json!(2));
    let _controller = start(&world, chain);
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 4, 3, 5));
    assert_eq!(world.condition("web"), CHAIN);
    world.scale(&widget, 6);
    world.pass(30).await;
    assert_eq!(world.numbers("web"), numbers(0, 4, 4, 6));
}

#[tokio::test(start_paused = true)]
async fn the_pods_that_exist_are_expected_without_a_read() {
    let (world, _) = World::with_gadgets(5, 4);
    world.pdb("web", "maxUnavailable", &json!(2));
    let mark = world.server.mark();
    let _controller = start(&world, existing);
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(2, 4, 2, 4));
    assert_eq!(world.condition("web"), EXISTING);
    // A pod comes that is not ready yet: one fewer may go, at once.
    world.gadget(4, None);
    world.ready("gadget-4", false);
    world.pass_millis(20).await;
    assert_eq!(world.numbers("web"), numbers(1, 4, 3, 5));
    assert!(reads_of_gadgets(&world, mark).is_empty());
    assert_eq!(world.scale_reads(mark), 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_decrement_of_an_eviction_is_no_rival() {
    let (world, _) = World::with_gadgets(4, 4);
    world.pdb("web", "maxUnavailable", &json!(1));
    let controller = start(&world, chain);
    world.settle().await;
    assert_eq!(world.condition("web"), CHAIN);
    assert_eq!(world.evict("gadget-0").await, 201);
    assert_eq!(world.evict("gadget-1").await, 429);
    world.pass(60).await;
    assert_eq!(world.numbers("web"), numbers(0, 3, 3, 4));
    assert_eq!(
        world.condition("web"),
        CHAIN.replace("True SufficientPods", "False InsufficientPods")
    );
    assert_eq!(controller.metric("controller_rival_writes_total"), 0);
}

#[rstest]
#[case::forbidden(
    Fault::status(403, "gadgets.example.com is forbidden: cannot get resource"),
    "cannot get resource"
)]
#[case::not_passed_by_a_proxy(Fault::NoSuchPage, "404 page not found")]
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_allows_nothing_and_is_named(#[case] fault: Fault, #[case] why: &str) {
    let (world, _) = World::with_gadgets(5, 4);
    world.pdb("web", "maxUnavailable", &json!(2));
    world.fail_those(usize::MAX, |request| request.resource == "gadgets", fault);
    let _controller = start(&world, chain);
    world.pass(60).await;
    let failure = world.failure("web");
    assert!(
        failure.contains("gadgets.example.com default/gadget-"),
        "{failure}"
    );
    assert!(failure.contains(why), "{failure}");
    assert_eq!(world.numbers("web"), numbers(0, 4, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_the_same_name_with_another_uid_is_not_the_owner() {
    let (world, widget) = World::with_gadgets(5, 1);
    let gadget = workload_of(&world, "gadget-0");
    world.remove(&gadget);
    world.insert(crate::world::workload("Gadget", "gadget-0", 1, Some(&widget)));
    world.pdb("web", "maxUnavailable", &json!(2));
    let _controller = start(&world, chain);
    world.settle().await;
    assert_eq!(world.failure("web"), "found no controllers for pod \"gadget-0\"");
}

fn workload_of(world: &World, name: &str) -> Value {
    world.get_of(crate::world::resource("Gadget"), name)
}

/// Their controllers stay for 10 to 20 min; the scale above is read every 30 s.
#[tokio::test(start_paused = true)]
async fn the_owners_of_many_pods_are_read_once_in_a_while() {
    let (world, _) = World::with_gadgets(100, 100);
    world.pdb("web", "maxUnavailable", &json!(2));
    let mark = world.server.mark();
    let _controller = start(&world, chain);
    world.pass(5).await;
    assert_eq!(world.numbers("web"), numbers(2, 100, 98, 100));
    assert_eq!(reads_of_gadgets(&world, mark).len(), 100);
    assert_eq!(world.scale_reads(mark), 1);
    let mark = world.server.mark();
    world.pass(590).await;
    assert_eq!(reads_of_gadgets(&world, mark).len(), 0);
    assert_eq!(world.scale_reads(mark), 19);
    let mark = world.server.mark();
    world.pass(40).await;
    let soon = reads_of_gadgets(&world, mark).len();
    assert!((1..20).contains(&soon), "{soon} at once");
    world.pass(600).await;
    assert!((100..120).contains(&reads_of_gadgets(&world, mark).len()));
}

/// A budget whose owners cannot be read for now keeps no other waiting, and counts once they can.
#[tokio::test(start_paused = true)]
async fn owners_whose_reads_hang_keep_no_other_budget_waiting() {
    let (world, _) = World::with_gadgets(40, 40);
    world.pod_of("other", "other", None);
    world.pdb("web", "maxUnavailable", &json!(2));
    world.pdb_of(
        "other",
        "minAvailable",
        &json!(0),
        &json!({ "matchLabels": { "app": "other" } }),
    );
    let hang = Fault::Delay(Duration::from_secs(30));
    world.fail_those(40, |request| request.resource == "gadgets", hang);
    let _controller = start(&world, chain);
    world.pass(3).await;
    assert_eq!(world.numbers("other"), numbers(1, 1, 0, 1));
    assert_eq!(world.allowed("web"), 0);
    world.pass(120).await;
    assert_eq!(world.numbers("web"), numbers(2, 40, 38, 40));
}

#[rstest]
#[case::a_scale_above(chain, "  Widget web wants 5 (the first with a scale, above Gadget), has 4\n")]
#[case::what_exists(existing, "  Gadget.example.com: the pods that exist are expected, has 4\n")]
#[tokio::test(start_paused = true)]
async fn explain_says_which_way_was_taken(#[case] way: fn(&mut Config), #[case] line: &str) {
    let (world, _) = World::with_gadgets(5, 4);
    world.pdb("web", "maxUnavailable", &json!(2));
    let mut config = Config::default();
    way(&mut config);
    let text = crate::explain::explained_by(&world, &config.owner_rules()).await;
    assert!(text.contains(line), "{text}");
    assert!(
        text.contains("what the controllers of its pods want, or the pods that exist\n"),
        "{text}"
    );
}

#[rstest]
#[case::none("", None)]
#[case::one("VirtualMachineInstance.kubevirt.io", None)]
#[case::several("Tikv.core.pingcap.com, StrimziPodSet.core.strimzi.io,", None)]
#[case::the_core_group("Node", None)]
#[case::no_kind(
    ".kubevirt.io",
    Some("\".kubevirt.io\": expected Kind.group, such as VirtualMachineInstance.kubevirt.io")
)]
#[case::a_resource(
    "pods",
    Some("\"pods\": expected Kind.group, such as VirtualMachineInstance.kubevirt.io")
)]
#[case::a_version(
    "Vm.example.com/v1",
    Some("\"Vm.example.com/v1\": expected Kind.group, such as VirtualMachineInstance.kubevirt.io")
)]
#[case::an_empty_group(
    "Vm.",
    Some("\"Vm.\": expected Kind.group, such as VirtualMachineInstance.kubevirt.io")
)]
#[case::the_second(
    "A.b,c",
    Some("\"c\": expected Kind.group, such as VirtualMachineInstance.kubevirt.io")
)]
#[case::one_with_a_scale("Deployment.apps", Some("\"Deployment.apps\": this kind has a scale"))]
fn wrong_kinds_are_refused(#[case] kinds: &str, #[case] problem: Option<&str>) {
    let config = Config {
        scale_less_owners: Some(kinds.to_owned()),
        ..Config::default()
    };
    let errors = config.validate();
    let errors: Vec<_> = errors
        .iter()
        .map(|error| (error.field, &*error.problem))
        .collect();
    let expected = problem.map(|problem| format!("invalid value {problem}"));
    assert_eq!(
        errors,
        expected
            .iter()
            .map(|problem| ("scaleLessOwners", &**problem))
            .collect::<Vec<_>>()
    );
}
