//! The real control plane: etcd, kube-apiserver and, on demand, kube-controller-manager and
//! kube-scheduler, as processes on loopback.
//!
//! ```no_run
//! # async fn scenario() -> Result<(), local_control_plane::Error> {
//! use local_control_plane::{ControlPlane, Options};
//! let control_plane = ControlPlane::start(Options::default()).await?;
//! let _manager = control_plane.start_controller_manager(&["ttl"], &[])?;
//! let version = control_plane.client().apiserver_version().await;
//! # Ok(()) }
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `admission` | when admission has caught up with policies |
//! | `assets` | the directory of the binaries |
//! | `audit` | the audit log, read incrementally |
//! | `baseline` | the contents of etcd at one moment, and the way back |
//! | `control_plane` | [`ControlPlane`]: the processes and their flags |
//! | `credentials` | tokens, signing key, kubeconfig files, clients |
//! | `etcd` | objects written past the API server |
//! | `leased` | [`Leased`]: a control plane that tests use one after another |
//! | `options` | [`Options`]: deviations from the default |
//! | `pool` | control planes that wait for a test of this process or of another one |
//! | `process` | [`Process`]: one child; also launches our own binaries |
//! | `scratch` | directories that do not outlive their test for long |
//! | `tally` | [`tally`]: counts for `cargo xtask test` |
//! | `usage` | [`ProcessUsage`]: memory, threads and CPU time of a process |
//! | `wait` | [`eventually`]: the only place that polls |
//!
//! A test that needs a control plane is marked `#[ignore = "needs a control plane: cargo xtask test"]`: plain `cargo
//! test` passes on a bare machine and lists the tests it did not run, `cargo xtask test` runs those tests too.
//! [`ControlPlane::start`] fails with instructions if binaries are missing, so a requested test never passes by doing
//! nothing.

#![deny(missing_docs)]

mod admission;
mod assets;
mod audit;
mod baseline;
mod control_plane;
mod credentials;
mod error;
mod etcd;
mod leased;
mod options;
mod pool;
mod process;
mod scratch;
mod tally;
mod usage;
mod wait;

pub use assets::{Assets, REQUIRED, pod_groups_version};
pub use control_plane::{ControlPlane, Stop};
pub use credentials::{TokenUser, client};
pub use error::Error;
pub use leased::{Kept, Leased};
pub use options::{AuditLevel, Options};
pub use pool::keep_pool;
pub use process::Process;
pub use tally::tally;
pub use usage::ProcessUsage;
pub use wait::eventually;
