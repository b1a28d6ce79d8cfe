//! The loop around the rule: read, decide, write; renew while leading, wait while standing by.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use controller_core::error::Chain;
use controller_core::log_throttle::LogThrottle;
use futures::StreamExt;
use kube::runtime::watcher::Event;
use prometheus::IntCounter;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::time::Instant;

use super::config::ElectionConfig;
use super::decide::{Decision, Observed, Role, decide, released, set_back};
use super::leadership::{AttemptFailed, Leadership, SetBacks, Status};
use super::lease::Lease;
use super::metrics::ElectionMetrics;
use super::requests::{Error, Events, Requests};
use super::term::Terms;
use crate::clock::Clock;
use crate::shutdown::Shutdown;

/// client-go's `JitterFactor`.
const JITTER_FACTOR: f64 = 1.2;
/// Longest time that a shutdown waits for the release of the Lease.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);
/// Least time between two log lines about the same failure.
const COMPLAIN_EVERY: Duration = Duration::from_mins(1);

/// Runs the election of one Lease, in a task of its own.
pub struct Elector {
    config: ElectionConfig,
    clock: Clock,
    requests: Requests,
    terms: Terms,
    status: watch::Sender<Status>,
    slow_path: IntCounter,
    /// Seeded with the identity: replicas poll at different times, and a test is repeatable.
    jitter: StdRng,
    observed: Option<Observed>,
    set_backs: watch::Sender<SetBacks>,
    /// True if etcd may have been set back without a trace in the Lease: we were cut off, or did not renew it.
    looked_away: bool,
    /// True if the Lease may name us as holder: a write without an answer counts.
    claimed: bool,
    request_complaints: Complaints,
    watch_complaints: Complaints,
}

/// The result of an attempt.
enum Outcome {
    /// The Lease is ours, through a write that started then.
    Ours(Instant),
    /// Another replica may lead until then.
    Theirs(Instant),
}

/// Recently logged failures.
type Complaints = LogThrottle<String, Instant>;

/// Makes the elector for the Lease that `config` names, and the process's view of the election.
///
/// The settings in `config` must fit each other: see [`ElectionConfig`]. The elector needs get, create and update on
/// leases; with list and watch, a released Lease changes hands at once instead of at the next poll.
pub fn elector(
    client: kube::Client,
    clock: Clock,
    config: ElectionConfig,
    metrics: ElectionMetrics,
) -> (Elector, Leadership) {
    let terms = Terms::new(clock.clone(), metrics.leading);
    let status = watch::Sender::new(Status::default());
    let set_backs = watch::Sender::new(SetBacks::default());
    let leadership = Leadership::new(terms.fence(), status.subscribe(), set_backs.subscribe());
    let seed = BuildHasherDefault::<DefaultHasher>::default().hash_one(&config.identity);
    let elector = Elector {
        requests: Requests::new(client, clock.clone(), &config),
        config,
        clock,
        terms,
        status,
        slow_path: metrics.slow_path,
        jitter: StdRng::seed_from_u64(seed),
        observed: None,
        set_backs,
        looked_away: false,
        claimed: false,
        request_complaints: Complaints::default(),
        watch_complaints: Complaints::default(),
    };
    (elector, leadership)
}

impl Elector {
    /// Takes part in the election until `shutdown` drains, then ends the term and releases the Lease, which takes at
    /// most 5 s.
    ///
    /// The term ends with the first signal on `shutdown`: to finish writes within the term, signal after them.
    pub async fn run(mut self, shutdown: Shutdown) {
        tokio::select! {
            biased;
            () = shutdown.draining() => {}
            () = self.elect() => {}
        }
        self.terms.end();
        tokio::select! {
            biased;
            () = shutdown.aborting() => {}
            () = self.release() => {}
        }
    }

    async fn elect(&mut self) {
        loop {
            let started = self.stand_by().await;
            if std::mem::take(&mut self.looked_away) {
                self.set_backs.send_modify(|set_backs| set_backs.possible += 1);
            }
            self.lead(started).await;
            self.looked_away = true;
        }
    }

