//! Paths as kubectl names resources: `pods/p/status` is in the namespace `default`.

/// Resources, and where they are.
const PLACES: [(&str, &[&str]); 13] = [
    ("/api/v1/", &["nodes", "namespaces"]),
    (
        "/api/v1/namespaces/default/",
        &[
            "configmaps",
            "events",
            "pods",
            "replicationcontrollers",
            "serviceaccounts",
        ],
    ),
    (
        "/apis/apps/v1/namespaces/default/",
        &["daemonsets", "deployments", "replicasets", "statefulsets"],
    ),
    ("/apis/batch/v1/namespaces/default/", &["jobs"]),
    ("/apis/coordination.k8s.io/v1/namespaces/default/", &["leases"]),
    ("/apis/policy/v1/namespaces/default/", &["poddisruptionbudgets"]),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/",
        &["roles", "rolebindings"],
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/",
        &["clusterroles", "clusterrolebindings"],
    ),
    (
        "/apis/resource.k8s.io/v1/namespaces/default/",
        &["resourceclaims", "resourceclaimtemplates"],
    ),
    (
        "/apis/scheduling.k8s.io/v1beta1/namespaces/default/",
        &["podgroups"],
    ),
    ("/apis/apiextensions.k8s.io/v1/", &["customresourcedefinitions"]),
    ("/apis/example.com/v1/namespaces/default/", &["widgets"]),
    ("/apis/example.com/v1/", &["gadgets"]),
];

/// The URI of a path: from the root if it begins with a slash, else that of a resource. The query may be as typed.
pub(super) fn uri(path: &str) -> Result<String, String> {
    let (path, query) = path
        .split_once('?')
        .map_or((path, None), |(path, query)| (path, Some(query)));
    let query = query.map(|query| {
        let parts: Vec<String> = query.split('&').map(parameter).collect();
        format!("?{}", parts.join("&"))
    });
    let query = query.unwrap_or_default();
    if path.starts_with('/') {
        return Ok(format!("{path}{query}"));
    }
    if let Some(name) = path.strip_prefix("events.events.k8s.io") {
        return Ok(format!(
            "/apis/events.k8s.io/v1/namespaces/default/events{name}{query}"
        ));
    }
    let resource = path.split('/').next().unwrap_or_default();
    let place = PLACES.iter().find(|(_, resources)| resources.contains(&resource));
    match place {
        Some((place, _)) => Ok(format!("{place}{path}{query}")),
        None => Err(format!("{resource} is no resource")),
    }
}

/// Escapes the value of a parameter, except for what is escaped.
fn parameter(parameter: &str) -> String {
    let Some((name, value)) = parameter.split_once('=') else {
        return parameter.to_owned();
    };
    let escape = |byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' | b'%' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    let value: String = value.bytes().map(escape).collect();
    format!("{name}={value}")
}
