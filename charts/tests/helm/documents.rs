//! The commands in the documents, as a reader finds them.
//!
//! A Markdown file has them in `sh` blocks, one a line; the notes of a chart have them indented. Text between backticks
//! in prose counts as well if it begins with the name of a program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use controller_core::version::supported_kubernetes;
use local_control_plane::Assets;

use crate::process::binary;
use crate::support::{CHARTS, root, said};

/// Languages that a block may have. Commands are in blocks of the first language.
const LANGUAGES: [&str; 6] = ["sh", "rust", "text", "yaml", "json", "toml"];
/// First words of commands in prose, in addition to the names of the controllers.
const PROGRAMS: [&str; 14] = [
    "cargo", "cosign", "crane", "curl", "docker", "gh", "git", "grep", "helm", "kind", "kubectl", "oras",
    "sed", "sudo",
];

/// A command and its place in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) file: String,
    /// Line in the file, from 1.
    pub(crate) line: usize,
    /// Without a trailing remark; continued lines are joined.
    pub(crate) command: String,
}

/// Every Markdown file, relative to the root of the workspace. Leaves out changelogs, whose commands nobody types.
pub(crate) fn markdown() -> Vec<String> {
    let mut list = Command::new("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(root());
    let listed = said(list.output().unwrap());
    let files = listed.lines().filter(|file| !file.ends_with("CHANGELOG.md"));
    files.map(str::to_owned).collect()
}

/// Commands in the blocks of `file`.
pub(crate) fn blocks(file: &str) -> Vec<Shown> {
    let text = read(file);
    shown(file, in_blocks_of(LANGUAGES[0], &text))
}

/// Blocks of a Markdown text in this language, each with the line of its beginning.
pub(crate) fn in_blocks_of<'a>(language: &str, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let blocks = in_blocks(text).filter(move |(_, of, _)| *of == language);
    blocks.map(|(line, _, text)| (line, text))
}

/// Commands in the prose of `file`.
pub(crate) fn inline(file: &str) -> Vec<Shown> {
    let text = read(file);
    let prose = without_blocks(&text);
    let mut found = Vec::new();
    let mut line = 1;
    for (number, piece) in prose.split('`').enumerate() {
        let begins = command_words(piece).next().is_some_and(is_program);
        if number % 2 == 1 && begins && piece.contains(' ') {
            found.push(Shown {
                file: file.to_owned(),
                line,
                // Tables escape the bar, which would end the cell.
                command: piece.replace('\n', " ").replace("\\|", "|"),
            });
        }
        line += piece.matches('\n').count();
    }
    found
}

/// Commands in the notes of a release, which Helm prints last.
pub(crate) fn in_notes(printed: &str) -> Vec<String> {
    let notes = printed.rsplit("NOTES:\n").next().unwrap_or_default();
    let commands = notes.lines().filter_map(|line| line.strip_prefix("  "));
    commands.map(str::to_owned).collect()
}

/// The words of a command, without leading assignments and `sudo`.
pub(crate) fn command_words(command: &str) -> impl Iterator<Item = &str> {
    let names_a_value = |word: &str| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let words = command.split_whitespace();
    words.skip_while(move |word| names_a_value(word) || *word == "sudo")
}

fn is_program(word: &str) -> bool {
    PROGRAMS.contains(&word) || CHARTS.contains(&word)
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Blocks of a Markdown text: number of the first line within, language, content.
fn in_blocks(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let fence = rest + text[rest..].find("```")?;
        let (language, _) = text[fence + 3..].split_once('\n')?;
        let start = fence + 3 + language.len() + 1;
        let end = start + text[start..].find("```")?;
        rest = end + 3;
        let line = text[..start].matches('\n').count() + 1;
        Some((line, language.trim(), &text[start..end]))
    })
}

/// The text with its blocks blanked, so that each line keeps its number.
fn without_blocks(text: &str) -> String {
    let mut prose = text.to_owned();
    for (_, _, block) in in_blocks(text) {
        prose = prose.replacen(block, &"\n".repeat(block.matches('\n').count()), 1);
    }
    prose
}

fn shown<'a>(file: &str, blocks: impl Iterator<Item = (usize, &'a str)>) -> Vec<Shown> {
    let mut found = Vec::new();
    for (first, block) in blocks {
        let mut command = String::new();
        for (number, line) in block.lines().enumerate() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            command += line.trim_end_matches('\\');
            if !line.ends_with('\\') && !command.is_empty() {
                found.push(Shown {
                    file: file.to_owned(),
                    line: first + number,
                    command: std::mem::take(&mut command),
                });
            }
        }
    }
    found
}

#[test]
fn commands_are_found_in_blocks_and_in_texts() {
    let text = "Do `cargo xtask\ntest`, not `cargo` or `C --version`.\n\n```sh\nhelm a   # b\n```\n\n   ```sh\n   git c \\\n     -d\n   ```\n\
                ```text\n$ no command\n```\n";
    let found = shown("f", in_blocks_of("sh", text));
    let found: Vec<_> = found.iter().map(|shown| (shown.line, &*shown.command)).collect();
    assert_eq!(found, [(5, "helm a"), (10, "git c -d")]);
    assert_eq!(
        command_words("A=https://b sudo cargo test -- c=d").next(),
        Some("cargo")
    );
    assert_eq!(command_words("C=ttl-controller").next(), None);
    assert_eq!(in_notes("  no: command\nNOTES:\nText:\n\n  curl a\n"), ["curl a"]);
}

