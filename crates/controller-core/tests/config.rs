#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]
//! Flags, environment and config file of a toy controller.

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Arg;
use controller_core::args::{About, Command, Invocation, Origin, Subcommand, Usage, parse};
use controller_core::config::{
    CommonConfig, ControllerConfig, Encoding, FieldError, GoDuration, LogFormat, MetricsAuthorization,
    config_schema, effective,
};
use proptest::prelude::*;
use rstest::rstest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Settings of the toy controller.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct ToyConfig {
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

    fn validate(&self) -> Vec<FieldError> {
        if self.shelf_size == 13 {
            vec![FieldError::new("shelfSize", "invalid value 13: brings bad luck")]
        } else {
            Vec::new()
        }
    }
}

const ABOUT: About = About {
    name: "toy-controller",
    about: "Keeps the toys in order",
    version: "0.1.0",
    commit: "abc1234",
};

fn toy(args: &[&str], env: &[(&str, &str)]) -> Result<Invocation<ToyConfig>, Usage> {
    let explain = Subcommand {
        command: clap::Command::new("explain")
            .about("Print what would be done with one toy, and why")
            .arg(Arg::new("toy").value_name("TOY").help("Name of the toy")),
        settings: &["shelfSize"],
    };
    let args = std::iter::once("toy-controller")
        .chain(args.iter().copied())
        .map(OsString::from);
    let env = |name: &str| {
        env.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| (*value).to_owned())
    };
    parse(ABOUT, vec![explain], args, &env)
}

/// A config file, and the problems that name it with its path cut to `config.yaml`.
struct ConfigFile {
    dir: TempDir,
}

impl ConfigFile {
    fn new(text: impl AsRef<[u8]>) -> Self {
        let file = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::write(file.path(), text).unwrap();
        file
    }

    fn path(&self) -> String {
        self.dir.path().join("config.yaml").to_str().unwrap().to_owned()
    }

    fn parse(&self, args: &[&str], env: &[(&str, &str)]) -> Result<Invocation<ToyConfig>, Usage> {
        let path = self.path();
        toy(&[&["--config", &path], args].concat(), env)
    }

    fn problems(&self, args: &[&str], env: &[(&str, &str)]) -> Vec<String> {
        let dir = format!("{}/", self.dir.path().display());
        problems(self.parse(args, env))
            .iter()
            .map(|line| line.replace(&dir, ""))
            .collect()
    }
}

fn problems(result: Result<Invocation<ToyConfig>, Usage>) -> Vec<String> {
    let usage = result.expect_err("should be refused");
    assert_eq!(usage.exit_code, 2);
    usage.text.lines().map(str::to_owned).collect()
}

/// The rows of a table of three columns.
fn rows(table: &str) -> impl Iterator<Item = [&str; 3]> {
    table.trim().lines().map(|row| {
        let cells: Vec<_> = row.splitn(3, " | ").map(str::trim).collect();
        cells.try_into().unwrap()
    })
}

mod precedence {
    use super::*;

    #[test]
    fn without_anything_the_defaults_hold() {
        let toy = toy(&[], &[]).unwrap();
        assert!(matches!(toy.command, Command::Run));
        assert_eq!(toy.config, ToyConfig::default());
        assert_eq!(toy.origins.iter().count(), 0);
        assert_eq!(toy.origins.of("kubeApiQps"), Origin::Default);
    }

    #[rstest]
    #[case::number("kubeApiQps", "1.5", "2.5", "3.5", [json!(1.5), json!(2.5), json!(3.5)])]
    #[case::whole_number("kubeApiBurst", "1", "2", "3", [json!(1), json!(2), json!(3)])]
    #[case::own_number("concurrentSyncs", "1", "2", "3", [json!(1), json!(2), json!(3)])]
    #[case::boolean("leaderElect", "false", "true", "false", [json!(false), json!(true), json!(false)])]
    #[case::own_boolean("remove", "true", "false", "true", [json!(true), json!(false), json!(true)])]
    #[case::text("context", "a", "b", "c", [json!("a"), json!("b"), json!("c")])]
    #[case::path("kubeconfig", "/a", "/b", "/c", [json!("/a"), json!("/b"), json!("/c")])]
    #[case::choice("logFormat", "text", "json", "text", [json!("text"), json!("json"), json!("text")])]
    #[case::duration("leaderElectLeaseDuration", "60s", "1.5m", "100s", [json!("1m0s"), json!("1m30s"), json!("1m40s")])]
    #[case::address("httpBindAddress", "1.1.1.1:1", "'[::1]:2'", "3.3.3.3:3", [json!("1.1.1.1:1"), json!("[::1]:2"), json!("3.3.3.3:3")])]
    fn a_flag_wins_over_the_environment_and_the_environment_over_the_file(
        #[case] key: &str,
        #[case] in_file: &str,
        #[case] in_env: &str,
        #[case] in_flag: &str,
        #[case] expected: [Value; 3],
    ) {
        let in_env = in_env.trim_matches('\'');
        let file = ConfigFile::new(format!("# first line\n{key}: {in_file}\n"));
        let flag = format!("--{}", kebab(key));
        let env = format!("CONTROLLER_{}", kebab(key).replace('-', "_").to_uppercase());
        let value = |toy: &Invocation<ToyConfig>| effective(&toy.config)[key].clone();

        let toy = file.parse(&[], &[]).unwrap();
        assert_eq!(value(&toy), expected[0]);
        assert_eq!(
            toy.origins.of(key),
            Origin::File {
                path: PathBuf::from(file.path()),
                line: 2
            }
        );

        let toy = file.parse(&[], &[(&env, in_env)]).unwrap();
        assert_eq!(value(&toy), expected[1]);
        assert_eq!(toy.origins.of(key), Origin::Environment(env.clone()));

        let toy = file
            .parse(&[&format!("{flag}={in_flag}")], &[(&env, in_env)])
            .unwrap();
        assert_eq!(value(&toy), expected[2]);
        assert_eq!(toy.origins.of(key).to_string(), flag);
    }

