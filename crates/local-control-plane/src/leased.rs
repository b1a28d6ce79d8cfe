//! Control planes that the tests of a process use one after another.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::baseline::Baseline;
use super::{ControlPlane, Error, Options};

/// Number of control planes, in use and idle, from which on an idle one that nobody fits ends before another starts:
/// each takes 400 MB.
const AT_MOST: usize = 8;

/// Within which the last requests of a test that has ended are carried out.
const QUIET: Duration = Duration::from_millis(100);

/// The control planes that wait for a test. They end when no test has one: nobody drops a static.
static POOL: Mutex<Weak<Pool>> = Mutex::new(Weak::new());

/// A [`ControlPlane`] of this process that a test has for itself, and that the next one has after it.
///
/// The next test finds what there was before the first one: nothing else in etcd, in the API server's caches and in the
/// audit log. Ends with the test that panics, or that has borrowed it mutably, as for [`ControlPlane::stop_api_server`].
///
/// Processes that use the control plane must have ended before this is dropped.
pub struct Leased {
    /// Taken by `drop` alone.
    slot: Option<Slot>,
    is_spoilt: bool,
    pool: Arc<Pool>,
}

/// Keeps the control planes that wait, also while no test has one: for a test that leases one after another.
pub struct Kept {
    _pool: Arc<Pool>,
}

impl Kept {
    /// Keeps them until this is dropped.
    #[allow(clippy::new_without_default, reason = "it is about its lifetime")]
    pub fn new() -> Self {
        Self {
            _pool: Pool::of_process(),
        }
    }
}

#[derive(Default)]
struct Pool(Mutex<Vec<Slot>>);

struct Slot {
    plane: ControlPlane,
    fits: Fits,
    baseline: Baseline,
}

/// What tests that share a control plane have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fits {
    options: Options,
    prepared: String,
}

impl Leased {
    /// A control plane as it starts with these options, which do not name users.
    pub async fn bare(options: Options) -> Result<Self, Error> {
        Self::take(options, "", async |_: &ControlPlane| {}).await
    }

    /// A control plane with these options on which `prepare`, of this name, has run.
    ///
    /// Takes one that another test has left, or starts one.
    pub async fn take(
        options: Options,
        prepared: &str,
        prepare: impl AsyncFnOnce(&ControlPlane),
    ) -> Result<Self, Error> {
        let prepared = prepared.to_owned();
        let fits = Fits { options, prepared };
        let pool = Pool::of_process();
        while let Some(mut slot) = pool.find(&fits) {
            if let Ok(true) = slot.renew().await {
                return Ok(Self::new(slot, pool));
            }
        }
        let unfit = pool.make_room(Arc::strong_count(&pool));
        drop(unfit);
        let plane = ControlPlane::start(fits.options.clone()).await?;
        prepare(&plane).await;
        let baseline = Baseline::take(&plane).await?;
        let slot = Slot {
            plane,
            fits,
            baseline,
        };
        Ok(Self::new(slot, pool))
    }

    fn new(slot: Slot, pool: Arc<Pool>) -> Self {
        slot.plane.begin_audit();
        Self {
            slot: Some(slot),
            is_spoilt: false,
            pool,
        }
    }
}

impl Pool {
    fn of_process() -> Arc<Self> {
        let mut pool = POOL.lock();
        pool.upgrade().unwrap_or_else(|| {
            let new = Arc::default();
            *pool = Arc::downgrade(&new);
            new
        })
    }

    /// The one that has waited longest.
    fn find(&self, fits: &Fits) -> Option<Slot> {
        let mut slots = self.0.lock();
        let at = slots.iter().position(|slot| slot.fits == *fits)?;
        Some(slots.remove(at))
    }

    /// The idle one to end before another one starts, if there are too many.
    fn make_room(&self, in_use: usize) -> Option<Slot> {
        let mut slots = self.0.lock();
        (!slots.is_empty() && slots.len() + in_use > AT_MOST).then(|| slots.remove(0))
    }
}

impl Slot {
    /// Makes it as it was before the first test; false if that cannot be told for sure.
    async fn renew(&mut self) -> Result<bool, Error> {
        tokio::time::sleep(QUIET).await;
        self.plane.renew_client().await?;
        self.baseline.restore(&self.plane).await
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
        if let Some(slot) = self.slot.take()
            && !self.is_spoilt
            && !std::thread::panicking()
        {
            self.pool.0.lock().push(slot);
        }
    }
}
