//! Runs one history from beginning to end, on its own runtime, clock and server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::failure::Violation;
use super::fence::{self, Fence};
use super::refusals;
use super::strikes::Suspect;
use super::{EndState, History, Life, Suite};
use embedded_apiserver::{RecordedRequests, Server};

/// The wall clock at the start: 2026-01-01T00:00:00Z.
const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// Interval of the checks whether everything has settled.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Time for which a settled state must last.
const QUIET: Duration = Duration::from_secs(30);
/// Time for which a replica waits for an answer: one that a fault holds up may be missed as long after the faults.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// The result of a history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {
    /// The state to compare with that of the run without faults, or the violated rule.
    pub outcome: Result<EndState, Violation>,
    /// All requests of the replicas.
    pub requests: RecordedRequests,
    /// The numbers of the faults that met something.
    pub struck: BTreeSet<usize>,
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
            Run {
                outcome,
                requests: RecordedRequests::default(),
                struck: BTreeSet::new(),
            }
        }
    }
}

/// A world with its replicas during the history.
pub(super) struct Stage<'a, S: Suite> {
    suite: &'a S,
    pub(super) history: &'a History<S::Action>,
    pub(super) server: Server,
    /// Steps still to come, in order; the number tells steps of the same time apart.
    queue: BTreeMap<(Duration, usize), Step>,
    planned: usize,
    pub(super) replicas: Vec<Replica>,
    processes: JoinSet<Result<(), String>>,
    deaths: (mpsc::UnboundedSender<Death>, mpsc::UnboundedReceiver<Death>),
    /// End of the time in which the server is unreachable.
    pub(super) out_until: Duration,
    /// End of the time in which nobody can notice that etcd was set back: users wait.
    pub(super) unnoticed_until: Duration,
    pub(super) noted: Arc<Mutex<Noted>>,
    /// The version after the last step of the world at which there was a Lease, or [`fence::BACKUP`] after the start.
    pub(super) backup: Option<u64>,
    /// Faults whose strikes only the record shows.
    pub(super) suspects: Vec<Suspect>,
    /// When the faults ended.
    faults_end: Option<Duration>,
}

/// Data shared by the stage, the observer of requests and the rules of the faults.
pub(super) struct Noted {
    violation: Option<Violation>,
    pub(super) fence: Fence,
    pub(super) struck: BTreeSet<usize>,
}

/// A process dies, and is started again some time later.
#[derive(Clone, Debug)]
pub(super) struct Death {
    pub(super) identity: String,
    pub(super) restart: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Act(usize),
    DrawnFault(usize),
    /// The server becomes reachable again.
    Up,
    /// A replica is started, possibly again.
    Start(usize),
    /// A replica is started again without `--dry-run`.
    EndDryRun(usize),
    /// The thief of the Lease renews it.
    ThiefRenews,
    /// The rival of this fault acts.
    Rival(usize),
    /// The server's state is backed up.
    BackUp,
}

#[derive(Default)]
pub(super) struct Replica {
    lives: usize,
    /// How far its clock is ahead.
    pub(super) clock_ahead: SignedDuration,
    /// It runs with `--dry-run` from the next start on.
    pub(super) dry_run: bool,
    pub(super) process: Option<Process>,
}

