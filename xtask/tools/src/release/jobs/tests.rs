use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;
use xtask::command::root;

/// Fails if a step of a job is missing or out of order, or if an action is new.
#[test]
fn the_dry_run_takes_the_steps_of_the_workflow() {
    let workflow = fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    let of = |key: &str| -> Vec<_> {
        let lines = workflow.lines().map(|line| line.trim().trim_start_matches("- "));
        let values = lines.filter_map(|line| line.strip_prefix(key));
        values.map(|value| value.split('@').next().unwrap()).collect()
    };
    let ours = BUILD.into_iter().chain([INSTALL_TOOLS, PUSH]).chain(FINISH);
    // The compiler is installed, and the registry needs no login.
    let left_out = [".github/release.sh install_compiler", ".github/release.sh log_in"];
    let mut steps = of("run: ");
    steps.retain(|step| !left_out.contains(step));
    assert_eq!(
        steps,
        ours.map(|step| format!("{SCRIPT} {step}")).collect::<Vec<_>>()
    );
    assert_eq!(
        of("uses: "),
        [
            "actions/checkout",
            "actions/upload-artifact",
            "actions/checkout",
            "actions/download-artifact",
            "actions/attest-build-provenance",
            "actions/attest-build-provenance",
        ]
    );
}

/// A folder in which steps run, with programs that shadow those of the machine.
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

    fn runner(&self) -> Runner {
        let path = std::env::var("PATH").unwrap();
        Runner {
            clone: self.path(""),
            work: self.path(""),
            env: [
                ("PATH", format!("{}:{path}", self.path("").display())),
                ("SCRIPT", root().join(SCRIPT).display().to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        }
    }

    fn shell(&self, script: &str) {
        let runner = self.runner();
        runner.shell(script, self.0.path(), &Variables::new()).unwrap();
    }

    /// Returns whether a step succeeds for this tag and commit, with these variables.
    fn step(&self, step: &str, tag: &str, commit: &str, env: &[(&str, &str)]) -> bool {
        let runner = self.runner();
        let mut all = runner.variables(tag, commit);
        all.insert("RUNNER_TEMP".to_owned(), self.path("").display().to_string());
        let env = env.iter();
        all.extend(env.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        runner.step(step, &all).is_ok()
    }
}

/// Image and chart of a controller, and the chart kube-controllers without an image.
#[test]
fn only_what_the_registry_says_it_has_not_is_pushed() {
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
        for (name, image, all) in [
            ("ttl-controller", "sha256:2", "image\nchart\n"),
            ("kube-controllers", "", "chart\n"),
        ] {
            // The registry now has the pushed image.
            let crane = "case $1 in push) echo image >>pushed; exit ;; esac\n\
                         grep -q chart pushed 2>/dev/null && echo sha256:1 && exit\n\
                         echo \"Error: $SAYS\" >&2; exit 1";
            let folder = Folder::with(&[("crane", crane), ("helm", "echo chart >>pushed")]);
            folder.shell(
                "mkdir out; cd out
                 echo '{\"manifests\": [{\"digest\": \"sha256:2\"}]}' >index.json
                 tar --create --file ttl-controller.tar index.json",
            );
            let env = [("SAYS", says.as_str()), ("GITHUB_OUTPUT", "outputs")];
            let ended_well = folder.step(PUSH, &format!("{name}-v0.2.0"), "", &env);
            assert_eq!(ended_well, is_pushed, "{name}: {says}");
            let pushed = fs::read_to_string(folder.path("out/pushed")).unwrap_or_default();
            assert_eq!(pushed, if is_pushed { all } else { "" }, "{name}: {says}");
            if is_pushed {
                let outputs = fs::read_to_string(folder.path("out/outputs")).unwrap();
                let digests = format!("image_digest={image}\nchart_digest=sha256:1\n");
                let names = format!("image=ghcr.io/owner/{name}\nchart=ghcr.io/owner/charts/{name}\n");
                assert_eq!(outputs, digests + &names);
            }
        }
    }
}

#[test]
fn a_tag_releases_that_somebody_signed_who_may() {
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
    folder.shell(made);
    let mut parse = command::git(["rev-parse", "HEAD"]);
    let commit = command::output(parse.current_dir(folder.path(""))).unwrap();
    let is_signed = |tag| folder.step("tag_is_signed", tag, commit.trim(), &[]);
    for (tag, verified) in [
        ("good", true),
        ("by-another-key", false),
        ("unsigned", false),
        ("of-a-commit", false),
        ("under-another-name", false),
        ("of-another-commit", false),
    ] {
        assert_eq!(is_signed(tag), verified, "{tag}");
    }
    // As in the repository before anybody is allowed.
    fs::copy(
        root().join(".github/allowed_signers"),
        folder.path(".github/allowed_signers"),
    )
    .unwrap();
    assert!(!is_signed("good"));
}
