//! The kinds that are served, those of the five controllers among them.

use super::{Action, Dependents, Resource, Selector, StatusRule, USER_METADATA};

/// `v1` nodes.
pub static NODES: Resource = Resource::cluster("", "v1", "Node", "nodes")
    .short(&["no"])
    .status(StatusRule::SetByCreate)
    .fields(&[("spec.unschedulable", "false")]);

/// `coordination.k8s.io/v1` leases.
pub static LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases")
    .conditional_update()
    .created_by_update();

/// `v1` events, the form in which events are stored.
pub static CORE_EVENTS: Resource = Resource::namespaced("", "v1", "Event", "events")
    .short(&["ev"])
    .dependents(Dependents::Unsupported)
    .created_by_update()
    .fields(&[
        ("involvedObject.kind", ""),
        ("involvedObject.namespace", ""),
        ("involvedObject.name", ""),
        ("involvedObject.uid", ""),
        ("involvedObject.apiVersion", ""),
        ("involvedObject.resourceVersion", ""),
        ("involvedObject.fieldPath", ""),
        ("reason", ""),
        ("reportingComponent", ""),
        ("type", ""),
    ]);

/// `events.k8s.io/v1` events: the same objects as [`CORE_EVENTS`] under other field names.
pub static EVENTS: Resource = Resource::namespaced("events.k8s.io", "v1", "Event", "events")
    .short(&["ev"])
    .dependents(Dependents::Unsupported)
    .created_by_update()
    .fields(&[
        ("regarding.kind", ""),
        ("regarding.namespace", ""),
        ("regarding.name", ""),
        ("regarding.uid", ""),
        ("regarding.apiVersion", ""),
        ("regarding.resourceVersion", ""),
        ("regarding.fieldPath", ""),
        ("reason", ""),
        ("reportingController", ""),
        ("type", ""),
    ])
    .alias_of(
        &CORE_EVENTS,
        &[
            ("involvedObject", "regarding"),
            ("message", "note"),
            ("source", "deprecatedSource"),
            ("firstTimestamp", "deprecatedFirstTimestamp"),
            ("lastTimestamp", "deprecatedLastTimestamp"),
            ("count", "deprecatedCount"),
            ("reportingComponent", "reportingController"),
        ],
    );

/// `v1` namespaces.
pub static NAMESPACES: Resource = Resource::cluster("", "v1", "Namespace", "namespaces")
    .short(&["ns"])
    .returned_when_deleted()
    .status(StatusRule::SubresourceOnly)
    .fields(&[("status.phase", "")]);

/// `v1` pods.
pub static PODS: Resource = Resource::namespaced("", "v1", "Pod", "pods")
    .short(&["po"])
    .returned_when_deleted()
    .status(StatusRule::SubresourceOnly)
    .status_keeps(&["ownerReferences"])
    .actions(&[("binding", Action::Bind), ("eviction", Action::Evict)])
    .generation()
    .fields(&[
        ("spec.nodeName", ""),
        ("spec.restartPolicy", "Always"),
        ("spec.schedulerName", "default-scheduler"),
        ("spec.serviceAccountName", ""),
        ("spec.hostNetwork", "false"),
        ("status.phase", "Pending"),
        ("status.podIP", ""),
        ("status.nominatedNodeName", ""),
    ]);

/// `v1` serviceaccounts.
pub static SERVICE_ACCOUNTS: Resource = Resource::namespaced("", "v1", "ServiceAccount", "serviceaccounts")
    .short(&["sa"])
    .returned_when_deleted();

/// `v1` configmaps.
pub static CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "ConfigMap", "configmaps").short(&["cm"]);

/// `v1` replicationcontrollers.
pub static REPLICATION_CONTROLLERS: Resource =
    Resource::namespaced("", "v1", "ReplicationController", "replicationcontrollers")
        .short(&["rc"])
        .dependents(Dependents::Orphaned)
        .status(StatusRule::SubresourceOnly)
        .scale(
            "spec.replicas",
            "status.replicas",
            Selector::Labels("spec.selector"),
        )
        .generation()
        .fields(&[("status.replicas", "0")]);

/// `apps/v1` deployments.
pub static DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "Deployment", "deployments")
    .short(&["deploy"])
    .status(StatusRule::SubresourceOnly)
    .status_keeps(&["labels"])
    .scale(
        "spec.replicas",
        "status.replicas",
        Selector::Expressions("spec.selector"),
    )
    .generation();

/// `apps/v1` replicasets.
pub static REPLICA_SETS: Resource = Resource::namespaced("apps", "v1", "ReplicaSet", "replicasets")
    .short(&["rs"])
    .status(StatusRule::SubresourceOnly)
    .scale(
        "spec.replicas",
        "status.replicas",
        Selector::Expressions("spec.selector"),
    )
    .generation();

