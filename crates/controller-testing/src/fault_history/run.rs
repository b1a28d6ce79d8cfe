//! Runs one history from beginning to end, on its own runtime, clock and server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::drawn_fault::{DeathPoint, DrawnFault, Which};
use super::fence;
use super::refusals;
use super::{EndState, History, Life, Suite};
use embedded_apiserver::{Fault, LEASES, RecordedRequests, Server};

/// The wall clock at the start: 2026-01-01T00:00:00Z.
const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// Interval of the checks whether everything has settled.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Time for which a settled state must last.
const QUIET: Duration = Duration::from_secs(30);

/// The result of a history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {
    /// The state to compare with that of the run without faults, or the violated rule.
    pub outcome: Result<EndState, Violation>,
    /// All requests of the replicas.
    pub requests: RecordedRequests,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// When the rule was broken, since the start.
    pub at: Duration,
    /// Description of what happened.
    pub what: String,
}

/// Runs one history.
pub fn run<S: Suite>(suite: &S, history: &History<S::Action>) -> Run {
    let suite = &suite.fresh();
    // kube's watcher draws its waits from this generator.
    fastrand::seed(history.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    match runtime {
        // The server's clock is the runtime's, so the stage is set up inside it.
        Ok(runtime) => runtime.block_on(async { Stage::new(suite, history).play().await }),
        Err(error) => {
            let (at, what) = (Duration::ZERO, format!("cannot start a runtime: {error}"));
            let outcome = Err(Violation { at, what });
            let requests = RecordedRequests::default();
            Run { outcome, requests }
        }
    }
}

/// A world with its replicas during the history.
struct Stage<'a, S: Suite> {
    suite: &'a S,
    history: &'a History<S::Action>,
    server: Server,
    /// Steps still to come, in order; the number tells steps of the same time apart.
    queue: BTreeMap<(Duration, usize), Step>,
    planned: usize,
    replicas: Vec<Replica>,
    processes: JoinSet<Result<(), String>>,
    deaths: (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>),
    /// End of the time in which the server is unreachable.
    out_until: Duration,
    noted: Arc<Mutex<Noted>>,
}

/// Data shared by the stage and the observer of requests.
#[derive(Default)]
struct Noted {
    violation: Option<Violation>,
    /// When the Lease was last changed behind the replicas' backs.
    tampered: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Act(usize),
    DrawnFault(usize),
    /// The server becomes reachable again.
    Up,
    /// A replica is started, possibly again.
    Start(usize),
    /// The thief of the Lease renews it.
    ThiefRenews,
}

#[derive(Default)]
struct Replica {
    lives: usize,
    process: Option<Process>,
}

struct Process {
    identity: String,
    task: AbortHandle,
    /// Taken when it is used.
    stop: Option<oneshot::Sender<()>>,
}

impl<'a, S: Suite> Stage<'a, S> {
    fn new(suite: &'a S, history: &'a History<S::Action>) -> Self {
        let mut stage = Self {
            suite,
            history,
            server: Server::starting_at(START),
            queue: BTreeMap::new(),
            planned: 0,
            replicas: (0..history.replicas).map(|_| Replica::default()).collect(),
            processes: JoinSet::new(),
            deaths: mpsc::unbounded_channel(),
            out_until: Duration::ZERO,
            noted: Arc::default(),
        };
        stage.observe();
        for (number, action) in history.actions.iter().enumerate() {
            stage.plan(action.time, Step::Act(number));
        }
        for number in 0..stage.replicas.len() {
            stage.plan(Duration::ZERO, Step::Start(number));
        }
        for (number, fault) in history.faults.iter().enumerate() {
            stage.plan(fault.time, Step::DrawnFault(number));
        }
        stage
    }

