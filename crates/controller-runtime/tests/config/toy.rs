//! A controller with settings only.

use std::ffi::OsString;
use std::fs;
use std::num::NonZeroU32;

use clap::Arg;
use controller_core::about::About;
use controller_core::config::{CommonConfig, ControllerConfig, FieldError};
use controller_runtime::args::{Command, Invocation, Subcommand, Usage, parse};
use controller_runtime::config::effective;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the toy controller.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ToyConfig {
    #[serde(flatten)]
    common: CommonConfig,
    /// Objects that are worked on at the same time.
    concurrent_syncs: NonZeroU32,
    /// Take the annotation away instead of setting it.
    remove: bool,
    /// Highest number of toys on the shelf.
    shelf_size: i16,
}

impl Default for ToyConfig {
    fn default() -> Self {
        Self {
            common: CommonConfig::default(),
            concurrent_syncs: NonZeroU32::new(5).unwrap(),
            remove: false,
            shelf_size: 7,
        }
    }
}

impl ControllerConfig for ToyConfig {
    fn common(&self) -> &CommonConfig {
        &self.common
    }

    fn common_mut(&mut self) -> &mut CommonConfig {
        &mut self.common
    }

    fn validate(&self) -> Vec<FieldError> {
        let unlucky = FieldError::new("shelfSize", "invalid value 13: brings bad luck");
        (self.shelf_size == 13).then_some(unlucky).into_iter().collect()
    }
}

const ABOUT: About = About {
    name: "toy-controller",
    about: "Keeps the toys in order",
    version: "0.1.0",
    commit: "abc1234",
};

type Parsed = Result<Invocation<ToyConfig>, Usage>;

pub(crate) fn parse_os(args: impl IntoIterator<Item = OsString>, env: &[(&str, &str)]) -> Parsed {
    let explain = Subcommand {
        command: clap::Command::new("explain")
            .about("Print what would be done with one toy, and why")
            .arg(Arg::new("toy").value_name("TOY").help("Name of the toy")),
        settings: &["shelfSize"],
    };
    let args = [OsString::from(ABOUT.name)].into_iter().chain(args);
    let value = |name: &str| {
        env.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| (*value).to_owned())
    };
    parse(ABOUT, vec![explain], args, &value)
}

pub(crate) fn toy(args: &[&str], env: &[(&str, &str)]) -> Parsed {
    parse_os(args.iter().map(OsString::from), env)
}

/// Result of `words` with the config file `file`, in the notation of `cases.txt`.
pub(crate) fn answer(file: &str, words: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml").to_str().unwrap().to_owned();
    let text = |cell: &str| {
        cell.replace('⏎', "\n")
            .replace('⇥', "\t")
            .replace("<BOM>", "\u{feff}")
    };
    let (mut args, mut env) = (Vec::new(), Vec::new());
    if file != "-" {
        fs::write(&path, text(file)).unwrap();
        if !words.contains("FILE") {
            args.push(format!("--config={path}"));
        }
    }
    for word in words.split_whitespace() {
        let word = text(word).replace("=FILE", &format!("={path}"));
        match word.split_once('=') {
            Some((name, value)) if !name.starts_with('-') => {
                env.push((format!("CONTROLLER_{name}"), value.to_owned()));
            }
            _ => args.push(word),
        }
    }
    let env: Vec<_> = env.iter().map(|(name, value)| (&**name, &**value)).collect();
    let answer = match parse_os(args.into_iter().map(OsString::from), &env) {
        Ok(toy) => shown(&toy),
        Err(Usage { text, exit_code: 0 }) if text.starts_with("Print") => {
            let words = text.split_whitespace().filter(|word| word.starts_with("--"));
            words.fold("exit 0:".to_owned(), |listed, flag| listed + " " + flag)
        }
        Err(Usage { text, exit_code: 0 }) => format!("exit 0: {text}"),
        Err(Usage { text, exit_code }) => {
            assert_eq!(exit_code, 2);
            let clap = text.starts_with("error:");
            text.lines()
                .take(if clap { 1 } else { usize::MAX })
                .collect::<Vec<_>>()
                .join("\n")
        }
    };
    let answer = answer.replace(&format!("{}/", dir.path().display()), "");
    answer.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// The command and each setting that is not a default.
fn shown(toy: &Invocation<ToyConfig>) -> String {
    let mut shown = vec![match &toy.command {
        Command::Run => "run:".to_owned(),
        Command::ConfigSchema => "config-schema:".to_owned(),
        Command::Extra(name, matches) => match matches.get_one::<String>("toy") {
            Some(toy) => format!("{name} {toy}:"),
            None => format!("{name}:"),
        },
    }];
    let (settings, defaults) = (effective(&toy.config), effective(&ToyConfig::default()));
    for (key, value) in settings.as_object().unwrap() {
        match toy.origins.get(key) {
            None => assert_eq!(value, &defaults[key], "{key}"),
            Some(origin) => shown.push(format!("{key}={value} ({origin})")),
        }
    }
    shown.join(" ")
}

pub(crate) fn kebab(key: &str) -> String {
    key.chars().fold(String::new(), |text, c| {
        if c.is_ascii_uppercase() {
            format!("{text}-{}", c.to_ascii_lowercase())
        } else {
            format!("{text}{c}")
        }
    })
}
