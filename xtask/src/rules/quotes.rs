//! Checks the documents' quotes of the source: tests by file and name, metrics, flags, and log lines.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{self, root};
use xtask::CONTROLLERS;

/// The table of log lines, which are quoted word by word.
const LOG: (&str, &str) = ("docs/operations.md", "## Log lines");
/// Prefixes of our metrics, in addition to those of the controllers.
const METRICS: [&str; 2] = ["controller_", "dynamic_resource_allocation_"];
/// Flags of programs that occur nowhere in this repository.
const OF_OTHERS: [&str; 1] = ["--kube-controller-manager-arg"];
/// Suffixes that Prometheus adds to the name of a histogram.
const OF_HISTOGRAMS: [&str; 3] = ["_bucket", "_count", "_sum"];
/// Minimum length, in bytes, of a quoted part of a log line; shorter parts would match anywhere.
const SHORTEST: usize = 4;

/// A file of the repository.
struct File {
    path: String,
    text: String,
}

struct Tree {
    /// Rust files, with multi-line texts joined.
    code: Vec<File>,
    documents: Vec<File>,
    /// Sources of flags: the helps of the controllers, and the table of kube-controller-manager's flags.
    flags: String,
}

pub(super) fn defects() -> Result<Vec<String>> {
    Ok(Tree::read()?.defects())
}

impl Tree {
    fn read() -> Result<Self> {
        let mut git = std::process::Command::new("git");
        let listed = command::output(
            git.args(["ls-files", "*.rs", "*.md", "*.snap"])
                .current_dir(root()),
        )?;
        let read = |path: &&str| -> Result<File> {
            let text = fs::read_to_string(root().join(path)).with_context(|| format!("read {path}"))?;
            let path = (*path).to_owned();
            Ok(File { path, text })
        };
        let exists = |path: &&str| root().join(path).is_file();
        let files: Vec<File> = listed
            .lines()
            .filter(exists)
            .map(|path| read(&path))
            .collect::<Result<_>>()?;
        let (mut code, mut documents, mut flags) = (Vec::new(), Vec::new(), String::new());
        for mut file in files {
            let is = |extension: &str| {
                Path::new(&file.path)
                    .extension()
                    .is_some_and(|found| found == extension)
            };
            if is("rs") {
                file.text = joined(&file.text);
                code.push(file);
            } else if is("md") {
                if file.path == "docs/flags.md" {
                    flags += &file.text;
                }
                documents.push(file);
            } else if file.path.ends_with("__the_help.snap") {
                flags += &file.text;
            }
        }
        Ok(Self {
            code,
            documents,
            flags,
        })
    }

    fn defects(&self) -> Vec<String> {
        let mut defects = Vec::new();
        for document in &self.documents {
            for (number, line) in document.text.lines().enumerate() {
                let missing = quoted(line).filter_map(|quote| self.missing(quote));
                defects.extend(missing.map(|what| format!("{}:{}: {what}", document.path, number + 1)));
            }
        }
        let (path, heading) = LOG;
        let log = self.documents.iter().find(|document| document.path == path);
        let table = log.and_then(|document| document.text.split_once(heading));
        let rows = table.map_or("", |(_, after)| after).lines();
        let rows = rows
            .take_while(|line| !line.starts_with("## "))
            .filter(|line| line.starts_with("| "));
        let lines: Vec<&str> = rows
            .filter_map(|row| row.split(" | ").nth(1))
            .flat_map(quoted)
            .collect();
        if lines.is_empty() {
            defects.push(format!("{path} has no table of log lines"));
        }
        for line in lines {
            if !self.writes(line) {
                defects.push(format!("{path}: nothing writes the log line `{line}`"));
            }
        }
        defects
    }