    #[test]
    fn the_config_file_can_be_named_by_the_environment() {
        let file = ConfigFile::new("shelfSize: 3");
        let toy = toy(&[], &[("CONTROLLER_CONFIG", &file.path())]).unwrap();
        assert_eq!(toy.config.shelf_size, 3);
    }

    #[test]
    fn the_flag_for_the_config_file_wins_over_the_environment() {
        let file = ConfigFile::new("shelfSize: 3");
        let toy = file
            .parse(&[], &[("CONTROLLER_CONFIG", "/does/not/exist")])
            .unwrap();
        assert_eq!(toy.config.shelf_size, 3);
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let file = ConfigFile::new("shelfSize: 3");
        let env = [
            ("CONTROLLER_SHELF_SIZE", ""),
            ("CONTROLLER_CONTEXT", ""),
            ("CONTROLLER_CONFIG", ""),
        ];
        assert_eq!(file.parse(&[], &env).unwrap().config.shelf_size, 3);
        assert_eq!(toy(&[], &env).unwrap().config, ToyConfig::default());
    }

    #[test]
    fn variables_of_service_links_are_ignored() {
        let env = [
            ("CONTROLLER_PORT", "tcp://10.0.0.1:80"),
            ("CONTROLLER_SERVICE_HOST", "10.0.0.1"),
        ];
        assert_eq!(toy(&[], &env).unwrap().config, ToyConfig::default());
    }

    #[test]
    fn an_empty_flag_takes_back_an_optional_setting() {
        let file = ConfigFile::new("context: one\n");
        let toy = file
            .parse(&["--context="], &[("CONTROLLER_CONTEXT", "two")])
            .unwrap();
        assert_eq!(toy.config.common.context, None);
    }

    #[test]
    fn the_last_of_repeated_flags_wins() {
        let toy = toy(
            &["--shelf-size=1", "run", "--shelf-size=2", "--shelf-size", "3"],
            &[],
        )
        .unwrap();
        assert_eq!(toy.config.shelf_size, 3);
    }
}

mod flags {
    use super::*;

    #[rstest]
    #[case("kubeconfig", "PATH", json!("/k"))]
    #[case("context", "NAME", json!("prod"))]
    #[case("kube-api-qps", "F", json!(2.5))]
    #[case("kube-api-burst", "N", json!(3))]
    #[case("concurrent-syncs", "N", json!(4))]
    #[case("leader-elect", "BOOL", json!(false))]
    #[case("leader-elect-resource-namespace", "NAME", json!("ns"))]
    #[case("leader-elect-resource-name", "NAME", json!("second"))]
    #[case("leader-elect-identity", "NAME", json!("uid"))]
    #[case("leader-elect-lease-duration", "DURATION", json!("1m0s"))]
    #[case("leader-elect-renew-deadline", "DURATION", json!("11s"))]
    #[case("leader-elect-retry-period", "DURATION", json!("1s"))]
    #[case("http-bind-address", "IP:PORT", json!("127.0.0.1:0"))]
    #[case("metrics-authorization", "none|kubernetes", json!("kubernetes"))]
    #[case("log-format", "text|json", json!("json"))]
    #[case("log-level", "FILTER", json!("info,kube=debug"))]
    #[case("dry-run", "BOOL", json!(true))]
    fn every_flag_of_the_table_has_an_environment_twin_and_a_file_key(
        #[case] flag: &str,
        #[case] value_name: &str,
        #[case] value: Value,
    ) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let env = format!("CONTROLLER_{}", flag.replace('-', "_").to_uppercase());
        let key = camel(flag);
        let by_flag = toy(&[&format!("--{flag}={text}")], &[]).unwrap().config;
        let by_env = toy(&[], &[(&env, &text)]).unwrap().config;
        let by_file = ConfigFile::new(json!({ &key: value }).to_string())
            .parse(&[], &[])
            .unwrap()
            .config;
        assert_eq!(effective(&by_flag)[&key], value);
        assert_ne!(by_flag, ToyConfig::default());
        assert_eq!(by_env, by_flag);
        assert_eq!(by_file, by_flag);

