use super::*;

/// The rules of a controller without a book would never be checked.
#[test]
fn every_controller_has_a_book() {
    let [core, runtime, controllers @ ..] = BOOKS.map(|book| book.package);
    assert_eq!([core, runtime], ["controller-core", "controller-runtime"]);
    assert_eq!(controllers, xtask::CONTROLLERS);
}

const BOOK: Book = Book::new("ttl-controller", "TTL", 2);

fn source(path: &str, text: &str) -> Source {
    Source {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

fn defects(book: &Book, table: &str) -> Vec<String> {
    let sources = [
        source(
            "src/decide.rs",
            &format!("{table}\nfn step() {{}}\nstruct Step<'a>(&'a str);\n"),
        ),
        source(
            "tests/table.rs",
            "fn goes_up() {\n    step(Step)\n}\n\nfn stays_where_it_is() { step() }\n",
        ),
    ];
    let mut defects = Vec::new();
    rows(book, &sources, &mut defects);
    defects
}

#[test]
fn rules_with_code_and_tests_have_no_defects() {
    let table = "//! | rule | code | tests |\n\
                 //! |---|---|---|\n\
                 //! | TTL-1 | `step` | `tests/table.rs::goes_up`, `tests/table.rs::stays_where_it_is` |\n\
                 //! | TTL-2 | `decide::Step`, `step` | `tests/table.rs::goes_up` |\n\
                 //! | [`decide`] | the rules | TTL-1 |";
    assert_eq!(defects(&BOOK, table), Vec::<String>::new());
}

#[test]
fn what_is_named_must_be_there_by_its_whole_name() {
    let table = "//! | TTL-1 | `ste` | `tests/table.rs::goes` |\n\
                 //! | TTL-2 | `step` | `tests/other.rs::goes_up` |";
    assert_eq!(
        defects(&BOOK, table),
        [
            "ttl-controller/src/decide.rs: TTL-1: nothing named ste in the crate",
            "ttl-controller/src/decide.rs: TTL-1: no test goes in tests/table.rs",
            "ttl-controller/src/decide.rs: TTL-2: no test goes_up in tests/other.rs",
        ]
    );
}

#[test]
fn a_test_must_reach_code_of_its_row_and_all_code_be_reached() {
    let sources = |tests: &str| {
        let table = "//! | TTL-1 | `step`, `plan` | `tests/table.rs::goes_up` |\n\
                     //! | TTL-2 | `step` | `tests/table.rs::goes_up` |";
        [
            source(
                "src/decide.rs",
                &format!("{table}\nfn step() {{}}\nfn plan() {{}}\n"),
            ),
            source("tests/table.rs", tests),
        ]
    };
    let defects = |tests: &str| {
        let mut defects = Vec::new();
        rows(&BOOK, &sources(tests), &mut defects);
        defects
    };
    assert_eq!(defects("fn goes_up() { plan(step()) }\n"), Vec::<String>::new());
    assert_eq!(
        defects("fn goes_up() { step() }\n"),
        ["ttl-controller/src/decide.rs: TTL-1: none of its tests reaches plan"]
    );
    assert_eq!(
        defects("fn goes_up() { plan() }\n"),
        [
            "ttl-controller/src/decide.rs: TTL-1: none of its tests reaches step",
            "ttl-controller/src/decide.rs: TTL-2: goes_up does not reach step",
        ]
    );
}

#[test]
fn a_row_in_another_form_is_named() {
    let table = "//! | TTL-1 | `step` |\n\
                 //! | TTL-2 | step | `tests/table.rs::goes_up` |\n\
                 //! | TTL-2 | `step` | `goes_up` |\n\
                 //! | TTL-3 | `step` | `tests/table.rs::goes_up` |";
    assert_eq!(
        defects(&BOOK, table)[..4],
        [
            "ttl-controller/src/decide.rs: the row of TTL-1 needs three cells: rule, code, tests",
            "ttl-controller/src/decide.rs: the code of TTL-2 must be `names` in backticks",
            "ttl-controller/src/decide.rs: the tests of TTL-2 must be `file::function` in backticks",
            "ttl-controller/src/decide.rs: TTL-3 is no rule",
        ]
    );
}

#[test]
fn every_rule_is_either_held_or_open() {
    let book = Book { open: &[1], ..BOOK };
    let table = "//! | TTL-1 | `step` | `tests/table.rs::goes_up` |";
    assert_eq!(
        defects(&book, table),
        [
            "ttl-controller: TTL-1 has a row: take it off `open` and `elsewhere` in xtask/src/rules/mod.rs",
            "ttl-controller: no row for TTL-2",
        ]
    );
}

#[test]
fn the_report_links_code_and_tests() {
    let book = Book { open: &[2], ..BOOK };
    let sources = [
        source(
            "src/decide.rs",
            "//! | TTL-1 | `step` | `tests/table.rs::goes_up` |",
        ),
        source("src/step.rs", "fn step() {}"),
        source("tests/table.rs", "fn goes_up() { step() }"),
    ];
    let mut defects = Vec::new();
    let rows = rows(&book, &sources, &mut defects);
    let mut report = String::new();
    write_book(&mut report, &book, &rows, &sources).unwrap();
    assert_eq!(
        report,
        "\n## ttl-controller\n\n\
         | rule | code | tests |\n|---|---|---|\n\
         | TTL-1 | [`step`](../crates/ttl-controller/src/step.rs) \
         | [`goes_up`](../crates/ttl-controller/tests/table.rs) |\n\
         \nHeld by no test here: TTL-2.\n"
    );
    assert_eq!(defects, Vec::<String>::new());
}