    fn observe(&self) {
        let (suite, noted) = (self.suite.clone(), self.noted.clone());
        let has_election = self.history.has_election();
        self.server.observe(move |server, request| {
            if fence::sender(request, S::NAME).is_none() {
                return;
            }
            let tampered = noted.lock().tampered;
            let is_elected = if has_election {
                fence::permits(server, request, S::NAME, tampered)
            } else {
                Ok(())
            };
            let permitted = is_elected.and_then(|()| suite.permits(server, request));
            if let Err(what) = permitted {
                note(&noted, server, what);
            }
        });
    }

    async fn play(mut self) -> Run {
        let outcome = self.outcome().await;
        Run {
            outcome,
            requests: self.server.requests(),
        }
    }

    async fn outcome(&mut self) -> Result<EndState, Violation> {
        while let Some((&(time, number), _)) = self.queue.first_key_value() {
            self.pass_until(time).await?;
            if let Some(step) = self.queue.remove(&(time, number)) {
                self.take(step);
            }
        }
        self.pass_until(S::LENGTH).await?;
        self.end_faults();
        self.settle().await?;
        let end = self.suite.afterwards(&self.server, self.history);
        end.and_then(|()| refusals::are_remembered(&self.server.requests()))
            .map_err(|what| self.violation(what))?;
        Ok(self.suite.state(&self.server))
    }