        let help = toy(&["--help"], &[]).unwrap_err().text;
        let spellings = [
            format!("--{flag} <{value_name}>\n"),
            format!("--{flag}[=<{value_name}>]\n"),
        ];
        assert!(spellings.iter().any(|spelling| help.contains(spelling)), "{help}");
    }

    #[test]
    fn certificate_and_key_are_set_together() {
        let toy = toy(&["--tls-cert-file=/c", "--tls-private-key-file=/k"], &[]).unwrap();
        assert_eq!(toy.config.common.tls_cert_file, Some(PathBuf::from("/c")));
        assert_eq!(toy.config.common.tls_private_key_file, Some(PathBuf::from("/k")));
    }

    #[rstest]
    #[case::bare("--leader-elect", true)]
    #[case::yes("--leader-elect=true", true)]
    #[case::no("--leader-elect=false", false)]
    #[case::capital("--leader-elect=False", false)]
    #[case::one("--leader-elect=1", true)]
    #[case::zero("--leader-elect=0", false)]
    #[case::letter("--leader-elect=t", true)]
    fn a_boolean_flag_is_read_as_go_reads_it(#[case] flag: &str, #[case] expected: bool) {
        let toy = toy(
            &[flag],
            &[("CONTROLLER_LEADER_ELECT", if expected { "false" } else { "true" })],
        )
        .unwrap();
        assert_eq!(toy.config.common.leader_elect, expected);
    }

    #[test]
    fn flags_may_stand_on_either_side_of_run() {
        let toy = toy(&["--dry-run", "run", "--shelf-size", "3"], &[]).unwrap();
        assert!(matches!(toy.command, Command::Run));
        assert!(toy.config.common.dry_run);
        assert_eq!(toy.config.shelf_size, 3);
    }

    #[test]
    fn a_subcommand_of_the_controller_takes_its_flags_and_its_arguments() {
        let toy = toy(&["explain", "--shelf-size=3", "bear"], &[]).unwrap();
        let Command::Extra(name, matches) = &toy.command else {
            panic!("{:?}", toy.command)
        };
        assert_eq!(name, "explain");
        assert_eq!(matches.get_one::<String>("toy").unwrap(), "bear");
        assert_eq!(toy.config.shelf_size, 3);
    }

    /// Arguments, variables, and the shelf size and the dry run that they add up to; or the problem.
    #[rstest]
    #[case::flag_after(&["explain", "--shelf-size=3"], &[], Ok((3, false)))]
    #[case::flag_before(&["--dry-run", "explain", "--shelf-size=3"], &[], Ok((3, true)))]
    #[case::environment(&["explain"], &[("CONTROLLER_SHELF_SIZE", "3"), ("CONTROLLER_DRY_RUN", "true")], Ok((3, true)))]
    #[case::of_the_server(&["explain", "--dry-run"], &[], Err("unexpected argument '--dry-run' found"))]
    #[case::none_of_config_schema(&["config-schema", "--dry-run"], &[], Err("unexpected argument '--dry-run' found"))]
    fn a_subcommand_of_the_controller_refuses_flags_that_it_does_not_read(
        #[case] args: &[&str],
        #[case] env: &[(&str, &str)],
        #[case] expected: Result<(i16, bool), &str>,
    ) {
        match (toy(args, env), expected) {
            (Ok(toy), expected) => {
                assert_eq!(Ok((toy.config.shelf_size, toy.config.common.dry_run)), expected);
            }
            (Err(usage), Err(problem)) => {
                assert_eq!(usage.exit_code, 2);
                assert!(usage.text.contains(problem), "{}", usage.text);
            }
            (Err(usage), Ok(_)) => panic!("{}", usage.text),
        }
    }

    #[test]
    fn a_subcommand_lists_the_flags_that_it_reads() {
        let help = toy(&["explain", "--help"], &[]).unwrap_err().text;
        let flags: Vec<_> = help
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("--")?.split(' ').next())
            .collect();
        let expected = [
            "config",
            "context",
            "kube-api-content-type",
            "kubeconfig",
            "log-format",
            "log-level",
            "shelf-size",
        ];
        assert_eq!(flags, expected);
    }

    #[rstest]
    #[case::unknown("--kube-api-qsp=1", "unexpected argument '--kube-api-qsp' found")]
    #[case::detached_boolean("false", "unrecognized subcommand 'false'")]
    #[case::without_value(
        "--context",
        "a value is required for '--context <NAME>' but none was supplied"
    )]
    fn a_command_line_that_cannot_be_read_is_refused(#[case] arg: &str, #[case] expected: &str) {
        let text = problems(toy(&[arg], &[])).join("\n");
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn the_version_names_commit_and_kubernetes() {
        let usage = toy(&["--version"], &[]).unwrap_err();
        assert_eq!(
            usage.text,
            "toy-controller 0.1.0 (commit abc1234, Kubernetes 1.35 to 1.37)\n"
        );
        assert_eq!(usage.exit_code, 0);
    }

    #[test]
    fn the_help_is_the_same_everywhere() {
        let usage = toy(&["--help"], &[]).unwrap_err();
        assert_eq!(usage.exit_code, 0);
        insta::assert_snapshot!(usage.text);
    }

    #[test]
    fn run_has_the_same_settings_as_the_whole() {
        let settings = |args: &[&str]| {
            let help = toy(args, &[]).unwrap_err().text;
            help[help.find("toy-controller:").unwrap()..help.find("Each flag").unwrap_or(help.len())]
                .trim()
                .to_owned()
        };
        assert_eq!(settings(&["run", "--help"]), settings(&["--help"]));
    }
}

mod problems_of_the_file {
    use super::*;

