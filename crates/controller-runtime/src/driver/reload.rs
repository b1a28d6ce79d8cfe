//! Reads the config file again when it changes, if the controller takes changes while it runs.
//!
//! A `ConfigMap` in a volume changes by a symbolic link that the kubelet swaps, so the content is compared, not the time.
//! A file that is wrong changes nothing: log, `/readyz` and a metric say so until it is right, or as it was before.

use std::sync::Arc;
use std::time::Duration;

use controller_core::app::{App, Reload};
use controller_core::metrics::register;
use parking_lot::Mutex;
use prometheus::IntGauge;

use super::{Driver, Env};
use crate::args::Layers;
use crate::tasks::TaskSet;

/// How often the file is read.
const EVERY: Duration = Duration::from_secs(10);

/// What became of the present file.
#[derive(Clone, Default)]
struct Verdict(Arc<Mutex<Option<String>>>);

/// Starts the task that reads the file, if there is one and its changes matter.
pub(super) fn start<A: App>(
    driver: &Arc<Driver<A>>,
    config: &A::Config,
    env: &Env,
    tasks: &mut TaskSet,
) -> prometheus::Result<()> {
    let (Some(reload), Some(path)) = (A::RELOAD, env.layers.file()) else {
        return Ok(());
    };
    if !(reload.is_on)(config) {
        return Ok(());
    }
    let refused = IntGauge::new(
        "controller_config_file_refused",
        "1 while the config file is wrong and the last good one counts, else 0.",
    );
    let refused = register(&env.registry, refused)?;
    let verdict = Verdict::default();
    let checked = verdict.clone();
    env.readiness
        .check("config-file", move || match &*checked.0.lock() {
            Some(problem) => Err(format!("the last good file counts: {problem}")),
            None => Ok(()),
        });
    let watched = Watched {
        driver: Arc::clone(driver),
        layers: env.layers.clone(),
        reload,
        refused,
        verdict,
    };
    let (clock, path) = (env.clock.clone(), path.to_owned());
    tasks.spawn("config file", async move {
        // The start has read the file; a change since then is found by the first look.
        let mut seen = None;
        loop {
            clock.sleep(EVERY).await;
            let content = tokio::fs::read(&path).await.map_err(|error| error.kind());
            if seen.as_ref() != Some(&content) {
                watched.take().await;
                seen = Some(content);
            }
        }
    });
    Ok(())
}

struct Watched<A: App> {
    driver: Arc<Driver<A>>,
    layers: Layers,
    reload: Reload<A>,
    refused: IntGauge,
    verdict: Verdict,
}

impl<A: App> Watched<A> {
    async fn take(&self) {
        let layers = self.layers.clone();
        let read = tokio::task::spawn_blocking(move || layers.config::<A::Config>()).await;
        let read = match read {
            Ok(read) => read.map_err(|problems| problems.join("; ")),
            Err(error) => Err(error.to_string()),
        };
        let change = read.and_then(|config| (self.reload.change)(&self.driver.controller, &config));
        let problem = match change {
            Ok(change) => {
                tracing::debug!("took the config file");
                self.driver.act(|event_loop, now| event_loop.reload(change, now));
                None
            }
            Err(problem) => Some(problem),
        };
        self.refused.set(problem.is_some().into());
        let mut verdict = self.verdict.0.lock();
        if let Some(problem) = problem.as_ref().filter(|_| *verdict != problem) {
            tracing::error!("the config file is wrong, the last good one counts: {problem}");
        }
        *verdict = problem;
    }
}
