//! `cargo xtask release changelog`: the section of the version that comes next.
//!
//! What was written by hand under `## Unreleased` stays first. Below it stand the commits since the last tag of the
//! controller; before its first tag, those since its changelog was last written. A commit that wrote into the changelog
//! has its entry there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{path_of_changelog, section};
use crate::charts::UMBRELLA;
use xtask::command::{self, git};

/// Between two commits, and between the parts of one, in what git prints: in no subject.
const COMMIT: char = '\x1e';
const PART: char = '\x1f';
const UNRELEASED: &str = "Unreleased";

/// What a user can notice: a heading, and the folder of the commits below it.
type Group = (&'static str, String);

/// Writes the section of `version` below the folder `root`; the file.
pub(super) fn write(root: &Path, controller: &str, version: &str, date: &str) -> Result<PathBuf> {
    let path = path_of_changelog(root, controller);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let groups = groups(controller);
    let log = log(root, controller, &path, &groups)?;
    let changelog = path.strip_prefix(root).unwrap_or(&path).display().to_string();
    let text = released(&text, version, date, &listed(&log, &changelog, &groups))
        .with_context(|| format!("{} cannot get a section {version}", path.display()))?;
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// A commit that touches several is listed in the first.
fn groups(controller: &str) -> Vec<Group> {
    let chart = ("### In the chart", format!("charts/{controller}/"));
    if controller == UMBRELLA {
        return vec![chart];
    }
    vec![
        ("### In the controller", format!("crates/{controller}/src/")),
        chart,
        ("### In what all charts share", "charts/src/templates/".to_owned()),
        (
            "### In what all controllers share",
            "crates/controller-core/src/".to_owned(),
        ),
    ]
}

/// The commits that count, with the files of theirs that do.
fn log(root: &Path, controller: &str, changelog: &Path, groups: &[Group]) -> Result<String> {
    let here = |args: &[&str]| command::output(git(args).current_dir(root));
    let tags = format!("{controller}-v[0-9]*");
    let tags = here(&[
        "tag",
        "--list",
        &tags,
        "--merged",
        "HEAD",
        "--sort=-version:refname",
    ])?;
    let changelog = changelog.display().to_string();
    let since = match tags.lines().next() {
        Some(tag) => tag.to_owned(),
        None => here(&["log", "-1", "--format=%H", "--", &changelog])?
            .trim()
            .to_owned(),
    };
    let (range, format) = (format!("{since}..HEAD"), format!("--format={COMMIT}%h{PART}%s"));
    let mut args = vec![
        "log",
        "--no-merges",
        "--name-only",
        &format,
        &range,
        "--",
        &changelog,
    ];
    args.extend(groups.iter().map(|(_, folder)| folder.as_str()));
    here(&args)
}

/// The subjects by group, as Markdown; empty if nobody could notice anything.
fn listed(log: &str, changelog: &str, groups: &[Group]) -> String {
    let commits = log.split(COMMIT).filter_map(|commit| {
        let (head, files) = commit.split_once('\n')?;
        let (id, subject) = head.split_once(PART)?;
        let files: Vec<_> = files.lines().collect();
        let touches = |folder: &str| {
            let mut files = files.iter().filter_map(|file| file.strip_prefix(folder));
            files.any(|file| !file.split('/').any(|part| part == "tests" || part == "tests.rs"))
        };
        let group = groups.iter().position(|(_, folder)| touches(folder))?;
        (!files.contains(&changelog)).then(|| (group, format!("- {subject} ({id})")))
    });
    let commits: Vec<_> = commits.collect();
    let sections = groups.iter().enumerate().filter_map(|(number, (heading, _))| {
        let of_group = commits.iter().filter(|(group, _)| *group == number);
        let lines: Vec<_> = of_group.map(|(_, line)| line.as_str()).collect();
        (!lines.is_empty()).then(|| format!("{heading}\n\n{}", lines.join("\n")))
    });
    sections.collect::<Vec<_>>().join("\n\n")
}

/// The changelog with a section of `version` first, in the place of what is not released.
fn released(changelog: &str, version: &str, date: &str, commits: &str) -> Result<String> {
    ensure!(
        section(changelog, version).is_none(),
        "it has a section {version} already"
    );
    let by_hand = section(changelog, UNRELEASED).unwrap_or_default();
    let parts = [by_hand.as_str(), commits];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    ensure!(!parts.is_empty(), "nothing has changed that a user can notice");
    let mut sections = changelog.split("\n## ");
    let title = sections.next().unwrap_or_default().trim_end();
    let earlier = sections
        .filter(|section| !section.starts_with(UNRELEASED))
        .map(|section| format!("\n## {section}"));
    Ok(format!(
        "{title}\n\n## {version} - {date}\n\n{}\n{}",
        parts.join("\n\n"),
        earlier.collect::<String>()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_listed_by_what_they_touch_and_those_with_an_entry_are_not() {
        let log = "\x1eaaa1\x1fAnnotate in bursts\n\ncrates/ttl-controller/src/next.rs\ncrates/controller-core/src/lib.rs\n\
                   \x1eaaa2\x1fTell of bursts\n\ncrates/ttl-controller/CHANGELOG.md\ncrates/ttl-controller/src/lib.rs\n\
                   \x1eaaa3\x1fLet a value through\n\ncharts/ttl-controller/values.yaml\n\
                   \x1eaaa7\x1fLabel more\n\ncharts/src/templates/service.yaml\n\
                   \x1eaaa6\x1fTest more\n\ncrates/controller-core/src/leader/tests/mod.rs\ncrates/ttl-controller/src/tests.rs\n\
                   \x1eaaa4\x1fPing less\n\ncrates/controller-core/src/lib.rs\n\
                   \x1eaaa5\x1fWait less\n\ncrates/controller-core/src/lib.rs\n";
        let listed = |controller| listed(log, "crates/ttl-controller/CHANGELOG.md", &groups(controller));
        assert_eq!(
            listed("ttl-controller"),
            "### In the controller\n\n- Annotate in bursts (aaa1)\n\n\
             ### In the chart\n\n- Let a value through (aaa3)\n\n\
             ### In what all charts share\n\n- Label more (aaa7)\n\n\
             ### In what all controllers share\n\n- Ping less (aaa4)\n- Wait less (aaa5)"
        );
        // What they share is in no chart of its own.
        assert_eq!(listed(UMBRELLA), "");
    }

    #[test]
    fn the_section_has_what_was_written_by_hand_and_then_the_commits() {
        let old = "\n## 0.1.0 - 2026-11-01\n\n- Works.\n";
        let by_hand = "\n## Unreleased\n\n- By hand.\n";
        for (sections, commits, outcome) in [
            (by_hand, "", Ok("- By hand.\n")),
            (by_hand, "- C (a)", Ok("- By hand.\n\n- C (a)\n")),
            ("", "- C (a)", Ok("- C (a)\n")),
            ("\n## Unreleased\n", "- C (a)", Ok("- C (a)\n")),
            ("", "", Err("nothing has changed that a user can notice")),
            (
                "\n## 0.2.0\n\n- D.\n",
                "- C (a)",
                Err("it has a section 0.2.0 already"),
            ),
        ] {
            let text = format!("# Changelog\n{sections}{old}");
            let released = released(&text, "0.2.0", "2026-11-23", commits).map_err(|error| error.to_string());
            let wanted = outcome
                .map(|body| format!("# Changelog\n\n## 0.2.0 - 2026-11-23\n\n{body}{old}"))
                .map_err(str::to_owned);
            assert_eq!(released, wanted, "{sections:?} {commits:?}");
        }
    }

    #[test]
    fn commits_count_since_the_tag_or_since_the_changelog_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let run = |args: &[&str]| {
            let who = [
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@example.com",
                "-c",
                "commit.gpgsign=false",
            ];
            command::output(git(who).args(args).current_dir(root)).unwrap()
        };
        let commit = |file: &str, subject: &str| {
            let path = root.join("crates/ttl-controller").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("# Changelog\n\n## Unreleased\n\n- {subject}.\n")).unwrap();
            run(&["add", "."]);
            run(&["commit", "--quiet", "--message", subject]);
        };
        let notes = |version: &str| {
            let path = write(root, "ttl-controller", version, "2026-11-23").unwrap();
            let text = fs::read_to_string(path).unwrap();
            let notes = section(&text, version).unwrap();
            // Without the ids.
            notes
                .lines()
                .map(|line| line.split(" (").next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        run(&["init", "--quiet"]);
        commit("src/lib.rs", "Long ago");
        commit("CHANGELOG.md", "By hand");
        commit("src/lib.rs", "After that");
        commit("tests/a.rs", "In a test");
        assert_eq!(
            notes("0.1.0"),
            ["- By hand.", "", "### In the controller", "", "- After that"]
        );

        run(&["commit", "--quiet", "--all", "--message", "Release"]);
        run(&["tag", "ttl-controller-v0.1.0"]);
        commit("src/main.rs", "One");
        commit("CHANGELOG.md", "Two by hand");
        commit("src/lib.rs", "Three");
        assert_eq!(
            notes("0.2.0"),
            [
                "- Two by hand.",
                "",
                "### In the controller",
                "",
                "- Three",
                "- One"
            ]
        );
    }
}