    /// What is wrong, the file, and what is said of it behind `config.yaml`. `⏎` is a line break, `⇥` a tab.
    const PROBLEMS: &str = r#"
unknown key           | a: 1                                      | :1: a: unknown key
misspelt key          | ⏎⏎kubeApiQsp: 1                           | :3: kubeApiQsp: unknown key, did you mean kubeApiQps?
key spelt as the flag | kube-api-qps: 1                           | :1: kube-api-qps: unknown key, did you mean kubeApiQps?
key with line break   | "a\nb": 1                                 | :1: a\nb: unknown key
null key              | ? ⏎: 1                                    | :2:1: null is not allowed here
empty key             | '': 1                                     | :1: : unknown key
repeated key          | remove: true⏎shelfSize: 1⏎remove: true    | :3: remove: set again, first on line 1
text for number       | kubeApiQps: fast                          | :1: kubeApiQps: invalid value "fast": expected a number
quoted number         | kubeApiQps: '5'                           | :1: kubeApiQps: invalid value "5": expected a number
not a number          | kubeApiQps: .nan                          | :1: kubeApiQps: invalid value ".nan": expected a number
infinite              | kubeApiQps: 1e999                         | :1: kubeApiQps: invalid value ".inf": expected a number
negative qps          | kubeApiQps: -1                            | :1: kubeApiQps: invalid value -1: must be 0 (no limit) or more
misspelt log level    | logLevel: inof                            | :1: logLevel: invalid value "inof": "inof" is not a level, expected error, warn, info, debug, trace or a list of target=level
number for text       | context: 5                                | :1: context: invalid value 5: expected a text
negative              | kubeApiBurst: -1                          | :1: kubeApiBurst: invalid value -1: expected a whole number from 0 to 4294967295
huge                  | kubeApiBurst: 4294967296                  | :1: kubeApiBurst: invalid value 4294967296: expected a whole number from 0 to 4294967295
beyond 64 bits        | kubeApiBurst: 99999999999999999999999     | :1: kubeApiBurst: invalid value 1e+23: expected a whole number from 0 to 4294967295
fraction              | kubeApiBurst: 1.5                         | :1: kubeApiBurst: invalid value 1.5: expected a whole number from 0 to 4294967295
no workers            | concurrentSyncs: 0                        | :1: concurrentSyncs: invalid value 0: expected a whole number from 1 to 4294967295
signed                | shelfSize: -32769                         | :1: shelfSize: invalid value -32769: expected a whole number from -32768 to 32767
list for scalar       | shelfSize: [1, 2]                         | :1: shelfSize: invalid value [1,2]: expected a whole number from -32768 to 32767
mapping for scalar    | context: {a: b}                           | :1: context: invalid value {"a":"b"}: expected a text
null                  | shelfSize:                                | :1: shelfSize: invalid value null: expected a whole number from -32768 to 32767
old boolean           | remove: yes                               | :1: remove: invalid value "yes": expected true or false
number for boolean    | remove: 1                                 | :1: remove: invalid value 1: expected true or false
choice                | logFormat: xml                            | :1: logFormat: invalid value "xml": expected text or json
number for duration   | leaderElectRetryPeriod: 2                 | :1: leaderElectRetryPeriod: invalid value 2: expected a duration such as 1m30s
duration without unit | leaderElectRetryPeriod: '2'               | :1: leaderElectRetryPeriod: invalid value "2": a number has no unit, expected a duration such as 1m30s
port alone            | httpBindAddress: 8080                     | :1: httpBindAddress: invalid value 8080: expected an address such as 127.0.0.1:8080
host name             | httpBindAddress: localhost:8080           | :1: httpBindAddress: invalid value "localhost:8080": invalid socket address syntax
namespace             | leaderElectResourceNamespace: Kube_System | :1: leaderElectResourceNamespace: invalid value "Kube_System": a namespace has at most 63 characters of a-z, 0-9 and -, and neither starts nor ends with -
lease                 | leaderElectResourceName: a..b             | :1: leaderElectResourceName: invalid value "a..b": a Lease's name has at most 253 characters of a-z, 0-9, - and ., and each part between dots neither starts nor ends with -
no reviewer           | metricsAuthorization: rbac                | :1: metricsAuthorization: invalid value "rbac": expected none or kubernetes
own rule              | shelfSize: 13                             | :1: shelfSize: invalid value 13: brings bad luck
certificate alone     | tlsCertFile: /c                           | :1: tlsCertFile: is set without tlsPrivateKeyFile
key alone             | tlsPrivateKeyFile: /k                     | :1: tlsPrivateKeyFile: is set without tlsCertFile
no lease              | leaderElectLeaseDuration: 0s              | :1: leaderElectLeaseDuration: invalid value 0s: a Lease lasts at least 1s
long lease            | leaderElectLeaseDuration: 2000000h        | :1: leaderElectLeaseDuration: invalid value 2000000h0m0s: a Lease lasts at most 2147483647s
no deadline           | leaderElectRenewDeadline: '0'             | :1: leaderElectRenewDeadline: invalid value 0s: must be longer than 0
no retry              | leaderElectRetryPeriod: 0ms               | :1: leaderElectRetryPeriod: invalid value 0s: must be longer than 0
short lease           | leaderElectLeaseDuration: 10s             | :1: leaderElectLeaseDuration: leaderElectLeaseDuration (10s) must be longer than leaderElectRenewDeadline (10s)
long deadline         | leaderElectRenewDeadline: 15s             | :1: leaderElectRenewDeadline: leaderElectLeaseDuration (15s) must be longer than leaderElectRenewDeadline (15s)
long retry            | leaderElectRetryPeriod: 9s                | :1: leaderElectRetryPeriod: leaderElectRenewDeadline (10s) must be longer than 1.2 times leaderElectRetryPeriod (9s)
syntax                | remove: true⏎shelfSize: [1⏎               | :2:12: unclosed bracket '['
tab                   | remove:⏎⇥- 1                              | :2:2: tabs disallowed within this context (block indentation)
list                  | - a⏎- b                                   | : invalid type: sequence, expected lines of `key: value`
text                  | hello                                     | : invalid type: string "hello", expected lines of `key: value`
two documents         | remove: true⏎---⏎remove: false⏎           | :3:1: only single YAML document expected but multiple found
unknown anchor        | remove: *a                                | :1:9: reference to unknown value
"#;

    #[test]
    fn one_problem_is_one_line_with_its_place() {
        for [name, text, expected] in rows(PROBLEMS) {
            let file = ConfigFile::new(text.replace('⏎', "\n").replace('⇥', "\t"));
            assert_eq!(
                file.problems(&[], &[]),
                [format!("config.yaml{expected}")],
                "{name}"
            );
        }
    }

    #[test]
    fn lease_times_that_just_go_together_are_taken() {
        let file = |lease, renew, retry| {
            ConfigFile::new(format!(
                "leaderElectLeaseDuration: {lease}\nleaderElectRenewDeadline: {renew}\nleaderElectRetryPeriod: {retry}\n"
            ))
        };
        for (lease, renew, retry) in [("15s", "12001ms", "10s"), ("1500ms", "1s", "200ms")] {
            assert!(
                file(lease, renew, retry).parse(&[], &[]).is_ok(),
                "{lease}, {renew}, {retry}"
            );
        }
        assert_eq!(file("15s", "12s", "10s").problems(&[], &[]).len(), 1);
    }

    #[test]
    fn a_long_value_is_cut() {
        let file = ConfigFile::new(format!("shelfSize: {}", "x".repeat(5000)));
        let expected = format!(
            "config.yaml:1: shelfSize: invalid value \"{}…: expected a whole number from -32768 to 32767",
            "x".repeat(59)
        );
        assert_eq!(file.problems(&[], &[]), [expected]);
    }

    #[test]
    fn the_password_of_a_url_is_not_shown() {
        let file = ConfigFile::new("httpBindAddress: https://me:secret@host\n");
        assert_eq!(
            file.problems(&[], &[]),
            [
                "config.yaml:1: httpBindAddress: invalid value \"https://***@host\": invalid socket address syntax"
            ]
        );
    }

    #[rstest]
    #[case::nothing("")]
    #[case::comment("# nothing here\n")]
    #[case::document_start("---\n")]
    #[case::null("null\n")]
    #[case::byte_order_mark("\u{feff}")]
    #[case::empty_mapping("{}")]
    fn a_file_without_keys_sets_nothing(#[case] text: &str) {
        assert_eq!(
            ConfigFile::new(text).parse(&[], &[]).unwrap().config,
            ToyConfig::default()
        );
    }

    #[test]
    fn null_leaves_an_optional_setting_unset() {
        let file = ConfigFile::new("kubeconfig: null\ncontext: ~\nlogFormat:\ntlsCertFile: ''\n");
        assert_eq!(file.parse(&[], &[]).unwrap().config, ToyConfig::default());
    }

    #[test]
    fn keys_of_a_merged_anchor_count() {
        let file = ConfigFile::new("<<: {shelfSize: 3}\nremove: true\n");
        let toy = file.parse(&[], &[]).unwrap();
        assert_eq!((toy.config.shelf_size, toy.config.remove), (3, true));
    }

    #[test]
    fn a_missing_file_is_named() {
        assert_eq!(
            problems(toy(&["--config=/does/not/exist.yaml"], &[])),
            ["/does/not/exist.yaml: cannot be read: No such file or directory (os error 2)"]
        );
    }

    #[test]
    fn a_directory_is_not_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        assert_eq!(
            problems(toy(&["--config", path], &[])),
            [format!("{path}: cannot be read: Is a directory (os error 21)")]
        );
    }

