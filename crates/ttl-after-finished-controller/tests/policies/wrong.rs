//! Policies that are refused: a process does not start with them, and one that runs keeps the last good ones.

use rstest::rstest;
use serde_json::{Value, json};

use super::support::{policies, problems};

/// The policy with these fields in place of its own, second in a file; null takes a field off.
fn second(fields: &Value) -> Value {
    let mut policy = json!({ "name": "ci", "ttlAfterSucceeded": "1h", "ttlAfterFailed": "24h" });
    for (field, value) in fields.as_object().unwrap() {
        if value == "GONE" {
            policy.as_object_mut().unwrap().remove(field);
        } else {
            policy[field] = value.clone();
        }
    }
    json!([{ "name": "first", "ttlAfterSucceeded": "1h" }, policy])
}

#[rstest]
#[case::no_name(json!({ "name": "GONE" }), "[1]: name: is missing")]
#[case::an_empty_name(json!({ "name": "" }),
    r#"[1] "": name: invalid value "": a name has 1 to 63 characters of a-z, 0-9 and -, and neither starts nor ends with -"#)]
#[case::a_number_for_a_name(json!({ "name": 7 }),
    "[1]: name: invalid value 7: a name has 1 to 63 characters of a-z, 0-9 and -, and neither starts nor ends with -")]
#[case::null_for_a_name(json!({ "name": null }),
    "[1]: name: invalid value null: a name has 1 to 63 characters of a-z, 0-9 and -, and neither starts nor ends with -")]
#[case::a_name_with_capitals(json!({ "name": "CI" }),
    r#"[1] "CI": name: invalid value "CI": a name has 1 to 63 characters of a-z, 0-9 and -, and neither starts nor ends with -"#)]
#[case::a_name_that_ends_with_a_dash(json!({ "name": "ci-" }),
    r#"[1] "ci-": name: invalid value "ci-": a name has 1 to 63 characters of a-z, 0-9 and -, and neither starts nor ends with -"#)]
#[case::the_name_of_another_policy(json!({ "name": "first" }),
    r#"[1] "first": name: invalid value "first": is the name of [0], too"#)]
#[case::no_kinds(json!({ "kinds": [] }), r#"[1] "ci": kinds: invalid value []: is empty; name Job, Pod or both"#)]
#[case::another_kind(json!({ "kinds": ["Job", "CronJob"] }),
    r#"[1] "ci": kinds[1]: invalid value ["Job","CronJob"]: unknown variant `CronJob`, expected `Job` or `Pod`"#)]
#[case::a_kind_twice(json!({ "kinds": ["Pod", "Pod"] }),
    r#"[1] "ci": kinds: invalid value ["Pod","Pod"]: names a kind twice"#)]
#[case::a_text_for_kinds(json!({ "kinds": "Pod" }),
    r#"[1] "ci": kinds: invalid value "Pod": invalid type: string "Pod", expected a sequence"#)]
#[case::no_ttl(json!({ "ttlAfterSucceeded": "GONE", "ttlAfterFailed": "GONE" }),
    r#"[1] "ci": ttlAfterSucceeded, ttlAfterFailed: neither is set; set one, or never"#)]
#[case::a_ttl_without_a_unit(json!({ "ttlAfterSucceeded": "10" }),
    r#"[1] "ci": ttlAfterSucceeded: invalid value "10": a number has no unit, expected a duration such as 1m30s, or never"#)]
#[case::a_ttl_in_days(json!({ "ttlAfterFailed": "7d" }),
    r#"[1] "ci": ttlAfterFailed: invalid value "7d": unknown unit "d", expected one of ns, us, ms, s, m, h, or never"#)]
#[case::a_negative_ttl(json!({ "ttlAfterFailed": "-1h" }),
    r#"[1] "ci": ttlAfterFailed: invalid value "-1h": must not be negative, or never"#)]
#[case::a_number_for_a_ttl(json!({ "ttlAfterSucceeded": 3600 }),
    r#"[1] "ci": ttlAfterSucceeded: invalid value 3600: invalid type: integer `3600`, expected a string"#)]
#[case::an_empty_ttl(json!({ "ttlAfterSucceeded": "" }),
    r#"[1] "ci": ttlAfterSucceeded: invalid value "": expected a duration such as 1m30s, or never"#)]
#[case::a_ttl_of_another_word(json!({ "ttlAfterFailed": "Never" }),
    r#"[1] "ci": ttlAfterFailed: invalid value "Never": expected a duration such as 1m30s, or never"#)]
#[case::null_for_a_ttl(json!({ "ttlAfterFailed": null }),
    r#"[1] "ci": ttlAfterFailed: has no value; give one, or leave the field out"#)]
#[case::a_ttl_of_300_years(json!({ "ttlAfterFailed": "2628000h" }),
    r#"[1] "ci": ttlAfterFailed: invalid value "2628000h": longer than 292 years, or never"#)]