#[test]
fn every_block_says_what_it_is_in() {
    for file in markdown() {
        for (line, language, _) in in_blocks(&read(&file)) {
            assert!(
                LANGUAGES.contains(&language),
                "{file}:{line}: a block in {language:?}"
            );
        }
    }
}

/// kubeadm switches on `bootstrapsigner` and `tokencleaner`, which `*` alone leaves out.
#[test]
fn nobody_is_told_to_replace_what_controllers_says() {
    let mut grep = Command::new("git");
    // In two pieces, so that this file does not match.
    grep.args([
        "grep",
        "--line-number",
        "--fixed-strings",
        concat!("controllers=*", ",-"),
    ])
    .current_dir(root());
    let output = grep.output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "",
        "append to what stands there"
    );
    assert_eq!(output.status.code(), Some(1));
}

/// Turns a heading into its anchor.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    let prose = without_blocks(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

#[test]
fn every_link_between_documents_leads_to_a_file_and_a_heading() {
    let mut followed = 0;
    for file in markdown() {
        let folder = Path::new(&file).parent().unwrap();
        for rest in without_blocks(&read(&file)).split("](").skip(1) {
            let link = rest.split(')').next().unwrap();
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => root().join(&file),
                path => root().join(folder).join(path),
            };
            assert!(target.exists(), "{file}: {link}: there is no such file");
            if !heading.is_empty() {
                let there = anchors(&fs::read_to_string(target).unwrap());
                assert!(
                    there.contains(heading),
                    "{file}: {link}: there is no such heading"
                );
            }
            followed += 1;
        }
    }
    assert!(followed > 100, "only {followed} are found");
    assert_eq!(
        anchors("# A\n```sh\n# no\n```\n## 2. Switch `it` off\n"),
        ["2-switch-it-off", "a"].map(str::to_owned).into()
    );
}

#[test]
fn the_documents_name_the_versions_that_the_programs_name() {
    for file in ["README.md", "docs/versions.md"] {
        assert!(read(file).contains(&supported_kubernetes()), "{file}");
    }
}

/// Sections of `kube-controller-manager --help` whose flags do not belong to one other loop.
const SECTIONS: [&str; 13] = [
    "Debugging",
    "Leader-migration",
    "Generic",
    "Secure serving",
    "Authentication",
    "Authorization",
    "Disruption-controller",
    "Resourceclaim-controller",
    "Ttl-after-finished-controller",
    "Metrics",
    "Logs",
    "Misc",
    "Global",
];

#[test]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
fn the_table_of_flags_has_those_of_kube_controller_manager_and_what_there_is_here() {
    let manager = Assets::find().unwrap().dir().join("kube-controller-manager");
    let mut theirs = BTreeSet::new();
    let mut counts = false;
    for line in help_of(&manager).lines() {
        if let Some(section) = line.strip_suffix(" flags:") {
            counts = SECTIONS.contains(&section);
        } else if counts && line.trim_start().starts_with('-') {
            theirs.extend(flags(line).into_iter().take(1));
        }
    }
    let ours: BTreeSet<String> = CHARTS
        .iter()
        .flat_map(|name| flags(&help_of(&binary(name))))
        .collect();

    let text = read("docs/flags.md");
    let rows = text.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let mut cells = line.split(" | ");
        (cells.next().unwrap(), cells.next().unwrap_or_default())
    });
    let (left, right): (Vec<_>, Vec<_>) = rows.unzip();
    let documented: BTreeSet<String> = left.iter().flat_map(|cell| flags(cell)).collect();
    assert_eq!(documented, theirs);
    for flag in right.iter().flat_map(|cell| flags(cell)) {
        assert!(ours.contains(&flag), "docs/flags.md: no controller has {flag}");
    }
}

fn help_of(program: &Path) -> String {
    said(Command::new(program).arg("--help").output().unwrap())
}

/// All flags (`--name`) in a text.
fn flags(text: &str) -> Vec<String> {
    let ends = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    let words = text
        .split(ends)
        .filter(|word| word.starts_with("--") && word.len() > 2);
    words.map(str::to_owned).collect()
}

/// Each kind of file that names dependencies has something that looks for updates.
#[test]
fn every_dependency_is_looked_after() {
    let config: serde_json::Value = serde_saphyr::from_str(&read(".github/dependabot.yml")).unwrap();
    let watched = config["updates"].as_array().unwrap().iter().map(|update| {
        let text = |key: &str| update[key].as_str().unwrap().to_owned();
        (text("package-ecosystem"), text("directory"))
    });
    let watched: BTreeSet<_> = watched.collect();
    let mut list = Command::new("git");
    let listed = said(list.arg("ls-files").current_dir(root()).output().unwrap());
    let mut there = BTreeSet::new();
    for file in listed.lines() {
        let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
        let ecosystem = match name {
            "Cargo.lock" => "cargo",
            "rust-toolchain.toml" => "rust-toolchain",
            "go.mod" => "gomod",
            "Dockerfile" => "docker",
            "package.json" | "requirements.txt" => panic!("{file}: nobody looks after it"),
            _ if folder == ".github/workflows" => "github-actions",
            _ => continue,
        };
        let folder = if ecosystem == "github-actions" { "" } else { folder };
        there.insert((ecosystem.to_owned(), format!("/{folder}")));
    }
    assert_eq!(watched, there);
}
