//! Conclusions of `preflight` from its findings: cases in words, with the output.
#![allow(clippy::unwrap_used, reason = "a test")]

use controller_runtime::runtime::preflight::{
    Check, CheckState, Controllers, DISTRIBUTIONS, Facts, Finding, Lease, Level, Manager, Node,
    PreflightReport, Trace, Version, decide,
};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;

const NAME: &str = "disruption-controller";
const OFF: &str = "*,bootstrapsigner,tokencleaner,-disruption-controller";

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn seconds_ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn node(name: &str) -> Node {
    let annotation = "kubeadm.alpha.kubernetes.io/cri-socket".to_owned();
    Node {
        name: name.to_owned(),
        annotations: [(annotation, String::new())].into(),
        ..Node::default()
    }
}

fn manager(node: &str, controllers: &str) -> Manager {
    Manager {
        name: format!("pod kube-system/kube-controller-manager-{node}"),
        node: node.to_owned(),
        controllers: Controllers::Set(controllers.to_owned()),
        runs: None,
    }
}

/// Held for an hour, renewed a second ago.
fn held(namespace: &str, holder: &str) -> Lease {
    Lease {
        namespace: namespace.to_owned(),
        holder: holder.to_owned(),
        acquired: Some(seconds_ago(3600)),
        ends: Some(now() + SignedDuration::from_secs(14)),
    }
}

/// A kubeadm cluster with two control plane nodes where everything is in order.
fn ready() -> Facts {
    Facts {
        controller: NAME,
        built_in: controller_core::app::BuiltIn {
            alias: Some("disruption"),
            ..Default::default()
        },
        dry_run: false,
        version: Ok(release("v1.36.3", 36)),
        supported: 35..=37,
        ahead: Some(SignedDuration::ZERO),
        now: now(),
        permissions: vec![("patch pods/status".to_owned(), Ok(true))],
        control_plane: Ok(vec![node("a"), node("b")]),
        some_node: None,
        managers: Ok(vec![manager("a", OFF), manager("b", OFF)]),
        manager_lease: Ok(Some(held("kube-system", "a_4711"))),
        traces: Ok(vec![]),
        leases: Ok(vec![]),
        lease_namespace: "kube-system".to_owned(),
        elsewhere: Ok(()),
    }
}

fn release(release: &str, minor: u32) -> Version {
    Version {
        release: release.to_owned(),
        minor: Some(minor),
    }
}

fn of(report: &PreflightReport, check: Check) -> Vec<&Finding> {
    report
        .findings
        .iter()
        .filter(|finding| finding.check == check)
        .collect()
}

/// Level and text of the only finding.
fn only(facts: &Facts, check: Check) -> (Level, String) {
    let report = decide(facts);
    let findings = of(&report, check);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    (findings[0].level, findings[0].text.clone())
}

fn built_in(facts: &Facts) -> (CheckState, Level, String) {
    let (level, text) = only(facts, Check::BuiltInLoop);
    (decide(facts).built_in_loop, level, text)
}

#[test]
fn where_all_is_as_it_should_be_the_controller_may_be_switched_on() {
    let report = decide(&ready());
    assert_eq!(report.exit_code(), 0);
    assert_eq!(
        report.text(),
        "\
ok       version: Kubernetes v1.36.3; this release is tested with 1.35 to 1.37
ok       clock: the same as the API server's
ok       permissions: this account has all 1 that it needs
ok       lease: nobody leads
ok       distribution: kubeadm
ok       built-in loop: off: each of 2 kube-controller-managers has it switched off
         seen: pod kube-system/kube-controller-manager-a: --controllers=*,bootstrapsigner,tokencleaner,-disruption-controller
         seen: pod kube-system/kube-controller-manager-b: --controllers=*,bootstrapsigner,tokencleaner,-disruption-controller
         seen: kube-controller-manager's Lease: a_4711
disruption-controller may be switched on
"
    );
}

