//! Checks that the code in documents is code that is compiled and tested.

use std::fs;

use anyhow::{Context, Result};

use crate::command::root;

const DIMMER: &str = "crates/controller-core/examples/dimmer.rs";
/// Documents that show code, and the sources of their pieces.
const DOCUMENTS: [(&str, &[&str]); 5] = [
    (GUIDE, &[DIMMER]),
    ("README.md", &[DIMMER]),
    (
        "docs/architecture.md",
        &[
            DIMMER,
            "crates/embedded-apiserver/examples/operator.rs",
            "crates/controller-core/tests/mutations/cases.rs",
        ],
    ),
    ("crates/controller-core/src/lib.rs", &[DIMMER]),
    ("crates/demo/README.md", &["crates/demo/src/scenes/ttl.rs"]),
];
const GUIDE: &str = "CONTRIBUTING.md";
/// Maximum lines of code in the guide for a newcomer to read.
const MOST_LINES: usize = 80;

/// Errors in the pieces, one line each.
pub(crate) fn defects() -> Result<Vec<String>> {
    let read = |file: &str| fs::read_to_string(root().join(file)).with_context(|| format!("read {file}"));
    let mut defects = Vec::new();
    for (document, sources) in DOCUMENTS {
        let sources: Vec<_> = sources.iter().map(|source| read(source)).collect::<Result<_>>()?;
        defects.extend(compare(document, &read(document)?, &sources));
    }
    Ok(defects)
}

fn compare(document: &str, text: &str, sources: &[String]) -> Vec<String> {
    let lines = |text: &str| {
        let lines = text.lines().map(|line| line.trim_start_matches("//!").trim());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let sources: Vec<_> = sources.iter().map(|source| lines(source)).collect();
    let blocks = text.split("```rust").skip(1);
    let pieces: Vec<_> = blocks
        .filter_map(|rest| rest.split("```").next()?.split_once('\n'))
        .map(|(_, code)| lines(code.trim_end_matches(['/', '!', ' '])))
        .collect();
    let is_in_source = |piece: &&Vec<String>| {
        let mut windows = sources
            .iter()
            .flat_map(|source| source.windows(piece.len().max(1)));
        windows.any(|found| found == **piece)
    };
    let strangers = pieces.iter().filter(|piece| !is_in_source(piece));
    let mut defects: Vec<_> = strangers
        .map(|piece| {
            let first = piece.first().map_or("", String::as_str);
            format!("{document}: not in its sources: the piece that begins with `{first}`")
        })
        .collect();
    match pieces.iter().map(Vec::len).sum() {
        0 => defects.push(format!("{document} shows no code")),
        count if count > MOST_LINES && document == GUIDE => defects.push(format!(
            "{document} shows {count} lines of code: {MOST_LINES} are enough"
        )),
        _ => {}
    }
    defects
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "fn a() {\n    one();\n    two();\n}\n";

    #[test]
    fn whole_lines_of_the_example_in_their_order_are_right() {
        let guide = "Text.\n```sh\nls\n```\n```rust\none();\ntwo();\n```\nMore.\n```rust\nfn a() {\n```\n";
        assert_eq!(compare(GUIDE, guide, &[CODE.to_owned()]), Vec::<String>::new());
    }

    #[test]
    fn the_first_page_of_a_crate_is_read_without_its_slashes() {
        let page = "//! Text.\n//!\n//! ```rust,ignore\n//! one();\n//! two();\n//! ```\n";
        assert_eq!(compare("lib.rs", page, &[CODE.to_owned()]), Vec::<String>::new());
    }

    #[test]
    fn what_differs_is_named() {
        for piece in ["two();\none();", "one();\nthree();", "fn a"] {
            let guide = format!("```rust\n{piece}\n```\n");
            let first = piece.lines().next().unwrap();
            assert_eq!(
                compare("README.md", &guide, &[CODE.to_owned()]),
                [format!(
                    "README.md: not in its sources: the piece that begins with `{first}`"
                )]
            );
        }
    }

    #[test]
    fn a_guide_without_code_and_one_with_too_much_is_named() {
        assert_eq!(compare(GUIDE, "Text.", &[CODE.to_owned()]).len(), 1);
        let long = format!("```rust\n{}```\n", "x();\n".repeat(81));
        let source = ["x();\n".repeat(81)];
        assert_eq!(compare(GUIDE, &long, &source).len(), 1);
        assert_eq!(compare("README.md", &long, &source).len(), 0);
    }
}
