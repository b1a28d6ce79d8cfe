//! How a fault of a history happens, and what it meets.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use embedded_apiserver::{Fault, RecordedRequest, RequestVerb};

use super::Suite;
use super::drawn_fault::{DeathPoint, DrawnFault};
use super::fence;
use super::run::{Death, Stage, Step};
use super::strikes::Suspect;
use super::which::{Which, concerns};

/// Time until a process that was killed is back.
const RESTART: Duration = Duration::from_secs(1);
/// Time for which an API server waits until its watch cache is as new as a read wants it
/// (`apiserver/pkg/storage/cacher`, `blockTimeout`).
const CACHE_WAIT: Duration = Duration::from_secs(3);
/// Interval at which a rival undoes what the controller has written.
const RIVAL_ACTS: Duration = Duration::from_secs(1);
/// Number of API servers.
const SERVERS: u64 = 3;

impl<S: Suite> Stage<'_, S> {
    /// Makes fault `number` of the history happen.
    pub(super) fn strike(&mut self, number: usize) {
        let history = self.history;
        match history.faults[number].what {
            DrawnFault::Requests {
                which,
                count,
                ref fault,
            } => {
                let concerning = fault.clone();
                self.fail(number, count, fault, move |request| {
                    which.matches(request) && concerns(&concerning, request)
                });
                if which.ends_watches() {
                    self.server.close_watches();
                }
            }
            DrawnFault::Refused {
                which,
                ref fault,
                lasts,
            } => {
                let until = self.server.elapsed() + lasts;
                let meets =
                    move |request: &RecordedRequest| request.arrived < until && which.matches(request);
                self.fail(number, usize::MAX, fault, meets);
            }
            DrawnFault::CutOff { replica, lasts } => {
                let until = self.server.elapsed() + lasts;
                let agent = format!("{}/replica-{replica}.", S::NAME);
                let meets = move |request: &RecordedRequest| {
                    request.arrived < until && request.user_agent.starts_with(&agent)
                };
                let fault = Fault::NoAnswer { takes_effect: false };
                self.fail(number, usize::MAX, &fault, meets);
            }
            DrawnFault::ApiServers { lags, lasts } => {
                let until = self.server.elapsed() + lasts;
                for (place, lag) in lags.into_iter().enumerate() {
                    self.lag(number, place, lag, until);
                }
                self.server.close_watches();
            }
            DrawnFault::Rival(lasts) => {
                let mut time = Duration::ZERO;
                while time < lasts {
                    self.plan(self.server.elapsed() + time, Step::Rival(number));
                    time += RIVAL_ACTS;
                }
            }
            ref fault => self.strike_server(number, fault),
        }
    }

    fn strike_server(&mut self, number: usize, fault: &DrawnFault) {
        match *fault {
            DrawnFault::Outage(lasts) => {
                self.suspect(number);
                self.server.down();
                self.up_in(lasts);
            }
            DrawnFault::Restart(lasts) => {
                self.suspect(number);
                self.server.restart();
                self.up_in(lasts);
            }
            DrawnFault::WrongClock { seconds } => {
                self.suspect(number);
                self.server
                    .offset_clock(SignedDuration::from_secs(seconds.into()));
            }
            DrawnFault::SetBack(lasts) => {
                let set_back = |version| self.noted.lock().fence.set_back(&self.server, version);
                if self.backup.is_some_and(set_back) {
                    self.struck(number);
                    self.up_in(lasts);
                    // Versions that come again for the same objects would deceive a leader that has yet to look.
                    let looked = self.server.elapsed() + fence::RENEW_DEADLINE;
                    self.unnoticed_until = self.out_until.max(looked);
                }
            }
            DrawnFault::WatchesEnd => {
                self.cut_watches(number);
                self.server.close_watches();
            }
            DrawnFault::Compaction => {
                self.suspect(number);
                self.server.compact();
                self.server.close_watches();
            }
            // Nobody writes to a server that is out of reach.
            DrawnFault::LeaseStolen(_) | DrawnFault::LeaseDeleted
                if self.server.elapsed() < self.out_until => {}
            DrawnFault::LeaseStolen(lasts) => {
                let was_held = self.noted.lock().fence.steal(&self.server);
                if was_held {
                    self.struck(number);
                }
                let mut renewal = fence::RENEWAL;
                while renewal < lasts {
                    self.plan(self.server.elapsed() + renewal, Step::ThiefRenews);
                    renewal += fence::RENEWAL;
                }
            }
            DrawnFault::LeaseDeleted => {
                let was_held = self.noted.lock().fence.delete(&self.server);
                if was_held {
                    self.struck(number);
                }
            }
            _ => self.strike_replica(number, fault),
        }
    }

    fn strike_replica(&mut self, number: usize, fault: &DrawnFault) {
        match *fault {
            DrawnFault::OtherClock { replica, ahead } => {
                self.replicas[replica - 1].clock_ahead = ahead;
                self.restart(number, replica - 1);
            }
            DrawnFault::ClockJumps { replica, ahead } => {
                let replica = &mut self.replicas[replica - 1];
                replica.clock_ahead = ahead;
                if let Some(process) = &replica.process {
                    process.clock.set_wrong(ahead);
                    self.struck(number);
                }
            }
            DrawnFault::DryRun { replica, lasts } => {
                self.replicas[replica - 1].dry_run = true;
                self.restart(number, replica - 1);
                self.plan(self.server.elapsed() + lasts, Step::EndDryRun(replica - 1));
            }
            DrawnFault::Crash {
                replica,
                moment,
                restart,
            } => self.crash(number, replica - 1, moment, restart),
            DrawnFault::Stop { replica, restart } => {
                let process = &mut self.replicas[replica - 1].process;
                if let Some(stop) = process.as_mut().and_then(|process| process.stop.take()) {
                    // A process that has ended needs no signal.
                    let _ = stop.send(());
                    *process = None;
                    self.struck(number);
                    self.plan(self.server.elapsed() + restart, Step::Start(replica - 1));
                }
            }
            _ => {}
        }
    }

    /// Has the next `count` requests that `meets` selects meet a fault, and notes that it struck.
    fn fail(
        &self,
        number: usize,
        count: usize,
        fault: &Fault,
        meets: impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static,
    ) {
        let noted = Arc::clone(&self.noted);
        let strikes = move |request: &RecordedRequest| {
            meets(request) && {
                noted.lock().struck.insert(number);
                true
            }
        };
        self.server.fail_next(count, strikes, fault.clone());
    }

    /// Has a third of the reads reach an API server whose watch cache lags.
    fn lag(&self, number: usize, place: usize, lag: Duration, until: Duration) {
        let reaches = move |request: &RecordedRequest| {
            let is_of_cache = matches!(request.verb, RequestVerb::List | RequestVerb::Watch);
            is_of_cache && request.arrived < until && server_of(request) == place
        };
        let is_consistent =
            |request: &RecordedRequest| request.lists() && !request.query.contains("resourceVersion=0");
        let by = lag;
        self.fail(number, usize::MAX, &Fault::Stale { by, illegal: false }, reaches);
        self.fail(number, usize::MAX, &Fault::WatchLags(lag), reaches);
        // What must be up to date waits until the cache is; pages come from etcd in the end.
        let is_late = move |request: &RecordedRequest| reaches(request) && is_consistent(request);
        self.fail(number, usize::MAX, &Fault::Delay(lag.min(CACHE_WAIT)), is_late);
        if lag > CACHE_WAIT {
            let refusal = Fault::Status {
                code: 504,
                reason: "Timeout".to_owned(),
                retry_after: Some(Duration::from_secs(1)),
            };
            let is_stream =
                move |request: &RecordedRequest| is_late(request) && request.verb == RequestVerb::Watch;
            self.fail(number, usize::MAX, &refusal, is_stream);
        }
    }

    pub(super) fn struck(&self, fault: usize) {
        self.noted.lock().struck.insert(fault);
    }

    /// Backs the server's state up, if there is a Lease by which a set-back can be noticed.
    pub(super) fn back_up(&mut self) {
        self.backup = self.noted.lock().fence.version(&self.server);
    }

    /// Leaves it to the record whether the fault strikes.
    fn suspect(&mut self, fault: usize) {
        let (at, version) = (self.server.elapsed(), self.server.version());
        self.suspects.push(Suspect { fault, at, version });
    }

    /// The fault strikes if a watch is open.
    fn cut_watches(&self, fault: usize) {
        if self.server.open_watches() > 0 {
            self.struck(fault);
        }
    }

    fn up_in(&mut self, time: Duration) {
        let at = self.server.elapsed() + time;
        self.out_until = self.out_until.max(at);
        self.plan(at, Step::Up);
    }

    /// Kills a replica, which is back a second later.
    fn restart(&mut self, fault: usize, replica: usize) {
        if self.kill(replica, RESTART) {
            self.struck(fault);
        }
    }

    fn crash(&mut self, fault: usize, number: usize, moment: DeathPoint, restart: Duration) {
        if moment == DeathPoint::Now {
            if self.kill(number, restart) {
                self.struck(fault);
            }
            return;
        }
        let Some(process) = &self.replicas[number].process else {
            return;
        };
        let identity = process.identity.clone();
        let death = Death { identity, restart };
        let (deaths, noted) = (self.deaths(), Arc::clone(&self.noted));
        let is_write = move |request: &RecordedRequest| {
            let mut written = S::WRITES.iter();
            let found = written.any(|resource| Which::Writes(resource).matches(request))
                && fence::sender(request, S::NAME) == Some(&death.identity);
            // The stage outlives the replicas; if it did not, nobody would wait for this message.
            found && {
                noted.lock().struck.insert(fault);
                deaths.send(death.clone()).is_ok()
            }
        };
        let takes_effect = moment == DeathPoint::AfterWrite;
        self.server
            .fail_next(1, is_write, Fault::NoAnswer { takes_effect });
    }
}

/// The API server that a request reaches, as through a load balancer: the next one may reach another.
fn server_of(request: &RecordedRequest) -> usize {
    let mut hasher = DefaultHasher::new();
    (&request.user_agent, &request.resource, request.arrived).hash(&mut hasher);
    usize::try_from(hasher.finish() % SERVERS).unwrap_or_default()
}
