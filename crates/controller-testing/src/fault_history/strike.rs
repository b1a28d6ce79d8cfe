//! How a fault of a history happens, and what it meets.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use embedded_apiserver::{Fault, RecordedRequest};

use super::Suite;
use super::drawn_fault::{DeathPoint, DrawnFault};
use super::fence;
use super::run::{Death, Stage, Step};
use super::strikes::Suspect;
use super::which::{Which, concerns};

/// Time until a process that was killed is back.
const RESTART: Duration = Duration::from_secs(1);

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
            DrawnFault::FastClock { replica, ahead } => {
                self.replicas[replica - 1].clock_ahead = ahead;
                self.restart(number, replica - 1);
            }
            DrawnFault::DryRun { replica, lasts } => {
                self.replicas[replica - 1].dry_run = true;
                self.restart(number, replica - 1);
                self.plan(self.server.elapsed() + lasts, Step::EndDryRun(replica - 1));
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

    fn struck(&self, fault: usize) {
        self.noted.lock().struck.insert(fault);
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
