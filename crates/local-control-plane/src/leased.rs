//! Control planes that tests use one after another, also tests of different processes.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use super::baseline::Baseline;
use super::pool::{Pool, Slot};
use super::{AuditLevel, ControlPlane, Error, Options, Process, ProcessUsage, tally};

/// Number of control planes, waiting and in use by this process, from which on a waiting one that nobody fits ends
/// before another starts: each takes 400 MB.
const AT_MOST: usize = 8;

/// Within which the last requests of a test that has ended are carried out.
const QUIET: Duration = Duration::from_millis(100);

/// A [`ControlPlane`] that a test has for itself, and that the next one has after it: of this process, or of any to
/// which `cargo xtask test` gave the same pool.
///
/// The next test finds what there was before the first one: nothing else in etcd, in the API server's caches and in the
/// audit log. Ends with the test that panics, or that has borrowed it mutably, as for [`ControlPlane::stop_api_server`].
///
/// Processes that use the control plane must have ended before this is dropped.
pub struct Leased {
    /// Taken by `drop` alone.
    slot: Option<Slot>,
    options: Options,
    /// CPU time of its processes before.
    cpu: Duration,
    is_spoilt: bool,
    pool: Arc<Pool>,
}

/// Keeps the control planes that wait, also while no test has one: for a test that leases one after another.
pub struct Kept {
    _pool: Arc<Pool>,
}

impl Kept {
    /// Keeps them until this is dropped.
    pub fn new() -> Result<Self, Error> {
        Pool::of_process().map(|pool| Self { _pool: pool })
    }
}

impl Leased {
    /// A control plane as it starts with these options, which do not name users.
    pub async fn bare(options: Options) -> Result<Self, Error> {
        Self::take(options, "", async |_: &ControlPlane| {}).await
    }

    /// A control plane with these options, and at least [`AuditLevel::Metadata`], on which `prepare`, of this name, has
    /// run.
    ///
    /// Takes one that another test has left, or starts one.
    pub async fn take(
        mut options: Options,
        prepared: &str,
        prepare: impl AsyncFn(&ControlPlane),
    ) -> Result<Self, Error> {
        // So that more tests have the same options.
        options.audit.get_or_insert(AuditLevel::Metadata);
        let pool = Pool::of_process()?;
        while let Some(mut slot) = pool.find(&options, prepared) {
            let cpu = slot.cpu();
            if let Ok(true) = slot.renew(prepared, &prepare).await {
                return Ok(Self::new(slot, options, cpu, pool));
            }
            slot.end(cpu);
        }
        let in_use = Arc::strong_count(&pool);
        drop(pool.surplus(AT_MOST.saturating_sub(in_use)));
        let plane = ControlPlane::start(options.clone()).await?;
        let mut slot = Slot {
            bare: Baseline::take(&plane).await?,
            plane,
            prepared: None,
        };
        slot.prepare(prepared, &prepare).await?;
        Ok(Self::new(slot, options, Duration::ZERO, pool))
    }

    fn new(slot: Slot, options: Options, cpu: Duration, pool: Arc<Pool>) -> Self {
        slot.plane.begin_audit();
        Self {
            slot: Some(slot),
            options,
            cpu,
            is_spoilt: false,
            pool,
        }
    }
}

impl Slot {
    /// Makes it as it was after its start or after `prepare`, of this name; false if that cannot be told for sure.
    async fn renew(&mut self, prepared: &str, prepare: &impl AsyncFn(&ControlPlane)) -> Result<bool, Error> {
        tokio::time::sleep(QUIET).await;
        self.plane.renew_client().await?;
        if let Some((name, baseline)) = &mut self.prepared
            && name == prepared
        {
            return baseline.restore(&self.plane).await;
        }
        self.prepared = None;
        if !self.bare.restore(&self.plane).await? {
            return Ok(false);
        }
        self.prepare(prepared, prepare).await?;
        Ok(true)
    }

    async fn prepare(&mut self, name: &str, prepare: &impl AsyncFn(&ControlPlane)) -> Result<(), Error> {
        if !name.is_empty() {
            prepare(&self.plane).await;
            self.prepared = Some((name.to_owned(), Baseline::take(&self.plane).await?));
        }
        Ok(())
    }

    fn cpu(&self) -> Duration {
        let usages = self.plane.processes().flat_map(Process::usage);
        usages.map(|ProcessUsage { cpu, .. }| cpu).sum()
    }

    /// Counts the CPU time since `before`, which `wait` does not.
    fn count(&self, before: Duration) {
        tally("leased-cpu-ms", self.cpu().saturating_sub(before).as_millis());
    }

    fn end(self, before: Duration) {
        if !self.plane.etcd().is_child() {
            self.count(before);
        }
    }
}

#[allow(clippy::expect_used, reason = "taken by `drop` alone")]
impl Deref for Leased {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        &self.slot.as_ref().expect("a control plane").plane
    }
}

#[allow(clippy::expect_used, reason = "taken by `drop` alone")]
impl DerefMut for Leased {
    fn deref_mut(&mut self) -> &mut ControlPlane {
        self.is_spoilt = true;
        &mut self.slot.as_mut().expect("a control plane").plane
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        if self.is_spoilt || std::thread::panicking() {
            slot.end(self.cpu);
        } else {
            slot.count(self.cpu);
            // One that cannot wait ends.
            let _ = self.pool.give(&self.options, slot);
        }
    }
}
