//! What an API server does, told as scenarios over a `kube::Client` alone, and what only the embedded one
//! can be made to do.
//!
//! Expected codes, messages and bodies are those of kube-apiserver v1.37.2.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test owns the clock, and awaits the tasks that it spawns"
)]

mod access;
mod actors;
mod apply;
mod apply_parts;
mod bindings;
mod claim_permissions;
mod claims;
mod collections;
mod custom_resources;
mod custom_subresources;
mod deletes;
mod discovery;
mod errors;
mod evictions;
mod faults;
mod http;
mod kinds;
mod lists;
mod loopback;
mod metadata;
mod metadata_only;
mod namespaces;
mod objects;
mod optimistic;
mod paging;
mod patches;
mod pod_claims;
mod pod_groups;
mod protobuf;
mod protobuf_objects;
mod requests;
mod schema;
mod selectors;
mod storms;
mod streaming;
mod subresources;
mod test_access;
mod twin;
mod watch;
mod watch_faults;
mod watches;
mod writes;

use embedded_apiserver::Server;

/// A server whose wall clock starts with the year 2026.
fn server() -> Server {
    Server::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

/// A table: cells, and after the arrow what is expected of them.
macro_rules! rows {
    ($($($cell:expr),+ => $expected:expr;)*) => { [$(($($cell,)+ $expected)),*] };
}
use rows;

/// Runs scenarios, functions of a client or of a `twin::Ground`, on both servers: one by one on the embedded one, in one test on
/// the real one. Each finds the collections of `twin::SWEPT` empty. Servers that differ from the plain ones are named
/// first, `with` a `twin::Setting`.
macro_rules! scenarios {
    (with $setting:ident: $($name:ident),* $(,)?) => {
        mod on_embedded {
            $(
                #[tokio::test(start_paused = true)]
                async fn $name() {
                    super::$name(crate::twin::embedded_ground(crate::twin::Setting::$setting).into()).await;
                }
            )*
        }
        mod on_real {
            #[tokio::test(flavor = "multi_thread")]
            #[ignore = "needs a control plane: cargo xtask test"]
            async fn live_every_scenario() {
                crate::twin::run_on_real(
                    crate::twin::Setting::$setting,
                    &[$((stringify!($name), |ground| Box::pin(super::$name(ground.into())))),*],
                )
                .await;
            }
        }
    };
    ($($name:ident),* $(,)?) => {
        crate::scenarios!(with Plain: $($name),*);
    };
}
use scenarios;
