//! File, environment and flags, laid over the defaults.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::file::Entry;
use super::{Origin, Origins};
use crate::config::{ControllerConfig, FieldError, Property, defaults, kebab_case};

/// Settings as they were found, the weakest first, none of them checked yet.
#[derive(Default)]
pub(super) struct Layers {
    settings: Vec<Setting>,
    problems: Vec<String>,
}

struct Setting {
    key: String,
    origin: Origin,
    value: Value,
}

/// How alike an unknown key and a known one must be for the known one to be suggested, from 0 to 1.
const ALIKE: f64 = 0.7;
/// No longer key is compared with the known ones: the effort grows with its length.
const LONGEST_COMPARED: usize = 64;

impl Layers {
    pub(super) fn add_file(&mut self, path: &Path, entries: Vec<Entry>) {
        self.settings
            .extend(entries.into_iter().map(|Entry { key, line, value }| Setting {
                key,
                origin: Origin::File {
                    path: path.to_owned(),
                    line,
                },
                value,
            }));
    }

    /// Adds what `text` says of `property`.
    pub(super) fn add(&mut self, property: &Property, origin: Origin, text: &str) {
        self.settings.push(Setting {
            key: property.key.clone(),
            origin,
            value: property.read(text),
        });
    }

    pub(super) fn add_problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// The config that the layers add up to and who has set what, or all problems, a line each.
    ///
    /// A bad value is reported even where a stronger layer overrides it.
    pub(super) fn merge<C: ControllerConfig>(
        self,
        properties: &[Property],
    ) -> Result<(C, Origins), Vec<String>> {
        let Self {
            settings,
            mut problems,
        } = self;
        let defaults = defaults::<C>();
        let mut merged = defaults.clone();
        let mut origins = Origins::default();
        let mut refused = BTreeSet::new();
        for Setting { key, origin, value } in settings {
            let Some(property) = properties.iter().find(|property| property.key == key) else {
                problems.push(format!("{}: {}", place(&key, &origin), unknown(&key, properties)));
                continue;
            };
            let value = property.normalized(value);
            let checked =
                set_once(&origins.of(&key), &origin).and_then(|()| property.check::<C>(&value, &defaults));
            match checked {
                Ok(()) => {
                    merged.insert(key.clone(), value);
                }
                Err(problem) => {
                    problems.push(format!("{}: {problem}", place(&key, &origin)));
                    refused.insert(key.clone());
                }
            }
            origins.0.insert(key, origin);
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
}

/// A file may name a key once.
fn set_once(before: &Origin, now: &Origin) -> Result<(), String> {
    match (before, now) {
        (Origin::File { line, .. }, Origin::File { .. }) => Err(format!("set again, first on line {line}")),
        _ => Ok(()),
    }
}

fn unknown(key: &str, properties: &[Property]) -> String {
    let nearest = (key.len() <= LONGEST_COMPARED)
        .then(|| {
            let spelling = kebab_case(key);
            let likeness =
                |property: &Property| strsim::normalized_damerau_levenshtein(&spelling, &property.flag);
            properties
                .iter()
                .map(|property| (likeness(property), property))
                .max_by(|a, b| a.0.total_cmp(&b.0))
        })
        .flatten()
        .filter(|(likeness, _)| *likeness >= ALIKE);
    match nearest {
        Some((_, property)) => format!("unknown key, did you mean {}?", property.key),
        None => "unknown key".to_owned(),
    }
}

/// Of two settings that disagree, the one that somebody has set.
fn blamed(error: &FieldError, origins: &Origins) -> String {
    let key = match error.against {
        Some(against) if origins.of(error.field) == Origin::Default => against,
        _ => error.field,
    };
    place(key, &origins.of(key))
}

/// Where a problem is, on one line.
fn place(key: &str, origin: &Origin) -> String {
    match origin {
        Origin::File { .. } => format!("{origin}: {}", key.escape_debug()),
        Origin::Default => format!("{key} ({origin})"),
        Origin::Environment(_) | Origin::Flag(_) => origin.to_string(),
    }
}
