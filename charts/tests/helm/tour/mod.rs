//! Types every command of a document verbatim, one after the other.
//!
//! There is no kubelet. After an install or an upgrade, the test starts what a pod would run, with the token of the
//! chart; it listens where the documents forward `localhost:8080` to. Manifests of a control plane node come from
//! kubeadm.

mod asked;
mod follow;

use std::fs;
use std::process::Command;

use controller_testing::chart::NAMESPACE;
use controller_testing::{SOON, soon};
use local_control_plane::{Kept, eventually};
use serde_json::{Value, json};

use self::asked::ask;
use self::follow::{CONTROLLERS, Tour, Way};
use crate::documents::{Shown, blocks, in_notes, inline, markdown};
use crate::install::README_OF_THE_UMBRELLA;
use crate::process::UID;
use crate::static_pod;
use crate::support::{chart, helm, kubectl, root, said};

const README: &str = "README.md";
/// Documents with a test of their own, which follows exactly these steps.
const FOLLOWED_ALONE: [(&str, &str); 3] = [
    (README, "the_way_of_the_readme_leads_there_and_back"),
    (
        static_pod::DOCUMENT,
        "a_static_pod_leads_and_works_with_nothing_but_the_kubeconfig_of_the_document",
    ),
    (
        README_OF_THE_UMBRELLA,
        "of_the_umbrella_one_controller_is_added_and_goes_without_a_write_to_the_others",
    ),
];

/// The objects that replace the documents' placeholders.
fn one_of_each_kind() -> Value {
    let named = json!({"name": "a", "namespace": "default", "labels": {"app": "a"}});
    let container = json!({"name": "a", "image": "a"});
    let template = json!({"spec": {"containers": [container], "restartPolicy": "Never"}});
    let selector = json!({"matchLabels": {"app": "a"}});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": named,
               "spec": {"minAvailable": 1, "selector": selector}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": named,
               "spec": {"containers": [container], "nodeName": "a"}}),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": {"template": template}}),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": named, "spec": {}}),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": objects})
}

#[test]
fn every_command_of_the_documents_is_followed() {
    let all: Vec<Shown> = markdown().iter().flat_map(|file| blocks(file)).collect();
    assert!(all.len() > 50, "only {} are found", all.len());
    let missing = all
        .iter()
        .filter(|shown| shown.file != static_pod::DOCUMENT && Way::of(&shown.command).is_none());
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "no test runs {missing:#?}");
}

