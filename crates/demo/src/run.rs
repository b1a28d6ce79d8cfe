//! Plays the scenes and cleans up however the demo ends.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use controller_runtime::clock::Clock;
use controller_runtime::shutdown::Shutdown;
use tokio::time::Instant;

use crate::args::{Args, Pace};
use crate::cluster::Cluster;
use crate::controllers::{Controllers, Running};
use crate::counts::Counts;
use crate::event::{Event, Reporter, Writes};
use crate::live_counts::LiveCounts;
use crate::metrics::Metrics;
use crate::scene::{Question, Scene, Seen, Step, Verdict};
use crate::scenes;
use crate::stage::Stage;

/// Interval between looks at the counts while no controller runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// End of a demo that did not fail.
#[derive(Debug)]
pub(crate) enum Ending {
    /// Every step met its expectation; has a summary of all.
    Passed(Vec<String>),
    /// It was stopped.
    Interrupted,
}

/// Plays all scenes. Cleans up even if the demo is stopped or a step fails.
pub(crate) async fn run(args: &Args, clock: Clock, reporter: Reporter, shutdown: Shutdown) -> Result<Ending> {
    let scenes = scenes::chosen(&args.scenes);
    // Of all scenes, as an earlier run may have played another one.
    let kinds = scenes::makes();
    let cluster = tokio::select! {
        biased;
        () = shutdown.draining() => return Ok(Ending::Interrupted),
        cluster = Cluster::open(&args.target, &clock) => cluster?,
    };
    reporter.report(Event::Cluster {
        url: cluster.url.clone(),
        kubeconfig: cluster.access.kubeconfig.clone(),
        context: cluster.access.context.clone(),
    });
    let (mut controllers, mut failures) =
        Controllers::new(cluster.access.clone(), clock.clone(), reporter.clone())?;

    let show = Show {
        stage: Stage {
            client: cluster.client.clone(),
            once: cluster.once.clone(),
            clock: clock.clone(),
            within: args.within(),
            reporter: reporter.clone(),
        },
        cluster: &cluster,
        pace: args.pace(),
    };
    let played = async {
        // Remains of an earlier run that was killed.
        cluster.sweep(&kinds).await?;
        let summary = show.play(&scenes, &mut controllers).await?;
        if args.keep {
            reporter
                .note("All steps were as expected. The cluster and the controllers stay up until Ctrl-C.");
            shutdown.draining().await;
        }
        Ok(Ending::Passed(summary))
    };
    let ending = tokio::select! {
        biased;
        // First, so that a step that fails because its controller ended does not hide the cause.
        Some(failure) = failures.recv() => Err(failure),
        ending = played => ending,
        () = shutdown.draining() => Ok(Ending::Interrupted),
    };

    let cleaned_up = async {
        // First, as they would write to the remaining objects.
        controllers.stop().await?;
        cluster.sweep(&kinds).await
    };
    let cleaned_up = tokio::select! {
        cleaned_up = cleaned_up => cleaned_up.context("clean up"),
        () = shutdown.aborting() => Err(anyhow!("stopped before everything was cleaned up; the next run does it")),
    };
    // The cause of the failure matters more than failed cleanup.
    let ending = ending?;
    cleaned_up.map(|()| ending)
}

/// State that all scenes share.
struct Show<'a> {
    stage: Stage,
    cluster: &'a Cluster,
    pace: Pace,
}

/// A controller, from one of its scenes to the next.
#[derive(Default)]
struct Record {
    running: Option<Running>,
    /// Writes before the step.
    writes_before: u64,
    /// Writes owed by earlier steps; see [`Seen::owed`].
    owed: u64,
}

/// Observations during a step.
struct Observed<'a> {
    counts: &'a LiveCounts,
    controller: &'a mut Record,
    alone: bool,
}

