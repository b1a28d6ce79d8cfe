//! The scenarios on the real server: one control plane a test.

use crate::twin::{Setting, run_on_real};

macro_rules! live {
    ($name:ident, $setting:ident: $($($module:ident)::+),* $(,)?) => {
        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "needs a control plane: cargo xtask test"]
        async fn $name() {
            run_on_real(Setting::$setting, &[$(crate::$($module)::+::SCENARIOS),*].concat()).await;
        }
    };
}

// Two of these, so that one test computes while the other waits.
live![
    live_objects, Plain:
    apply, apply_parts, bindings, collections, custom_resources, deletes, errors, kinds, metadata, metadata_only,
    namespaces, optimistic, patches, subresources, writes,
];
live![
    // `discovery` comes first: definitions of custom resources are not swept.
    live_reads_and_rules, Plain:
    discovery, access, claim_permissions, claims, custom_subresources, evictions, lists, paging, pod_claims, protobuf,
    protobuf_objects, schema, selectors, storms, streaming, watches,
];
live![live_pod_groups, PodGroups: pod_groups];
live![live_coarse_claim_status, CoarseClaimStatus: claim_permissions::without_a_right_of_its_own];
