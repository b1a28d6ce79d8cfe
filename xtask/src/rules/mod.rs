//! `cargo xtask rules`: each rule of the specification has code and a test.
//!
//! A module lists the rules that it implements in a table at its top, with a row for each:
//!
//! ```text
//! //! | rule | code | tests |
//! //! |---|---|---|
//! //! | TTL-1 | `step` | `tests/decide_table.rs::more_nodes_than_the_step_allows_go_one_step_up` |
//! //! | TTL-6 | `first_step`, `Step::of` | `src/decide.rs::a_lone_value_counts`, `tests/sync.rs::a_restart` |
//! ```
//!
//! *code* names functions or types of the same crate; *tests* names functions by file, relative to the root of the
//! crate. Several modules may have rows of one rule. All names must exist. Every id of [`BOOKS`] must have a row,
//! except open ones, which must have none. Each test of a row must reach code of the row, and a test must reach each
//! code, as far as names tell ([`reach`]).

mod quotes;
mod reach;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command::root;
use crate::guide;

/// The rules that one crate implements.
struct Book {
    /// Folder in `crates/`.
    package: &'static str,
    /// Prefix of the ids.
    prefix: &'static str,
    /// The ids go from `prefix-1` to `prefix-last`.
    last: u32,
    /// Numbers of rules that another crate implements.
    elsewhere: &'static [u32],
    /// Numbers of rules without code and tests; the report lists them.
    open: &'static [u32],
}

impl Book {
    const fn new(package: &'static str, prefix: &'static str, last: u32) -> Self {
        Self {
            package,
            prefix,
            last,
            elsewhere: &[],
            open: &[],
        }
    }
}

const BOOKS: [Book; 2 + xtask::CONTROLLERS.len()] = [
    Book {
        elsewhere: &[3, 6, 7, 9, 10, 12, 13, 18],
        // CORE-16 is a size, which `cargo xtask bench ttl` checks.
        open: &[16],
        ..Book::new("controller-core", "CORE", 18)
    },
    Book {
        elsewhere: &[1, 2, 5, 16, 17],
        ..Book::new("controller-runtime", "CORE", 18)
    },
    Book::new("disruption-controller", "DIS", 20),
    Book::new("resourceclaim-controller", "RC", 17),
    Book::new("taint-eviction-controller", "TE", 20),
    Book::new("ttl-after-finished-controller", "TAF", 19),
    Book::new("ttl-controller", "TTL", 8),
];

/// Path of the report.
const REPORT: &str = "docs/rules.md";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if docs/rules.md is not what would be written
    #[arg(long)]
    pub(crate) check: bool,
}

/// A row of a module's table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    number: u32,
    /// Path of the module, relative to the root of the crate.
    module: String,
    code: Vec<String>,
    /// File and function.
    tests: Vec<(String, String)>,
}

/// A source file of a crate.
struct Source {
    /// Relative to the root of the crate.
    path: String,
    text: String,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut defects = guide::defects()?;
    defects.extend(quotes::defects()?);
    let mut report = String::from(
        "<!-- Written by `cargo xtask rules` from the tables at the top of the modules. -->\n\
         # Rules\n\n\
         Each rule of the specification, the code that holds it, and the tests that hold the code to it.\n",
    );
    for book in &BOOKS {
        let sources = sources(&root().join("crates").join(book.package))?;
        let rows = rows(book, &sources, &mut defects);
        write_book(&mut report, book, &rows, &sources)?;
    }
    if !defects.is_empty() {
        bail!(
            "the tables of rules, the guide, or the words have defects:\n  {}",
            defects.join("\n  ")
        );
    }
    let path = root().join(REPORT);
    if fs::read_to_string(&path).is_ok_and(|found| found == report) {
        println!("{REPORT} is up to date");
        return Ok(());
    }
    if args.check {
        bail!("{REPORT} is stale: run `cargo xtask rules`");
    }
    fs::create_dir_all(root().join("docs")).context("create docs/")?;
    fs::write(&path, report).with_context(|| format!("write {REPORT}"))?;
    println!("wrote {REPORT}");
    Ok(())
}