    #[test]
    fn an_endless_file_is_not_read_to_its_end() {
        assert_eq!(
            problems(toy(&["--config=/dev/zero"], &[])),
            ["/dev/zero: cannot be read: longer than 1 MiB"]
        );
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_refused() {
        let file = ConfigFile::new(b"context: \xff\n");
        assert_eq!(
            file.problems(&[], &[]),
            ["config.yaml: cannot be read: is not UTF-8"]
        );
    }
}

mod problems_of_flags_and_environment {
    use super::*;

    /// What is wrong, the flag, and what is said behind its name.
    const FLAGS: &str = r#"
number        | --kube-api-qps=fast                   | invalid value "fast": expected a number
not a number  | --kube-api-qps=NaN                    | invalid value "NaN": expected a number
infinite      | --kube-api-qps=1e999                  | invalid value "1e999": expected a number
negative      | --kube-api-burst=-1                   | invalid value -1: expected a whole number from 0 to 4294967295
huge          | --kube-api-burst=99999999999999999999 | invalid value "99999999999999999999": expected a whole number from 0 to 4294967295
empty         | --kube-api-burst=                     | invalid value "": expected a whole number from 0 to 4294967295
boolean       | --leader-elect=maybe                  | invalid value "maybe": expected true or false
empty boolean | --leader-elect=                       | invalid value "": expected true or false
choice        | --log-format=                         | invalid value "": expected text or json
duration      | --leader-elect-retry-period=2x        | invalid value "2x": unknown unit "x", expected one of ns, us, ms, s, m, h
line break    | --http-bind-address=a⏎b               | invalid value "a\nb": invalid socket address syntax
disagreement  | --leader-elect-renew-deadline=20s     | leaderElectLeaseDuration (15s) must be longer than leaderElectRenewDeadline (20s)
"#;

    #[test]
    fn a_bad_flag_is_named() {
        for [name, flag, expected] in rows(FLAGS) {
            let flag = flag.replace('⏎', "\n");
            let (of, _) = flag.split_once('=').unwrap();
            assert_eq!(
                problems(toy(&[&flag], &[])),
                [format!("{of}: {expected}")],
                "{name}"
            );
        }
    }

    #[test]
    fn a_negative_number_may_follow_its_flag_after_a_space() {
        assert_eq!(toy(&["--shelf-size", "-3"], &[]).unwrap().config.shelf_size, -3);
    }

    #[test]
    fn a_flag_that_is_not_utf_8_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let args = [
            OsString::from("toy-controller"),
            OsString::from_vec(b"--context=\xff".to_vec()),
        ];
        let usage = parse::<ToyConfig>(ABOUT, Vec::new(), args, &|_| None).unwrap_err();
        assert_eq!(usage.exit_code, 2);
        assert!(usage.text.contains("invalid UTF-8"), "{}", usage.text);
    }

    #[test]
    fn a_path_with_a_line_break_stays_on_one_line() {
        assert_eq!(
            problems(toy(&[], &[("CONTROLLER_CONFIG", "/does\nnot/exist")])),
            ["/does\u{fffd}not/exist: cannot be read: No such file or directory (os error 2)"]
        );
    }

    #[rstest]
    #[case::lease_just_longer_than_the_deadline("10.000000001s", "10s", "2s", true)]
    #[case::lease_as_long_as_the_deadline("10s", "10s", "2s", false)]
    #[case::deadline_just_longer_than_the_jittered_retry("15s", "12.01s", "10s", true)]
    #[case::deadline_as_long_as_the_jittered_retry("15s", "12s", "10s", false)]
    fn lease_times_hold_the_conditions_of_client_go(
        #[case] lease: &str,
        #[case] renew: &str,
        #[case] retry: &str,
        #[case] expected: bool,
    ) {
        let env = [
            ("CONTROLLER_LEADER_ELECT_LEASE_DURATION", lease),
            ("CONTROLLER_LEADER_ELECT_RENEW_DEADLINE", renew),
            ("CONTROLLER_LEADER_ELECT_RETRY_PERIOD", retry),
        ];
        assert_eq!(toy(&[], &env).is_ok(), expected);
    }

    #[test]
    fn a_bad_variable_is_named() {
        assert_eq!(
            problems(toy(&[], &[("CONTROLLER_KUBE_API_QPS", "fast")])),
            ["CONTROLLER_KUBE_API_QPS: invalid value \"fast\": expected a number"]
        );
    }