#[test]
fn a_command_that_nothing_follows_is_found() {
    assert_eq!(Way::of("kubeadm init"), None);
    assert_eq!(Way::of("sed s/a/b/ /etc/passwd"), None);
    assert!(matches!(Way::of("sudo cargo xtask test"), Some(Way::Asked(_))));
    assert_eq!(Way::of("C=ttl-controller"), Some(Way::Names));
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn every_command_in_a_text_has_flags_that_its_program_knows() {
    for file in markdown() {
        for shown in inline(&file) {
            println!("{}:{}: {}", shown.file, shown.line, shown.command);
            ask(&shown.command);
        }
    }
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
#[should_panic(expected = "unknown flag: --no-such-flag")]
fn a_flag_that_a_program_does_not_know_is_found() {
    ask("kubectl get pods --no-such-flag a");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn the_documents_can_be_followed() {
    let _kept = Kept::new().unwrap();
    for file in markdown() {
        let commands = blocks(&file);
        if commands.is_empty() || FOLLOWED_ALONE.iter().any(|(alone, _)| *alone == file) {
            continue;
        }
        println!("{file}:");
        let mut tour = Tour::start().await;
        for shown in commands {
            tour.follow(&shown.command).await;
        }
        match file.as_str() {
            "CONTRIBUTING.md" => {
                let shines =
                    async || (tour.get("configmap lamp -o jsonpath={.data.shines}") == "3").then_some(());
                eventually(SOON, "the lamp is as bright as it should be", shines)
                    .await
                    .unwrap();
            }
            "docs/operations.md" => tour.is_switched_off("disruption-controller").await,
            "docs/releasing.md" => {
                let tags = said(tour.shell(&format!(
                    "git -C {} ls-remote --tags origin",
                    tour.clone().display()
                )));
                assert!(tags.contains("refs/tags/ttl-controller-v0.2.0"), "{tags}");
            }
            _ => {}
        }
        tour.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn the_notes_of_a_release_can_be_followed() {
    let _kept = Kept::new().unwrap();
    let name = "disruption-controller";
    for (set, count) in [("config.dryRun=true", 7), ("config.dryRun=false", 6)] {
        let mut tour = Tour::start().await;
        let install = format!(
            "helm install {name} charts/{name} -n {NAMESPACE} --set {set} --set image.repository={name}"
        );
        let commands = in_notes(&tour.follow(&install).await);
        assert_eq!(commands.len(), count, "{commands:#?}");
        for command in commands {
            tour.follow(&command).await;
        }
        tour.is_switched_off(name).await;
        let image = tour.get(&format!(
            "deployment {name} -n {NAMESPACE} -o jsonpath={{..image}}"
        ));
        assert!(
            image.starts_with(&format!("{name}:")),
            "the upgrade kept the image: {image}"
        );
        tour.stop().await;
    }
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn the_notes_speak_https_where_there_is_a_certificate() {
    let notes = |set: &str| {
        let chart = chart("ttl-controller");
        let install = [
            "install",
            "ttl-controller",
            &chart,
            "--dry-run=client",
            "--set",
            set,
        ];
        in_notes(&said(helm(&install)))
    };
    let plain = notes("config.dryRun=true");
    let encrypted = notes("config.dryRun=true,config.tlsCertFile=/tls.crt,config.tlsPrivateKeyFile=/tls.key");
    let with_https = |command: &String| {
        let command = command.replace("curl http:", "curl -k https:");
        command.replace("curl 'http:", "curl -k 'https:")
    };
    assert_eq!(encrypted, plain.iter().map(with_https).collect::<Vec<_>>());
    assert_ne!(encrypted, plain);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn the_way_of_the_readme_leads_there_and_back() {
    let mut tour = Tour::start().await;
    let name = "disruption-controller";
    let all: Vec<String> = blocks(README).into_iter().map(|shown| shown.command).collect();
    let (before, install) = all.split_at(
        all.iter()
            .position(|command| command.starts_with("helm"))
            .unwrap(),
    );
    for command in before {
        let printed = tour.follow(command).await;
        assert_eq!(
            command.contains("preflight"),
            printed.contains("clock"),
            "{printed}"
        );
    }
    tour.stop().await;
    // The tried-out controller has written.
    let kubeconfig = tour.control_plane.kubeconfig();
    said(kubectl(kubeconfig, &["delete", "pdb", "a"], ""));
    said(kubectl(
        kubeconfig,
        &["apply", "-f", "-"],
        &one_of_each_kind().to_string(),
    ));

    let [
        install,
        installed,
        explain,
        forward,
        metrics,
        off,
        shown,
        upgrade,
        upgraded,
        lease,
        uninstall,
    ] = install
    else {
        panic!("other steps than these are not followed: {install:#?}");
    };
    tour.follow(install).await;
    tour.follow(installed).await;
    let explained = tour.follow(explain).await;
    assert!(explained.contains("to be written: "), "{explained}");
    tour.follow(forward).await;
    // Without the built-in loop the budget has no status. The dry run plans one and does not write it.
    let replica = &tour.running().0;
    let planned = async || (replica.total("controller_planned_writes_total").await > 0).then_some(());
    soon("ours says that it would write", planned).await;
    let metrics = tour.follow(metrics).await;
    assert!(metrics.contains("controller_planned_writes_total{"), "{metrics}");
    assert!(metrics.contains("controller_planned_writes_undone "), "{metrics}");
    assert_eq!(tour.observed_generation(), "");

    for _ in 0..2 {
        tour.follow(off).await;
        let line = tour.follow(shown).await;
        assert!(
            line.trim_end().ends_with(&format!("{CONTROLLERS},-{name}")),
            "{line}"
        );
    }
    tour.is_switched_off(name).await;
    tour.follow(upgrade).await;
    tour.follow(upgraded).await;
    let written = async || (tour.observed_generation() == "1").then_some(());
    soon("ours writes", written).await;
    let lease = tour.follow(lease).await;
    assert!(lease.contains(UID), "{lease}");

    tour.follow(uninstall).await;
    let left = format!(
        "kubectl get all,configmaps,roles --namespace {NAMESPACE} --selector app.kubernetes.io/name={name}"
    );
    assert_eq!(said(tour.shell(&left)), "");

    for (command, took) in &tour.steps {
        println!("{:6.1} s  {command}", took.as_secs_f64());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn a_dry_run_agrees_with_the_built_in_loop_that_stays_on() {
    let mut tour = Tour::start().await;
    let built_in = ["disruption-controller"];
    let _manager = tour
        .control_plane
        .start_controller_manager(&built_in, &[])
        .unwrap();
    let written = async || (tour.observed_generation() == "1").then_some(());
    soon("the built-in loop writes", written).await;

    let all: Vec<String> = blocks(README).into_iter().map(|shown| shown.command).collect();
    let dry_run = all.iter().find(|command| command.contains("config.dryRun=true"));
    tour.follow(dry_run.expect("a dry run")).await;
    let replica = &tour.running().0;
    let looked = async || (replica.total("workqueue_work_duration_seconds_count").await > 0).then_some(());
    soon("ours has looked at the budget", looked).await;
    assert_eq!(replica.total("controller_planned_writes_total").await, 0);
    let metrics = all.iter().find(|command| command.starts_with("curl --silent"));
    let metrics = tour.follow(metrics.expect("the metrics")).await;
    assert!(
        metrics.contains("controller_planned_writes_undone 0"),
        "{metrics}"
    );
    for (command, took) in &tour.steps {
        println!("{:6.1} s  {command}", took.as_secs_f64());
    }
}

/// The workflow in this repository signs what is published, for the tag that it was started for.
#[test]
fn what_the_documents_check_is_what_the_workflow_signs() {
    let releasing = blocks("docs/releasing.md");
    let command = |program: &str| {
        let found = releasing.iter().find(|shown| shown.command.starts_with(program));
        found.unwrap_or_else(|| panic!("no {program}")).command.clone()
    };
    let workflow = ".github/workflows/release.yml";
    assert!(root().join(workflow).is_file());
    assert!(command("gh").contains(&format!("--signer-workflow OWNER/REPOSITORY/{workflow}")));
    let cosign = command("cosign");
    let pattern = cosign.split('\'').nth(1).unwrap();
    let identity = format!("https://github.com/OWNER/REPOSITORY/{workflow}@refs/tags/ttl-controller-v0.2.0");
    let matches = |identity: &str| {
        let test = format!("echo '{identity}' | grep --quiet --extended-regexp '{pattern}'");
        Command::new("sh").args(["-c", &test]).status().unwrap().success()
    };
    assert!(matches(&identity), "{pattern}");
    assert!(!matches(
        &identity.replace("ttl-controller-v", "ttl-after-finished-controller-v")
    ));
    assert!(!matches(&identity.replace("release.yml", "ci.yml")));
    let text = fs::read_to_string(root().join(workflow)).unwrap();
    assert!(text.contains("tags: [\"*-controller-v[0-9]*\", \"kube-controllers-v[0-9]*\"]"));
    let dockerfile = fs::read_to_string(root().join("Dockerfile")).unwrap();
    assert!(
        command("docker buildx build").contains("--build-arg BIN=") && dockerfile.contains("\nARG BIN\n")
    );
    let written = "target/image/ttl-controller.tar";
    assert!(command("kind").contains(written) && command("sudo cargo xtask verify-image").contains(written));
}
