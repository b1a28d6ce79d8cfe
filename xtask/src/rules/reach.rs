//! Finds the functions that a test can reach, as far as names in the source tell.
//!
//! A test reaches the functions of its crate that it or its helpers name, the functions that these name, and so on. A
//! test that runs the whole loop also reaches what the loop calls: every method of a trait. This finds rows whose test
//! has nothing to do with the function; it does not find out whether the test would fail without it.
//!
//! It works on lines, as formatted by `cargo fmt`.

use std::collections::BTreeSet;

use super::Source;

/// Traits whose methods only the loop calls.
const OF_THE_LOOP: [&str; 3] = ["Controller", "App", "Watches"];
/// Names in tests that run the loop, apart from those in `tests/sync` and `tests/live`.
const LOOPS: [&str; 2] = ["Loop", "sim"];

/// A function in the source.
struct Function<'a> {
    name: &'a str,
    /// Type and trait of the `impl`.
    of: Option<(&'a str, Option<&'a str>)>,
    /// The file; for tests and helpers the unit that is compiled together.
    unit: String,
    is_test: bool,
    words: BTreeSet<&'a str>,
}

/// The functions of a crate, and its sources.
pub(super) struct Functions<'a>(Vec<Function<'a>>, &'a [Source]);

/// Everything that a test reaches.
pub(super) struct Reached<'a> {
    words: BTreeSet<&'a str>,
    /// Type and name.
    functions: BTreeSet<(Option<&'a str>, &'a str)>,
}

impl<'a> Functions<'a> {
    pub(super) fn of(sources: &'a [Source]) -> Self {
        Self(sources.iter().flat_map(functions).collect(), sources)
    }

    /// Everything that the test `name` in `file` reaches.
    pub(super) fn reached_by(&self, file: &str, name: &str) -> Reached<'a> {
        let unit = unit(file);
        let mut words = BTreeSet::new();
        let source = self.1.iter().find(|source| source.path == file);
        let modules = source.into_iter().flat_map(|source| source.text.lines());
        // Its modules, and others of its binary that it names.
        let modules = modules.filter_map(|line| {
            let named = |(_, rest): (&'a str, &'a str)| rest.split("::").next();
            let declared = || line.strip_prefix("mod ")?.strip_suffix(';');
            line.split_once("crate::").and_then(named).or_else(declared)
        });
        let modules: Vec<_> = modules.map(|name| format!("tests/{name}")).collect();
        let test = self.0.iter().filter(|test| {
            let is_helper = || {
                modules
                    .iter()
                    .any(|module| test.unit.strip_suffix(".rs").unwrap_or(&test.unit) == module)
            };
            test.is_test && (test.unit == unit || is_helper())
        });
        follow(test.collect(), &mut words, |test, words| {
            test.name == name || words.contains(test.name)
        });
        let runs_the_loop =
            ["tests/sync", "tests/live"].contains(&&*unit) || LOOPS.iter().any(|name| words.contains(name));
        let code = self.0.iter().filter(|code| !code.is_test).collect();
        let functions = follow(code, &mut words, |code, words| match code.of {
            Some((_, Some(_))) if runs_the_loop => true,
            Some((_, Some(of))) if OF_THE_LOOP.contains(&of) => false,
            _ => words.contains(code.name),
        });
        let functions = functions
            .into_iter()
            .map(|code| (code.of.map(|(of, _)| of), code.name));
        let functions = functions.collect();
        Reached { words, functions }
    }
}

impl Reached<'_> {
    /// True if `code` is reached: a function, a method as `Type::method`, or a type.
    pub(super) fn has(&self, code: &str) -> bool {
        let (of, name) = code
            .rsplit_once("::")
            .map_or((None, code), |(of, name)| (Some(of), name));
        let is_it = |(of_type, function): &(Option<&str>, &str)| {
            *function == name && (of.is_none() || *of_type == of) || of.is_none() && *of_type == Some(name)
        };
        self.functions.iter().any(is_it) || name.starts_with(char::is_uppercase) && self.words.contains(name)
    }
}

/// Collects the functions that `is_reached` accepts by the words of those before them; adds their words to `words`.
fn follow<'f, 'a>(
    mut functions: Vec<&'f Function<'a>>,
    words: &mut BTreeSet<&'a str>,
    is_reached: impl Fn(&Function<'a>, &BTreeSet<&'a str>) -> bool,
) -> Vec<&'f Function<'a>> {
    let mut reached = Vec::new();
    loop {
        let (new, others): (Vec<_>, Vec<_>) = functions.into_iter().partition(|one| is_reached(one, words));
        if new.is_empty() {
            return reached;
        }
        words.extend(new.iter().flat_map(|one| &one.words));
        reached.extend(new);
        functions = others;
    }
}

/// The unit in which the tests in `file` are compiled.
fn unit(file: &str) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or_default();
    let parts: Vec<_> = file.split('/').collect();
    match parts[..] {
        ["tests", folder, _, ..] => format!("tests/{folder}"),
        ["src", .., "tests", _] => folder.to_owned(),
        _ => name
            .strip_suffix("s.rs")
            .filter(|name| *name == "test")
            .map_or_else(|| file.to_owned(), |_| format!("{folder}/tests")),
    }
}

