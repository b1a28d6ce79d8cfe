#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]
//! Flags, environment and config file of a toy controller.

mod anything;
mod durations;
mod schema;
mod toy;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;

use controller_runtime::config::config_schema;
use serde_json::Value;

use self::toy::{ToyConfig, answer, kebab, parse_os, toy};

/// The rows of a table, without its comments and headings.
fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [&str; N]> {
    let rows = table
        .lines()
        .filter(|row| !row.is_empty() && !row.starts_with('#'));
    rows.map(|row| {
        row.splitn(N, " | ")
            .map(str::trim)
            .collect::<Vec<_>>()
            .try_into()
            .expect(row)
    })
}

#[test]
fn each_case_has_its_answer() {
    let (mut cases, mut right) = (Vec::new(), true);
    for row @ [name, _, _, line] in rows::<4>(include_str!("cases.txt")) {
        match cases.last_mut() {
            Some((_, lines)) if name.is_empty() => Vec::push(lines, line),
            _ => cases.push((row, vec![line])),
        }
    }
    for ([name, file, words, _], expected) in cases {
        let answer = answer(file, words);
        if answer != expected {
            right = false;
            eprintln!(
                "{name}:\n  {}\ninstead of\n  {}",
                answer.join("\n  "),
                expected.join("\n  ")
            );
        }
    }
    assert!(right);
}

#[test]
fn a_flag_wins_over_the_environment_and_the_environment_over_the_file() {
    let help = toy(&["--help"], &[]).unwrap_err().text;
    let mut keys = BTreeSet::from(["tlsCertFile".to_owned(), "tlsPrivateKeyFile".to_owned()]);
    for [key, value_name, in_file, in_env, in_flag, expected] in rows(include_str!("settings.txt")) {
        let flag = format!("--{}", kebab(key));
        let variable = kebab(key).replace('-', "_").to_uppercase();
        let [by_file, by_env, by_flag]: [Value; 3] = serde_json::from_str(&format!("[{expected}]")).unwrap();
        let file = format!("# first line⏎{key}: {in_file}");
        let words = format!("{variable}={in_env}");
        assert_eq!(
            answer(&file, ""),
            [format!("run: {key}={by_file} (config.yaml:2)")]
        );
        assert_eq!(
            answer(&file, &words),
            [format!("run: {key}={by_env} (CONTROLLER_{variable})")]
        );
        assert_eq!(
            answer(&file, &format!("{words} {flag}={in_flag}")),
            [format!("run: {key}={by_flag} ({flag})")]
        );
        let spellings = [
            format!("{flag} <{value_name}>\n"),
            format!("{flag}[=<{value_name}>]\n"),
        ];
        assert!(spellings.iter().any(|spelling| help.contains(spelling)), "{help}");
        keys.insert(key.to_owned());
    }
    let schema = config_schema::<ToyConfig>();
    assert!(schema["properties"].as_object().unwrap().keys().eq(&keys));
}

#[test]
fn bytes_that_are_not_utf_8_are_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, b"context: \xff\n").unwrap();
    let path = file.path().to_str().unwrap();
    assert_eq!(
        toy(&["--config", path], &[]).unwrap_err().text,
        format!("{path}: cannot be read: is not UTF-8\n")
    );
    let usage = parse_os([OsString::from_vec(b"--context=\xff".to_vec())], &[]).unwrap_err();
    assert_eq!(usage.exit_code, 2);
    assert!(usage.text.contains("invalid UTF-8"), "{}", usage.text);
}

#[test]
fn the_help_is_the_same_everywhere() {
    insta::assert_snapshot!(toy(&["--help"], &[]).unwrap_err().text);
}

#[test]
fn run_has_the_same_settings_as_the_whole() {
    let settings = |args: &[&str]| {
        let help = toy(args, &[]).unwrap_err().text;
        let (_, settings) = help.split_once("toy-controller:").unwrap();
        settings.split("Each flag").next().unwrap().trim().to_owned()
    };
    assert_eq!(settings(&["run", "--help"]), settings(&["--help"]));
}