    #[test]
    fn all_problems_come_at_once_in_the_order_file_environment_flags_rules() {
        let file = ConfigFile::new(
            "shelfSize: 13\nnope: 1\nkubeApiQps: fast\nremove: 7\nleaderElectRetryPeriod: 1y\n",
        );
        let env = [
            ("CONTROLLER_KUBE_API_BURST", "-5"),
            ("CONTROLLER_DRY_RUN", "perhaps"),
        ];
        // The renew deadline would not go with the default retry period: no word of it, for that is not what was asked for.
        let flags = [
            "--remove=true",
            "--leader-elect-renew-deadline=1s",
            "--concurrent-syncs=0",
            "--tls-cert-file=/c",
        ];
        assert_eq!(
            file.problems(&flags, &env),
            [
                "config.yaml:2: nope: unknown key",
                "config.yaml:3: kubeApiQps: invalid value \"fast\": expected a number",
                "config.yaml:4: remove: invalid value 7: expected true or false",
                "config.yaml:5: leaderElectRetryPeriod: invalid value \"1y\": unknown unit \"y\", expected one of ns, us, ms, s, m, h",
                "CONTROLLER_DRY_RUN: invalid value \"perhaps\": expected true or false",
                "CONTROLLER_KUBE_API_BURST: invalid value -5: expected a whole number from 0 to 4294967295",
                "--concurrent-syncs: invalid value 0: expected a whole number from 1 to 4294967295",
                "--tls-cert-file: is set without tlsPrivateKeyFile",
                "config.yaml:1: shelfSize: invalid value 13: brings bad luck",
            ]
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_does_not_hide_the_other_problems() {
        let file = ConfigFile::new("a: [");
        let problems = file.problems(&["--shelf-size=x"], &[]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("config.yaml:1:"), "{problems:?}");
        assert_eq!(
            problems[1],
            "--shelf-size: invalid value \"x\": expected a whole number from -32768 to 32767"
        );
    }
}

mod durations {
    use super::*;

    const LONGEST: Duration = Duration::from_nanos(i64::MAX as u64);

    #[rstest]
    #[case("0", Duration::ZERO, "0s")]
    #[case("+0", Duration::ZERO, "0s")]
    #[case("0s", Duration::ZERO, "0s")]
    #[case("15s", Duration::from_secs(15), "15s")]
    #[case("+5s", Duration::from_secs(5), "5s")]
    #[case("1m30s", Duration::from_secs(90), "1m30s")]
    #[case("2m", Duration::from_mins(2), "2m0s")]
    #[case("1h", Duration::from_hours(1), "1h0m0s")]
    #[case("26h3m0.25s", Duration::from_millis(93_780_250), "26h3m0.25s")]
    #[case("1.5s", Duration::from_millis(1500), "1.5s")]
    #[case(".5s", Duration::from_millis(500), "500ms")]
    #[case("5.s", Duration::from_secs(5), "5s")]
    #[case("300ms", Duration::from_millis(300), "300ms")]
    #[case("1us", Duration::from_micros(1), "1\u{b5}s")]
    #[case("1.5\u{b5}s", Duration::from_nanos(1500), "1.5\u{b5}s")]
    #[case("1500\u{3bc}s", Duration::from_micros(1500), "1.5ms")]
    #[case("7ns", Duration::from_nanos(7), "7ns")]
    #[case("0.9ns", Duration::ZERO, "0s")]
    #[case("0.100000000000000000000h", Duration::from_mins(6), "6m0s")]
    #[case(
        "0.3333333333333333333h",
        Duration::from_nanos(1_199_999_999_999),
        "19m59.999999999s"
    )]
    #[case("0000000000000000000000001s", Duration::from_secs(1), "1s")]
    #[case("1s1s", Duration::from_secs(2), "2s")]
    #[case("9223372036854775807ns", LONGEST, "2562047h47m16.854775807s")]
    fn a_duration_is_read_and_written_as_go_does(
        #[case] text: &str,
        #[case] expected: Duration,
        #[case] canonical: &str,
    ) {
        let duration: GoDuration = text.parse().unwrap();
        assert_eq!(duration.get(), expected);
        assert_eq!(duration.to_string(), canonical);
        assert_eq!(serde_json::to_value(duration).unwrap(), json!(canonical));
        assert_eq!(
            serde_json::from_value::<GoDuration>(json!(text)).unwrap(),
            duration
        );
    }

    #[test]
    fn what_is_no_duration_is_refused_by_name() {
        let no_number = ["", " ", ".", "+", "s", ".s", "++1s", "\u{661}s"];
        let no_unit = ["1", "1m30", "1.2.3s", "00"];
        let too_long = ["9223372036854775808ns", "2562048h", "2562047h2562047h"];
        let beyond_64_bits = ["18446744073709551615h", "99999999999999999999s"];
        for (texts, why) in [
            (&no_number[..], "expected a duration such as 1m30s"),
            (
                &no_unit,
                "a number has no unit, expected a duration such as 1m30s",
            ),
            (&["-1s"], "must not be negative"),
            (&too_long, "longer than 292 years"),
            (&beyond_64_bits, "longer than 292 years"),
        ] {
            for text in texts {
                let error = text.parse::<GoDuration>().unwrap_err();
                assert_eq!(error.to_string(), format!("invalid duration \"{text}\": {why}"));
            }
        }
    }

    #[test]
    fn an_unknown_unit_is_named() {
        for (text, unit) in [
            ("1d", "d"),
            ("1 s", " s"),
            ("1S", "S"),
            ("1s-1s", "s-"),
            ("1\u{1f600}", "\u{1f600}"),
        ] {
            let error = text.parse::<GoDuration>().unwrap_err();
            let expected = "expected one of ns, us, ms, s, m, h";
            let expected = format!("invalid duration \"{text}\": unknown unit \"{unit}\", {expected}");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_length_beyond_go_is_cut_to_the_longest() {
        assert_eq!(GoDuration::from(Duration::MAX).get(), LONGEST);
        assert_eq!(Duration::from(GoDuration::from_secs(3)), Duration::from_secs(3));
    }

    proptest! {
        #[test]
        fn any_length_survives_being_written_and_read(nanos in 0..=i64::MAX as u64) {
            let duration = GoDuration::from(Duration::from_nanos(nanos));
            prop_assert_eq!(duration.to_string().parse::<GoDuration>().unwrap(), duration);
        }

        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _ = text.parse::<GoDuration>();
        }

        #[test]
        fn what_looks_like_a_duration_is_read_or_refused(text in "[-+]?([0-9]{0,25}\\.?[0-9]{0,25}(ns|us|ms|s|m|h|)){0,5}") {
            let _ = text.parse::<GoDuration>();
        }
    }

    /// The pattern of the published schema, as a strategy that makes texts which match it.
    fn texts_of_the_schema() -> impl Strategy<Value = String> {
        let schema = config_schema::<ToyConfig>();
        let pattern = schema["properties"]["leaderElectLeaseDuration"]["pattern"]
            .as_str()
            .unwrap();
        proptest::string::string_regex(pattern.trim_start_matches('^').trim_end_matches('$')).unwrap()
    }

    proptest! {
        #[test]
        fn what_the_schema_allows_is_a_duration_unless_it_is_too_long(text in texts_of_the_schema()) {
            if let Err(error) = text.parse::<GoDuration>() {
                prop_assert!(error.to_string().ends_with("longer than 292 years"), "{}", error);
            }
        }
    }
}

mod schema {
    use super::*;

