//! What is expected of an answer, an event or a value.

use serde_json::{Value, json};

use super::tokens::{Token, changed, single};
use super::value::{Expr, Names, equals, part, shows};
use crate::http::{causes_of, owners};

#[derive(Debug)]
pub(super) enum Check {
    /// `NotFound`: the reason of a Status, or the name of the object of an event.
    Word(Expr),
    /// `"…"`: the message of a Status.
    Message(Expr),
    Begins(Expr),
    Shows(Expr),
    Equals(Expr),
    Newer(Expr),
    NotOlder(Expr),
    SameVersion(Expr),
    /// The names of the items of a list.
    Items(Expr),
    /// The fields that a Status blames, and why.
    Causes(Expr),
    CausesInAnyOrder(Expr),
    /// Manager, operation and fields of each entry in `managedFields`.
    Owners(Expr),
    /// A Status with this reason, message and details, and nothing else.
    Exactly {
        reason: Expr,
        message: Expr,
        details: Expr,
    },
    Bind(String),
}

/// The words before a value.
const CLAUSES: [&[&str]; 11] = [
    &["begins"],
    &["="],
    &["newer", "than"],
    &["not", "older", "than"],
    &["same", "version", "as"],
    &["items"],
    &["causes", "in", "any", "order"],
    &["causes"],
    &["owners"],
    &["exactly"],
    &["as"],
];

pub(super) fn checks(mut tokens: &[Token]) -> Result<Vec<Check>, String> {
    let mut found = Vec::new();
    while let Some(first) = tokens.first() {
        let is_first = |clause: &&&[&str]| {
            let words = tokens.iter().map(|token| match token {
                Token::Word(word) => word.as_str(),
                Token::Value(_) => "",
            });
            words.take(clause.len()).eq(clause.iter().copied())
        };
        let Some(clause) = CLAUSES.iter().find(is_first) else {
            found.push(match first {
                Token::Value(Value::String(_)) => Check::Message(single(&mut tokens)?),
                Token::Value(Value::Object(fields)) if !fields.is_empty() => {
                    Check::Shows(single(&mut tokens)?)
                }
                Token::Word(word) if word.starts_with('$') => Check::Shows(single(&mut tokens)?),
                Token::Word(_) if found.is_empty() => Check::Word(word_of(&mut tokens)?),
                Token::Word(other) => return Err(format!("{other} is unknown")),
                Token::Value(other) => return Err(format!("{other} says nothing")),
            });
            continue;
        };
        tokens = &tokens[clause.len()..];
        found.push(match *clause.first().unwrap_or(&"") {
            "begins" => Check::Begins(single(&mut tokens)?),
            "=" => Check::Equals(changed(&mut tokens)?),
            "newer" => Check::Newer(single(&mut tokens)?),
            "not" => Check::NotOlder(single(&mut tokens)?),
            "same" => Check::SameVersion(single(&mut tokens)?),
            "items" => Check::Items(single(&mut tokens)?),
            "causes" if clause.len() > 1 => Check::CausesInAnyOrder(single(&mut tokens)?),
            "causes" => Check::Causes(single(&mut tokens)?),
            "owners" => Check::Owners(single(&mut tokens)?),
            "exactly" => exactly(&mut tokens)?,
            _ => Check::Bind(match word_of(&mut tokens)?.base {
                Value::String(name) => name,
                other => return Err(format!("{other} is no name")),
            }),
        });
    }
    Ok(found)
}

fn word_of(tokens: &mut &[Token]) -> Result<Expr, String> {
    match tokens {
        [Token::Word(word), rest @ ..] => {
            *tokens = rest;
            Ok(Expr::of(word.as_str()))
        }
        _ => Err("a word is missing".to_owned()),
    }
}

/// `exactly REASON "message" {details}`; reason and details may be missing.
fn exactly(tokens: &mut &[Token]) -> Result<Check, String> {
    let reason = match tokens {
        [Token::Word(word), ..] if !word.starts_with('$') => word_of(tokens)?,
        _ => Expr::of(""),
    };
    let message = match tokens {
        [Token::Value(message @ Value::String(_)), rest @ ..] => {
            let message = Expr::of(message.clone());
            *tokens = rest;
            message
        }
        _ => word_of(tokens)?,
    };
    let details = match tokens {
        [Token::Value(Value::Object(_)), ..] => single(tokens)?,
        [Token::Word(word), ..] if word.starts_with('$') => single(tokens)?,
        _ => Expr::of(Value::Null),
    };
    Ok(Check::Exactly {
        reason,
        message,
        details,
    })
}

