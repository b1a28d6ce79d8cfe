//! Why the process is ready or alive, or is not (CORE-8).
//!
//! Every report runs the checks anew, so no answer can be out of date.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// A worker that is busy with one item for longer counts as stuck. Each request ends after 30 s, so only a worker that
/// no longer runs at all gets here.
pub const STUCK_AFTER: Duration = Duration::from_mins(5);

/// The checks behind `/readyz`. Cheap to clone; all clones share the checks.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Mutex<Questions>>);

/// The checks behind `/livez`: no worker is stuck. Tasks need no check, because a task that ends early ends the
/// process. Cheap to clone; all clones share the checks.
#[derive(Clone, Debug, Default)]
pub struct Liveness(Readiness);

/// A name and the closure that answers for it.
type Check<T> = (Arc<str>, Box<dyn Fn() -> T + Send>);

#[derive(Default)]
struct Questions {
    checks: Vec<Check<Result<(), String>>>,
    notes: Vec<Check<Vec<String>>>,
    is_starting: bool,
}

impl Questions {
    fn report(&self) -> ReadinessReport {
        ReadinessReport {
            checks: ask(&self.checks),
            notes: ask(&self.notes),
        }
    }
}

/// The state of the checks at one moment, each with its name: why a check fails, or the notes it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadinessReport {
    checks: Vec<(Arc<str>, Result<(), String>)>,
    notes: Vec<(Arc<str>, Vec<String>)>,
}

impl Readiness {
    /// Not ready until a [`check`](Self::check) exists and passes: a controller that has not yet said what it waits for
    /// has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check. `name` appears in `/readyz?verbose`, for example `informer-nodes`; `answer` says why the check
    /// fails. Every report calls `answer`, which must not call back into this `Readiness`.
    pub fn check(&self, name: impl Into<Arc<str>>, answer: impl Fn() -> Result<(), String> + Send + 'static) {
        self.0.lock().checks.push((name.into(), Box::new(answer)));
    }

    /// Adds notes: `/readyz?verbose` shows what `texts` returns, and no check fails. For what limits the process
    /// without stopping it, such as a missing permission to write.
    pub fn notes(&self, key: impl Into<Arc<str>>, texts: impl Fn() -> Vec<String> + Send + 'static) {
        self.0.lock().notes.push((key.into(), Box::new(texts)));
    }

    /// Not ready, whatever the checks say, while the controller asks the API server what it must know before it starts.
    pub fn set_starting(&self, is_starting: bool) {
        self.0.lock().is_starting = is_starting;
    }

    /// All checks and notes now, in the order in which they were added.
    pub fn report(&self) -> ReadinessReport {
        let questions = self.0.lock();
        let mut report = questions.report();
        if questions.is_starting || report.checks.is_empty() {
            report
                .checks
                .push((Arc::from("controller"), Err("not started yet".to_owned())));
        }
        report
    }
}

fn ask<T>(questions: &[Check<T>]) -> Vec<(Arc<str>, T)> {
    let answered = questions
        .iter()
        .map(|(name, answer)| (Arc::clone(name), answer()));
    answered.collect()
}

impl Liveness {
    /// No checks: alive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a queue. `longest_stuck` returns the longest time that work on an item has stood still; zero if none has.
    /// Every report calls `longest_stuck`, which must not call back into this `Liveness`.
    pub fn queue(&self, name: &str, longest_stuck: impl Fn() -> Duration + Send + 'static) {
        self.0
            .check(format!("queue-{name}"), move || match longest_stuck() {
                running if running <= STUCK_AFTER => Ok(()),
                running => Err(format!(
                    "a worker is busy with one item for {} s",
                    running.as_secs()
                )),
            });
    }

    /// All checks now, in the order in which they were added.
    pub fn report(&self) -> ReadinessReport {
        self.0.0.lock().report()
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Readiness").field(&self.report()).finish()
    }
}

impl ReadinessReport {
    /// The report for callers who may not see reasons and notes. Source: `k8s.io/apiserver`, `pkg/server/healthz`.
    #[must_use]
    pub fn withheld(self) -> Self {
        const WITHHELD: &str = "reason withheld";
        let checks = self.checks.into_iter();
        let notes = self.notes.into_iter().filter(|(_, notes)| !notes.is_empty());
        Self {
            checks: checks
                .map(|(name, answer)| (name, answer.map_err(|_| WITHHELD.to_owned())))
                .collect(),
            notes: notes.map(|(key, _)| (key, vec![WITHHELD.to_owned()])).collect(),
        }
    }