#[case::keeps_none(json!({ "keepLastFailed": 0 }),
    r#"[1] "ci": keepLastFailed: invalid value 0: expected a whole number from 1 to 1000"#)]
#[case::keeps_too_many(json!({ "keepLastFailed": 1001 }),
    r#"[1] "ci": keepLastFailed: invalid value 1001: expected a whole number from 1 to 1000"#)]
#[case::keeps_half_a_one(json!({ "keepLastFailed": 1.5 }),
    r#"[1] "ci": keepLastFailed: invalid value 1.5: expected a whole number from 1 to 1000"#)]
#[case::keeps_some_of_what_never_goes(json!({ "keepLastFailed": 3, "ttlAfterFailed": "never" }),
    r#"[1] "ci": keepLastFailed: invalid value 3: has no effect, as ttlAfterFailed is never"#)]
#[case::a_text_for_include_owned(json!({ "includeOwned": "yes" }),
    r#"[1] "ci": includeOwned: invalid value "yes": invalid type: string "yes", expected a boolean"#)]
#[case::no_deletes(json!({ "maxPerHour": 0 }),
    r#"[1] "ci": maxPerHour: invalid value 0: expected a whole number from 1 to 4294967295"#)]
#[case::a_negative_number_of_deletes(json!({ "maxPerHour": -1 }),
    r#"[1] "ci": maxPerHour: invalid value -1: expected a whole number from 1 to 4294967295"#)]
#[case::an_unknown_field(json!({ "ttlAfterSuccess": "1h" }),
    r#"[1] "ci": "ttlAfterSuccess": unknown field, expected one of name, kinds, namespaceSelector, selector, ttlAfterSucceeded, ttlAfterFailed, keepLastFailed, includeOwned, maxPerHour"#)]
#[case::a_misspelled_field_of_a_selector(json!({ "selector": { "matchLabel": { "a": "b" } } }),
    r#"[1] "ci": selector.matchLabel: invalid value {"matchLabel":{"a":"b"}}: unknown field `matchLabel`, expected `matchLabels` or `matchExpressions`"#)]
#[case::an_empty_selector(json!({ "selector": null }),
    r#"[1] "ci": selector: has no value; give one, or leave the field out"#)]
#[case::labels_without_match_labels(json!({ "namespaceSelector": { "team": "a" } }),
    r#"[1] "ci": namespaceSelector.team: invalid value {"team":"a"}: unknown field `team`, expected `matchLabels` or `matchExpressions`"#)]
#[case::a_label_with_a_bad_key(json!({ "selector": { "matchLabels": { "a b": "c" } } }),
    r#"[1] "ci": selector: invalid value {"matchLabels":{"a b":"c"}}: "a b" is not the key of a label"#)]
#[case::an_unknown_operator(
    json!({ "selector": { "matchExpressions": [{ "key": "a", "operator": "Equals", "values": ["b"] }] } }),
    r#"[1] "ci": selector: invalid value {"matchExpressions":[{"key":"a","operator":"Equals","values"…: "Equals" is not an operator of a label selector"#)]
#[case::an_operator_without_values(
    json!({ "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] } }),
    r#"[1] "ci": namespaceSelector: invalid value {"matchExpressions":[{"key":"a","operator":"In"}]}: In of "a" needs values"#)]
fn a_wrong_policy_is_refused_with_its_index_name_field_and_value(
    #[case] fields: Value,
    #[case] expected: &str,
) {
    assert_eq!(problems(second(&fields)), [expected]);
}

#[rstest]
#[case::a_text(json!("ci"), r#"[1]: invalid value "ci": expected a policy, as lines of `key: value`"#)]
#[case::null(json!(null), "[1]: invalid value null: expected a policy, as lines of `key: value`")]
#[case::a_list(json!([]), "[1]: invalid value []: expected a policy, as lines of `key: value`")]
fn what_is_no_policy_is_refused(#[case] second: Value, #[case] expected: &str) {
    assert_eq!(
        problems(json!([{ "name": "first", "ttlAfterSucceeded": "1h" }, second])),
        [expected]
    );
}

#[test]
fn more_than_fifty_policies_are_refused() {
    let policy = |number: usize| json!({ "name": format!("p{number}"), "ttlAfterFailed": "never" });
    let list = |count| Value::from((0..count).map(policy).collect::<Vec<_>>());
    assert_eq!(policies(list(50)).list.len(), 50);
    assert_eq!(problems(list(51)), ["51 policies: at most 50"]);
}

#[test]
fn every_problem_of_a_file_is_reported() {
    let list = json!([
        { "name": "a", "ttlAfterSucceeded": "1x", "keepLastFailed": 0 },
        { "ttlAfterFailed": "never", "extra": 1 },
    ]);
    let fields: Vec<_> = problems(list)
        .iter()
        .map(|problem| problem.split(' ').take(3).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        fields,
        [
            r#"[0] "a": ttlAfterSucceeded:"#,
            r#"[0] "a": keepLastFailed:"#,
            "[1]: name: is",
            r#"[1]: "extra": unknown"#,
        ]
    );
}