/// The Rust files in `src/` and `tests/` of the crate in `folder`, sorted by path.
fn sources(folder: &Path) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.join("src"), folder.join("tests")];
    folders.retain(|folder| folder.is_dir());
    while let Some(next) = folders.pop() {
        for entry in next
            .read_dir()
            .with_context(|| format!("list {}", next.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
                let path = path
                    .strip_prefix(folder)
                    .unwrap_or(&path)
                    .to_string_lossy()
                    .into_owned();
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// The rows of `book`, sorted by rule and module. Errors in them go to `defects`.
fn rows(book: &Book, sources: &[Source], defects: &mut Vec<String>) -> Vec<Row> {
    let mut rows = Vec::new();
    for source in sources {
        for line in source.text.lines() {
            match row(book, &source.path, line) {
                None => {}
                Some(Ok(row)) => rows.push(row),
                Some(Err(defect)) => defects.push(format!("{}/{}: {defect}", book.package, source.path)),
            }
        }
    }
    rows.sort();
    let functions = reach::Functions::of(sources);
    for row in &rows {
        let before = defects.len();
        let at = format!("{}/{}: {}-{}", book.package, row.module, book.prefix, row.number);
        for code in &row.code {
            if !sources.iter().any(|source| defines_code(&source.text, code)) {
                defects.push(format!("{at}: nothing named {code} in the crate"));
            }
        }
        for (file, test) in &row.tests {
            let found = sources.iter().find(|source| source.path == *file);
            if !found.is_some_and(|source| defines(&source.text, "fn", test)) {
                defects.push(format!("{at}: no test {test} in {file}"));
            }
        }
        if defects.len() > before {
            continue;
        }
        let tests = row.tests.iter();
        let reached: Vec<_> = tests
            .map(|(file, test)| functions.reached_by(file, test))
            .collect();
        for (reached, (_, test)) in reached.iter().zip(&row.tests) {
            if !row.code.iter().any(|code| reached.has(code)) {
                defects.push(format!("{at}: {test} does not reach {}", row.code.join(" or ")));
            }
        }
        for code in &row.code {
            if defects.len() == before && !reached.iter().any(|reached| reached.has(code)) {
                defects.push(format!("{at}: none of its tests reaches {code}"));
            }
        }
    }
    for number in 1..=book.last {
        let held = rows.iter().any(|row| row.number == number);
        let id = format!("{}-{number}", book.prefix);
        match (
            held,
            book.open.contains(&number) || book.elsewhere.contains(&number),
        ) {
            (false, false) => defects.push(format!("{}: no row for {id}", book.package)),
            (true, true) => defects.push(format!(
                "{}: {id} has a row: take it off `open` and `elsewhere` in xtask/src/rules/mod.rs",
                book.package
            )),
            _ => {}
        }
    }
    rows
}

/// The row on `line`, if it belongs to `book`.
fn row(book: &Book, module: &str, line: &str) -> Option<Result<Row, String>> {
    let line = line.strip_prefix("//! |")?.trim_end().trim_end_matches('|');
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let (id, cells) = cells.split_first()?;
    let number = id.strip_prefix(book.prefix)?.strip_prefix('-')?;
    Some(match number.parse() {
        Ok(number) if (1..=book.last).contains(&number) => parse_row(number, module, id, cells),
        _ => Err(format!("{id} is no rule")),
    })
}

fn parse_row(number: u32, module: &str, id: &str, cells: &[&str]) -> Result<Row, String> {
    let [code, tests] = cells else {
        return Err(format!("the row of {id} needs three cells: rule, code, tests"));
    };
    let code = names(code).ok_or_else(|| format!("the code of {id} must be `names` in backticks"))?;
    let tests = names(tests)
        .and_then(|tests| tests.iter().map(|test| file_and_function(test)).collect())
        .ok_or_else(|| format!("the tests of {id} must be `file::function` in backticks"))?;
    Ok(Row {
        number,
        module: module.to_owned(),
        code,
        tests,
    })
}

fn file_and_function(test: &str) -> Option<(String, String)> {
    let (file, function) = test.split_once("::")?;
    Some((file.to_owned(), function.to_owned()))
}

/// Names in a cell: `` `a`, `b` ``.
fn names(cell: &str) -> Option<Vec<String>> {
    cell.split(',')
        .map(|name| {
            let name = name.trim().strip_prefix('`')?.strip_suffix('`')?;
            (!name.is_empty()).then(|| name.to_owned())
        })
        .collect()
}

/// True if `text` defines the last part of the path `code` (`Step::of`) as a function or a type.
fn defines_code(text: &str, code: &str) -> bool {
    let name = code.rsplit("::").next().unwrap_or(code);
    ["fn", "struct", "enum", "trait"]
        .iter()
        .any(|keyword| defines(text, keyword, name))
}

fn defines(text: &str, keyword: &str, name: &str) -> bool {
    let definition = format!("{keyword} {name}");
    text.match_indices(&definition).any(|(at, _)| {
        let after = text[at + definition.len()..].chars().next();
        !after.is_some_and(|next| next.is_alphanumeric() || next == '_')
    })
}

fn write_book(report: &mut String, book: &Book, rows: &[Row], sources: &[Source]) -> Result<()> {
    let Book { package, prefix, .. } = book;
    let link = |name: &str, file: &str| format!("[`{name}`](../crates/{package}/{file})");
    writeln!(report, "\n## {package}\n")?;
    if !rows.is_empty() {
        writeln!(report, "| rule | code | tests |\n|---|---|---|")?;
    }
    for row in rows {
        let code = row.code.iter().map(|code| {
            let in_module = |source: &&Source| source.path == row.module && defines_code(&source.text, code);
            let elsewhere = || sources.iter().find(|source| defines_code(&source.text, code));
            let file = sources.iter().find(in_module).or_else(elsewhere);
            link(code, file.map_or(&row.module, |source| &source.path))
        });
        let code = code.collect::<Vec<_>>().join(", ");
        let tests = row.tests.iter().map(|(file, test)| link(test, file));
        let tests = tests.collect::<Vec<_>>().join(", ");
        writeln!(report, "| {prefix}-{} | {code} | {tests} |", row.number)?;
    }
    if !book.open.is_empty() {
        let open = book.open.iter().map(|number| format!("{prefix}-{number}"));
        let blank = if rows.is_empty() { "" } else { "\n" };
        writeln!(
            report,
            "{blank}Held by no test here: {}.",
            open.collect::<Vec<_>>().join(", ")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
