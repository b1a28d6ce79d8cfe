use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;
use xtask::command::root;

#[test]
fn every_step_is_run_as_it_stands_or_has_something_in_its_place() {
    let workflow = Workflow::read(root()).unwrap();
    let Jobs { build, publish } = &workflow.jobs;
    let steps = || build.steps.iter().chain(&publish.steps);
    for step in steps() {
        assert!(step.instead().is_ok(), "{:?}", step.key());
    }
    for (key, _) in INSTEAD {
        assert!(
            steps().any(|step| step.key() == key),
            "there is no {key:?} any more"
        );
    }
    let as_it_stands = steps().filter(|step| step.instead().unwrap().is_none()).count();
    assert_eq!(as_it_stands, 15);
}

/// A dry run tries most of them; these are left.
#[test]
fn an_action_or_an_expression_that_is_new_is_told() {
    let step: Step = serde_saphyr::from_str("uses: actions/cache@v4").unwrap();
    assert_eq!(
        step.instead().unwrap_err().to_string(),
        ".github/workflows/release.yml uses actions/cache, which the dry run does not know"
    );
    let unknown = Contexts(Variables::new())
        .expand("a ${{ github.actor }}")
        .unwrap_err();
    assert_eq!(
        unknown.to_string(),
        ".github/workflows/release.yml names github.actor, which the dry run does not know"
    );
}

#[test]
fn expressions_are_replaced_and_conditions_hold_by_them() {
    let contexts = Contexts(BTreeMap::from([
        (
            "steps.tag.outputs.controller".to_owned(),
            "ttl-controller".to_owned(),
        ),
        ("steps.push.outputs.image".to_owned(), String::new()),
    ]));
    let name = "${{ steps.tag.outputs.controller }}";
    assert_eq!(
        contexts.expand(&format!("{name}/{name}:")).unwrap(),
        "ttl-controller/ttl-controller:"
    );
    for (condition, holds) in [
        ("steps.tag.outputs.controller != 'kube-controllers'", true),
        ("steps.tag.outputs.controller != 'ttl-controller'", false),
        ("steps.tag.outputs.controller == 'ttl-controller'", true),
        ("steps.tag.outputs.controller == 'kube-controllers'", false),
        ("steps.tag.outputs.controller", true),
        ("steps.push.outputs.image", false),
    ] {
        assert_eq!(contexts.holds(condition).unwrap(), holds, "{condition}");
    }
}

/// A folder in which steps of the workflow are run, with programs of its own before those of the machine.
struct Folder(TempDir);

impl Folder {
    fn with(programs: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, script) in programs {
            let path = folder.path(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Whether the script ends well with these variables.
    fn run(&self, script: &str, env: &[(&str, &str)]) -> Result<()> {
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let path = std::env::var("PATH").unwrap();
        let runner = Runner {
            clone: self.path(""),
            work: self.path(""),
            env: [("PATH".to_owned(), format!("{}:{path}", self.path("").display()))].into(),
        };
        runner.shell(script, self.0.path(), &env.collect())
    }
}

#[test]
fn only_what_the_registry_says_it_has_not_is_pushed() {
    let workflow = Workflow::read(root()).unwrap();
    let push = workflow.script("push").unwrap();
    let get = "GET https://ghcr.io/v2/owner/ttl-controller/manifests/0.2.0";
    for (says, is_pushed) in [
        (format!("{get}: MANIFEST_UNKNOWN: manifest unknown"), true),
        (
            format!("{get}: NAME_UNKNOWN: repository name not known to registry"),
            true,
        ),
        (format!("{get}: unexpected status code 404 Not Found"), true),
        (
            format!("{get}: unexpected status code 503 Service Unavailable"),
            false,
        ),
        (
            format!("{get}: unexpected status code 429 Too Many Requests"),
            false,
        ),
        (format!("{get}: DENIED: denied"), false),
        (
            "Get \"https://ghcr.io/v2/\": dial tcp 192.0.2.1:443: connect: connection refused".to_owned(),
            false,
        ),
    ] {
        // It has what was pushed.
        let crane = "case $1 in push) echo image >>pushed; exit ;; esac\n\
                     grep -q chart pushed 2>/dev/null && echo sha256:1 && exit\n\
                     echo \"Error: $SAYS\" >&2; exit 1";
        let folder = Folder::with(&[("crane", crane), ("helm", "echo chart >>pushed")]);
        let files = "echo '{\"manifests\": [{\"digest\": \"sha256:2\"}]}' >index.json
                     tar --create --file ttl-controller.tar index.json";
        folder.run(files, &[]).unwrap();
        let env = [
            ("SAYS", says.as_str()),
            ("CONTROLLER", "ttl-controller"),
            ("VERSION", "0.2.0"),
            ("REGISTRY", "ghcr.io/owner"),
            ("IMAGE", "ghcr.io/owner/ttl-controller"),
            ("CHART", "ghcr.io/owner/charts/ttl-controller"),
            ("GITHUB_OUTPUT", "outputs"),
        ];
        assert_eq!(folder.run(push, &env).is_ok(), is_pushed, "{says}");
        let pushed = fs::read_to_string(folder.path("pushed")).unwrap_or_default();
        assert_eq!(pushed, if is_pushed { "image\nchart\n" } else { "" }, "{says}");
        if is_pushed {
            let outputs = fs::read_to_string(folder.path("outputs")).unwrap();
            assert_eq!(outputs, "image=sha256:2\nchart=sha256:1\n");
        }
    }
}

#[test]
fn a_tag_releases_that_somebody_signed_who_may() {
    let workflow = Workflow::read(root()).unwrap();
    let verify = workflow
        .script("The tag is signed by somebody who may release")
        .unwrap();
    let folder = Folder::with(&[]);
    let made = "git init --quiet .
                git config user.name Somebody; git config user.email somebody@example.com
                git config gpg.format ssh; git config commit.gpgsign false; git config tag.gpgsign false
                for who in ours other; do ssh-keygen -q -t ed25519 -N '' -f $who; done
                mkdir .github
                printf 'somebody@example.com namespaces=\"git\" %s\\n' \"$(cat ours.pub)\" >.github/allowed_signers
                git add .github; git commit --quiet --message One
                sign() { git -c user.signingKey=\"$PWD/$1.pub\" tag --sign --message \"$2\" \"$2\"; }
                sign ours good
                sign other by-another-key
                git tag --annotate --message unsigned unsigned
                git tag of-a-commit
                git update-ref refs/tags/under-another-name refs/tags/good
                git commit --quiet --allow-empty --message Two
                sign ours of-another-commit
                git checkout --quiet HEAD^";
    folder.run(made, &[]).unwrap();
    let commit = command::output(git_in(&folder).args(["rev-parse", "HEAD"])).unwrap();
    for (tag, verified) in [
        ("good", true),
        ("by-another-key", false),
        ("unsigned", false),
        ("of-a-commit", false),
        ("under-another-name", false),
        ("of-another-commit", false),
    ] {
        let env = [("GITHUB_REF_NAME", tag), ("GITHUB_SHA", commit.trim())];
        assert_eq!(folder.run(verify, &env).is_ok(), verified, "{tag}");
    }
    // As the repository has it before somebody may.
    fs::copy(
        root().join(".github/allowed_signers"),
        folder.path(".github/allowed_signers"),
    )
    .unwrap();
    let env = [("GITHUB_REF_NAME", "good"), ("GITHUB_SHA", commit.trim())];
    assert!(folder.run(verify, &env).is_err());
}

fn git_in(folder: &Folder) -> Command {
    let mut git = command::git::<&str>([]);
    git.current_dir(folder.path(""));
    git
}