    /// What is missing in the source for a quote.
    fn missing(&self, quote: &str) -> Option<String> {
        if let Some((file, test)) = quote.split_once(".rs::") {
            let is_name = !test.is_empty() && test.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let there = self.has_test(&format!("{file}.rs"), test);
            return (is_name && !there).then(|| format!("there is no test `{quote}`"));
        }
        let name = quote.split(['{', ' ', '=']).next().unwrap_or_default();
        if let Some(flag) = name.strip_prefix("--") {
            let is_flag = flag.len() > 1 && flag.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            let there = self.has_flag(name);
            return (is_flag && !there).then(|| format!("no program has the flag `{name}`"));
        }
        let begins = |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty());
        let is_metric = (METRICS.into_iter().any(begins)
            || CONTROLLERS
                .iter()
                .any(|controller| begins(&(controller.replace('-', "_") + "_"))))
            && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        (is_metric && !self.has_metric(name)).then(|| format!("there is no metric `{name}`"))
    }

    fn has_test(&self, file: &str, test: &str) -> bool {
        let function = format!("fn {test}");
        let mut files = self.code.iter().filter(|code| ends_with(&code.path, file));
        files.any(|code| code.text.contains(&function))
    }

    fn has_flag(&self, flag: &str) -> bool {
        let words = |text: &str| {
            text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
                .any(|word| word == flag)
        };
        // Flags of other programs and of the tools are in the code that runs or declares them.
        let name = flag.trim_start_matches('-');
        let field = format!("{}:", name.replace('-', "_"));
        let quotes = [format!("\"{flag}\""), format!("\"{flag}="), format!("\"{name}\"")];
        OF_OTHERS.contains(&flag)
            || words(&self.flags)
            || self.code.iter().any(|code| {
                quotes.iter().any(|quote| code.text.contains(quote))
                    || code.path.starts_with("xtask/") && code.text.contains(&field)
            })
    }

    fn has_metric(&self, name: &str) -> bool {
        let name = OF_HISTOGRAMS
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        let name = format!("\"{name}");
        self.sources().any(|code| code.text.contains(&name))
    }

    /// True if each part of a quoted log line is in one source file.
    fn writes(&self, line: &str) -> bool {
        let parts: Vec<&str> = line
            .split('…')
            .map(str::trim)
            .filter(|part| part.len() >= SHORTEST)
            .collect();
        self.sources()
            .any(|code| parts.iter().all(|part| code.text.contains(part)))
    }

    fn sources(&self) -> impl Iterator<Item = &File> {
        self.code
            .iter()
            .filter(|code| code.path.starts_with("crates/") && code.path.contains("/src/"))
    }
}

/// Texts between back quotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// True if the last parts of `path` equal `end`.
fn ends_with(path: &str, end: &str) -> bool {
    PathBuf::from(path).ends_with(end)
}

/// Joins Rust texts that continue after a `\` at the end of a line.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |joined, part| joined + part.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: joined(text),
        }
    }

    fn tree(document: &str) -> Tree {
        Tree {
            code: vec![
                file(
                    "crates/toy/src/main.rs",
                    "warn!(\"a lamp that \\\n     shines {for_long} is put out\"); opts(\"ttl_controller_nodes\")",
                ),
                file("crates/toy/tests/sync/lamps.rs", "fn a_lamp_shines() {}"),
            ],
            documents: vec![
                file(
                    "docs/operations.md",
                    "## Log lines\n| warn | `a lamp that shines … is put out` | |\n",
                ),
                file("docs/other.md", document),
            ],
            flags: "--shine-for <SECONDS>".to_owned(),
        }
    }

    #[test]
    fn what_is_quoted_must_be_there() {
        for (document, missing) in [
            (
                "`sync/lamps.rs::a_lamp_shines`, `toy/tests/sync/lamps.rs::a_lamp_shines`",
                None,
            ),
            (
                "`lamps.rs::a_lamp_sings`",
                Some("there is no test `lamps.rs::a_lamp_sings`"),
            ),
            (
                "`amps.rs::a_lamp_shines`",
                Some("there is no test `amps.rs::a_lamp_shines`"),
            ),
            (
                "`ttl_controller_nodes{x}`, `ttl_controller_nodes_sum`, `ttl_controller`",
                None,
            ),
            (
                "`ttl_controller_lamps`",
                Some("there is no metric `ttl_controller_lamps`"),
            ),
            ("`--shine-for=3`, `-n`", None),
            ("`--shine`", Some("no program has the flag `--shine`")),
        ] {
            let expected: Vec<String> = missing
                .iter()
                .map(|what| format!("docs/other.md:1: {what}"))
                .collect();
            assert_eq!(tree(document).defects(), expected, "{document}");
        }
    }

    #[test]
    fn a_log_line_that_nothing_writes_is_found() {
        let mut tree = tree("");
        tree.documents[0].text = "## Log lines\n| warn | `a lamp that sings … is put out` | |\n".to_owned();
        let expected = "docs/operations.md: nothing writes the log line `a lamp that sings … is put out`";
        assert_eq!(tree.defects(), [expected]);
    }
}