/// `apps/v1` statefulsets.
pub static STATEFUL_SETS: Resource = Resource::namespaced("apps", "v1", "StatefulSet", "statefulsets")
    .short(&["sts"])
    .status(StatusRule::SubresourceOnly)
    .scale(
        "spec.replicas",
        "status.replicas",
        Selector::Expressions("spec.selector"),
    )
    .generation();

/// `apps/v1` daemonsets.
pub static DAEMON_SETS: Resource = Resource::namespaced("apps", "v1", "DaemonSet", "daemonsets")
    .short(&["ds"])
    .status(StatusRule::SubresourceOnly)
    .generation();

/// `batch/v1` jobs.
pub static JOBS: Resource = Resource::namespaced("batch", "v1", "Job", "jobs")
    .dependents(Dependents::Orphaned)
    .status(StatusRule::SubresourceOnly)
    .generation()
    .fields(&[("status.successful", "0")]);

/// `policy/v1` poddisruptionbudgets.
pub static POD_DISRUPTION_BUDGETS: Resource =
    Resource::namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
        .short(&["pdb"])
        .status(StatusRule::SubresourceOnly)
        .generation()
        .conditional_update();

/// `resource.k8s.io/v1` resourceclaims.
pub static RESOURCE_CLAIMS: Resource =
    Resource::namespaced("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
        .returned_when_deleted()
        .status(StatusRule::SubresourceOnly)
        .status_keeps(USER_METADATA);

/// `resource.k8s.io/v1` resourceclaimtemplates.
pub static RESOURCE_CLAIM_TEMPLATES: Resource = Resource::namespaced(
    "resource.k8s.io",
    "v1",
    "ResourceClaimTemplate",
    "resourceclaimtemplates",
)
.returned_when_deleted();

/// `resource.k8s.io/v1` deviceclasses.
pub static DEVICE_CLASSES: Resource =
    Resource::cluster("resource.k8s.io", "v1", "DeviceClass", "deviceclasses")
        .returned_when_deleted()
        .generation();

/// `resource.k8s.io/v1` resourceslices.
pub static RESOURCE_SLICES: Resource =
    Resource::cluster("resource.k8s.io", "v1", "ResourceSlice", "resourceslices")
        .returned_when_deleted()
        .generation()
        .fields(&[("spec.nodeName", ""), ("spec.driver", "")]);

/// `scheduling.k8s.io/v1alpha2` podgroups, served where [`Server::serve`](crate::embedded::Server::serve) says so.
pub static POD_GROUPS: Resource =
    Resource::namespaced("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups")
        .status(StatusRule::SubresourceOnly)
        .status_keeps(USER_METADATA);

/// `rbac.authorization.k8s.io/v1` roles.
pub static ROLES: Resource = Resource::namespaced("rbac.authorization.k8s.io", "v1", "Role", "roles");

/// `rbac.authorization.k8s.io/v1` rolebindings.
pub static ROLE_BINDINGS: Resource =
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");

/// `rbac.authorization.k8s.io/v1` clusterroles.
pub static CLUSTER_ROLES: Resource =
    Resource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");

/// `rbac.authorization.k8s.io/v1` clusterrolebindings.
pub static CLUSTER_ROLE_BINDINGS: Resource = Resource::cluster(
    "rbac.authorization.k8s.io",
    "v1",
    "ClusterRoleBinding",
    "clusterrolebindings",
);

/// `apiextensions.k8s.io/v1` customresourcedefinitions.
pub static CUSTOM_RESOURCE_DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
)
.short(&["crd", "crds"])
.status(StatusRule::SubresourceOnly)
.generation()
.conditional_update();

/// What a server serves whose alpha APIs are enabled.
pub static ALPHA: &[&Resource] = &[&POD_GROUPS];

/// What every server serves.
pub static SERVED: &[&Resource] = &[
    &NODES,
    &LEASES,
    &CORE_EVENTS,
    &EVENTS,
    &NAMESPACES,
    &PODS,
    &SERVICE_ACCOUNTS,
    &CONFIG_MAPS,
    &REPLICATION_CONTROLLERS,
    &DEPLOYMENTS,
    &REPLICA_SETS,
    &STATEFUL_SETS,
    &DAEMON_SETS,
    &JOBS,
    &POD_DISRUPTION_BUDGETS,
    &RESOURCE_CLAIMS,
    &RESOURCE_CLAIM_TEMPLATES,
    &DEVICE_CLASSES,
    &RESOURCE_SLICES,
    &ROLES,
    &ROLE_BINDINGS,
    &CLUSTER_ROLES,
    &CLUSTER_ROLE_BINDINGS,
    &CUSTOM_RESOURCE_DEFINITIONS,
];
