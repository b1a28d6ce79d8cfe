//! The policies in the documents are ones that a process starts with.

use std::fs;

use serde_json::Value;
use ttl_after_finished_controller::policy::FinishedKind;

use super::support::policies;

#[test]
fn the_three_usual_policies_of_the_page_are_right() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/clean-up.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, values) = page.split_once("```yaml\n").unwrap();
    let (values, _) = values.split_once("```").unwrap();
    let values: Value = serde_saphyr::from_str(values).unwrap();
    let policies = policies(values["config"]["policies"].clone());
    let names: Vec<_> = policies.list.iter().map(|policy| &*policy.name).collect();
    assert_eq!(names, ["ci", "evicted", "rest"]);
    assert!(policies.name(FinishedKind::Pod));
}
