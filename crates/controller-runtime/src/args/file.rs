//! Reads the config file: a YAML mapping, key by key, with the line of each key.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{MessageFormatter, Options, Spanned, UserMessageFormatter};

use super::Origin;

/// An unchecked setting: key, source and value.
pub(super) type Setting = (String, Origin, Value);

/// Keys and values in the order of the file, including repeated keys.
struct Entries(Vec<(Spanned<String>, Value)>);

/// Largest accepted file in bytes, the limit of a `ConfigMap`, so that a path to a device or a log does not fill the
/// memory.
const LONGEST: u64 = 1 << 20;

/// Settings in the file at `path`; none if the file is empty.
///
/// # Errors
/// One line that begins with the path, followed by line and column if the text is malformed.
pub(super) fn read(path: &Path) -> Result<Vec<Setting>, String> {
    let text = read_text(path).map_err(|error| format!("{}: cannot be read: {error}", shown(path)))?;
    let Entries(entries) =
        serde_saphyr::from_str_with_options(&text, options()).map_err(|error| explain(path, &error))?;
    let settings = entries.into_iter().map(|(key, value)| {
        let (path, line) = (path.to_owned(), key.referenced.line());
        (key.value, Origin::File { path, line }, value)
    });
    Ok(settings.collect())
}

/// `path` on one line, without control characters.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string().replace(char::is_control, "\u{fffd}")
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other("longer than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("is not UTF-8"))
}

fn options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        // Neither may stop the reader: each is reported together with other problems.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
    }
}

fn explain(path: &Path, error: &serde_saphyr::Error) -> String {
    let place = shown(path);
    let message = UserMessageFormatter.format_message(error.without_snippet());
    let message = message.replace(char::is_control, " ");
    match error.location() {
        Some(at) => format!("{place}:{}:{}: {message}", at.line(), at.column()),
        None => format!("{place}: {message}"),
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lines of `key: value`")
    }

    /// An empty file.
    fn visit_unit<E>(self) -> Result<Entries, E> {
        Ok(Entries(Vec::new()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let entries = std::iter::from_fn(|| map.next_entry().transpose());
        Ok(Entries(entries.collect::<Result<_, _>>()?))
    }
}