pub(super) struct Process {
    pub(super) identity: String,
    pub(super) clock: Clock,
    task: AbortHandle,
    /// Taken when it is used.
    pub(super) stop: Option<oneshot::Sender<()>>,
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
            unnoticed_until: Duration::ZERO,
            noted: Arc::new(Mutex::new(Noted {
                violation: None,
                fence: Fence::new(S::NAME),
                struck: BTreeSet::new(),
            })),
            backup: None,
            suspects: Vec::new(),
            faults_end: None,
        };
        stage.observe();
        for (number, action) in history.actions.iter().enumerate() {
            stage.plan(action.time, Step::Act(number));
        }
        for number in 0..stage.replicas.len() {
            stage.plan(Duration::ZERO, Step::Start(number));
        }
        stage.plan(fence::BACKUP, Step::BackUp);
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
            let is_elected = if has_election {
                noted.lock().fence.permits(server, request)
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
        let (requests, mut struck) = (self.server.requests(), self.noted.lock().struck.clone());
        let outcome = outcome.and_then(|state| {
            let remembered = refusals::are_remembered(&requests);
            remembered.map_err(|what| self.violation(what))?;
            Ok(state)
        });
        let faults = &self.history.faults;
        let suspects = self.suspects.iter().filter(|suspect| {
            let fault = &faults[suspect.fault].what;
            suspect.struck(fault, &requests, self.faults_end.unwrap_or(Duration::MAX))
        });
        struck.extend(suspects.map(|suspect| suspect.fault));
        Run {
            outcome,
            requests,
            struck,
        }
    }

    async fn outcome(&mut self) -> Result<EndState, Violation> {
        loop {
            let next = self.queue.first_key_value().map(|(next, _)| *next);
            if !self.pass_until(next.map_or(S::LENGTH, |(time, _)| time)).await? {
                // The replica that died may be started before that.
                continue;
            }
            match next.and_then(|next| self.queue.remove(&next)) {
                Some(step) => self.take(step),
                None => break,
            }
        }
        self.end_faults().await?;
        self.settle().await?;
        let end = self.suite.afterwards(&self.server, self.history);
        end.map_err(|what| self.violation(what))?;
        Ok(self.suite.state(&self.server))
    }

    /// Lets time pass until `time`, or until a replica dies: then returns false.
    async fn pass_until(&mut self, time: Duration) -> Result<bool, Violation> {
        loop {
            if let Some(violation) = self.noted.lock().violation.clone() {
                return Err(violation);
            }
            let left = time.saturating_sub(self.server.elapsed());
            tokio::select! {
                biased;
                Some(death) = self.deaths.1.recv() => {
                    self.die(&death);
                    return Ok(false);
                }
                Some(ended) = self.processes.join_next() => match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(why)) => return Err(self.violation(format!("a replica ended of itself: {why}"))),
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => return Err(self.violation(format!("a replica panicked: {error}"))),
                },
                () = sleep(left) => return Ok(true),
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Act(_) if self.server.elapsed() < self.unnoticed_until => {
                self.plan(self.unnoticed_until, step);
            }
            Step::Act(number) => {
                self.suite.act(&self.server, &self.history.actions[number].what);
                self.back_up();
            }
            Step::BackUp if self.backup.is_none() => self.back_up(),
            Step::DrawnFault(number) => self.strike(number),
            Step::Up if self.server.elapsed() >= self.out_until => self.server.up(),
            Step::Start(replica) => self.start(replica),
            Step::EndDryRun(replica) => {
                self.replicas[replica].dry_run = false;
                self.kill(replica, Duration::ZERO);
            }
            Step::Rival(number) if self.suite.undo(&self.server) => self.struck(number),
            Step::ThiefRenews => self.noted.lock().fence.renew(&self.server, self.now()),
            Step::Up | Step::BackUp | Step::Rival(_) => {}
        }
    }

    fn start(&mut self, number: usize) {
        let clock = Clock::starting_at(self.now());
        let replica = &mut self.replicas[number];
        if replica.process.is_some() {
            return;
        }
        clock.set_wrong(replica.clock_ahead);
        replica.lives += 1;
        let identity = format!("replica-{}.{}", number + 1, replica.lives);
        let (stop, stopped) = oneshot::channel();
        let life = Life {
            client: self.server.client_as(&format!("{}/{identity}", S::NAME)),
            clock: clock.clone(),
            dry_run: replica.dry_run,
            identity: self.history.has_election().then(|| identity.clone()),
            stop: stopped,
        };
        replica.process = Some(Process {
            identity,
            clock,
            task: self.processes.spawn(self.suite.process(life)),
            stop: Some(stop),
        });
    }

    pub(super) fn die(&mut self, death: &Death) {
        let mut replicas = self.replicas.iter_mut();
        let found = replicas.position(|replica| {
            let process = replica
                .process
                .take_if(|process| process.identity == death.identity);
            process.is_some_and(|process| {
                process.task.abort();
                true
            })
        });
        if let Some(number) = found {
            self.plan(self.server.elapsed() + death.restart, Step::Start(number));
        }
    }

    /// Kills the process of a replica, which is started again after this time; returns false if there is none.
    pub(super) fn kill(&mut self, replica: usize, restart: Duration) -> bool {
        let Some(process) = &self.replicas[replica].process else {
            return false;
        };
        let identity = process.identity.clone();
        self.die(&Death { identity, restart });
        true
    }

    /// Tells the stage of deaths that a request brings.
    pub(super) fn deaths(&self) -> mpsc::UnboundedSender<Death> {
        self.deaths.0.clone()
    }

    /// Ends all faults for the rest of the run, late effects, too.
    async fn end_faults(&mut self) -> Result<(), Violation> {
        self.faults_end = Some(self.server.elapsed());
        self.server.clear_faults();
        self.server.up();
        self.server.offset_clock(SignedDuration::ZERO);
        for number in 0..self.replicas.len() {
            self.start(number);
        }
        while self.server.late_effects() > 0 {
            self.pass_until(self.server.elapsed() + LOOK_EVERY).await?;
        }
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), Violation> {
        let within = self.history.settles_within::<S>();
        let (faults_end, mut settled_at) = (self.server.elapsed(), None);
        loop {
            let now = self.server.elapsed();
            let wait = match (
                self.suite.settled(&self.server, &self.history.actions),
                settled_at,
            ) {
                (Ok(()), Some(_)) => return Ok(()),
                (Ok(()), None) => {
                    settled_at = Some(now);
                    QUIET
                }
                (Err(what), Some(at)) if at >= faults_end + ANSWERED_WITHIN => {
                    return Err(self.violation(format!("it had settled, and then {what}")));
                }
                (Err(what), _) if now >= faults_end + within => {
                    return Err(self.violation(format!("{within:?} after the last fault {what}")));
                }
                (Err(_), _) => LOOK_EVERY,
            };
            self.pass_until(now + wait).await?;
        }
    }

    pub(super) fn plan(&mut self, time: Duration, step: Step) {
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
