//! The transcripts, on the embedded server and on the real one; the scenarios in Rust, on the real one.

use crate::interpreter::{play_on_embedded, scenarios};
use crate::twin::{Scenario, Setting, run_on_real};

/// A test for each transcript, and one for all of them and some modules on one control plane.
macro_rules! live {
    ($name:ident, $setting:ident: $($transcript:ident),* $(,)?; $($($module:ident)::+),* $(,)?) => {
        $(
            #[test]
            fn $transcript() {
                play_on_embedded(stringify!($transcript));
            }
        )*

        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "needs a control plane: cargo xtask test"]
        async fn $name() {
            let mut all: Vec<Scenario> = Vec::new();
            for name in [$(stringify!($transcript)),*] as [&str; _] {
                let (setting, scenarios) = scenarios(name);
                assert_eq!(setting, Setting::$setting, "{name}");
                all.extend(scenarios);
            }
            for module in [$(crate::$($module)::+::SCENARIOS),*] as [&[_]; _] {
                all.extend(module.iter().map(Scenario::from));
            }
            run_on_real(Setting::$setting, &all).await;
        }
    };
}

// Two of these, so that one test computes while the other waits.
live![
    live_objects, Plain:
    apply, apply_parts, bindings, collections, custom_resources, deletes, errors, kinds, metadata, metadata_only,
    namespaces, optimistic, patches, subresources, writes;
];
live![
    live_reads_and_rules, Plain:
    access, claim_permissions, claims, discovery, evictions, lists, paging, pod_claims, protobuf, protobuf_objects,
    schema, selectors, streaming, watches;
    claims, lists, paging, protobuf, storms, streaming,
];
live![live_pod_groups, PodGroups: pod_groups;];
live![live_coarse_claim_status, CoarseClaimStatus: coarse_claim_status;];