#[test]
fn one_node_whose_manifest_was_forgotten_blocks_and_the_edit_is_named() {
    let mut facts = ready();
    facts.managers = Ok(vec![
        manager("a", OFF),
        manager("b", "*,bootstrapsigner,tokencleaner"),
    ]);
    let report = decide(&facts);
    assert_eq!(report.exit_code(), 2);
    let (state, level, text) = built_in(&facts);
    assert_eq!((state, level), (CheckState::On, Level::Blocks));
    assert_eq!(text, "on: pod kube-system/kube-controller-manager-b runs it");
    let todo = of(&report, Check::BuiltInLoop)[0].todo.clone().unwrap();
    assert!(
        todo.starts_with(
            "on each control plane node, the leader's last: append ,-disruption-controller to --controllers in \
             /etc/kubernetes/manifests/kube-controller-manager.yaml;"
        ),
        "{todo}"
    );
    assert!(
        report
            .text()
            .ends_with("disruption-controller must not be switched on yet\n")
    );
}

#[rstest]
#[case::by_its_name("*,-disruption-controller", Some(false))]
#[case::by_its_alias("*,-disruption", Some(false))]
#[case::not_at_all("*", Some(true))]
#[case::another("*,-ttl-controller", Some(true))]
#[case::one_whose_name_begins_so("*,-disruption-controller-too", Some(true))]
#[case::the_first_mention_counts("disruption-controller,-disruption-controller,*", Some(true))]
#[case::only_others_are_on("ttl-controller,namespace-controller", Some(false))]
#[case::blanks_do_not_count("*, -disruption-controller", Some(false))]
fn the_list_of_controllers_is_read_as_kube_controller_manager_reads_it(
    #[case] list: &str,
    #[case] enabled: Option<bool>,
) {
    let controllers = Controllers::Set(list.to_owned());
    assert_eq!(controllers.enables(NAME, Some("disruption")), enabled);
}

#[rstest]
#[case::kubeadm(&["kube-controller-manager", "--bind-address=127.0.0.1", "--controllers=*,b,-a"], Controllers::Set("*,b,-a".into()))]
#[case::two_words(&["kube-controller-manager", "--controllers", "*,-a", "--v=2"], Controllers::Set("*,-a".into()))]
#[case::one_string_for_a_shell(&["/bin/sh", "-c", "exec kube-controller-manager --v=2 --controllers='*,-a' 2>&1"], Controllers::Set("*,-a".into()))]
#[case::repeated(&["kube-controller-manager", "--controllers=*", "--controllers=-a"], Controllers::Set("*,-a".into()))]
#[case::another_flag_that_begins_so(&["kube-controller-manager", "--controllers-too=*"], Controllers::Unset)]
#[case::absent(&["kube-controller-manager", "--v=2"], Controllers::Unset)]
#[case::no_flags_at_all(&["/start.sh"], Controllers::Unseen)]
fn the_flag_is_found_in_any_command_line(#[case] command: &[&str], #[case] found: Controllers) {
    assert_eq!(Controllers::of_command(command.iter().copied()), found);
}

#[rstest]
#[case::appended(&["server", "--kube-controller-manager-arg", "controllers+=-a"], Controllers::Set("*,-a".into()))]
#[case::twice(&["server", "--kube-controller-manager-arg=controllers+=-a", "--kube-controller-manager-arg=controllers+=-b"], Controllers::Set("*,-a,-b".into()))]
#[case::replaced(&["server", "--kube-controller-manager-arg", "controllers=*,b,-a"], Controllers::Set("*,b,-a".into()))]
#[case::other_arguments(&["server", "--kube-controller-manager-arg", "v=2"], Controllers::Unset)]
fn the_flag_is_found_in_the_arguments_of_k3s(#[case] arguments: &[&str], #[case] found: Controllers) {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    assert_eq!(Controllers::of_k3s(&arguments), found);
}

#[test]
fn without_its_pods_nobody_can_tell_whether_it_is_off() {
    let mut facts = ready();
    facts.managers = Err("may not list pods in kube-system".to_owned());
    let text = "cannot tell whether it is off: may not list pods in kube-system";
    assert_eq!(
        built_in(&facts),
        (CheckState::Unknown, Level::Unknown, text.to_owned())
    );
    let report = decide(&facts);
    assert_eq!(report.exit_code(), 1);
    assert!(
        report
            .text()
            .ends_with("cannot tell whether disruption-controller may be switched on\n")
    );

    facts.managers = Ok(vec![]);
    let text = "cannot tell whether it is off: kube-controller-manager has no pod in kube-system that shows its flags";
    assert_eq!(built_in(&facts).2, text);
}

