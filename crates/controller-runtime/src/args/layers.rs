//! Merges defaults, file, environment and flags.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use controller_core::config::{ControllerConfig, FieldError};
use serde_json::Value;

use super::command::{CONFIG, CONFIG_ENV};
use super::file;
use super::{Origin, Origins};
use crate::config::{Property, defaults, kebab_case, properties};

/// Lowest similarity, from 0 to 1, at which a known key is suggested for an unknown one.
const ALIKE: f64 = 0.7;
/// Longest unknown key that is compared with known ones, as the effort grows with its length.
const LONGEST_COMPARED: usize = 64;

/// The flags and the environment variables as given, by name; with the file they are the config.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    flags: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
}

impl Layers {
    /// What these functions return for the settings among `properties`, and for the path of the file.
    pub(super) fn of(
        properties: &[Property],
        flag: impl Fn(&str) -> Option<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let settable = || properties.iter().filter(|property| property.has_flag());
        let flags = settable().map(|property| property.flag.as_str()).chain([CONFIG]);
        let variables = settable()
            .map(|property| property.env.as_str())
            .chain([CONFIG_ENV]);
        Self {
            flags: flags
                .filter_map(|name| Some((name.to_owned(), flag(name)?)))
                .collect(),
            env: variables
                .filter_map(|name| Some((name.to_owned(), env(name)?)))
                .collect(),
        }
    }

    /// Layers of a config file alone.
    pub fn of_file(path: &Path) -> Self {
        let path = path.to_string_lossy().into_owned();
        Self {
            flags: BTreeMap::from([(CONFIG.to_owned(), path)]),
            env: BTreeMap::new(),
        }
    }

    /// The path of the config file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        let path = self.flags.get(CONFIG).or_else(|| self.env.get(CONFIG_ENV));
        path.filter(|path| !path.is_empty()).map(Path::new)
    }

    /// Reads the file, and merges it with environment and flags; or returns all problems, a line each.
    pub fn config<C: ControllerConfig>(&self) -> Result<C, Vec<String>> {
        Ok(merge::<C>(&properties::<C>(), self)?.0)
    }
}

/// Merges file, environment and flags into the config and the sources of its settings, or returns all problems, a line
/// each.
///
/// Reports a bad value even if a stronger layer overrides it.
pub(super) fn merge<C: ControllerConfig>(
    properties: &[Property],
    layers: &Layers,
) -> Result<(C, Origins), Vec<String>> {
    let (mut settings, mut problems) = (Vec::new(), Vec::new());
    if let Some(path) = layers.file() {
        match file::read(path) {
            Ok(in_file) => settings = in_file,
            Err(problem) => problems.push(problem),
        }
    }
    let by_env = |property: &Property| {
        let origin = Origin::Environment(property.env.clone());
        Some((
            property.key.clone(),
            origin,
            property.read(layers.env.get(&property.env)?),
        ))
    };
    let by_flag = |property: &Property| {
        let origin = Origin::Flag(property.flag.clone());
        Some((
            property.key.clone(),
            origin,
            property.read(layers.flags.get(&property.flag)?),
        ))
    };
    settings.extend(properties.iter().filter_map(by_env));
    settings.extend(properties.iter().filter_map(by_flag));

    let defaults = defaults::<C>();
    let mut merged = defaults.clone();
    let mut origins = Origins::new();
    let mut refused = BTreeSet::new();
    for (key, origin, value) in settings {
        let Some(property) = properties.iter().find(|property| property.key == key) else {
            problems.push(format!("{}: {}", place(&key, &origin), unknown(&key, properties)));
            continue;
        };
        let value = property.normalized(value);
        let checked =
            set_once(origins.get(&key), &origin).and_then(|()| property.check::<C>(&value, &defaults));
        match checked {
            Ok(()) => {
                merged.insert(key.clone(), value);
            }
            Err(problem) => {
                problems.push(format!("{}: {problem}", place(&key, &origin)));
                refused.insert(key.clone());
            }
        }
        origins.insert(key, origin);
    }

    let config: C = match serde_json::from_value(Value::Object(merged)) {
        Ok(config) => config,
        Err(error) => {
            problems.push(error.to_string());
            return Err(problems);
        }
    };
    let wrong = config.common().validate().into_iter().chain(config.validate());
    // A weaker layer or the default has replaced a refused value; checks of the replacement would mislead.
    let wrong = wrong.filter(|error| {
        !refused.contains(error.field) && !error.against.is_some_and(|key| refused.contains(key))
    });
    problems.extend(wrong.map(|error| format!("{}: {}", blamed(&error, &origins), error.problem)));
    if problems.is_empty() {
        Ok((config, origins))
    } else {
        Err(problems)
    }
}

/// Refuses a key that the file sets twice.
fn set_once(before: Option<&Origin>, now: &Origin) -> Result<(), String> {
    match (before, now) {
        (Some(Origin::File { line, .. }), Origin::File { .. }) => {
            Err(format!("set again, first on line {line}"))
        }
        _ => Ok(()),
    }
}

fn unknown(key: &str, properties: &[Property]) -> String {
    let spelling = kebab_case(key);
    let compared = properties.iter().filter(|_| key.len() <= LONGEST_COMPARED);
    let nearest = compared
        .map(|property| {
            let likeness = strsim::normalized_damerau_levenshtein(&spelling, &property.flag);
            (likeness, &property.key)
        })
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((likeness, key)) if likeness >= ALIKE => format!("unknown key, did you mean {key}?"),
        _ => "unknown key".to_owned(),
    }
}

/// The place to blame: of two conflicting settings, one that is not a default.
fn blamed(error: &FieldError, origins: &Origins) -> String {
    let key = error.against.filter(|_| !origins.contains_key(error.field));
    let key = key.unwrap_or(error.field);
    match origins.get(key) {
        Some(origin) => place(key, origin),
        None => format!("{key} (default)"),
    }
}

/// The place of a problem, on one line.
fn place(key: &str, origin: &Origin) -> String {
    match origin {
        Origin::File { .. } => format!("{origin}: {}", key.escape_debug()),
        Origin::Environment(_) | Origin::Flag(_) => origin.to_string(),
    }
}
