//! Which kinds the API server serves, and which of them have a scale.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;

/// The groups and versions of a Scale, all with `.spec.replicas`. Source: client-go `scale/util.go`.
const SCALES: [(&str, &str); 4] = [
    ("autoscaling", "v1"),
    ("extensions", "v1beta1"),
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
];

/// A kind that the API server serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    pub name: String,
    /// The plural name of its resource.
    pub plural: String,
    pub namespaced: bool,
    /// It has a `/scale`.
    pub scales: bool,
}

/// The kinds of one group version, and whether each has a scale.
pub fn kinds(resources: &[APIResource]) -> Vec<Kind> {
    let scales = |plural: &str| {
        resources.iter().any(|resource| {
            let served = (
                resource.group.as_deref().unwrap_or_default(),
                resource.version.as_deref().unwrap_or_default(),
            );
            resource.name.strip_suffix("/scale") == Some(plural)
                && resource.kind == "Scale"
                && SCALES.contains(&served)
        })
    };
    let objects = resources.iter().filter(|resource| !resource.name.contains('/'));
    objects
        .map(|resource| Kind {
            name: resource.kind.clone(),
            plural: resource.name.clone(),
            namespaced: resource.namespaced,
            scales: scales(&resource.name),
        })
        .collect()
}

/// True if an object may have this name: objects with a scale are named like DNS subdomains.
pub fn is_path_segment(name: &str) -> bool {
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    !matches!(name, "" | "." | "..") && name.bytes().all(harmless)
}

/// True for a version, or a group and a version.
pub fn is_api_version(api_version: &str) -> bool {
    let mut segments = api_version.split('/');
    segments.clone().count() <= 2 && segments.all(is_path_segment)
}

/// The path of the resources of a group version.
pub fn group_path(api_version: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api_version}")
}

/// `resource.group`, as RBAC and upstream's messages have it.
pub fn resource(api_version: &str, plural: &str) -> String {
    match api_version.split_once('/') {
        Some((group, _)) if !group.is_empty() => format!("{plural}.{group}"),
        _ => plural.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn entry(name: &str, kind: &str, group: &str) -> Value {
        json!({ "name": name, "kind": kind, "group": group, "version": "v1", "namespaced": true,
            "singularName": "", "verbs": ["get"] })
    }

    #[rstest]
    #[case::one_that_is(json!([
        entry("widgets", "Widget", ""), entry("widgets/status", "Widget", ""),
        entry("widgets/scale", "Scale", "autoscaling"),
    ]), true)]
    #[case::one_in_a_form_that_is_not_known(json!([
        entry("widgets", "Widget", ""), entry("widgets/scale", "Widget", ""),
    ]), false)]
    #[case::one_of_a_group_that_is_not_known(json!([
        entry("widgets", "Widget", ""), entry("widgets/scale", "Scale", "example.com"),
    ]), false)]
    #[case::that_of_another_kind(json!([
        entry("widgets", "Widget", ""), entry("gadgets/scale", "Scale", "autoscaling"),
    ]), false)]
    #[case::none(json!([entry("widgets", "Widget", "")]), false)]
    fn a_kind_scales_when_discovery_lists_a_scale_that_is_one(#[case] listed: Value, #[case] scales: bool) {
        let listed: Vec<APIResource> = serde_json::from_value(listed).unwrap();
        let found = kinds(&listed);
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].name, &*found[0].plural), ("Widget", "widgets"));
        assert_eq!(found[0].scales, scales);
    }

    #[rstest]
    #[case::a_group("example.com/v1", "widgets.example.com", "/apis/example.com/v1")]
    #[case::the_core("v1", "widgets", "/api/v1")]
    fn a_resource_is_named_with_its_group(
        #[case] api_version: &str,
        #[case] named: &str,
        #[case] path: &str,
    ) {
        assert_eq!(resource(api_version, "widgets"), named);
        assert_eq!(group_path(api_version), path);
    }

    #[rstest]
    #[case::a_name("web-0.a", true)]
    #[case::another_object("other/scale", false)]
    #[case::a_query("web?x", false)]
    #[case::an_escape("%2e%2e", false)]
    #[case::above("..", false)]
    #[case::nothing("", false)]
    fn a_reference_leads_to_no_other_place(#[case] name: &str, #[case] harmless: bool) {
        assert_eq!(is_path_segment(name), harmless);
        assert_eq!(is_api_version(&format!("example.com/{name}")), harmless);
    }
}