#[test]
fn a_control_plane_node_without_a_pod_of_it_may_still_run_it() {
    let mut facts = ready();
    facts.managers = Ok(vec![manager("a", OFF)]);
    let text = "cannot tell whether it is off: no kube-controller-manager is seen on b";
    assert_eq!(
        built_in(&facts),
        (CheckState::Unknown, Level::Unknown, text.to_owned())
    );
}

#[test]
fn nodes_that_may_not_be_listed_or_have_no_role_leave_a_doubt() {
    let mut facts = ready();
    facts.control_plane = Err("may not list nodes".to_owned());
    assert_eq!(
        built_in(&facts).2,
        "cannot tell whether it is off: may not list nodes"
    );
    facts.control_plane = Ok(vec![]);
    let text = "cannot tell whether it is off: no node has the label node-role.kubernetes.io/control-plane";
    assert_eq!(built_in(&facts).2, text);
}

#[test]
fn a_leader_that_is_none_of_the_pods_may_run_it() {
    let mut facts = ready();
    facts.manager_lease = Ok(Some(held("kube-system", "elsewhere_4711")));
    let text = "cannot tell whether it is off: elsewhere_4711 leads, which is none of those that are seen";
    assert_eq!(
        built_in(&facts),
        (CheckState::Unknown, Level::Unknown, text.to_owned())
    );
    // A host name may be fully qualified.
    facts.manager_lease = Ok(Some(held("kube-system", "a.example.com_4711")));
    assert_eq!(built_in(&facts).0, CheckState::Off);
    // A holder whose Lease has expired leads nothing.
    let mut expired = held("kube-system", "elsewhere_4711");
    expired.ends = Some(seconds_ago(1));
    facts.manager_lease = Ok(Some(expired));
    assert_eq!(built_in(&facts).0, CheckState::Off);
}

#[test]
fn what_the_leader_wrote_since_it_leads_shows_that_the_loop_is_on_whatever_the_flags_say() {
    let mut facts = ready();
    let what = "it wrote poddisruptionbudgets default/a".to_owned();
    facts.traces = Ok(vec![Trace {
        what,
        at: seconds_ago(60),
    }]);
    let text = "on: it wrote poddisruptionbudgets default/a, since a_4711 leads";
    assert_eq!(built_in(&facts), (CheckState::On, Level::Blocks, text.to_owned()));
}

#[test]
fn what_an_earlier_leader_wrote_shows_nothing() {
    let mut facts = ready();
    let trace = |at| Trace {
        what: "it wrote".to_owned(),
        at,
    };
    facts.traces = Ok(vec![trace(seconds_ago(3601)), trace(seconds_ago(3599))]);
    assert_eq!(built_in(&facts).0, CheckState::Off);
    // Nor do recent traces if the start of the leader's term is unknown.
    facts.traces = Ok(vec![trace(seconds_ago(60))]);
    facts.manager_lease = Err("may not get it".to_owned());
    assert_eq!(built_in(&facts).0, CheckState::Off);
}

#[test]
fn what_a_process_says_of_itself_counts_more_than_its_flags() {
    let mut facts = ready();
    let mut managers = vec![manager("a", OFF), manager("b", OFF)];
    managers[0].runs = Some(true);
    facts.managers = Ok(managers);
    assert_eq!(
        built_in(&facts).2,
        "on: pod kube-system/kube-controller-manager-a runs it"
    );

    let mut managers = vec![manager("a", "*"), manager("b", OFF)];
    managers[0].runs = Some(false);
    facts.managers = Ok(managers);
    assert_eq!(built_in(&facts).0, CheckState::Off);
}