fn functions(source: &Source) -> Vec<Function<'_>> {
    let lines: Vec<_> = source.text.lines().collect();
    let (mut found, mut of) = (Vec::new(), None);
    let mut is_test = source.path.starts_with("tests/") || source.path.contains("/tests");
    for (at, line) in lines.iter().enumerate() {
        is_test |= *line == "mod tests {";
        let text = line.trim_start();
        let indent = &line[..line.len() - text.len()];
        let end = || {
            let is_end = |line: &&str| {
                line.strip_prefix(indent)
                    .is_some_and(|line| line.starts_with('}'))
            };
            let rest = lines[at..].iter().skip(1).position(is_end);
            at + rest.map_or(0, |rest| rest + 1)
        };
        if text.starts_with("impl") {
            of = Some((implemented(text), end()));
        }
        let Some(name) = function(text) else { continue };
        let is_one_line = text.ends_with('}') || text.ends_with(';');
        let end = if is_one_line { at } else { end() };
        let is_above = |line: &&&str| {
            !line.trim().is_empty() && !line.starts_with('}') && function(line.trim()).is_none()
        };
        let above = lines[..at].iter().rev().take_while(is_above).count();
        let body = lines[at - above..=end]
            .iter()
            .filter(|line| !line.trim_start().starts_with("//"));
        found.push(Function {
            name,
            of: of.filter(|(_, last)| at <= *last).and_then(|(of, _)| of),
            unit: if is_test {
                unit(&source.path)
            } else {
                source.path.clone()
            },
            is_test,
            words: body
                .flat_map(|line| words(line))
                .filter(|word| *word != name)
                .collect(),
        });
    }
    found
}

/// Name of a function that begins on this line.
fn function(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let mut before = before.split_whitespace();
    let is_definition =
        before.all(|word| ["async", "const", "unsafe"].contains(&word) || word.starts_with("pub"));
    words(after).next().filter(|_| is_definition)
}

/// Type and trait of an `impl`.
fn implemented(line: &str) -> Option<(&str, Option<&str>)> {
    let line = line.strip_prefix("impl")?;
    // After the generic parameters, if any.
    let mut depth = 0;
    let is_behind = |(at, c): (usize, char)| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        (depth == 0).then_some(at + 1)
    };
    let line = &line[line.char_indices().find_map(is_behind).unwrap_or(0)..];
    let (first, second) = line
        .split_once(" for ")
        .map_or((line, None), |(of, to)| (of, Some(to)));
    match second {
        Some(to) => Some((last(to)?, last(first))),
        None => Some((last(first)?, None)),
    }
}

fn words_of(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
}

fn last(path: &str) -> Option<&str> {
    words_of(path.split('<').next()?).next_back()
}

/// Words of the code on a line, outside of string literals.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').step_by(2).flat_map(words_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
pub fn judge(pod: &Pod) -> Verdict {
    match seen(pod) {
        _ => Verdict::of(\"nothing of plan\"),
    }
}

fn seen(pod: &Pod) -> u8 {
    0
}

pub fn plan() {}

impl<T: Into<u8>> Verdict<T> {
    fn of(
        text: &str,
    ) -> Self {
        // plan
        Self
    }
}

impl Controller for Verdict<u8> {
    fn next(&self) {
        plan()
    }
}
";

    fn reached(file: &'static str, tests: &str) -> Vec<&'static str> {
        let source = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let sources = [source("src/decide.rs", CODE), source(file, tests)];
        let reached = Functions::of(&sources).reached_by(file, "the_test");
        let all = [
            "judge",
            "seen",
            "Verdict::of",
            "Verdict",
            "plan",
            "Other::of",
            "next",
        ];
        all.into_iter().filter(|code| reached.has(code)).collect()
    }

    #[test]
    fn a_test_reaches_what_it_names_and_what_that_names() {
        let tests =
            "#[test]\nfn the_test() {\n    assert(judge(pod()));\n}\n\nfn other() {\n    plan();\n}\n";
        let expected = ["judge", "seen", "Verdict::of", "Verdict"];
        assert_eq!(reached("tests/table.rs", tests), expected);
        let by_a_helper = "fn helper() {\n    judge()\n}\n\n#[rstest]\n#[case::a(helper())]\nfn the_test(#[case] a: u8) {}\n";
        assert_eq!(reached("tests/table.rs", by_a_helper), expected);
        assert_eq!(
            reached("tests/table.rs", "fn the_test() {}\n"),
            Vec::<&str>::new()
        );
    }

    #[test]
    fn methods_of_a_controller_are_reached_by_its_loop_alone() {
        let by_an_iterator = "fn the_test() {\n    list.next();\n}\n";
        assert_eq!(reached("tests/table.rs", by_an_iterator), Vec::<&str>::new());
        let by_the_loop = "fn the_test() {\n    Loop::new();\n}\n";
        assert_eq!(
            reached("tests/table.rs", by_the_loop),
            ["Verdict", "plan", "next"]
        );
        assert_eq!(
            reached("tests/sync/order.rs", "fn the_test() {}\n"),
            ["Verdict", "plan", "next"]
        );
    }
}