    /// Returns whether no check fails. Notes do not count.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|(_, answer)| answer.is_ok())
    }

    /// The body that `endpoint` (`readyz`) answers, in the form of the API server's health checks.
    ///
    /// `ok` when everything passes, else the checks that fail and a closing line; with `verbose` every check
    /// (`[+]name ok`, `[-]name failed: why`), every note (`[!]key: text`) and the closing line.
    pub fn text(&self, endpoint: &str, verbose: bool) -> String {
        if self.passed() && !verbose {
            return "ok".to_owned();
        }
        let mut text = String::new();
        for (name, answer) in &self.checks {
            match answer {
                Err(why) => line(&mut text, format_args!("[-]{name} failed: {why}")),
                Ok(()) if verbose => line(&mut text, format_args!("[+]{name} ok")),
                Ok(()) => {}
            }
        }
        for (key, notes) in self.notes.iter().filter(|_| verbose) {
            for note in notes {
                line(&mut text, format_args!("[!]{key}: {note}"));
            }
        }
        let verdict = if self.passed() { "passed" } else { "failed" };
        line(&mut text, format_args!("{endpoint} check {verdict}"));
        text
    }
}

/// Appends `content` as one line: a message from the API server may span several.
fn line(text: &mut String, content: fmt::Arguments<'_>) {
    let start = text.len();
    // Writing to a string cannot fail.
    let _ = text.write_fmt(content);
    if text[start..].contains(char::is_control) {
        let flat = text.split_off(start).replace(char::is_control, " ");
        text.push_str(&flat);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn nothing_to_check_is_alive_and_not_ready() {
        assert_eq!(Liveness::new().report().text("livez", false), "ok");
        assert_eq!(
            Liveness::new().report().text("livez", true),
            "livez check passed\n"
        );
        assert_eq!(
            Readiness::new().report().text("readyz", false),
            "[-]controller failed: not started yet\nreadyz check failed\n"
        );
    }

    #[test]
    fn a_check_is_asked_each_time_and_says_why_it_fails() {
        let readiness = Readiness::new();
        let listed = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&listed);
        let synced = move || {
            if seen.load(Ordering::Relaxed) > 0 {
                Ok(())
            } else {
                Err("not listed yet".to_owned())
            }
        };
        readiness.check("informer-nodes", synced);
        readiness.check("lease", || Ok(()));
        assert_eq!(
            readiness.report().text("readyz", false),
            "[-]informer-nodes failed: not listed yet\nreadyz check failed\n"
        );
        listed.store(1, Ordering::Relaxed);
        assert_eq!(readiness.report().text("readyz", false), "ok");
        assert_eq!(
            readiness.report().text("readyz", true),
            "[+]informer-nodes ok\n[+]lease ok\nreadyz check passed\n"
        );
    }

    #[test]
    fn a_note_is_shown_when_verbose_and_fails_nothing() {
        let readiness = Readiness::new();
        readiness.check("lease", || Ok(()));
        readiness.notes("missing permission", || vec!["patch nodes: forbidden".to_owned()]);
        assert_eq!(readiness.report().text("readyz", false), "ok");
        assert_eq!(
            readiness.report().text("readyz", true),
            "[+]lease ok\n[!]missing permission: patch nodes: forbidden\nreadyz check passed\n"
        );
    }

    #[test]
    fn who_may_not_know_the_reasons_sees_the_names() {
        let readiness = Readiness::new();
        readiness.check("lease", || Ok(()));
        readiness.check("informer-pods", || Err("pods is forbidden".to_owned()));
        let missing = ["patch nodes: forbidden", "list pods: forbidden"];
        readiness.notes("missing permission", move || missing.map(str::to_owned).to_vec());
        readiness.notes("informer-nodes", Vec::new);
        let report = readiness.report().withheld();
        assert!(!report.passed());
        assert_eq!(
            report.text("readyz", false),
            "[-]informer-pods failed: reason withheld\nreadyz check failed\n"
        );
        assert_eq!(
            report.text("readyz", true),
            "[+]lease ok\n[-]informer-pods failed: reason withheld\n[!]missing permission: reason withheld\n\
             readyz check failed\n"
        );
    }

    #[test]
    fn a_reason_of_several_lines_cannot_forge_another_check() {
        let readiness = Readiness::new();
        readiness.check("lease", || Err("refused\n[+]lease ok".to_owned()));
        assert_eq!(
            readiness.report().text("readyz", true),
            "[-]lease failed: refused [+]lease ok\nreadyz check failed\n"
        );
    }

    #[test]
    fn a_worker_is_stuck_after_more_than_five_minutes() {
        let liveness = Liveness::new();
        let busy = Arc::new(AtomicU64::new(300));
        let seconds = Arc::clone(&busy);
        liveness.queue("nodes", move || {
            Duration::from_secs(seconds.load(Ordering::Relaxed))
        });
        assert!(liveness.report().passed());
        busy.store(301, Ordering::Relaxed);
        assert_eq!(
            liveness.report().text("livez", false),
            "[-]queue-nodes failed: a worker is busy with one item for 301 s\nlivez check failed\n"
        );
    }
}