    /// Waits until a term has begun; returns when the write that began it was started.
    async fn stand_by(&mut self) -> Instant {
        let mut events = self.requests.watch();
        loop {
            let poll_at = self.clock.instant() + self.jittered_retry();
            let look_at = match self.attempt(Role::Standby, Some(&mut events)).await {
                Ok(Outcome::Ours(start)) if self.terms.begin(start + self.config.renew_deadline) => {
                    tracing::info!(
                        lease = self.requests.lease(),
                        identity = self.config.identity,
                        term = self.terms.last(),
                        "leading"
                    );
                    return start;
                }
                Ok(Outcome::Theirs(until)) => poll_at.min(until),
                Ok(Outcome::Ours(_)) | Err(_) => poll_at,
            };
            let clock = self.clock.clone();
            tokio::select! {
                biased;
                () = self.follow(&mut events) => {}
                () = clock.sleep_until(look_at) => {}
            }
        }
    }

    /// Follows renewals, so that a standby that has seen what etcd lost has seen the Lease of that time, too. Completes
    /// when the Lease was released or deleted, which only triggers a read.
    ///
    /// A watch that fails reports nothing; polling goes on.
    async fn follow(&mut self, events: &mut Events) {
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(lease) | Event::InitApply(lease)) if lease.record.holder().is_none() => {
                    return;
                }
                Ok(Event::Apply(lease) | Event::InitApply(lease)) if self.is_newer(&lease) => {
                    self.see(Some(lease));
                }
                Ok(Event::Delete(_)) => return,
                Ok(_) => {}
                Err(error) => {
                    self.looked_away = true;
                    let text = Chain(&error).to_string();
                    complain(&mut self.watch_complaints, &text, self.clock.instant());
                }
            }
        }
        std::future::pending::<()>().await;
    }

    /// Returns whether this is a later version of the Lease that was seen last.
    fn is_newer(&self, lease: &Lease) -> bool {
        self.seen()
            .is_some_and(|seen| seen.uid() == lease.uid() && seen.version() < lease.version())
    }

    /// Renews until the term is over. `started`: start of the write that began it.
    async fn lead(&mut self, mut started: Instant) {
        let mut valid_until = started + self.config.renew_deadline;
        let reason = loop {
            let renew_at = started + self.config.retry_period;
            self.clock.sleep_until(renew_at.min(valid_until)).await;
            started = self.clock.instant();
            let time_left = valid_until.saturating_duration_since(started);
            let clock = self.clock.clone();
            match clock.timeout(time_left, self.attempt(Role::Leader, None)).await {
                Ok(Ok(Outcome::Ours(start))) => {
                    valid_until = start + self.config.renew_deadline;
                    if !self.terms.extend(valid_until) {
                        break "renewed too late";
                    }
                }
                Ok(Ok(Outcome::Theirs(_))) => break "somebody else holds the lease",
                Ok(Err(_)) => {}
                Err(_) => break "not renewed in time",
            }
        };
        self.terms.end();
        tracing::warn!(
            lease = self.requests.lease(),
            term = self.terms.last(),
            reason,
            "no longer leading"
        );
    }

    /// Tries once to become or stay the holder. A write that turns out to rest on an outdated read is followed by one
    /// more read and one more write.
    async fn attempt(&mut self, role: Role, mut events: Option<&mut Events>) -> Result<Outcome, Error> {
        let result = async {
            // A leader knows what it wrote and need not read.
            if role == Role::Standby {
                self.look(events.as_deref_mut()).await?;
            }
            match self.act(role).await {
                Err(error) if error.is_stale() => {
                    tracing::debug!(error = %Chain(&error), "looking at the lease again");
                    self.look(events).await?;
                    if role == Role::Leader {
                        self.slow_path.inc();
                    }
                    self.act(role).await
                }
                result => result,
            }
        }
        .await;
        self.report(result.as_ref().err());
        result
    }

    /// Reads the Lease. A standby follows it meanwhile: an answer that does not come must hide nothing that etcd may lose.
    async fn look(&mut self, mut events: Option<&mut Events>) -> Result<(), Error> {
        let before = self.seen().map(Lease::version);
        let has_seen = self.observed.is_some();
        let requests = self.requests.clone();
        let lease = loop {
            let events = events.as_deref_mut().filter(|_| has_seen);
            tokio::select! {
                biased;
                lease = requests.get() => break lease?,
                () = async {
                    match events {
                        Some(events) => self.follow(events).await,
                        None => std::future::pending().await,
                    }
                } => {}
            }
        };
        // The watch may have shown a later version than the one in the answer.
        let seen = self.seen().filter(|seen| before != Some(seen.version()));
        let is_late = |lease: &Lease| {
            seen.is_some_and(|seen| seen.uid() == lease.uid() && lease.version() < seen.version())
        };
        if !lease.as_ref().is_some_and(is_late) {
            self.see(lease);
        }
        Ok(())
    }

    /// The Lease that was seen last.
    fn seen(&self) -> Option<&Lease> {
        self.observed
            .as_ref()
            .and_then(|observed| observed.lease.as_ref())
    }

    /// Does what the rule decides from the last read; at most one write.
    async fn act(&mut self, role: Role) -> Result<Outcome, Error> {
        let now = self.clock.instant();
        let Some(observed) = &self.observed else {
            // Before the first read, no write has a basis.
            return Ok(Outcome::Theirs(now));
        };
        let written = match decide(observed, role, now, self.clock.now(), &self.config) {
            Decision::Wait(until) => return Ok(Outcome::Theirs(until)),
            // Not in this term, which must end before the Lease can be taken again.
            Decision::Take(_) if role == Role::Leader => return Ok(Outcome::Theirs(now)),
            Decision::Create(lease) => {
                self.claimed = true;
                self.requests.create(&lease).await?
            }
            Decision::Take(lease) | Decision::Renew(lease) => {
                self.claimed = true;
                self.requests.update(&lease).await?
            }
        };
        self.see(Some(written));
        Ok(Outcome::Ours(now))
    }

    /// Records the Lease as it is now.
    fn see(&mut self, lease: Option<Lease>) {
        let now = self.clock.instant();
        self.compare(lease.as_ref());
        let observed = Observed::next(self.observed.as_ref(), lease, now, &self.config);
        let holder = observed.holder().map(str::to_owned);
        self.observed = Some(observed);
        self.claimed = holder.as_deref() == Some(&self.config.identity);
        self.status.send_if_modified(|status| {
            let changed = status.holder != holder;
            if changed {
                let lease = self.requests.lease();
                tracing::info!(lease, holder = holder.as_deref().unwrap_or(""), "lease holder");
                status.holder = holder;
            }
            changed
        });
    }

    /// Notices that etcd was set back to an earlier state.
    fn compare(&mut self, lease: Option<&Lease>) {
        let Some(before) = self.seen() else {
            return;
        };
        if set_back(before, lease) {
            self.looked_away = false;
            self.set_backs.send_modify(|set_backs| set_backs.noticed += 1);
        }
    }

    /// Releases the Lease if it names us.
    async fn release(&mut self) {
        if !self.claimed {
            return;
        }
        let clock = self.clock.clone();
        let released = clock.timeout(RELEASE_LIMIT, async {
            while let Err(error) = self.try_release().await {
                let lease = self.requests.lease();
                tracing::warn!(lease, error = %Chain(&error), "lease not released yet");
                if !error.is_stale() {
                    clock.sleep(self.config.retry_period).await;
                }
            }
        });
        if released.await.is_err() {
            tracing::warn!(
                lease = self.requests.lease(),
                "lease not released: others wait for its end"
            );
        }
    }

    async fn try_release(&mut self) -> Result<(), Error> {
        self.look(None).await?;
        let lease = self
            .observed
            .as_ref()
            .and_then(|observed| observed.lease.as_ref());
        let Some(ours) = lease.filter(|_| self.claimed) else {
            return Ok(());
        };
        let written = self.requests.update(&released(ours, self.clock.now())).await?;
        self.see(Some(written));
        Ok(())
    }

    fn report(&mut self, error: Option<&Error>) {
        let failure = error.map(|error| AttemptFailed {
            text: Chain(error).to_string(),
            forbidden: error.is_forbidden(),
        });
        if let Some(failure) = &failure {
            self.looked_away = true;
            let now = self.clock.instant();
            complain(&mut self.request_complaints, &failure.text, now);
        }
        self.status.send_if_modified(|status| {
            let changed = status.failure != failure;
            status.failure = failure;
            changed
        });
    }

    /// client-go's poll interval: the retry period plus up to 1.2 times as much.
    fn jittered_retry(&mut self) -> Duration {
        let jitter = JITTER_FACTOR * self.jitter.random::<f64>();
        Duration::try_from_secs_f64(self.config.retry_period.as_secs_f64() * (1.0 + jitter))
            .unwrap_or(self.config.retry_period)
    }
}

/// Logs a failure; the same failure at most once a minute.
fn complain(complaints: &mut Complaints, text: &str, now: Instant) {
    if complaints.is_due(text, COMPLAIN_EVERY, now) {
        tracing::warn!(error = text, "leader election");
    }
}
