//! File, environment and flags, laid over the defaults.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::command::{CONFIG, CONFIG_ENV};
use super::{Origin, Origins, file};
use crate::config::{ControllerConfig, FieldError, Property, defaults, kebab_case};

/// A setting as it was found, not checked yet: its key, who set it, and the value.
pub(super) type Setting = (String, Origin, Value);

/// How alike an unknown key and a known one must be for the known one to be suggested, from 0 to 1.
const ALIKE: f64 = 0.7;
/// No longer key is compared with the known ones: the effort grows with its length.
const LONGEST_COMPARED: usize = 64;

/// Looks up one flag or one variable.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The config that file, environment and flags add up to and who has set what, or all problems, a line each.
///
/// A bad value is reported even where a stronger layer overrides it.
pub(super) fn merge<C: ControllerConfig>(
    properties: &[Property],
    flag: Lookup<'_>,
    env: Lookup<'_>,
) -> Result<(C, Origins), Vec<String>> {
    let path = flag(CONFIG).or_else(|| env(CONFIG_ENV));
    let (mut settings, mut problems) = (Vec::new(), Vec::new());
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        match file::read(Path::new(&path)) {
            Ok(in_file) => settings = in_file,
            Err(problem) => problems.push(problem),
        }
    }
    let by_env = |property: &Property| {
        let origin = Origin::Environment(property.env.clone());
        Some((property.key.clone(), origin, property.read(&env(&property.env)?)))
    };
    let by_flag = |property: &Property| {
        let origin = Origin::Flag(property.flag.clone());
        Some((
            property.key.clone(),
            origin,
            property.read(&flag(&property.flag)?),
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
    // In the place of a refused value stands another one, about which nothing can be said.
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

/// A file may name a key once.
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

/// Of two settings that disagree, the one that somebody has set.
fn blamed(error: &FieldError, origins: &Origins) -> String {
    let key = error.against.filter(|_| !origins.contains_key(error.field));
    let key = key.unwrap_or(error.field);
    match origins.get(key) {
        Some(origin) => place(key, origin),
        None => format!("{key} (default)"),
    }
}

/// Where a problem is, on one line.
fn place(key: &str, origin: &Origin) -> String {
    match origin {
        Origin::File { .. } => format!("{origin}: {}", key.escape_debug()),
        Origin::Environment(_) | Origin::Flag(_) => origin.to_string(),
    }
}
