//! Scenarios state what an API server does, as transcripts of requests and answers (`transcripts/`) or, where that needs
//! programming, through a `kube::Client`; further tests cover what only the embedded server can do.
//!
//! Expected codes, messages and bodies are those of kube-apiserver v1.37.2.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test owns the clock, and awaits the tasks that it spawns"
)]

mod access;
mod actors;
mod claims;
mod drawn;
mod faults;
mod http;
mod interpreter;
mod lists;
mod loopback;
mod namespaces;
mod objects;
mod on_both;
mod paging;
mod protobuf;
mod requests;
mod storms;
mod streaming;
mod test_access;
mod twin;
mod watch;
mod watch_faults;
mod watches;

use embedded_apiserver::Server;

/// A server whose wall clock starts with the year 2026.
fn server() -> Server {
    Server::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

/// A table; the expected value follows the arrow.
macro_rules! rows {
    ($($($cell:expr),+ => $expected:expr;)*) => { [$(($($cell,)+ $expected)),*] };
}
use rows;

/// Scenarios, functions of a client, that hold on both servers: each is a test on the embedded one; `SCENARIOS` has them
/// all for `on_both`. The collections in `twin::SWEPT` are empty at the start of each.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        pub(crate) const SCENARIOS: &[crate::twin::InRust] =
            &[$((stringify!($name), |client| Box::pin($name(client)))),*];

        mod on_embedded {
            $(
                #[tokio::test(start_paused = true)]
                async fn $name() {
                    super::$name(crate::twin::embedded_ground(crate::twin::Setting::Plain).admin).await;
                }
            )*
        }
    };
}
use scenarios;