    /// Whether `value` fits the part of JSON Schema that the config schema uses.
    fn fits(schema: &Value, value: &Value) -> bool {
        if let Some(branches) = schema["anyOf"].as_array() {
            return branches.iter().any(|branch| fits(branch, value));
        }
        if let Some(branches) = schema["oneOf"].as_array() {
            return branches.iter().filter(|branch| fits(branch, value)).count() == 1;
        }
        let is = |name: &str| match name {
            "object" => value.is_object(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "number" => value.is_number(),
            "integer" => value.is_i64() || value.is_u64(),
            "null" => value.is_null(),
            other => panic!("type {other}"),
        };
        let typed = match &schema["type"] {
            Value::String(name) => is(name),
            Value::Array(names) => names.iter().any(|name| is(name.as_str().unwrap())),
            other => panic!("type {other}"),
        };
        let bounded = match (schema["minimum"].as_f64(), value.as_f64()) {
            (Some(minimum), Some(number)) => minimum <= number,
            _ => true,
        };
        let constant = schema.get("const").is_none_or(|constant| constant == value);
        let keys = value.as_object().is_none_or(|object| {
            object
                .iter()
                .all(|(key, value)| match schema["properties"].get(key) {
                    Some(schema) => fits(schema, value),
                    None => schema["additionalProperties"] != json!(false),
                })
        });
        typed && bounded && constant && keys
    }

    #[test]
    fn the_schema_is_the_same_every_time() {
        let schema = config_schema::<ToyConfig>();
        assert_eq!(schema.to_string(), config_schema::<ToyConfig>().to_string());
        insta::assert_snapshot!(serde_json::to_string_pretty(&schema).unwrap());
    }

    #[test]
    fn config_schema_is_asked_for_without_reading_any_config() {
        let toy = toy(
            &["--config=/does/not/exist", "config-schema"],
            &[("CONTROLLER_SHELF_SIZE", "x")],
        )
        .unwrap();
        assert!(matches!(toy.command, Command::ConfigSchema));
        assert_eq!(toy.config, ToyConfig::default());
    }

    #[rstest]
    #[case(json!({}), true)]
    #[case(json!({"kubeApiQps": 5, "kubeApiBurst": 0, "remove": true, "shelfSize": -3}), true)]
    #[case(json!({"kubeconfig": null, "logFormat": null, "context": ""}), true)]
    #[case(json!({"logFormat": "json", "leaderElectRetryPeriod": "1s", "httpBindAddress": "[::]:0"}), true)]
    #[case(json!({"nope": 1}), false)]
    #[case(json!({"kubeApiQps": -1}), false)]
    #[case(json!({"kubeApiQps": "5"}), false)]
    #[case(json!({"kubeApiBurst": -1}), false)]
    #[case(json!({"kubeApiBurst": null}), false)]
    #[case(json!({"concurrentSyncs": 0}), false)]
    #[case(json!({"logFormat": "xml"}), false)]
    #[case(json!({"logFormat": ""}), false)]
    #[case(json!({"leaderElectRetryPeriod": 1}), false)]
    #[case(json!({"remove": "true"}), false)]
    #[case(json!([]), false)]
    fn schema_and_parser_agree(#[case] config: Value, #[case] expected: bool) {
        assert_eq!(fits(&config_schema::<ToyConfig>(), &config), expected, "schema");
        assert_eq!(
            ConfigFile::new(config.to_string()).parse(&[], &[]).is_ok(),
            expected,
            "parser"
        );
    }

    #[test]
    fn the_default_config_fits_the_schema() {
        assert!(fits(
            &config_schema::<ToyConfig>(),
            &effective(&ToyConfig::default())
        ));
    }
}

#[test]
fn the_effective_config_shows_every_setting_and_no_password() {
    let toy = toy(&["--context=https://me:secret@host/x", "--shelf-size=3"], &[]).unwrap();
    assert_eq!(
        effective(&toy.config),
        json!({
            "kubeconfig": null,
            "context": "https://***@host/x",
            "kubeApiQps": 50.0,
            "kubeApiBurst": 100,
            "kubeApiContentType": "application/vnd.kubernetes.protobuf",
            "eventQps": 50.0,
            "eventBurst": 100,
            "leaderElect": true,
            "leaderElectResourceName": null,
            "leaderElectResourceNamespace": null,
            "leaderElectIdentity": null,
            "leaderElectLeaseDuration": "15s",
            "leaderElectRenewDeadline": "10s",
            "leaderElectRetryPeriod": "2s",
            "httpBindAddress": "[::]:8080",
            "metricsAuthorization": "none",
            "tlsCertFile": null,
            "tlsPrivateKeyFile": null,
            "logFormat": null,
            "logLevel": "info",
            "dryRun": false,
            "concurrentSyncs": 5,
            "remove": false,
            "shelfSize": 3,
        })
    );
}

const FLAGS: [&str; 25] = [
    "config",
    "kubeconfig",
    "context",
    "kube-api-qps",
    "kube-api-burst",
    "kube-api-content-type",
    "event-qps",
    "event-burst",
    "concurrent-syncs",
    "leader-elect",
    "leader-elect-resource-namespace",
    "leader-elect-resource-name",
    "leader-elect-identity",
    "leader-elect-lease-duration",
    "leader-elect-renew-deadline",
    "leader-elect-retry-period",
    "http-bind-address",
    "metrics-authorization",
    "tls-cert-file",
    "tls-private-key-file",
    "log-format",
    "log-level",
    "dry-run",
    "remove",
    "shelf-size",
];

/// Any config that passes validation.
fn valid_config() -> impl Strategy<Value = ToyConfig> {
    let name = || prop::option::of("[^\\x00-\\x1f\\x7f-\\x9f]{1,20}");
    let path = || name().prop_map(|path| path.map(PathBuf::from));
    let election = (
        any::<bool>(),
        prop::option::of(("[a-z0-9]{1,63}", "[a-z0-9]{1,63}([.][a-z0-9]{1,63}){0,2}")),
        name(),
        4_u64..,
        0_u64..1_000_000_000,
    );
    let tls = prop::option::of((any::<[u8; 2]>(), any::<bool>()));
    let format = prop::option::of(prop_oneof![Just(LogFormat::Text), Just(LogFormat::Json)]);
    let own = (
        1_u32..,
        any::<bool>(),
        (0_i16..).prop_filter("bad luck", |size| *size != 13),
    );
    let filter = prop_oneof![Just("info"), Just("off"), Just(" warn, a::b=debug,")].prop_map(str::to_owned);
    let log = (format, filter, any::<bool>());
    let api = (
        path(),
        name(),
        prop_oneof![Just(0.0), 0.001..f64::MAX],
        any::<u32>(),
        any::<(IpAddr, u16)>().prop_map(SocketAddr::from),
    );
    (api, election, tls, log, own).prop_map(|(api, election, tls, log, own)| {
        let (kubeconfig, context, kube_api_qps, kube_api_burst, http_bind_address) = api;
        let (leader_elect, lease, leader_elect_identity, seconds, nanos) = election;
        let (leader_elect_resource_namespace, leader_elect_resource_name) = lease.unzip();
        let renew =
            Duration::from_secs(seconds % 1_000_000) + Duration::from_nanos(nanos) + Duration::from_secs(2);
        let (log_format, log_level, dry_run) = log;
        let (concurrent_syncs, remove, shelf_size) = own;
        ToyConfig {
            common: CommonConfig {
                kubeconfig,
                context,
                kube_api_qps,
                kube_api_burst,
                kube_api_content_type: if remove {
                    Encoding::Json
                } else {
                    Encoding::Protobuf
                },
                event_qps: kube_api_qps,
                event_burst: kube_api_burst,
                leader_elect,
                leader_elect_resource_namespace,
                leader_elect_resource_name,
                leader_elect_identity,
                leader_elect_lease_duration: (renew * 2).into(),
                leader_elect_renew_deadline: renew.into(),
                leader_elect_retry_period: (renew / 2).into(),
                http_bind_address,
                metrics_authorization: if remove {
                    MetricsAuthorization::Kubernetes
                } else {
                    MetricsAuthorization::None
                },
                tls_cert_file: tls.map(|(name, _)| PathBuf::from(format!("/tls/{name:?}"))),
                tls_private_key_file: tls.map(|(_, other)| PathBuf::from(format!("/tls/{other}"))),
                log_format,
                log_level,
                dry_run,
            },
            concurrent_syncs: NonZeroU32::new(concurrent_syncs).unwrap(),
            remove,
            shelf_size,
        }
    })
}

/// Text, text of the characters that mean something in YAML, and known keys with any value.
fn any_yaml() -> impl Strategy<Value = String> {
    let key = || prop::sample::select(&FLAGS[1..]).prop_map(camel);
    prop_oneof![
        any::<String>(),
        "[-a-c0:?{}\\[\\]&*!|>'\"#,%@~<\n ]{0,40}",
        (key(), any::<String>()).prop_map(|(key, value)| format!("{key}: {value}")),
        (key(), any::<String>()).prop_map(|(key, value)| json!({ key: value }).to_string()),
    ]
}

proptest! {
    #[test]
    fn any_value_of_any_flag_is_taken_or_refused(flag in prop::sample::select(&FLAGS[..]), value in any::<String>()) {
        let flag_value = format!("--{flag}={value}");
        if let Err(usage) = toy(&[&flag_value], &[]) {
            prop_assert_eq!(usage.exit_code, 2);
            prop_assert!(!usage.text.is_empty());
        }
    }

    #[test]
    fn any_value_of_any_variable_is_taken_or_refused_on_one_line(flag in prop::sample::select(&FLAGS[..]), value in any::<String>()) {
        let env = format!("CONTROLLER_{}", flag.replace('-', "_").to_uppercase());
        if let Err(usage) = toy(&[], &[(&env, &value)]) {
            prop_assert_eq!(usage.exit_code, 2);
            prop_assert_eq!(usage.text.lines().count(), 1, "{}", usage.text);
        }
    }

    #[test]
    fn any_file_is_taken_or_refused_with_its_name_on_each_line(text in any_yaml()) {
        let file = ConfigFile::new(text);
        if file.parse(&[], &[]).is_err() {
            for line in file.problems(&[], &[]) {
                prop_assert!(line.starts_with("config.yaml:"), "{}", line);
            }
        }
    }

    #[test]
    fn a_config_survives_being_printed_and_read_as_a_file(config in valid_config()) {
        let file = ConfigFile::new(serde_json::to_string_pretty(&config).unwrap());
        prop_assert_eq!(file.parse(&[], &[]).map(|toy| toy.config), Ok(config));
    }
}

fn kebab(key: &str) -> String {
    key.chars().fold(String::new(), |text, c| {
        if c.is_ascii_uppercase() {
            format!("{text}-{}", c.to_ascii_lowercase())
        } else {
            format!("{text}{c}")
        }
    })
}

fn camel(flag: &str) -> String {
    let mut words = flag.split('-');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |text, word| {
        format!("{text}{}{}", word[..1].to_uppercase(), &word[1..])
    })
}
