//! Values of transcripts: flow YAML, names of earlier values in it, and what is compared with what.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(super) type Names = BTreeMap<String, Value>;

/// A value with names in it, and what replaces parts of it: `$pod {metadata.name: other}`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expr {
    pub(super) base: Value,
    pub(super) changes: Vec<Value>,
}

/// Reads flow YAML.
pub(super) fn yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| format!("{text}: {error}"))
}

/// What of a text is a name: `name.path` in `${name.path}`.
fn references(text: &str) -> Vec<&str> {
    let braced = text.match_indices("${").filter_map(|(at, _)| {
        let rest = &text[at + 2..];
        Some(&rest[..rest.find('}')?])
    });
    braced.collect()
}

/// `name.path` if that is what the whole of a text stands for: `$name.path`.
fn reference(text: &str) -> Option<&str> {
    text.strip_prefix('$').filter(|rest| !rest.starts_with('{'))
}

impl Expr {
    pub(super) fn of(base: impl Into<Value>) -> Self {
        Self {
            base: base.into(),
            changes: Vec::new(),
        }
    }

    /// The names that it uses.
    pub(super) fn names(&self) -> Vec<String> {
        fn note(text: &str, found: &mut Vec<String>) {
            let names = references(text).into_iter().chain(reference(text));
            found.extend(names.map(|path| path.split('.').next().unwrap_or_default().to_owned()));
        }
        fn walk(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::String(text) => note(text, found),
                Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
                Value::Object(fields) => {
                    for (key, value) in fields {
                        if key.contains("${") {
                            note(key, found);
                        }
                        walk(value, found);
                    }
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        walk(&self.base, &mut found);
        self.changes.iter().for_each(|change| walk(change, &mut found));
        found
    }

    pub(super) fn value(&self, names: &Names) -> Result<Value, String> {
        let mut value = filled(&self.base, names)?;
        for change in &self.changes {
            let Value::Object(fields) = filled(change, names)? else {
                return Err(format!("{change} changes no fields"));
            };
            for (path, new) in fields {
                set(&mut value, &path, new)?;
            }
        }
        Ok(value)
    }

    pub(super) fn text(&self, names: &Names) -> Result<String, String> {
        Ok(plain(&self.value(names)?))
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn named(path: &str, names: &Names) -> Result<Value, String> {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let value = names.get(name).ok_or_else(|| format!("${name} is unknown"))?;
    part(value, rest).ok_or_else(|| format!("${path} is absent in {value:#}"))
}

/// What `<3 times x>` stands for.
fn repeated(text: String) -> String {
    let inner = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
    let parts = inner.and_then(|inner| inner.split_once(" times "));
    match parts.and_then(|(count, piece)| Some(piece.repeat(count.parse().ok()?))) {
        Some(long) => long,
        None => text,
    }
}

/// The value with all names replaced by what they stand for.
fn filled(value: &Value, names: &Names) -> Result<Value, String> {
    let in_text = |text: &str| -> Result<String, String> {
        let mut filled = text.to_owned();
        for path in references(text) {
            filled = filled.replace(&format!("${{{path}}}"), &plain(&named(path, names)?));
        }
        Ok(filled)
    };
    Ok(match value {
        Value::String(text) => {
            let text = in_text(text)?;
            match reference(&text) {
                Some(path) => named(path, names)?,
                None => json!(repeated(text)),
            }
        }
        Value::Array(items) => items
            .iter()
            .map(|item| filled(item, names))
            .collect::<Result<_, _>>()?,
        Value::Object(fields) => {
            let mut all = Map::new();
            for (key, value) in fields {
                let key = if key.contains("${") {
                    in_text(key)?
                } else {
                    key.clone()
                };
                all.insert(key, filled(value, names)?);
            }
            Value::Object(all)
        }
        other => other.clone(),
    })
}

/// The part of a value at a path: `items.0.metadata`, `items.*.metadata.name` for all, `conditions.type=Ready.status`
/// for the item whose field has this value.
pub(super) fn part(value: &Value, path: &str) -> Option<Value> {
    if path.is_empty() {
        return Some(value.clone());
    }
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match value {
        Value::Array(items) if first == "*" => {
            let parts = items.iter().map(|item| part(item, rest).unwrap_or_default());
            Some(parts.collect())
        }
        Value::Array(items) => match path.split_once('=') {
            Some((field, after)) if first.contains('=') => items.iter().find_map(|item| {
                // The value may have dots.
                let rest = after.strip_prefix(item.get(field)?.as_str()?)?;
                match rest.strip_prefix('.') {
                    Some(rest) => part(item, rest),
                    None => Some(item.clone()).filter(|_| rest.is_empty()),
                }
            }),
            _ => part(items.get(first.parse::<usize>().ok()?)?, rest),
        },
        other => part(other.get(first)?, rest),
    }
}

/// Sets a part of a value; null removes it.
fn set(value: &mut Value, path: &str, new: Value) -> Result<(), String> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    if value.is_null() {
        *value = json!({});
    }
    let place = match value {
        Value::Array(items) => first.parse::<usize>().ok().and_then(|index| items.get_mut(index)),
        Value::Object(fields) if rest.is_empty() && new.is_null() => {
            fields.remove(first);
            return Ok(());
        }
        Value::Object(fields) => Some(fields.entry(first).or_insert(Value::Null)),
        _ => None,
    };
    let place = place.ok_or_else(|| format!("{path} has no place"))?;
    if rest.is_empty() {
        *place = new;
        return Ok(());
    }
    set(place, rest, new)
}

/// Fails unless the fields in `expected`, by path, are as they should be; null means absent.
pub(super) fn shows(expected: &Value, found: &Value) -> Result<(), String> {
    let fields = expected
        .as_object()
        .ok_or_else(|| format!("{expected} is no set of fields"))?;
    for (path, wanted) in fields {
        match (wanted, part(found, path)) {
            (Value::Null, None) => {}
            (Value::Null, Some(value)) => return Err(format!("expected no {path}, found {value:#}")),
            (_, None) => return Err(format!("expected {path}: {wanted:#}, found none")),
            (_, Some(value)) => equals(wanted, &value, path)?,
        }
    }
    Ok(())
}

/// Fails unless both are the same; a text in angle brackets says what a value is like.
pub(super) fn equals(expected: &Value, found: &Value, path: &str) -> Result<(), String> {
    let differs = || Err(format!("expected {path}: {expected:#}\nfound {found:#}"));
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    match (expected, found) {
        (Value::String(text), _) if text.starts_with('<') && text.ends_with('>') => {
            if is_like(&text[1..text.len() - 1], found)? {
                Ok(())
            } else {
                differs()
            }
        }
        (Value::Object(wanted), Value::Object(fields)) => {
            for (key, value) in fields {
                match wanted.get(key) {
                    Some(wanted) => equals(wanted, value, &below(key))?,
                    None => return Err(format!("expected no {}, found {value:#}", below(key))),
                }
            }
            match wanted.keys().find(|key| !fields.contains_key(*key)) {
                Some(missing) => Err(format!("expected {}, found none", below(missing))),
                None => Ok(()),
            }
        }
        (Value::Array(wanted), Value::Array(items)) if wanted.len() == items.len() => {
            let mut pairs = wanted.iter().zip(items).enumerate();
            pairs.try_for_each(|(index, (wanted, item))| equals(wanted, item, &below(&index.to_string())))
        }
        _ if expected == found => Ok(()),
        _ => differs(),
    }
}

/// Whether a value is what angle brackets say; `mod.rs` lists what they can say.
fn is_like(what: &str, found: &Value) -> Result<bool, String> {
    let text = plain(found);
    if let Some((word, rest)) = what.split_once(' ') {
        match (word, rest) {
            ("not", other) => return Ok(text != other),
            ("all", other) => {
                let items = found.as_array().filter(|items| !items.is_empty());
                return Ok(items.is_some_and(|items| items.iter().all(|item| item == other)));
            }
            ("contains", piece) => return Ok(text.contains(piece)),
            ("without", piece) => return Ok(!text.contains(piece)),
            (count, "characters") => return Ok(count.parse() == Ok(text.chars().count())),
            _ => {}
        }
    }
    if let Some(start) = what.strip_prefix("starts with ") {
        return Ok(text.starts_with(start));
    }
    if let Some(end) = what.strip_prefix("ends with ") {
        if let Some((count, letters)) = end.split_once(" of ")
            && let Ok(count) = count.parse()
        {
            return Ok(text
                .chars()
                .rev()
                .take(count)
                .all(|letter| letters.contains(letter)));
        }
        return Ok(text.ends_with(end));
    }
    if let Some((seconds, time)) = what.split_once(" seconds after ") {
        return is_within(seconds, time, &text)
            .ok_or_else(|| format!("<{what}>: {found} cannot be compared"));
    }
    match what {
        "any" => Ok(!found.is_null()),
        "null" => Ok(found.is_null()),
        _ => Err(format!("<{what}> is unknown")),
    }
}

fn is_within(seconds: &str, start: &str, time: &str) -> Option<bool> {
    let (least, most) = seconds.split_once(" to ")?;
    let after = time
        .parse::<Timestamp>()
        .ok()?
        .duration_since(start.parse().ok()?);
    Some((least.parse().ok()?..=most.parse().ok()?).contains(&after.as_secs()))
}
