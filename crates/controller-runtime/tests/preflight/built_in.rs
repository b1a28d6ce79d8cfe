use super::*;

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

#[rstest]
#[case::on(
    Ok("*"),
    Level::Ok,
    "on: pod kube-system/kube-controller-manager-a runs it; it may stay on"
)]
#[case::unknown(
    Err("may not list pods in kube-system"),
    Level::Ok,
    "cannot tell whether it is off: may not list pods in kube-system; it may stay on"
)]
#[case::off(
    Ok(OFF),
    Level::Warning,
    "off: each of 1 kube-controller-managers has it switched off; nobody does what is left to it"
)]
fn a_built_in_loop_that_shares_the_work_may_stay_on(
    #[case] controllers: Result<&str, &str>,
    #[case] level: Level,
    #[case] text: &str,
) {
    let mut facts = ready();
    facts.shares_work = true;
    facts.control_plane = Ok(vec![node("a")]);
    facts.managers = match controllers {
        Ok(controllers) => Ok(vec![manager("a", controllers)]),
        Err(unread) => Err(unread.to_owned()),
    };
    let report = decide(&facts);
    let finding = of(&report, Check::BuiltInLoop)[0];
    assert_eq!(
        (finding.level, &*finding.text, &finding.todo),
        (level, text, &None)
    );
    assert_eq!(report.exit_code(), 0);
    assert!(
        report
            .text()
            .ends_with("disruption-controller may be switched on\n")
    );
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
