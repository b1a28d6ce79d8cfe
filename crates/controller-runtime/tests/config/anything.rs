//! Any input is either accepted or refused, without a panic.

use std::net::{IpAddr, SocketAddr};

use controller_runtime::config::config_schema;
use proptest::prelude::*;
use serde_json::json;

use super::toy::{ToyConfig, answer, kebab, toy};

/// Any config that passes validation.
fn valid_config() -> impl Strategy<Value = ToyConfig> {
    let name = || prop::option::of("[^\\x00-\\x1f\\x7f-\\x9f]{1,20}");
    let lease = ("[a-z0-9]{1,63}", "[a-z0-9]{1,63}([.][a-z0-9]{1,63}){0,2}");
    let renew = 2_000_000_000..1_000_002_000_000_000_u64;
    let rate = prop_oneof![Just(0.0), 0.001..f64::MAX];
    let address = any::<(IpAddr, u16)>().prop_map(SocketAddr::from);
    let texts = (name(), name(), name(), prop::option::of(lease));
    let choices = (
        prop::sample::select(&["none", "kubernetes"]),
        prop::sample::select(&[None, Some("text"), Some("json")]),
        prop::sample::select(&["info", "off", " warn, a::b=debug,"]),
        prop::sample::select(&["application/json", "application/vnd.kubernetes.protobuf"]),
        prop::option::of(any::<[u8; 2]>()),
    );
    let shelf_size = (0_i16..).prop_filter("bad luck", |size| *size != 13);
    let numbers = (rate, any::<u32>(), 1_u32.., shelf_size, renew);
    (texts, choices, numbers, any::<[bool; 3]>(), address).prop_map(
        |(texts, choices, numbers, [leader_elect, dry_run, remove], address)| {
            let (kubeconfig, context, identity, lease) = texts;
            let (authorization, format, level, content_type, tls) = choices;
            let (rate, burst, syncs, shelf_size, renew) = numbers;
            let (namespace, lease) = lease.unzip();
            serde_json::from_value(json!({
                "kubeconfig": kubeconfig,
                "context": context,
                "kubeApiQps": rate,
                "kubeApiBurst": burst,
                "kubeApiContentType": content_type,
                "eventQps": rate,
                "eventBurst": burst,
                "leaderElect": leader_elect,
                "leaderElectResourceNamespace": namespace,
                "leaderElectResourceName": lease,
                "leaderElectIdentity": identity,
                "leaderElectLeaseDuration": format!("{}ns", renew * 2),
                "leaderElectRenewDeadline": format!("{renew}ns"),
                "leaderElectRetryPeriod": format!("{}ns", renew / 2),
                "httpBindAddress": address,
                "metricsAuthorization": authorization,
                "tlsCertFile": tls.map(|[name, _]| format!("/tls/{name:?}")),
                "tlsPrivateKeyFile": tls.map(|[_, name]| format!("/tls/{name}")),
                "logFormat": format,
                "logLevel": level,
                "dryRun": dry_run,
                "concurrentSyncs": syncs,
                "remove": remove,
                "shelfSize": shelf_size,
            }))
            .unwrap()
        },
    )
}

fn key() -> impl Strategy<Value = String> {
    let schema = config_schema::<ToyConfig>();
    let keys = schema["properties"].as_object().unwrap().keys().cloned();
    prop::sample::select(keys.collect::<Vec<_>>())
}

fn flag() -> impl Strategy<Value = String> {
    prop_oneof![1 => Just("config".to_owned()), 20 => key().prop_map(|key| kebab(&key))]
}

/// Any text, text of characters with a meaning in YAML, and known keys with any value.
fn any_yaml() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-a-c0:?{}\\[\\]&*!|>'\"#,%@~<\n ]{0,40}",
        (key(), any::<String>()).prop_map(|(key, value)| format!("{key}: {value}")),
        (key(), any::<String>()).prop_map(|(key, value)| json!({ key: value }).to_string()),
    ]
}

proptest! {
    #[test]
    fn any_value_of_any_flag_is_taken_or_refused(flag in flag(), value in any::<String>()) {
        if let Err(usage) = toy(&[&format!("--{flag}={value}")], &[]) {
            prop_assert_eq!(usage.exit_code, 2);
            prop_assert!(!usage.text.is_empty());
        }
    }

    #[test]
    fn any_value_of_any_variable_is_taken_or_refused_on_one_line(flag in flag(), value in any::<String>()) {
        let env = format!("CONTROLLER_{}", flag.replace('-', "_").to_uppercase());
        if let Err(usage) = toy(&[], &[(&env, &value)]) {
            prop_assert_eq!(usage.exit_code, 2);
            prop_assert_eq!(usage.text.lines().count(), 1, "{}", usage.text);
        }
    }

    #[test]
    fn any_file_is_taken_or_refused_with_its_name_on_each_line(text in any_yaml()) {
        for line in answer(&text, "") {
            prop_assert!(line.starts_with("config.yaml:") || line.starts_with("run:"), "{}", line);
        }
    }

    #[test]
    fn a_config_survives_being_printed_and_read_as_a_file(config in valid_config()) {
        let file = tempfile::NamedTempFile::new().unwrap();
        serde_json::to_writer_pretty(&file, &config).unwrap();
        let toy = toy(&["--config", file.path().to_str().unwrap()], &[]);
        prop_assert_eq!(toy.map(|toy| toy.config), Ok(config));
    }
}
