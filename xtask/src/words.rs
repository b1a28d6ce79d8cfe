//! Words that do not come back, in code, comments and documents, with what is said instead.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::command::{self, root};

/// The word, in lower case, and what is said instead. An identifier counts word by word.
const WORDS: [(&str, &str); 16] = [
    ("advice", "retry policy"),
    ("agenda", "queue"),
    ("condemned", "to be evicted"),
    ("condemns", "evicts"),
    ("deed", "write, action"),
    ("deeds", "writes, actions"),
    ("fell behind", "is late"),
    ("lane", "shard"),
    ("lanes", "shards"),
    ("outbox", "mutation cache"),
    ("rights", "permissions"),
    ("says again", "repeats"),
    ("spared", "kept"),
    ("unshown", "pending"),
    ("upholds", "keeps"),
    ("whereby", "by which"),
];

/// What is read. Changelogs tell what was, and this file names the words.
const ENDINGS: [&str; 6] = ["rs", "md", "yaml", "tpl", "txt", "toml"];

/// Where such a word is, one line each.
pub(crate) fn defects() -> Result<Vec<String>> {
    let listed = command::output(&mut command::git(["ls-files"]))?;
    let mut defects = Vec::new();
    for file in listed.lines().filter(|file| is_read(file)) {
        let text = fs::read_to_string(root().join(file)).with_context(|| format!("read {file}"))?;
        let found = find(&text);
        defects.extend(found.map(|(line, word, instead)| format!("{file}:{line}: {word:?}: say {instead}")));
    }
    Ok(defects)
}

fn is_read(file: &str) -> bool {
    let path = Path::new(file);
    let is_text = path
        .extension()
        .is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
    is_text && !file.ends_with("CHANGELOG.md") && file != "xtask/src/words.rs"
}

/// Each line, counted from 1, with each such word in it.
fn find(text: &str) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let lines = text.lines().enumerate();
    lines.flat_map(|(number, line)| {
        let line = format!(" {} ", words(line));
        let found = WORDS
            .into_iter()
            .filter(move |(word, _)| line.contains(&format!(" {word} ")));
        found.map(move |(word, instead)| (number + 1, word, instead))
    })
}

/// The words of `line` in lower case, a space between two; `someName` and `some_name` have two.
fn words(line: &str) -> String {
    let mut words = String::new();
    let mut was_lower = false;
    for letter in line.chars() {
        if letter.is_uppercase() && was_lower {
            words.push(' ');
        }
        was_lower = letter.is_lowercase();
        if letter.is_alphanumeric() {
            words.extend(letter.to_lowercase());
        } else if !words.ends_with(' ') {
            words.push(' ');
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_in_prose_and_in_names() {
        let found: Vec<_> = find("fine\n/// The rights of it.\nlet someDeed = an_outbox;\n").collect();
        assert_eq!(
            found,
            [
                (2, "rights", "permissions"),
                (3, "deed", "write, action"),
                (3, "outbox", "mutation cache")
            ]
        );
        assert_eq!(find("it is right, indeed: copyrights, Spare\n").count(), 0);
    }

    #[test]
    fn changelogs_and_pictures_are_not_read() {
        assert!(is_read("docs/rules.md") && is_read("charts/x/templates/_helpers.tpl"));
        assert!(!is_read("crates/x/CHANGELOG.md") && !is_read("docs/images/dashboard.svg"));
    }
}