impl Check {
    pub(super) fn uses(&self) -> Vec<String> {
        match self {
            Self::Word(expr)
            | Self::Message(expr)
            | Self::Begins(expr)
            | Self::Shows(expr)
            | Self::Equals(expr)
            | Self::Newer(expr)
            | Self::NotOlder(expr)
            | Self::SameVersion(expr)
            | Self::Items(expr)
            | Self::Causes(expr)
            | Self::CausesInAnyOrder(expr)
            | Self::Owners(expr) => expr.names(),
            Self::Exactly {
                reason,
                message,
                details,
            } => [reason, message, details]
                .iter()
                .flat_map(|expr| expr.names())
                .collect(),
            Self::Bind(_) => Vec::new(),
        }
    }

    /// Fails unless `found`, which came with this code, is as expected.
    pub(super) fn holds(&self, code: u16, found: &Value, names: &mut Names) -> Result<(), String> {
        let field = |path: &str, expected: &Expr| -> Result<(), String> {
            let value = part(found, path).unwrap_or(json!(""));
            equals(&expected.value(names)?, &value, path)
        };
        match self {
            Self::Word(word) if found.get("kind") == Some(&json!("Status")) => field("reason", word),
            Self::Word(word) => field("metadata.name", word),
            Self::Message(text) => field("message", text),
            Self::Begins(start) => {
                let start = format!("<starts with {}>", start.text(names)?);
                field("message", &Expr::of(start))
            }
            Self::Shows(fields) => shows(&fields.value(names)?, found),
            Self::Equals(value) => equals(&value.value(names)?, found, ""),
            Self::Newer(other) => compare(found, &other.value(names)?, "newer than", |found, other| {
                found > other
            }),
            Self::NotOlder(other) => {
                compare(found, &other.value(names)?, "not older than", |found, other| {
                    found >= other
                })
            }
            Self::SameVersion(other) => {
                compare(found, &other.value(names)?, "of", |found, other| found == other)
            }
            Self::Items(items) => {
                let found = part(found, "items.*.metadata.name").unwrap_or_default();
                equals(&items.value(names)?, &found, "items")
            }
            Self::Causes(causes) => {
                is_invalid(code, found)?;
                equals(&causes.value(names)?, &json!(causes_of(found)), "causes")
            }
            Self::CausesInAnyOrder(causes) => {
                is_invalid(code, found)?;
                let mut sorted = causes_of(found);
                sorted.sort_unstable();
                equals(&causes.value(names)?, &json!(sorted), "sorted causes")
            }
            Self::Owners(expected) => equals(&expected.value(names)?, &owners(found), "owners"),
            Self::Exactly {
                reason,
                message,
                details,
            } => {
                let (reason, details) = (reason.value(names)?, details.value(names)?);
                let mut status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
                    "message": message.value(names)?,
                });
                if reason != "" {
                    status["reason"] = reason;
                }
                if !details.is_null() {
                    status["details"] = details;
                }
                equals(&status, found, "")
            }
            Self::Bind(name) => {
                names.insert(name.clone(), found.clone());
                Ok(())
            }
        }
    }
}

fn is_invalid(code: u16, found: &Value) -> Result<(), String> {
    equals(
        &json!([422, "Invalid"]),
        &json!([code, found.get("reason")]),
        "code and reason",
    )
}

/// The resource version of an object, or the one that a text is.
pub(super) fn version(value: &Value) -> Result<u64, String> {
    let text = part(value, "metadata.resourceVersion").unwrap_or_else(|| value.clone());
    let number = text.as_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("{value:#} has no version"))
}

fn compare(found: &Value, other: &Value, how: &str, holds: fn(u64, u64) -> bool) -> Result<(), String> {
    let (found, other) = (version(found)?, version(other)?);
    if holds(found, other) {
        return Ok(());
    }
    Err(format!("expected a version {how} {other}, found {found}"))
}
