//! The embedded server is built in layers: no file uses one of a layer above it, and no two use each other.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files and folders of `src/`, the lowest first, as the table at its head has them.
fn order(head: &str) -> Vec<&str> {
    let rows = head.lines().filter_map(|line| line.strip_prefix("//! | "));
    rows.skip(1)
        .filter_map(|row| row.split_once(" | ")?.1.strip_suffix(" |"))
        .flat_map(|files| files.split(", ").map(|file| file.trim_matches('`')))
        .collect()
}

/// What of the embedded server a text names, in `use` and in paths.
fn named<'a>(text: &'a str, prefix: &str) -> impl Iterator<Item = &'a str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(prefix) {
        let rest = &text[at + prefix.len()..];
        let names = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or_default(),
            None => rest,
        };
        let end = |name: &'a str| name.split(|c: char| !c.is_alphanumeric() && c != '_').next();
        let count = if rest.starts_with('{') { usize::MAX } else { 1 };
        found.extend(names.split(", ").take(count).filter_map(end));
    }
    found.into_iter()
}

fn files_below(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = path.read_dir().unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|entry| files_below(&entry)).collect()
}

#[test]
fn no_file_uses_one_that_stands_after_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let head = fs::read_to_string(src.join("lib.rs")).unwrap();
    let order = order(&head);
    let declared: BTreeSet<&str> = named(&head, "\nmod ").chain(named(&head, "\npub mod ")).collect();
    assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), declared);
    let place = |name: &str| order.iter().position(|other| *other == name);
    let mut upwards = Vec::new();
    for (own, name) in order.iter().enumerate() {
        let file = src.join(format!("{name}.rs"));
        let folder = src.join(name);
        let (path, prefixes): (_, &[&str]) = if file.is_file() {
            (file, &["super::", "crate::"])
        } else {
            (folder, &["crate::"])
        };
        for file in files_below(&path) {
            let text = fs::read_to_string(&file).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap();
            for prefix in prefixes {
                let above = named(text, prefix).filter(|used| place(used).is_some_and(|used| used > own));
                upwards.extend(above.map(|used| format!("{name} uses {used}")));
            }
        }
    }
    assert_eq!(upwards, [""; 0]);
}
