//! Label and field selectors.

use std::collections::BTreeMap;

use serde_json::Value;

use super::failure::StatusError;
use super::resource::Resource;

/// A parsed label selector; an empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

#[derive(Clone, Debug, PartialEq)]
struct LabelRequirement {
    key: String,
    test: LabelTest,
}

#[derive(Clone, Debug, PartialEq)]
enum LabelTest {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// A parsed field selector; an empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq)]
struct FieldTerm {
    path: String,
    absent: &'static str,
    value: String,
    equal: bool,
}

impl LabelSelector {
    /// Parses e.g. `a=b,c in (d,e),!f`; error messages are those of apimachinery.
    pub(super) fn parse(text: &str) -> Result<Self, StatusError> {
        let mut parser = Parser { rest: text };
        let mut requirements = Vec::new();
        loop {
            match parser.peek() {
                "" => break,
                token if token == "!" || is_word(token) => {
                    let requirement = parser.requirement().map_err(|message| {
                        StatusError::bad_request(format!("unable to parse requirement: {message}"))
                    })?;
                    requirements.push(requirement);
                    match parser.next() {
                        "" => break,
                        "," if parser.peek() == "!" || is_word(parser.peek()) => {}
                        "," => {
                            return Err(StatusError::bad_request(format!(
                                "found '{}', expected: identifier after ','",
                                parser.peek()
                            )));
                        }
                        other => {
                            return Err(StatusError::bad_request(format!(
                                "found '{other}', expected: ',' or 'end of string'"
                            )));
                        }
                    }
                }
                other => {
                    return Err(StatusError::bad_request(format!(
                        "found '{other}', expected: !, identifier, or 'end of string'"
                    )));
                }
            }
        }
        Ok(Self { requirements })
    }

    pub(super) fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.test {
                LabelTest::In(values) => value.is_some_and(|value| values.contains(value)),
                LabelTest::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                LabelTest::Exists => value.is_some(),
                LabelTest::DoesNotExist => value.is_none(),
            }
        })
    }
}

/// Splits a label selector into words and the symbols `! ( ) , = == != > <`.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    /// The next token; empty at the end.
    fn peek(&self) -> &'a str {
        let rest = self.rest.trim_start();
        let symbols = ["==", "!=", "!", "(", ")", ",", "=", ">", "<"];
        if let Some(symbol) = symbols.into_iter().find(|symbol| rest.starts_with(symbol)) {
            return rest.get(..symbol.len()).unwrap_or_default();
        }
        let end = rest
            .find(|c: char| c.is_whitespace() || "!(),=><".contains(c))
            .unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.rest = self.rest.trim_start().strip_prefix(token).unwrap_or_default();
        token
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let absent = self.peek() == "!";
        if absent {
            self.next();
        }
        let key = self.next();
        if !is_word(key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let test = if absent {
            LabelTest::DoesNotExist
        } else if matches!(self.peek(), "" | ",") {
            LabelTest::Exists
        } else {
            match self.next() {
                "=" | "==" => LabelTest::In(vec![self.value()?]),
                "!=" => LabelTest::NotIn(vec![self.value()?]),
                "in" => LabelTest::In(self.values()?),
                "notin" => LabelTest::NotIn(self.values()?),
                other => {
                    return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"));
                }
            }
        };
        Ok(LabelRequirement {
            key: key.to_owned(),
            test,
        })
    }

    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), "" | ",") {
            return Ok(String::new());
        }
        match self.next() {
            word if is_word(word) => Ok(word.to_owned()),
            other => Err(format!("found '{other}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != "(" {
            return Err(format!("found '{open}' expected: '('"));
        }
        let mut values = Vec::new();
        loop {
            // A missing word, as in `()` and `(a,)`, is the empty value.
            if matches!(self.peek(), "," | ")") {
                values.push(String::new());
            } else {
                match self.next() {
                    word if is_word(word) => values.push(word.to_owned()),
                    other => return Err(format!("found '{other}', expected: ',', ')' or identifier")),
                }
            }
            match self.next() {
                "," => {}
                ")" => {
                    values.sort();
                    values.dedup();
                    return Ok(values);
                }
                other => return Err(format!("found '{other}', expected: ',' or ')'")),
            }
        }
    }
}

fn is_word(token: &str) -> bool {
    token
        .chars()
        .next()
        .is_some_and(|first| !"!(),=><".contains(first))
}

impl FieldSelector {
    /// Parses e.g. `a.b=c,d!=e`; the fields must be selectable for `resource`.
    pub(super) fn parse(resource: &Resource, text: &str) -> Result<Self, StatusError> {
        let mut terms = Vec::new();
        for term in text.split(',').filter(|term| !term.is_empty()) {
            let (path, value, equal) = if let Some((path, value)) = term.split_once("!=") {
                (path, value, false)
            } else if let Some((path, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
                (path, value, true)
            } else {
                return Err(StatusError::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                )));
            };
            let absent = absent_value(resource, path)
                .ok_or_else(|| StatusError::bad_request(format!("field label not supported: {path}")))?;
            terms.push(FieldTerm {
                path: path.to_owned(),
                absent,
                value: value.to_owned(),
                equal,
            });
        }
        Ok(Self { terms })
    }

    pub(super) fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// True if the object is selected. The object must be in the form of the selector's resource.
    pub(super) fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| {
            let found = term
                .path
                .split('.')
                .try_fold(object, |value, field| value.get(field))
                .filter(|value| !value.is_null());
            let is_equal = match found {
                None => term.value == term.absent,
                Some(Value::String(text)) => *text == term.value,
                Some(Value::Bool(flag)) => term.value == if *flag { "true" } else { "false" },
                Some(other) => term.value == format!("{other}"),
            };
            is_equal == term.equal
        })
    }
}

/// The value used if an object lacks the field; `None` if the kind cannot be selected by it.
fn absent_value(resource: &Resource, path: &str) -> Option<&'static str> {
    let offered = resource.fields.iter().find(|(field, _)| *field == path);
    match path {
        "metadata.name" => Some(""),
        // A kind without selectable fields of its own accepts this one even if it is cluster-scoped.
        "metadata.namespace" if resource.is_namespaced() || resource.fields.is_empty() => Some(""),
        _ => offered.map(|(_, absent)| *absent),
    }
}
