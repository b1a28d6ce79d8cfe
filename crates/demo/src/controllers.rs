//! The controllers: the binaries that a user installs, as children of the demo.

use std::fs;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use controller_runtime::clock::Clock;
use controller_runtime::shutdown::{self, Shutdown, Trigger};
use controller_runtime::tasks::TaskSet;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot, watch};

use crate::cluster::Access;
use crate::event::{Event, Reporter};
use crate::log::{self, Line};
use crate::metrics::Metrics;
use crate::scenes::{self, POLICIES};

/// Interval between reads of the metrics.
const SCRAPE_EVERY: Duration = Duration::from_millis(100);
/// Time limit for a controller to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(20);
/// Time limit for a controller to answer a question.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);
/// Time limit for a graceful exit of a controller.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// The controller that has policies.
const CLEANS_UP: &str = "ttl-after-finished-controller";
/// Number of last log lines to repeat for a controller that ended.
const LAST_WORDS: usize = 3;

/// The running controllers. Dropping this kills them.
pub(crate) struct Controllers {
    binaries: PathBuf,
    access: Access,
    clock: Clock,
    reporter: Reporter,
    tasks: TaskSet,
    stop: Trigger,
    stopping: Shutdown,
    failed: mpsc::UnboundedSender<Error>,
    /// The config file of the controller that has policies.
    policies: NamedTempFile,
}

/// A running controller.
pub(crate) struct Running {
    metrics: watch::Receiver<Metrics>,
}

impl Controllers {
    /// No controllers yet. The receiver gets an error for each controller that ends without being asked to.
    pub(crate) fn new(
        access: Access,
        clock: Clock,
        reporter: Reporter,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Error>)> {
        let own = std::env::current_exe().context("find this program")?;
        let (failed, failures) = mpsc::unbounded_channel();
        let (stop, stopping) = shutdown::channel();
        let controllers = Self {
            // Cargo puts all binaries of a build into one directory.
            binaries: own.parent().map(PathBuf::from).unwrap_or_default(),
            access,
            clock,
            reporter,
            tasks: TaskSet::new(),
            stop,
            stopping,
            failed,
            policies: NamedTempFile::new().context("make a config file")?,
        };
        fs::write(controllers.policies.path(), POLICIES).context("write the config file")?;
        Ok((controllers, failures))
    }

    /// Starts `controller` and waits until it listens.
    pub(crate) async fn start(&mut self, controller: &'static str) -> Result<Running> {
        let mut child = self.spawn(controller)?;
        let pid = child.id().unwrap_or_default();
        let (address_found, address) = oneshot::channel();
        let log = child.stderr.take().context("a child without a log")?;
        let log = tell(
            controller,
            BufReader::new(log),
            self.reporter.clone(),
            address_found,
        );
        let (clock, stopping) = (self.clock.clone(), self.stopping.clone());
        let failed = self.failed.clone();
        self.tasks.spawn(controller, async move {
            let (ended, last_words) = tokio::join!(end(child, &clock, &stopping), log);
            if let Some(status) = ended {
                let _ = failed.send(anyhow!("{controller} ended by itself ({status}): {last_words}"));
            }
        });

        let listening = async {
            match address.await {
                Ok(address) => address,
                // The controller has ended; `failed` reports this with details.
                Err(_) => std::future::pending().await,
            }
        };
        let admin = self
            .clock
            .timeout(LISTENS_WITHIN, listening)
            .await
            .with_context(|| format!("{controller} does not listen after {LISTENS_WITHIN:?}"))?;
        self.reporter.report(Event::Started {
            controller,
            pid,
            admin: admin.clone(),
        });
        let (sender, metrics) = watch::channel(Metrics::default());
        let scraping = scrape(
            controller,
            admin,
            self.clock.clone(),
            self.reporter.clone(),
            sender,
        );
        let stopping = self.stopping.clone();
        self.tasks.spawn("metrics", async move {
            tokio::select! {
                () = stopping.draining() => {}
                () = scraping => {}
            }
        });
        Ok(Running { metrics })
    }