    /// Lets time pass, in which replicas may die.
    async fn pass_until(&mut self, time: Duration) -> Result<(), Violation> {
        loop {
            if let Some(violation) = self.noted.lock().violation.clone() {
                return Err(violation);
            }
            let left = time.saturating_sub(self.server.elapsed());
            tokio::select! {
                biased;
                Some(identity) = self.deaths.1.recv() => self.die(&identity),
                Some(ended) = self.processes.join_next() => match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(why)) => return Err(self.violation(format!("a replica ended of itself: {why}"))),
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => return Err(self.violation(format!("a replica panicked: {error}"))),
                },
                () = sleep(left) => return Ok(()),
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Act(number) => self.suite.act(&self.server, &self.history.actions[number].what),
            Step::DrawnFault(number) => self.fault(&self.history.faults[number].what.clone()),
            Step::Up if self.server.elapsed() >= self.out_until => self.server.up(),
            Step::Up => {}
            Step::Start(replica) => self.start(replica),
            Step::ThiefRenews => fence::renew(&self.server, S::NAME, self.now()),
        }
    }

    fn fault(&mut self, fault: &DrawnFault) {
        match *fault {
            DrawnFault::Requests {
                which,
                count,
                ref fault,
            } => {
                self.server
                    .fail_next(count, move |request| which.matches(request), fault.clone());
                if which.ends_watches() {
                    self.server.close_watches();
                }
            }
            DrawnFault::Outage(lasts) => {
                self.server.down();
                self.up_in(lasts);
            }
            DrawnFault::Restart(lasts) => {
                self.server.restart();
                self.up_in(lasts);
            }
            DrawnFault::WrongClock { seconds } => {
                self.server
                    .offset_clock(SignedDuration::from_secs(seconds.into()));
            }
            DrawnFault::WatchesEnd => self.server.close_watches(),
            DrawnFault::Compaction => self.server.compact(),
            DrawnFault::Crash {
                replica,
                moment,
                restart,
            } => self.crash(replica - 1, moment, restart),
            DrawnFault::Stop { replica, restart } => {
                let process = &mut self.replicas[replica - 1].process;
                if let Some(stop) = process.as_mut().and_then(|process| process.stop.take()) {
                    // A process that has ended needs no signal.
                    let _ = stop.send(());
                    *process = None;
                    self.plan(self.server.elapsed() + restart, Step::Start(replica - 1));
                }
            }
            DrawnFault::LeaseStolen(lasts) => {
                self.tamper(|server| fence::steal(server, S::NAME));
                let mut renewal = fence::RENEWAL;
                while renewal < lasts {
                    self.plan(self.server.elapsed() + renewal, Step::ThiefRenews);
                    renewal += fence::RENEWAL;
                }
            }
            DrawnFault::LeaseDeleted => {
                self.tamper(|server| server.delete(&LEASES, fence::NAMESPACE, S::NAME).is_ok());
            }
        }
    }

    fn up_in(&mut self, time: Duration) {
        let at = self.server.elapsed() + time;
        self.out_until = self.out_until.max(at);
        self.plan(at, Step::Up);
    }

    fn tamper(&self, tamper: impl FnOnce(&Server) -> bool) {
        if tamper(&self.server) {
            self.noted.lock().tampered = Some(self.server.elapsed());
        }
    }

    fn start(&mut self, number: usize) {
        let now = self.now();
        let replica = &mut self.replicas[number];
        if replica.process.is_some() {
            return;
        }
        replica.lives += 1;
        let identity = format!("replica-{}.{}", number + 1, replica.lives);
        let (stop, stopped) = oneshot::channel();
        let life = Life {
            client: self.server.client_as(&format!("{}/{identity}", S::NAME)),
            now,
            identity: self.history.has_election().then(|| identity.clone()),
            stop: stopped,
        };
        replica.process = Some(Process {
            identity,
            task: self.processes.spawn(self.suite.process(life)),
            stop: Some(stop),
        });
    }

    fn crash(&mut self, number: usize, moment: DeathPoint, restart: Duration) {
        let Some(process) = &self.replicas[number].process else {
            return;
        };
        let identity = process.identity.clone();
        if moment == DeathPoint::Now {
            self.die(&identity);
        } else {
            let death = self.deaths.0.clone();
            let is_write = move |request: &embedded_apiserver::RecordedRequest| {
                let found = S::RESOURCES
                    .iter()
                    .any(|resource| Which::Writes(resource).matches(request))
                    && fence::sender(request, S::NAME) == Some(&identity);
                // The stage outlives the replicas; if it did not, nobody would wait for this message.
                found && death.send(identity.clone()).is_ok()
            };
            let fault = Fault::NoAnswer {
                takes_effect: moment == DeathPoint::AfterWrite,
            };
            self.server.fail_next(1, is_write, fault);
        }
        self.plan(self.server.elapsed() + restart, Step::Start(number));
    }

    fn die(&mut self, identity: &str) {
        for replica in &mut self.replicas {
            if let Some(process) = replica.process.take_if(|process| process.identity == identity) {
                process.task.abort();
            }
        }
    }

    /// Ends all faults for the rest of the run.
    fn end_faults(&mut self) {
        self.server.clear_faults();
        self.server.up();
        self.server.offset_clock(SignedDuration::ZERO);
        for number in 0..self.replicas.len() {
            self.start(number);
        }
    }

    async fn settle(&mut self) -> Result<(), Violation> {
        let deadline = self.server.elapsed() + S::SETTLES_WITHIN;
        loop {
            let settled = self.suite.settled(&self.server, &self.history.actions);
            if settled.is_ok() {
                self.pass_until(self.server.elapsed() + QUIET).await?;
                let still = self.suite.settled(&self.server, &self.history.actions);
                return still.map_err(|what| self.violation(format!("it had settled, and then {what}")));
            }
            if let Err(what) = settled
                && self.server.elapsed() >= deadline
            {
                let after = S::SETTLES_WITHIN;
                return Err(self.violation(format!("{after:?} after the last fault {what}")));
            }
            self.pass_until(self.server.elapsed() + LOOK_EVERY).await?;
        }
    }

    fn plan(&mut self, time: Duration, step: Step) {
        self.planned += 1;
        self.queue.insert((time, self.planned), step);
    }

    fn now(&self) -> Timestamp {
        START.checked_add(self.server.elapsed()).unwrap_or(Timestamp::MAX)
    }

    fn violation(&self, what: String) -> Violation {
        Violation {
            at: self.server.elapsed(),
            what,
        }
    }
}

/// Records what went wrong, if it is the first.
fn note(noted: &Mutex<Noted>, server: &Server, what: String) {
    let at = server.elapsed();
    noted.lock().violation.get_or_insert(Violation { at, what });
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs_f64();
        write!(f, "{} ({seconds:.3} s after the start)", self.what)
    }
}