#[rstest]
#[case("v1.36.3-eks-0a1b2c3", "eks", "Amazon EKS")]
#[case("v1.36.3-gke.100", "gke", "Google GKE")]
fn a_managed_control_plane_blocks_and_only_a_dry_run_is_left(
    #[case] version: &str,
    #[case] id: &'static str,
    #[case] name: &str,
) {
    let mut facts = ready();
    facts.version = Ok(release(version, 36));
    facts.managers = Ok(vec![]);
    facts.control_plane = Ok(vec![]);
    let text = format!("on: {name} runs kube-controller-manager, and has no supported way to switch it off");
    assert_eq!(built_in(&facts), (CheckState::On, Level::Blocks, text));
    let report = decide(&facts);
    assert_eq!(report.distribution, Some(id));
    let todo = of(&report, Check::BuiltInLoop)[0].todo.clone().unwrap();
    assert_eq!(
        todo,
        "leave it in its dry run (--dry-run): explain and the metrics tell what it would do"
    );

    facts.dry_run = true;
    assert_eq!(decide(&facts).exit_code(), 0);
}

#[test]
fn beside_the_built_in_loop_a_dry_run_may_begin() {
    let mut facts = ready();
    facts.dry_run = true;
    facts.managers = Ok(vec![manager("a", "*"), manager("b", "*")]);
    facts.leases = Ok(vec![held("controllers", "pod_1")]);
    let report = decide(&facts);
    assert_eq!((report.verdict, report.exit_code()), (Level::Warning, 0));
    assert_eq!(report.built_in_loop, CheckState::On);
    assert!(
        report
            .text()
            .ends_with("disruption-controller may begin its dry run\n")
    );
    // Preflight cannot report what it may not read.
    facts.permissions = vec![("list pods".to_owned(), Ok(false))];
    assert_eq!(decide(&facts).exit_code(), 2);
}

#[rstest]
#[case::older("v1.34.9", 34, Level::Blocks)]
#[case::the_oldest("v1.35.0", 35, Level::Ok)]
#[case::the_newest("v1.37.2", 37, Level::Ok)]
#[case::newer("v1.38.0", 38, Level::Warning)]
fn a_version_that_is_too_old_blocks_and_one_that_is_newer_is_a_warning(
    #[case] version: &str,
    #[case] minor: u32,
    #[case] level: Level,
) {
    let mut facts = ready();
    facts.version = Ok(release(version, minor));
    let text = format!("Kubernetes {version}; this release is tested with 1.35 to 1.37");
    assert_eq!(only(&facts, Check::Version), (level, text));
}

#[test]
fn a_version_that_nobody_may_read_is_unknown() {
    let mut facts = ready();
    facts.version = Err("cannot read the version: forbidden".to_owned());
    let text = "cannot read the version: forbidden".to_owned();
    assert_eq!(only(&facts, Check::Version), (Level::Unknown, text));
    assert_eq!(decide(&facts).exit_code(), 1);
}

#[test]
fn each_missing_permission_is_a_finding_of_its_own() {
    let mut facts = ready();
    facts.permissions = vec![
        ("list pods".to_owned(), Ok(true)),
        ("patch pods/status".to_owned(), Ok(false)),
        (
            "get leases".to_owned(),
            Err("cannot ask which permissions it has: 500".to_owned()),
        ),
    ];
    let report = decide(&facts);
    let lines: Vec<_> = of(&report, Check::Permissions)
        .into_iter()
        .map(|finding| (finding.level, &*finding.text))
        .collect();
    assert_eq!(
        lines,
        [
            (Level::Blocks, "missing: patch pods/status"),
            (
                Level::Unknown,
                "get leases: cannot ask which permissions it has: 500"
            ),
        ]
    );
}

#[rstest]
#[case::a_second_is_rounding(1000, Level::Ok, "the same as the API server's")]
#[case::ahead(7500, Level::Warning, "7.5 s ahead of the API server's")]
#[case::behind(-90_000, Level::Warning, "90.0 s behind the API server's")]
fn a_clock_that_is_off_is_a_warning(#[case] millis: i64, #[case] level: Level, #[case] text: &str) {
    let mut facts = ready();
    facts.ahead = Some(SignedDuration::from_millis(millis));
    assert_eq!(only(&facts, Check::Clock), (level, text.to_owned()));
}

