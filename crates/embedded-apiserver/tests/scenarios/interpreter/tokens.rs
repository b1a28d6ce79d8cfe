//! Words, quoted texts and flow YAML of a line.

use serde_json::Value;

use super::value::{Expr, yaml};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(String),
    Value(Value),
}

/// Splits a line; a comma after a token separates no more than a blank does.
pub(super) fn tokens(line: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '{' | '[' => flow(rest),
            '"' | '\'' => quoted(rest),
            _ => Some(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        let length = length.ok_or_else(|| format!("no end of {rest}"))?;
        let token = &rest[..length];
        found.push(match first {
            '{' | '[' | '"' | '\'' => Token::Value(yaml(token)?),
            _ => Token::Word(token.trim_end_matches(',').to_owned()),
        });
        rest = rest[length..].trim_start_matches(',').trim_start();
    }
    Ok(found)
}

/// The length of a quoted text.
fn quoted(text: &str) -> Option<usize> {
    let quote = text.chars().next()?;
    let mut rest = text.char_indices().skip(1).peekable();
    while let Some((at, next)) = rest.next() {
        if next == '\\' && quote == '"' {
            rest.next();
        } else if next == quote {
            // Two quotes in a row are one of the text.
            let doubled = quote == '\'' && rest.peek().is_some_and(|(_, after)| *after == quote);
            if !doubled {
                return Some(at + 1);
            }
            rest.next();
        }
    }
    None
}

/// The length of a map or list.
fn flow(text: &str) -> Option<usize> {
    let (mut depth, mut at, mut before) = (0, 0, ' ');
    while let Some(next) = text[at..].chars().next() {
        match next {
            '"' | '\'' if matches!(before, '{' | '[' | ',' | ':') => {
                at += quoted(&text[at..])?;
                before = next;
                continue;
            }
            // In a plain text, `${name}` is a name.
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        at += next.len_utf8();
        if depth == 0 {
            return Some(at);
        }
        if !next.is_whitespace() {
            before = next;
        }
    }
    None
}

/// Takes a value from the front of some tokens.
pub(super) fn single(tokens: &mut &[Token]) -> Result<Expr, String> {
    let base = match tokens {
        [Token::Value(value), ..] => value.clone(),
        [Token::Word(word), ..] => match word.parse::<u16>() {
            Ok(number) => Value::from(number),
            Err(_) if word.starts_with('$') => Value::from(word.as_str()),
            Err(_) => yaml(word)?,
        },
        [] => return Err("a value is missing".to_owned()),
    };
    *tokens = &tokens[1..];
    Ok(Expr::of(base))
}

/// Takes a value, and the changes after it.
pub(super) fn changed(tokens: &mut &[Token]) -> Result<Expr, String> {
    let mut found = single(tokens)?;
    while let [Token::Value(change @ Value::Object(_)), rest @ ..] = tokens {
        found.changes.push(change.clone());
        *tokens = rest;
    }
    Ok(found)
}

/// A value that is the rest of a line: a name, something quoted, flow YAML, or a plain text.
pub(super) fn whole(text: &str) -> Result<Expr, String> {
    let text = text.trim();
    if !text.starts_with(['{', '[', '"', '\'', '$']) {
        return Ok(Expr::of(yaml(text)?));
    }
    let found = tokens(text)?;
    let mut rest = &found[..];
    let value = changed(&mut rest)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(format!("{text} is more than a value"))
    }
}