impl Show<'_> {
    async fn play(&self, scenes: &[Scene], controllers: &mut Controllers) -> Result<Vec<String>> {
        let mut summary = Vec::new();
        let mut records = BTreeMap::<_, Record>::new();
        for (index, scene) in scenes.iter().enumerate() {
            let place = (index + 1, scenes.len());
            let record = records.entry(scene.controller).or_default();
            let steps = self.play_scene(scene, place, record, controllers).await;
            summary.extend(steps.context(scene.controller)?);
        }
        let took = self.stage.reporter.elapsed().as_secs_f64();
        summary.push(format!("All as expected, in {took:.0} s."));
        Ok(summary)
    }

    async fn play_scene(
        &self,
        scene: &Scene,
        (number, of): (usize, usize),
        controller: &mut Record,
        controllers: &mut Controllers,
    ) -> Result<Vec<String>> {
        let Stage { clock, reporter, .. } = &self.stage;
        reporter.report(Event::Scene {
            number,
            of,
            controller: scene.controller,
            shows: scene.shows,
            kubectl: scene.kubectl,
            counted: scene.counted.title,
            steps: scene.steps.len(),
        });
        let client = self.cluster.client.clone();
        let counts = LiveCounts::watch(client, &scene.counted, clock.clone(), reporter.clone());
        let mut observed = Observed {
            counts: &counts,
            controller,
            alone: self.cluster.is_ours_alone(),
        };
        let mut summary = vec![format!("{}: {} steps", scene.controller, scene.steps.len())];
        for (number, step) in (1..).zip(&scene.steps) {
            let (title, says) = (step.title, step.says);
            reporter.report(Event::Step { number, title, says });
            clock.sleep(self.pace.before).await;
            let began = clock.instant();
            // The first step of its first scene shows the cluster without the controller.
            if number == 2 && observed.controller.running.is_none() {
                observed.controller.running = Some(controllers.start(scene.controller).await?);
            }
            let played = self.play_step(step, scene.controller, &mut observed, controllers, began);
            let played = played.await.with_context(|| format!("step {number} ({title})"))?;
            summary.push(format!("{number:>3}  {title:<24} {played}"));
            observed.close(step);
        }
        Ok(summary)
    }

    /// Acts, waits for the expected result, and leaves time to read; returns a summary.
    async fn play_step(
        &self,
        step: &Step,
        controller: &'static str,
        observed: &mut Observed<'_>,
        controllers: &Controllers,
        began: Instant,
    ) -> Result<String> {
        let Stage { clock, reporter, .. } = &self.stage;
        (step.act)(&self.stage).await?;
        let (counts, writes) = self.await_expected(step, observed).await?;
        let took = clock.instant() - began;
        let summary = format!("{writes:<12} {:>5.1} s  {counts}", took.as_secs_f64());
        reporter.report(Event::AsExpected { counts, writes, took });
        if let Some(question) = &step.asks {
            self.ask(controller, question, controllers).await?;
        }
        if !step.time_runs_on {
            clock.sleep(self.pace.after).await;
            if let Verdict::Broken(why) = observed.judge(step).0 {
                bail!("afterwards, {why}");
            }
        }
        Ok(summary)
    }

    /// Shows the controller's answer.
    async fn ask(
        &self,
        controller: &'static str,
        question: &Question,
        controllers: &Controllers,
    ) -> Result<()> {
        let Question { args, code, line } = question;
        let asked = format!("{controller} {}", args.join(" "));
        let answer = controllers.ask(controller, args, *code).await;
        let answer = answer.with_context(|| asked.clone())?;
        self.stage.reporter.note(format!("$ {asked}"));
        for line in answer.lines() {
            self.stage.reporter.report(Event::Answered(line.to_owned()));
        }
        if !answer.lines().any(|answered| answered.starts_with(line)) {
            bail!("`{asked}` does not say {line:?}");
        }
        Ok(())
    }

    /// Waits until the expectation holds on two consecutive looks: between them the controller has had time to do
    /// something wrong.
    async fn await_expected(&self, step: &Step, observed: &mut Observed<'_>) -> Result<(Counts, Writes)> {
        let Stage { clock, within, .. } = &self.stage;
        let deadline = clock.instant() + *within;
        let mut held_before = false;
        loop {
            let next_look = observed.next_look(clock);
            if clock.timeout(*within, next_look).await.is_err() {
                bail!("the controller's metrics cannot be read");
            }
            let (verdict, counts, writes) = observed.judge(step);
            match verdict {
                Verdict::Holds if held_before => return Ok((counts, Writes(writes))),
                Verdict::Holds => held_before = true,
                Verdict::Broken(why) => bail!(why),
                Verdict::NotYet(missing) if clock.instant() >= deadline => {
                    bail!("not as expected after {} s: {missing}", within.as_secs());
                }
                Verdict::NotYet(_) => held_before = false,
            }
        }
    }
}

impl Observed<'_> {
    fn metrics(&self) -> Option<Metrics> {
        self.controller.running.as_ref().map(Running::metrics)
    }

    fn writes(&self) -> u64 {
        self.metrics().map_or(0, |metrics| metrics.reading().writes)
    }

    /// From here on, writes belong to the next step.
    fn close(&mut self, step: &Step) {
        let writes = self.writes();
        let record = &mut *self.controller;
        let made = writes.saturating_sub(record.writes_before);
        record.owed = step.expects.owes(record.owed, made);
        record.writes_before = writes;
    }

    async fn next_look(&mut self, clock: &Clock) {
        match &mut self.controller.running {
            Some(controller) => controller.next_metrics().await,
            None => clock.sleep(LOOK_EVERY).await,
        }
    }

    fn judge(&self, step: &Step) -> (Verdict, Counts, u64) {
        let counts = self.counts.now();
        let metrics = self.metrics();
        let writes = self.writes().saturating_sub(self.controller.writes_before);
        let verdict = step.expects.judge(&Seen {
            counts: &counts,
            metrics: metrics.as_ref(),
            writes,
            owed: self.controller.owed,
            alone: self.alone,
        });
        (verdict, counts, writes)
    }
}