    /// Stops all controllers gracefully; returns when they have ended.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.stop.advance();
        // Twice the time limit; dropping a task kills what is left then.
        self.tasks
            .drain(&self.clock, 2 * ENDS_WITHIN)
            .await
            .context("end the controllers")
    }

    /// Output of the binary of `controller` with these arguments, which must end with this exit code.
    pub(crate) async fn ask(&self, controller: &'static str, args: &[&str], code: i32) -> Result<String> {
        let asked = self.command(controller)?.args(args).output();
        let answer = self
            .clock
            .timeout(ANSWERS_WITHIN, asked)
            .await
            .with_context(|| format!("no answer after {ANSWERS_WITHIN:?}"))??;
        if answer.status.code() != Some(code) {
            bail!(
                "{}: {}",
                answer.status,
                String::from_utf8_lossy(&answer.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
    }

    fn spawn(&self, controller: &'static str) -> Result<Child> {
        let mut command = self.command(controller)?;
        command
            .args(["--http-bind-address=127.0.0.1:0", "--log-format=json"])
            // No Lease: there is only one replica, and it must leave nothing behind.
            .arg("--leader-elect=false")
            .args(scenes::flags(controller))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().with_context(|| format!("start {controller}"))
    }

    /// The command for a binary, with only the address of the cluster.
    fn command(&self, controller: &'static str) -> Result<Command> {
        let binary = self.binaries.join(controller);
        if !binary.is_file() {
            bail!(
                "{} is not there: `cargo xtask demo` builds it before it starts the demo",
                binary.display()
            );
        }
        let mut command = Command::new(&binary);
        command
            .arg("--kubeconfig")
            .arg(&self.access.kubeconfig)
            .args(
                self.access
                    .context
                    .iter()
                    .flat_map(|context| ["--context", context]),
            )
            .args(["--kube-api-qps=1000", "--kube-api-burst=1000"])
            .stdin(Stdio::null())
            // Ctrl-C in a terminal signals the whole group; the demo stops its children itself.
            .process_group(0)
            .kill_on_drop(true);
        if controller == CLEANS_UP {
            command.arg("--config").arg(self.policies.path());
        }
        let settings = std::env::vars_os().map(|(name, _)| name);
        for setting in settings.filter(|name| name.to_string_lossy().starts_with("CONTROLLER_")) {
            command.env_remove(setting);
        }
        if !self.access.through_proxies {
            command.env_remove("HTTPS_PROXY").env_remove("https_proxy");
        }
        Ok(command)
    }
}

impl Running {
    /// The last metrics.
    pub(crate) fn metrics(&self) -> Metrics {
        self.metrics.borrow().clone()
    }

    /// Waits for the next read of the metrics.
    pub(crate) async fn next_metrics(&mut self) {
        if self.metrics.changed().await.is_err() {
            // The controllers are being stopped, and so is the caller.
            std::future::pending::<()>().await;
        }
    }
}

/// Waits for the child's end, or stops it when asked to. Returns a status if the child ended by itself.
async fn end(mut child: Child, clock: &Clock, stopping: &Shutdown) -> Option<String> {
    tokio::select! {
        ended = child.wait() => return Some(ended.as_ref().map_or_else(ToString::to_string, ExitStatus::to_string)),
        () = stopping.draining() => {}
    }
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // The child has not been waited for, so the id is still its own.
        let _ = kill_process(pid, Signal::TERM);
    }
    if clock.timeout(ENDS_WITHIN, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
    None
}

/// Reports the events in a log to its end; returns its last lines.
async fn tell(
    controller: &'static str,
    log: BufReader<impl tokio::io::AsyncRead + Unpin>,
    reporter: Reporter,
    address: oneshot::Sender<String>,
) -> String {
    let mut address = Some(address);
    let mut last_words = Vec::new();
    let mut lines = log.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match log::read(controller, &line) {
            Line::Admin(found) => {
                if let Some(address) = address.take() {
                    let _ = address.send(found);
                }
            }
            Line::Show(event) => {
                if let Event::Said { text, .. } = &event {
                    last_words.push(text.clone());
                }
                reporter.report(event);
            }
            Line::Chatter => {}
        }
    }
    last_words
        .split_off(last_words.len().saturating_sub(LAST_WORDS))
        .join(" | ")
}

async fn scrape(
    controller: &'static str,
    admin: String,
    clock: Clock,
    reporter: Reporter,
    sender: watch::Sender<Metrics>,
) {
    let mut shown = None;
    loop {
        // The next scrape follows; a step that needs the metrics reports its own timeout.
        if let Ok(metrics) = Metrics::fetch(&admin).await {
            let reading = metrics.reading();
            if shown.replace(reading) != Some(reading) {
                reporter.report(Event::Metrics { controller, reading });
            }
            sender.send_replace(metrics);
        }
        clock.sleep(SCRAPE_EVERY).await;
    }
}
