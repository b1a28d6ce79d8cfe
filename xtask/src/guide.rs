//! Checks that the code in CONTRIBUTING.md is code that is compiled and tested.

use std::fs;

use anyhow::{Context, Result};

use crate::command::root;

const GUIDE: &str = "CONTRIBUTING.md";
/// Source of the pieces of code.
const EXAMPLE: &str = "crates/controller-core/examples/dimmer.rs";
/// Maximum lines of code for a newcomer to read.
const MOST_LINES: usize = 80;

/// Errors in the pieces, one line each.
pub(crate) fn defects() -> Result<Vec<String>> {
    let read = |file: &str| fs::read_to_string(root().join(file)).with_context(|| format!("read {file}"));
    Ok(compare(&read(GUIDE)?, &read(EXAMPLE)?))
}

fn compare(guide: &str, example: &str) -> Vec<String> {
    let lines = |text: &str| {
        text.lines()
            .map(|line| line.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let example = lines(example);
    let blocks = guide.split("```rust\n").skip(1);
    let pieces: Vec<_> = blocks
        .map(|rest| lines(rest.split("```").next().unwrap_or_default()))
        .collect();
    let is_in_example =
        |piece: &&Vec<String>| example.windows(piece.len().max(1)).any(|found| found == **piece);
    let strangers = pieces.iter().filter(|piece| !is_in_example(piece));
    let mut defects: Vec<_> = strangers
        .map(|piece| {
            let first = piece.first().map_or("", String::as_str);
            format!("{GUIDE}: not in {EXAMPLE}: the piece that begins with `{first}`")
        })
        .collect();
    match pieces.iter().map(Vec::len).sum() {
        0 => defects.push(format!("{GUIDE} shows nothing of {EXAMPLE}")),
        1..=MOST_LINES => {}
        count => defects.push(format!(
            "{GUIDE} shows {count} lines of code: {MOST_LINES} are enough"
        )),
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
        assert_eq!(compare(guide, CODE), Vec::<String>::new());
    }

    #[test]
    fn what_differs_is_named() {
        for piece in ["two();\none();", "one();\nthree();", "fn a"] {
            let guide = format!("```rust\n{piece}\n```\n");
            let first = piece.lines().next().unwrap();
            assert_eq!(
                compare(&guide, CODE),
                [format!(
                    "CONTRIBUTING.md: not in {EXAMPLE}: the piece that begins with `{first}`"
                )]
            );
        }
    }

    #[test]
    fn a_guide_without_code_and_one_with_too_much_is_named() {
        assert_eq!(compare("Text.", CODE).len(), 1);
        let long = format!("```rust\n{}```\n", "x();\n".repeat(81));
        assert_eq!(compare(&long, &"x();\n".repeat(81)).len(), 1);
    }
}
