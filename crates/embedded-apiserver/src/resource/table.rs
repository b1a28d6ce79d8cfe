//! The served kinds, including those of the five controllers.

use super::Dependents::{Orphaned, Unsupported};
use super::StatusRule::{SetByCreate, SubresourceOnly};
use super::{Action, Alias, Resource, Scale, Selector, USER_METADATA};

const DEVICES: &str = "resource.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Declares a list of resources: name, scope, group, version, kind and plural, then how each differs from a custom
/// resource without subresources.
macro_rules! resources {
    (
        $(#[$of_list:meta])* $list:ident:
        $($name:ident: $scope:ident($group:expr, $version:literal, $kind:literal, $plural:literal) {
            $($field:ident: $value:expr),* $(,)?
        })*
    ) => {
        $(
            #[doc = concat!("`", $plural, "` of version `", $version, "`.")]
            pub static $name: Resource = Resource {
                $($field: $value,)*
                ..Resource::$scope($group, $version, $kind, $plural)
            };
        )*

        $(#[$of_list])*
        pub static $list: &[&Resource] = &[$(&$name),*];
    };
}

resources! {
    /// The resources of every server.
    SERVED:
    NODES: cluster("", "v1", "Node", "nodes") {
        short_names: &["no"],
        status: SetByCreate,
        fields: &[("spec.unschedulable", "false")],
    }
    LEASES: namespaced("coordination.k8s.io", "v1", "Lease", "leases") {
        unconditional_update: false,
        create_on_update: true,
    }
    // The form in which events are stored.
    CORE_EVENTS: namespaced("", "v1", "Event", "events") {
        short_names: &["ev"],
        dependents: Unsupported,
        create_on_update: true,
        fields: &[
            ("involvedObject.kind", ""), ("involvedObject.namespace", ""), ("involvedObject.name", ""),
            ("involvedObject.uid", ""), ("involvedObject.apiVersion", ""),
            ("involvedObject.resourceVersion", ""), ("involvedObject.fieldPath", ""), ("reason", ""),
            ("reportingComponent", ""), ("type", ""),
        ],
    }
    // The same objects with other field names.
    EVENTS: namespaced("events.k8s.io", "v1", "Event", "events") {
        short_names: &["ev"],
        dependents: Unsupported,
        create_on_update: true,
        fields: &[
            ("regarding.kind", ""), ("regarding.namespace", ""), ("regarding.name", ""),
            ("regarding.uid", ""), ("regarding.apiVersion", ""), ("regarding.resourceVersion", ""),
            ("regarding.fieldPath", ""), ("reason", ""), ("reportingController", ""), ("type", ""),
        ],
        alias: Some(Alias {
            of: &CORE_EVENTS,
            renames: &[
                ("involvedObject", "regarding"), ("message", "note"), ("source", "deprecatedSource"),
                ("firstTimestamp", "deprecatedFirstTimestamp"), ("lastTimestamp", "deprecatedLastTimestamp"),
                ("count", "deprecatedCount"), ("reportingComponent", "reportingController"),
            ],
        }),
    }
    NAMESPACES: cluster("", "v1", "Namespace", "namespaces") {
        short_names: &["ns"],
        returned_when_deleted: true,
        status: SubresourceOnly,
        fields: &[("status.phase", "")],
    }
    PODS: namespaced("", "v1", "Pod", "pods") {
        short_names: &["po"],
        returned_when_deleted: true,
        status: SubresourceOnly,
        status_keeps: &["ownerReferences"],
        actions: &[("binding", Action::Bind), ("eviction", Action::Evict)],
        generation: true,
        fields: &[
            ("spec.nodeName", ""), ("spec.restartPolicy", "Always"),
            ("spec.schedulerName", "default-scheduler"), ("spec.serviceAccountName", ""),
            ("spec.hostNetwork", "false"), ("status.phase", "Pending"), ("status.podIP", ""),
            ("status.nominatedNodeName", ""),
        ],
    }
    SERVICE_ACCOUNTS: namespaced("", "v1", "ServiceAccount", "serviceaccounts") {
        short_names: &["sa"],
        returned_when_deleted: true,
    }
    CONFIG_MAPS: namespaced("", "v1", "ConfigMap", "configmaps") { short_names: &["cm"] }
    REPLICATION_CONTROLLERS: namespaced("", "v1", "ReplicationController", "replicationcontrollers") {
        short_names: &["rc"],
        dependents: Orphaned,
        status: SubresourceOnly,
        scale: Some(Scale::of_workload(Selector::Labels("spec.selector"))),
        generation: true,
        fields: &[("status.replicas", "0")],
    }
    DEPLOYMENTS: namespaced("apps", "v1", "Deployment", "deployments") {
        short_names: &["deploy"],
        status: SubresourceOnly,
        status_keeps: &["labels"],
        scale: Some(Scale::of_workload(Selector::Expressions("spec.selector"))),
        generation: true,
    }
    REPLICA_SETS: namespaced("apps", "v1", "ReplicaSet", "replicasets") {
        short_names: &["rs"],
        status: SubresourceOnly,
        scale: Some(Scale::of_workload(Selector::Expressions("spec.selector"))),
        generation: true,
    }
    STATEFUL_SETS: namespaced("apps", "v1", "StatefulSet", "statefulsets") {
        short_names: &["sts"],
        status: SubresourceOnly,
        scale: Some(Scale::of_workload(Selector::Expressions("spec.selector"))),
        generation: true,
    }
    DAEMON_SETS: namespaced("apps", "v1", "DaemonSet", "daemonsets") {
        short_names: &["ds"],
        status: SubresourceOnly,
        generation: true,
    }
    JOBS: namespaced("batch", "v1", "Job", "jobs") {
        dependents: Orphaned,
        status: SubresourceOnly,
        generation: true,
        fields: &[("status.successful", "0")],
    }
    POD_DISRUPTION_BUDGETS: namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets") {
        short_names: &["pdb"],
        status: SubresourceOnly,
        generation: true,
        unconditional_update: false,
    }
    RESOURCE_CLAIMS: namespaced(DEVICES, "v1", "ResourceClaim", "resourceclaims") {
        returned_when_deleted: true,
        status: SubresourceOnly,
        status_keeps: USER_METADATA,
    }
    RESOURCE_CLAIM_TEMPLATES: namespaced(DEVICES, "v1", "ResourceClaimTemplate", "resourceclaimtemplates") {
        returned_when_deleted: true,
    }
    DEVICE_CLASSES: cluster(DEVICES, "v1", "DeviceClass", "deviceclasses") {
        returned_when_deleted: true,
        generation: true,
    }
    RESOURCE_SLICES: cluster(DEVICES, "v1", "ResourceSlice", "resourceslices") {
        returned_when_deleted: true,
        generation: true,
        fields: &[("spec.nodeName", ""), ("spec.driver", "")],
    }
    ROLES: namespaced(RBAC, "v1", "Role", "roles") {}
    ROLE_BINDINGS: namespaced(RBAC, "v1", "RoleBinding", "rolebindings") {}
    CLUSTER_ROLES: cluster(RBAC, "v1", "ClusterRole", "clusterroles") {}
    CLUSTER_ROLE_BINDINGS: cluster(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings") {}
    CUSTOM_RESOURCE_DEFINITIONS:
    cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions") {
        short_names: &["crd", "crds"],
        status: SubresourceOnly,
        generation: true,
        unconditional_update: false,
    }
}

resources! {
    /// APIs that a server serves only after [`Server::serve`](crate::Server::serve).
    OFF_BY_DEFAULT:
    POD_GROUPS: namespaced("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups") {
        status: SubresourceOnly,
        status_keeps: USER_METADATA,
    }
}
