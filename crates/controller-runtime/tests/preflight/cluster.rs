use super::*;

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
fn a_distribution_is_recognized_by_its_version_or_its_nodes(
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
fn who_builds_on_kubeadm_is_distinguished_from_kubeadm() {
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