#[test]
fn a_release_that_leads_in_another_namespace_blocks() {
    let mut facts = ready();
    facts.leases = Ok(vec![held("controllers", "pod_1")]);
    let text = "pod_1 leads by a Lease in controllers; one in kube-system would lead, too".to_owned();
    assert_eq!(only(&facts, Check::Lease), (Level::Blocks, text));
    // An expired Lease does not block.
    let mut expired = held("controllers", "pod_1");
    expired.ends = Some(seconds_ago(1));
    facts.leases = Ok(vec![expired]);
    assert_eq!(only(&facts, Check::Lease), (Level::Ok, "nobody leads".to_owned()));
}

#[test]
fn a_replica_that_leads_in_the_same_namespace_is_as_it_should_be() {
    let mut facts = ready();
    facts.leases = Ok(vec![held("kube-system", "pod_1")]);
    let text = "pod_1 leads; a further replica waits for it".to_owned();
    assert_eq!(only(&facts, Check::Lease), (Level::Ok, text));
    facts.elsewhere = Err("may not list Leases in all namespaces".to_owned());
    let text = "pod_1 leads; a further replica waits for it; Leases of other namespaces are unknown: may not list Leases \
                in all namespaces";
    assert_eq!(only(&facts, Check::Lease), (Level::Warning, text.to_owned()));
}

#[rstest]
#[case("v1.36.3+k3s1", &[], Some("k3s"))]
#[case("v1.36.3+rke2r1", &[], Some("rke2"))]
#[case("v1.36.3+k0s.0", &[], Some("k0s"))]
#[case("v1.36.3", &["kubernetes.azure.com/cluster"], Some("aks"))]
#[case("v1.36.3", &["node.openshift.io/os_id"], Some("openshift"))]
#[case("v1.36.3", &["kops.k8s.io/instancegroup"], Some("kops"))]
#[case("v1.36.3", &["worker.gardener.cloud/pool"], Some("gardener"))]
#[case("v1.36.3", &["kubernetes.io/hostname"], None)]
fn a_distribution_is_told_by_its_version_or_its_nodes(
    #[case] version: &str,
    #[case] labels: &[&str],
    #[case] id: Option<&str>,
) {
    let mut facts = ready();
    facts.version = Ok(release(version, 36));
    facts.control_plane = Ok(vec![Node {
        labels: labels
            .iter()
            .map(|label| ((*label).to_owned(), String::new()))
            .collect(),
        ..Node::default()
    }]);
    assert_eq!(decide(&facts).distribution, id);
}

#[test]
fn who_builds_on_kubeadm_is_told_from_kubeadm() {
    let mut facts = ready();
    let mut of_kind = node("a");
    of_kind.provider_id = "kind://docker/kind/a".to_owned();
    facts.some_node = Some(of_kind);
    assert_eq!(decide(&facts).distribution, Some("kind"));
    let mut of_machine = node("a");
    of_machine
        .annotations
        .insert("cluster.x-k8s.io/machine".to_owned(), "a".to_owned());
    facts.some_node = Some(of_machine);
    assert_eq!(decide(&facts).distribution, Some("cluster-api"));
}

#[test]
fn every_distribution_has_signs_and_an_edit_that_names_the_loop() {
    for distribution in DISTRIBUTIONS {
        assert!(!distribution.signs.is_empty(), "{}", distribution.name);
        assert_eq!(
            distribution.edit.contains("-{}"),
            !distribution.is_managed,
            "{}",
            distribution.name
        );
    }
    let mut ids: Vec<_> = DISTRIBUTIONS.iter().map(|distribution| distribution.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), DISTRIBUTIONS.len());
}

#[test]
fn names_with_line_breaks_forge_no_line() {
    let mut facts = ready();
    facts.leases = Ok(vec![held("kube-system", "pod\nok       built-in loop: off")]);
    assert_eq!(decide(&facts).text().lines().count(), ready_lines());
}

fn ready_lines() -> usize {
    decide(&ready()).text().lines().count()
}

#[test]
fn the_json_has_the_documented_form() {
    let mut facts = ready();
    facts.managers = Ok(vec![manager("a", "*"), manager("b", OFF)]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&decide(&facts)).unwrap());
}
